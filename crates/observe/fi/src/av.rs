//! Address vectors (fi_av(3)): an fi_addr is an index into a table of addresses, for both types.

use crate::abi::{
    AV_MAP, AV_TABLE, AvAttr, AvOps, Fid, FidAv, FidDomain, FidOps, NO_ADDRESS, class, code, flag,
    missing,
};
use crate::address::Address;
use crate::domain::Domain;
use crate::engine::{Addresses, Shared, lock, place};
use crate::object::{self, Object, closed_by, give, guarded_int};
use std::ffi::{c_char, c_int, c_void};

#[repr(C)]
pub struct Av {
    fid: FidAv,
    shared: Shared,
    /// Which of its domain's.
    pub index: usize,
}

// SAFETY: it begins with a fid of this class.
unsafe impl Object for Av {
    const CLASS: usize = class::AV;
}

static FID_OPS: FidOps = FidOps {
    bind,
    ..closed_by(close)
};

static OPS: AvOps = AvOps {
    size: size_of::<AvOps>(),
    insert,
    insertsvc: missing,
    insertsym: missing,
    remove,
    lookup,
    straddr,
    av_set: missing,
};

pub unsafe extern "C" fn open(
    domain: *mut FidDomain,
    attr: *mut AvAttr,
    to: *mut *mut FidAv,
    context: *mut c_void,
) -> c_int {
    guarded_int(|| {
        // SAFETY: the caller's domain.
        let domain = unsafe { object::of::<Domain, _>(domain) }.ok_or(code::EINVAL)?;
        // SAFETY: null or the caller's attributes.
        if let Some(attr) = unsafe { attr.as_mut() } {
            // A vector with a name is shared with other processes; events need a queue.
            if !attr.name.is_null() || attr.flags & flag::EVENT != 0 || attr.rx_ctx_bits != 0 {
                return Err(code::ENOSYS);
            }
            match attr.kind {
                AV_MAP | AV_TABLE => {}
                0 => attr.kind = AV_TABLE,
                _ => return Err(code::EINVAL),
            }
        }
        let index = place(&mut lock(&domain.shared).avs, Addresses::new());
        let av = Av {
            fid: FidAv {
                fid: object::fid::<Av>(context, &FID_OPS),
                ops: &OPS,
            },
            shared: domain.shared.clone(),
            index,
        };
        // SAFETY: the caller's place for it.
        Ok(unsafe { give(av, to) } as isize)
    })
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    let release = |av: &Av| {
        let mut engine = lock(&av.shared);
        let endpoint = engine.endpoint.as_ref();
        if endpoint.is_some_and(|endpoint| endpoint.av == Some(av.index)) {
            return Err(code::EBUSY);
        }
        engine.avs[av.index] = None;
        Ok(())
    };
    // SAFETY: the caller's object, which it gives up.
    unsafe { object::close(fid, release) }
}

/// Binding an event queue is allowed: there are no events.
unsafe extern "C" fn bind(fid: *mut Fid, _: *mut Fid, _: u64) -> c_int {
    // SAFETY: the caller's object.
    guarded_int(|| match unsafe { object::of::<Av, _>(fid) } {
        Some(_) => Ok(0),
        None => Err(code::EINVAL),
    })
}

unsafe extern "C" fn insert(
    av: *mut FidAv,
    addresses: *const c_void,
    count: usize,
    to: *mut u64,
    _: u64,
    _: *mut c_void,
) -> c_int {
    guarded_int(|| {
        // SAFETY: the caller's vector.
        let av = unsafe { object::of::<Av, _>(av) }.ok_or(code::EINVAL)?;
        let most = c_int::MAX as usize / Address::BYTES;
        if count > most || (addresses.is_null() && count > 0) {
            return Err(code::EINVAL);
        }
        let mut engine = lock(&av.shared);
        let mut inserted = 0;
        for at in 0..count {
            let first = addresses.cast::<[u8; Address::BYTES]>();
            // SAFETY: one of `count` addresses, of any alignment.
            let bytes = unsafe { first.add(at).read_unaligned() };
            let found = Address::read(bytes).filter(|address| engine.accepts(address));
            let all = engine.avs[av.index].as_mut().ok_or(code::EINVAL)?;
            let address = match found {
                Some(found) => {
                    inserted += 1;
                    place(all, found) as u64
                }
                None => NO_ADDRESS,
            };
            if !to.is_null() {
                // SAFETY: room for `count` numbers.
                unsafe { to.add(at).write(address) };
            }
        }
        Ok(inserted)
    })
}

