//! The fabric, from which domains are opened, and event queues, on which this provider has nothing
//! to report.

use crate::abi::{
    EqOps, FabricAttr, FabricOps, Fid, FidEq, FidFabric, FidOps, Info, class, code, missing,
};
use crate::object::{self, Object, closed_by, give, guarded, guarded_int};
use crate::{domain_ops, port};
use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

#[repr(C)]
struct Fabric {
    fid: FidFabric,
}

// SAFETY: it begins with a fid of this class.
unsafe impl Object for Fabric {
    const CLASS: usize = class::FABRIC;
}

static FID_OPS: FidOps = closed_by(close::<Fabric>);

static OPS: FabricOps = FabricOps {
    size: size_of::<FabricOps>(),
    domain: open_domain,
    passive_ep: missing,
    eq_open,
    wait_open: missing,
    trywait: missing,
    domain2: missing,
};

/// Closes an object that has nothing to do then.
unsafe extern "C" fn close<T: Object>(fid: *mut Fid) -> c_int {
    // SAFETY: an object of the caller's, which it gives up.
    unsafe { object::close(fid, |_: &T| Ok(())) }
}

/// Opens the fabric (fi_fabric(3)).
pub unsafe extern "C" fn fabric(
    _: *mut FabricAttr,
    to: *mut *mut FidFabric,
    context: *mut c_void,
) -> c_int {
    guarded_int(|| {
        if !port::is_there() {
            return Err(code::ENODATA);
        }
        let fabric = Fabric {
            fid: FidFabric {
                fid: object::fid::<Fabric>(context, &FID_OPS),
                ops: &OPS,
                api_version: 0,
            },
        };
        // SAFETY: the caller's place for it.
        Ok(unsafe { give(fabric, to) } as isize)
    })
}

unsafe extern "C" fn open_domain(
    fabric: *mut FidFabric,
    _: *mut Info,
    to: *mut *mut crate::abi::FidDomain,
    context: *mut c_void,
) -> c_int {
    guarded_int(|| {
        // SAFETY: the caller's fabric.
        unsafe { object::of::<Fabric, _>(fabric) }.ok_or(code::EINVAL)?;
        // SAFETY: the caller's place for it.
        Ok(unsafe { domain_ops::open(to, context) } as isize)
    })
}

#[repr(C)]
struct EventQueue {
    fid: FidEq,
}

// SAFETY: it begins with a fid of this class.
unsafe impl Object for EventQueue {
    const CLASS: usize = class::EQ;
}

static EQ_FID_OPS: FidOps = closed_by(close::<EventQueue>);

static EQ_OPS: EqOps = EqOps {
    size: size_of::<EqOps>(),
    read,
    readerr,
    write: missing,
    sread,
    strerror,
};

unsafe extern "C" fn eq_open(
    fabric: *mut FidFabric,
    _: *mut c_void,
    to: *mut *mut FidEq,
    context: *mut c_void,
) -> c_int {
    guarded_int(|| {
        // SAFETY: the caller's fabric.
        unsafe { object::of::<Fabric, _>(fabric) }.ok_or(code::EINVAL)?;
        let queue = EventQueue {
            fid: FidEq {
                fid: object::fid::<EventQueue>(context, &EQ_FID_OPS),
                ops: &EQ_OPS,
            },
        };
        // SAFETY: the caller's place for it.
        Ok(unsafe { give(queue, to) } as isize)
    })
}

unsafe extern "C" fn read(_: *mut FidEq, _: *mut u32, _: *mut c_void, _: usize, _: u64) -> isize {
    -code::EAGAIN
}

unsafe extern "C" fn readerr(_: *mut FidEq, _: *mut c_void, _: u64) -> isize {
    -code::EAGAIN
}

unsafe extern "C" fn sread(
    _: *mut FidEq,
    _: *mut u32,
    _: *mut c_void,
    _: usize,
    timeout: c_int,
    _: u64,
) -> isize {
    guarded(|| {
        // Nothing will happen: whoever asks without a limit must not hang.
        let limit = u64::try_from(timeout).map_err(|_| code::EINVAL)?;
        std::thread::sleep(Duration::from_millis(limit));
        Err(code::EAGAIN)
    })
}

unsafe extern "C" fn strerror(
    _: *mut FidEq,
    _: c_int,
    _: *const c_void,
    _: *mut c_char,
    _: usize,
) -> *const c_char {
    c"no event".as_ptr()
}
