//! Counters of completed operations (fi_cntr(3)).

use crate::abi::{
    CntrAttr, CntrOps, Fid, FidCntr, FidDomain, FidOps, WAIT_NONE, WAIT_UNSPEC, WAIT_YIELD, class,
    code,
};
use crate::cq::wait;
use crate::domain::Domain;
use crate::engine::{Binding, Counter, Engine, Shared, lock, place};
use crate::object::{self, Object, closed_by, give, guarded_int};
use std::ffi::{c_int, c_void};

#[repr(C)]
pub struct Cntr {
    fid: FidCntr,
    shared: Shared,
    /// Which of its domain's.
    pub index: usize,
}

// SAFETY: it begins with a fid of this class.
unsafe impl Object for Cntr {
    const CLASS: usize = class::CNTR;
}

static FID_OPS: FidOps = closed_by(close);

static OPS: CntrOps = CntrOps {
    size: size_of::<CntrOps>(),
    read,
    readerr,
    add,
    set,
    wait: wait_for,
    adderr,
    seterr,
};

pub unsafe extern "C" fn open(
    domain: *mut FidDomain,
    attr: *mut CntrAttr,
    to: *mut *mut FidCntr,
    context: *mut c_void,
) -> c_int {
    guarded_int(|| {
        // SAFETY: the caller's domain.
        let domain = unsafe { object::of::<Domain, _>(domain) }.ok_or(code::EINVAL)?;
        // SAFETY: null or the caller's attributes.
        if let Some(attr) = unsafe { attr.as_ref() } {
            let waits = [WAIT_NONE, WAIT_UNSPEC, WAIT_YIELD].contains(&attr.wait_obj);
            if attr.events != 0 || !waits {
                return Err(code::ENOSYS);
            }
        }
        let index = place(&mut lock(&domain.shared).counters, Counter::default());
        let cntr = Cntr {
            fid: FidCntr {
                fid: object::fid::<Cntr>(context, &FID_OPS),
                ops: &OPS,
            },
            shared: domain.shared.clone(),
            index,
        };
        // SAFETY: the caller's place for it.
        Ok(unsafe { give(cntr, to) } as isize)
    })
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    let release = |cntr: &Cntr| {
        let mut engine = lock(&cntr.shared);
        let counts_here = |binding: Binding| binding.counter == Some(cntr.index);
        if engine.bindings().any(counts_here) {
            return Err(code::EBUSY);
        }
        engine.counters[cntr.index] = None;
        Ok(())
    };
    // SAFETY: the caller's object, which it gives up.
    unsafe { object::close(fid, release) }
}

impl Cntr {
    fn value(&self, engine: &Engine) -> Counter {
        let counter = engine.counters.get(self.index).copied().flatten();
        counter.unwrap_or_default()
    }
}

/// Its value after progress on messages; zeros if it is no counter.
unsafe fn current(cntr: *mut FidCntr) -> Counter {
    let mut found = Counter::default();
    guarded_int(|| {
        // SAFETY: the caller's counter.
        let cntr = unsafe { object::of::<Cntr, _>(cntr) }.ok_or(code::EINVAL)?;
        let mut engine = lock(&cntr.shared);
        engine.progress();
        found = cntr.value(&engine);
        Ok(0)
    });
    found
}

unsafe extern "C" fn read(cntr: *mut FidCntr) -> u64 {
    // SAFETY: the caller's counter.
    unsafe { current(cntr) }.value
}

unsafe extern "C" fn readerr(cntr: *mut FidCntr) -> u64 {
    // SAFETY: the caller's counter.
    unsafe { current(cntr) }.errors
}

unsafe fn change(cntr: *mut FidCntr, change: impl FnOnce(&mut Counter)) -> c_int {
    guarded_int(|| {
        // SAFETY: the caller's counter.
        let cntr = unsafe { object::of::<Cntr, _>(cntr) }.ok_or(code::EINVAL)?;
        let mut engine = lock(&cntr.shared);
        let counter = engine.counters.get_mut(cntr.index);
        change(counter.and_then(Option::as_mut).ok_or(code::EINVAL)?);
        Ok(0)
    })
}

unsafe extern "C" fn add(cntr: *mut FidCntr, value: u64) -> c_int {
    // SAFETY: the caller's counter.
    unsafe {
        change(cntr, |counter| {
            counter.value = counter.value.wrapping_add(value)
        })
    }
}

unsafe extern "C" fn set(cntr: *mut FidCntr, value: u64) -> c_int {
    // SAFETY: the caller's counter.
    unsafe { change(cntr, |counter| counter.value = value) }
}

unsafe extern "C" fn adderr(cntr: *mut FidCntr, value: u64) -> c_int {
    // SAFETY: the caller's counter.
    unsafe {
        change(cntr, |counter| {
            counter.errors = counter.errors.wrapping_add(value)
        })
    }
}

unsafe extern "C" fn seterr(cntr: *mut FidCntr, value: u64) -> c_int {
    // SAFETY: the caller's counter.
    unsafe { change(cntr, |counter| counter.errors = value) }
}

/// Waits until the value is at least `threshold`, or an error is counted.
unsafe extern "C" fn wait_for(cntr: *mut FidCntr, threshold: u64, timeout: c_int) -> c_int {
    guarded_int(|| {
        // SAFETY: the caller's counter.
        let cntr = unsafe { object::of::<Cntr, _>(cntr) }.ok_or(code::EINVAL)?;
        let errors = cntr.value(&lock(&cntr.shared)).errors;
        let reached = wait(&cntr.shared, timeout, |engine| {
            let runs = engine.progress();
            let counter = cntr.value(engine);
            match engine.failed() {
                _ if counter.value >= threshold => Ok(Ok(0)),
                _ if counter.errors != errors => Ok(Err(code::EAVAIL)),
                Some(error) => Ok(Err(error)),
                None => Err(runs),
            }
        });
        reached.unwrap_or(Err(code::ETIMEDOUT))
    })
}