unsafe extern "C" fn remove(av: *mut FidAv, from: *mut u64, count: usize, _: u64) -> c_int {
    guarded_int(|| {
        // SAFETY: the caller's vector.
        let av = unsafe { object::of::<Av, _>(av) }.ok_or(code::EINVAL)?;
        if from.is_null() && count > 0 {
            return Err(code::EINVAL);
        }
        let mut engine = lock(&av.shared);
        let all = engine.avs[av.index].as_mut().ok_or(code::EINVAL)?;
        for at in 0..count {
            // SAFETY: one of `count` numbers.
            let address = unsafe { from.add(at).read() };
            let place = usize::try_from(address).ok();
            let entry = place.and_then(|place| all.get_mut(place));
            *entry.ok_or(code::EINVAL)? = None;
        }
        Ok(0)
    })
}

unsafe extern "C" fn lookup(
    av: *mut FidAv,
    address: u64,
    to: *mut c_void,
    length: *mut usize,
) -> c_int {
    guarded_int(|| {
        // SAFETY: the caller's vector.
        let av = unsafe { object::of::<Av, _>(av) }.ok_or(code::EINVAL)?;
        let engine = lock(&av.shared);
        let all = engine.avs[av.index].as_ref().ok_or(code::EINVAL)?;
        let place = usize::try_from(address).ok();
        let found = place.and_then(|place| *all.get(place)?);
        // SAFETY: the caller's place for it.
        unsafe { write(found.ok_or(code::EINVAL)?, to, length) }?;
        Ok(0)
    })
}

/// Writes an address into `length` bytes, and its whole length into `length`.
///
/// # Safety
/// `length` is null or may be written; `to` is null or there are that many bytes.
pub unsafe fn write(address: Address, to: *mut c_void, length: *mut usize) -> Result<(), isize> {
    if length.is_null() {
        return Err(code::EINVAL);
    }
    let bytes = address.bytes();
    // SAFETY: as promised.
    let room = unsafe { length.replace(bytes.len()) };
    let count = if to.is_null() {
        0
    } else {
        room.min(bytes.len())
    };
    if count > 0 {
        // SAFETY: as promised.
        unsafe {
            to.cast::<u8>()
                .copy_from_nonoverlapping(bytes.as_ptr(), count)
        };
    }
    match count == bytes.len() {
        true => Ok(()),
        false => Err(code::ETOOSMALL),
    }
}

unsafe extern "C" fn straddr(
    _: *mut FidAv,
    address: *const c_void,
    to: *mut c_char,
    length: *mut usize,
) -> *const c_char {
    if address.is_null() || length.is_null() {
        return std::ptr::null();
    }
    // SAFETY: an address of this provider, of any alignment.
    let bytes = unsafe { address.cast::<[u8; Address::BYTES]>().read_unaligned() };
    let text = Address::read(bytes).map_or_else(
        || "not an address of idlewave".to_owned(),
        |address| address.to_string(),
    );
    // SAFETY: the caller's place, and its length.
    unsafe {
        let room = length.replace(text.len() + 1);
        write_text(&text, to, room);
    }
    to
}

/// Writes a text, cut to `room` bytes with its terminator.
///
/// # Safety
/// `to` is null or there are `room` bytes.
pub unsafe fn write_text(text: &str, to: *mut c_char, room: usize) {
    if to.is_null() || room == 0 {
        return;
    }
    let count = text.len().min(room - 1);
    // SAFETY: as promised.
    unsafe {
        to.cast::<u8>()
            .copy_from_nonoverlapping(text.as_ptr(), count);
        to.add(count).write(0);
    }
}
