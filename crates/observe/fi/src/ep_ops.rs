//! What is done with an endpoint besides sending and receiving ([`message`], [`tagged`]).

use crate::abi::{
    CmOps, EpOps, Fid, FidDomain, FidEp, FidOps, Info, NoOps, class, code, command, flag, missing,
};
use crate::address::Address;
use crate::av::{self, Av};
use crate::cntr::Cntr;
use crate::cq::Cq;
use crate::domain::Domain;
use crate::done::Context;
use crate::engine::{Binding, Endpoint, lock};
use crate::ep::Ep;
use crate::object::{self, closed_by, give, guarded, guarded_int};
use crate::{message, tagged};
use std::ffi::{c_int, c_void};

static FID_OPS: FidOps = FidOps {
    bind,
    control,
    ..closed_by(close)
};

static OPS: EpOps = EpOps {
    size: size_of::<EpOps>(),
    cancel,
    getopt,
    setopt,
    tx_ctx: missing,
    rx_ctx: missing,
    rx_size_left: missing,
    tx_size_left: missing,
};

static CM_OPS: CmOps = CmOps {
    size: size_of::<CmOps>(),
    setname: missing,
    getname,
    rest: [missing; 7],
};

static NO_RMA: NoOps<9> = NoOps::new();
static NO_ATOMICS: NoOps<13> = NoOps::new();
static NO_COLLECTIVES: NoOps<11> = NoOps::new();

/// Opens the endpoint: attaches to the device, which waits for the other ranks to start.
pub unsafe extern "C" fn open(
    domain: *mut FidDomain,
    info: *mut Info,
    to: *mut *mut FidEp,
    context: *mut c_void,
) -> c_int {
    guarded_int(|| {
        // SAFETY: the caller's domain.
        let domain = unsafe { object::of::<Domain, _>(domain) }.ok_or(code::EINVAL)?;
        // SAFETY: the caller's description, from `getinfo`.
        let info = unsafe { info.as_ref() }.ok_or(code::EINVAL)?;
        // SAFETY: null or part of it.
        let send = unsafe { info.tx_attr.as_ref() }.map_or(flag::COMPLETION, |tx| tx.op_flags);
        // SAFETY: null or part of it.
        let receive = unsafe { info.rx_attr.as_ref() }.map_or(flag::COMPLETION, |rx| rx.op_flags);
        let directed = info.caps & flag::DIRECTED_RECV != 0;
        lock(&domain.shared).open(directed, (send, receive))?;
        let ep = Ep {
            fid: FidEp {
                fid: object::fid::<Ep>(context, &FID_OPS),
                ops: &OPS,
                cm: &CM_OPS,
                msg: &message::OPS,
                rma: &NO_RMA,
                tagged: &tagged::OPS,
                atomic: &NO_ATOMICS,
                collective: &NO_COLLECTIVES,
            },
            shared: domain.shared.clone(),
        };
        // SAFETY: the caller's place for it.
        let given = unsafe { give(ep, to) };
        if given != 0 {
            lock(&domain.shared).close();
        }
        Ok(given as isize)
    })
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    let release = |ep: &Ep| {
        lock(&ep.shared).close();
        Ok(())
    };
    // SAFETY: the caller's object, which it gives up.
    unsafe { object::close(fid, release) }
}

unsafe extern "C" fn bind(fid: *mut Fid, other: *mut Fid, flags: u64) -> c_int {
    guarded_int(|| {
        // SAFETY: the caller's endpoint.
        let ep = unsafe { object::of::<Ep, _>(fid) }.ok_or(code::EINVAL)?;
        let mut engine = lock(&ep.shared);
        let endpoint = engine.endpoint.as_mut().ok_or(code::EINVAL)?;
        let selective = flags & flag::SELECTIVE_COMPLETION != 0;
        let both = [
            (flag::SEND, &mut endpoint.send),
            (flag::RECV, &mut endpoint.receive),
        ];
        let chosen = both.into_iter().filter(|(kind, _)| flags & kind != 0);
        let chosen = chosen.map(|(_, binding)| binding);
        // SAFETY: the caller's objects, of whatever class.
        unsafe {
            if let Some(cq) = object::of::<Cq, _>(other) {
                chosen.for_each(|binding| {
                    (binding.queue, binding.selective) = (Some(cq.index), selective);
                });
            } else if let Some(cntr) = object::of::<Cntr, _>(other) {
                chosen.for_each(|binding: &mut Binding| binding.counter = Some(cntr.index));
            } else if let Some(av) = object::of::<Av, _>(other) {
                endpoint.av = Some(av.index);
            } else if other.as_ref().is_none_or(|other| other.class != class::EQ) {
                return Err(code::EINVAL);
            }
        }
        Ok(0)
    })
}

