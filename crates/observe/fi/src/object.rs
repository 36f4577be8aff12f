//! How objects are handed to C and found again, and what keeps panics from crossing into it.

use crate::abi::{Fid, FidOps, code, missing};
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An object that C holds a pointer to.
///
/// # Safety
/// It is `repr(C)` and begins with a [`Fid`] whose class, [`CLASS`](Self::CLASS), no other type
/// has.
pub unsafe trait Object: Sized {
    /// Its class.
    const CLASS: usize;
}

/// The start of an object.
pub fn fid<T: Object>(context: *mut c_void, ops: &'static FidOps) -> Fid {
    Fid {
        class: T::CLASS,
        context,
        ops,
    }
}

/// Hands an object to C; an error if there is nowhere to put it.
///
/// # Safety
/// `to` is null or may be written.
pub unsafe fn give<T: Object, F>(object: T, to: *mut *mut F) -> c_int {
    if to.is_null() {
        return -(code::EINVAL as c_int);
    }
    let object = Box::into_raw(Box::new(object));
    // SAFETY: not null, as promised.
    unsafe { to.write(object.cast()) };
    0
}

/// The object that a pointer means; `None` if it is null or of another class.
///
/// # Safety
/// It is null, or points to an object of this provider that is not closed during `'a`.
pub unsafe fn of<'a, T: Object, F>(pointer: *mut F) -> Option<&'a T> {
    let object: *const Fid = pointer.cast();
    // SAFETY: every object begins with a fid.
    let class = unsafe { object.as_ref() }?.class;
    // SAFETY: by its class it is a `T`, which `give` made.
    (class == T::CLASS).then(|| unsafe { &*pointer.cast() })
}

/// Takes an object back, to be closed.
///
/// # Safety
/// That of [`of`]; nobody uses the pointer any more.
unsafe fn take<T: Object>(pointer: *mut Fid) -> Option<Box<T>> {
    // SAFETY: as promised.
    unsafe { of::<T, Fid>(pointer) }?;
    // SAFETY: `give` made it from a box.
    Some(unsafe { Box::from_raw(pointer.cast()) })
}

/// Closes an object, unless `release` refuses because something still uses it.
///
/// # Safety
/// That of [`of`]; nobody uses the pointer any more once it is closed.
pub unsafe fn close<T: Object>(
    fid: *mut Fid,
    release: impl FnOnce(&T) -> Result<(), isize>,
) -> c_int {
    guarded_int(|| {
        // SAFETY: as promised.
        release(unsafe { of::<T, _>(fid) }.ok_or(code::EINVAL)?)?;
        // SAFETY: as promised; the caller gives it up.
        unsafe { take::<T>(fid) };
        Ok(0)
    })
}

/// Calls `act`. If that panics, the caller gets an error: no panic may cross into C.
pub fn guarded(act: impl FnOnce() -> Result<isize, isize>) -> isize {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(value)) => value,
        Ok(Err(error)) => -error,
        Err(_) => -code::EOTHER,
    }
}

/// The same for functions that return an `int`.
pub fn guarded_int(act: impl FnOnce() -> Result<isize, isize>) -> c_int {
    guarded(act) as c_int
}

/// What is done with an object that can only be closed: nothing can be bound to it, and it has no
/// commands.
pub const fn closed_by(close: unsafe extern "C" fn(*mut Fid) -> c_int) -> FidOps {
    FidOps {
        size: size_of::<FidOps>(),
        close,
        bind: no_bind,
        control: no_control,
        ops_open: missing,
        tostr: missing,
        ops_set: missing,
    }
}

unsafe extern "C" fn no_bind(_: *mut Fid, _: *mut Fid, _: u64) -> c_int {
    -(code::ENOSYS as c_int)
}

unsafe extern "C" fn no_control(_: *mut Fid, _: c_int, _: *mut c_void) -> c_int {
    -(code::ENOSYS as c_int)
}