unsafe extern "C" fn control(fid: *mut Fid, what: c_int, argument: *mut c_void) -> c_int {
    guarded_int(|| {
        // SAFETY: the caller's endpoint.
        let ep = unsafe { object::of::<Ep, _>(fid) }.ok_or(code::EINVAL)?;
        let mut engine = lock(&ep.shared);
        let endpoint = engine.endpoint.as_mut().ok_or(code::EINVAL)?;
        match what {
            command::ENABLE => {
                endpoint.av.ok_or(code::ENOAV)?;
                let any = |binding: &Binding| binding.queue.is_some() || binding.counter.is_some();
                if !any(&endpoint.send) && !any(&endpoint.receive) {
                    return Err(code::ENOCQ);
                }
                endpoint.enabled = true;
            }
            command::GETOPSFLAG | command::SETOPSFLAG => {
                let flags: *mut u64 = argument.cast();
                // SAFETY: null or the caller's flags.
                let flags = unsafe { flags.as_mut() }.ok_or(code::EINVAL)?;
                let sides = flag::SEND | flag::RECV;
                let of = match *flags & sides {
                    flag::SEND => &mut endpoint.send_flags,
                    flag::RECV => &mut endpoint.receive_flags,
                    _ => return Err(code::EINVAL),
                };
                match what {
                    command::GETOPSFLAG => *flags = *of,
                    _ => *of = *flags & !sides,
                }
            }
            _ => return Err(code::ENOSYS),
        }
        Ok(0)
    })
}

unsafe extern "C" fn cancel(fid: *mut Fid, context: *mut c_void) -> isize {
    guarded(|| {
        // SAFETY: the caller's endpoint.
        let ep = unsafe { object::of::<Ep, _>(fid) }.ok_or(code::EINVAL)?;
        let mut engine = lock(&ep.shared);
        let endpoint = engine.endpoint.as_mut().ok_or(code::EINVAL)?;
        // What has been matched completes; that is no error.
        endpoint.matching.cancel(Context(context));
        engine.report();
        Ok(0)
    })
}

/// `FI_OPT_MIN_MULTI_RECV` of level `FI_OPT_ENDPOINT`: bytes left in a buffer for several messages
/// when it is given back.
const LEAST: (c_int, c_int) = (0, 0);

unsafe extern "C" fn getopt(
    fid: *mut Fid,
    level: c_int,
    name: c_int,
    to: *mut c_void,
    length: *mut usize,
) -> c_int {
    guarded_int(|| {
        // SAFETY: the caller's endpoint.
        let ep = unsafe { object::of::<Ep, _>(fid) }.ok_or(code::EINVAL)?;
        let engine = lock(&ep.shared);
        let endpoint = engine.endpoint.as_ref().ok_or(code::EINVAL)?;
        if (level, name) != LEAST {
            return Err(code::ENOPROTOOPT);
        }
        if to.is_null() || length.is_null() {
            return Err(code::EINVAL);
        }
        // SAFETY: the caller's place, and its length.
        unsafe {
            if length.replace(size_of::<usize>()) < size_of::<usize>() {
                return Err(code::ETOOSMALL);
            }
            to.cast::<usize>().write_unaligned(endpoint.least);
        }
        Ok(0)
    })
}

unsafe extern "C" fn setopt(
    fid: *mut Fid,
    level: c_int,
    name: c_int,
    from: *const c_void,
    length: usize,
) -> c_int {
    guarded_int(|| {
        // SAFETY: the caller's endpoint.
        let ep = unsafe { object::of::<Ep, _>(fid) }.ok_or(code::EINVAL)?;
        let mut engine = lock(&ep.shared);
        let endpoint = engine.endpoint.as_mut().ok_or(code::EINVAL)?;
        if (level, name) != LEAST {
            return Err(code::ENOPROTOOPT);
        }
        if from.is_null() || length != size_of::<usize>() {
            return Err(code::EINVAL);
        }
        // SAFETY: the caller's value of that length.
        endpoint.least = unsafe { from.cast::<usize>().read_unaligned() };
        Ok(0)
    })
}

unsafe extern "C" fn getname(fid: *mut Fid, to: *mut c_void, length: *mut usize) -> c_int {
    guarded_int(|| {
        // SAFETY: the caller's endpoint.
        let ep = unsafe { object::of::<Ep, _>(fid) }.ok_or(code::EINVAL)?;
        let engine = lock(&ep.shared);
        let Endpoint { port, .. } = engine.endpoint.as_ref().ok_or(code::EINVAL)?;
        let address = Address {
            gang: port.gang(),
            rank: port.rank(),
        };
        // SAFETY: the caller's place for it.
        unsafe { av::write(address, to, length) }?;
        Ok(0)
    })
}
