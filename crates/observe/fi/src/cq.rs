//! Completion queues (fi_cq(3)). Reading an empty one makes progress on messages.

use crate::abi::{
    CqAttr, CqEntry, CqErrEntry, CqOps, Fid, FidCq, FidDomain, FidOps, NO_ADDRESS, WAIT_NONE,
    WAIT_UNSPEC, WAIT_YIELD, class, code, missing,
};
use crate::av::write_text;
use crate::domain::Domain;
use crate::engine::{Binding, Engine, Queue, Shared, lock, place};
use crate::object::{self, Object, closed_by, give, guarded, guarded_int};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::time::{Duration, Instant};

#[repr(C)]
pub struct Cq {
    fid: FidCq,
    shared: Shared,
    /// Which of its domain's.
    pub index: usize,
    /// Bytes of an entry: the first bytes of a [`CqEntry`].
    entry_bytes: usize,
    /// Whether a program may wait in it.
    waits: bool,
}

// SAFETY: it begins with a fid of this class.
unsafe impl Object for Cq {
    const CLASS: usize = class::CQ;
}

static FID_OPS: FidOps = closed_by(close);

static OPS: CqOps = CqOps {
    size: size_of::<CqOps>(),
    read,
    readfrom,
    readerr,
    sread,
    sreadfrom,
    signal: missing,
    strerror,
};

/// Bytes of an entry, by its format (`enum fi_cq_format`).
fn entry_bytes(format: c_int) -> Option<usize> {
    match format {
        1 => Some(8),
        2 => Some(24),
        3 => Some(40),
        0 | 4 => Some(size_of::<CqEntry>()),
        _ => None,
    }
}

pub unsafe extern "C" fn open(
    domain: *mut FidDomain,
    attr: *mut CqAttr,
    to: *mut *mut FidCq,
    context: *mut c_void,
) -> c_int {
    guarded_int(|| {
        // SAFETY: the caller's domain.
        let domain = unsafe { object::of::<Domain, _>(domain) }.ok_or(code::EINVAL)?;
        // SAFETY: null or the caller's attributes.
        let attr = unsafe { attr.as_mut() };
        let (format, wait) = attr
            .as_ref()
            .map_or((0, WAIT_NONE), |attr| (attr.format, attr.wait_obj));
        let entry_bytes = entry_bytes(format).ok_or(code::EINVAL)?;
        // There is no descriptor to poll for what ranks of this node put into the rings.
        if ![WAIT_NONE, WAIT_UNSPEC, WAIT_YIELD].contains(&wait) {
            return Err(code::ENOSYS);
        }
        if let Some(attr) = attr {
            attr.size = attr.size.max(1);
            if format == 0 {
                attr.format = 4;
            }
        }
        let index = place(&mut lock(&domain.shared).queues, Queue::default());
        let cq = Cq {
            fid: FidCq {
                fid: object::fid::<Cq>(context, &FID_OPS),
                ops: &OPS,
            },
            shared: domain.shared.clone(),
            index,
            entry_bytes,
            waits: wait != WAIT_NONE,
        };
        // SAFETY: the caller's place for it.
        Ok(unsafe { give(cq, to) } as isize)
    })
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    let release = |cq: &Cq| {
        let mut engine = lock(&cq.shared);
        let reports_here = |binding: Binding| binding.queue == Some(cq.index);
        if engine.bindings().any(reports_here) {
            return Err(code::EBUSY);
        }
        engine.queues[cq.index] = None;
        Ok(())
    };
    // SAFETY: the caller's object, which it gives up.
    unsafe { object::close(fid, release) }
}

impl Cq {
    fn queue<'a>(&self, engine: &'a mut Engine) -> Result<&'a mut Queue, isize> {
        let queue = engine.queues.get_mut(self.index);
        queue.and_then(Option::as_mut).ok_or(code::EINVAL)
    }

    /// Takes up to `count` completions; `sources` gets the addresses of their senders.
    ///
    /// # Safety
    /// There is room for `count` entries, and for as many addresses unless `sources` is null.
    unsafe fn take(
        &self,
        engine: &mut Engine,
        to: *mut c_void,
        count: usize,
        sources: *mut u64,
    ) -> Result<isize, isize> {
        if to.is_null() && count > 0 {
            return Err(code::EINVAL);
        }
        let mut taken = 0;
        while taken < count {
            let Some((entry, source)) = self.queue(engine)?.entries.pop_front() else {
                break;
            };
            // SAFETY: one of `count` entries, each of which is the start of a `CqEntry`.
            unsafe {
                let place = to.cast::<u8>().add(taken * self.entry_bytes);
                let bytes = (&raw const entry).cast::<u8>();
                place.copy_from_nonoverlapping(bytes, self.entry_bytes);
            }
            if !sources.is_null() {
                let address = source.map_or(NO_ADDRESS, |rank| engine.address_of(rank));
                // SAFETY: as above.
                unsafe { sources.add(taken).write(address) };
            }
            taken += 1;
        }
        let queue = self.queue(engine)?;
        match taken {
            0 if !queue.errors.is_empty() => Err(code::EAVAIL),
            0 if queue.entries.is_empty() => Err(engine.failed().unwrap_or(code::EAGAIN)),
            _ => Ok(taken as isize),
        }
    }

    /// The same, after progress on messages if there is nothing to take; also returns whether the
    /// gang runs.
    ///
    /// # Safety
    /// That of [`take`](Self::take).
    unsafe fn read(
        &self,
        engine: &mut Engine,
        to: *mut c_void,
        count: usize,
        sources: *mut u64,
    ) -> (Result<isize, isize>, bool) {
        let idle = match self.queue(engine) {
            Ok(queue) => queue.entries.is_empty() && queue.errors.is_empty(),
            Err(error) => return (Err(error), true),
        };
        let runs = if idle || count == 0 {
            engine.progress()
        } else {
            true
        };
        // SAFETY: as promised.
        (unsafe { self.take(engine, to, count, sources) }, runs)
    }
}

unsafe extern "C" fn read(cq: *mut FidCq, to: *mut c_void, count: usize) -> isize {
    // SAFETY: the caller's arguments; no sources.
    unsafe { readfrom(cq, to, count, std::ptr::null_mut()) }
}

unsafe extern "C" fn readfrom(
    cq: *mut FidCq,
    to: *mut c_void,
    count: usize,
    sources: *mut u64,
) -> isize {
    guarded(|| {
        // SAFETY: the caller's queue.
        let cq = unsafe { object::of::<Cq, _>(cq) }.ok_or(code::EINVAL)?;
        // SAFETY: the caller's places.
        unsafe { cq.read(&mut lock(&cq.shared), to, count, sources) }.0
    })
}

unsafe extern "C" fn readerr(cq: *mut FidCq, to: *mut CqErrEntry, _: u64) -> isize {
    guarded(|| {
        // SAFETY: the caller's queue.
        let cq = unsafe { object::of::<Cq, _>(cq) }.ok_or(code::EINVAL)?;
        if to.is_null() {
            return Err(code::EINVAL);
        }
        let mut engine = lock(&cq.shared);
        let error = cq.queue(&mut engine)?.errors.pop_front();
        let error = error.ok_or(code::EAGAIN)?;
        // SAFETY: the caller's place for it.
        unsafe { to.write(error) };
        Ok(1)
    })
}

unsafe extern "C" fn sread(
    cq: *mut FidCq,
    to: *mut c_void,
    count: usize,
    condition: *const c_void,
    timeout: c_int,
) -> isize {
    // SAFETY: the caller's arguments; no sources.
    unsafe { sreadfrom(cq, to, count, std::ptr::null_mut(), condition, timeout) }
}

unsafe extern "C" fn sreadfrom(
    cq: *mut FidCq,
    to: *mut c_void,
    count: usize,
    sources: *mut u64,
    _: *const c_void,
    timeout: c_int,
) -> isize {
    guarded(|| {
        // SAFETY: the caller's queue.
        let cq = unsafe { object::of::<Cq, _>(cq) }.ok_or(code::EINVAL)?;
        if !cq.waits {
            return Err(code::EOPNOTSUPP);
        }
        wait(&cq.shared, timeout, |engine| {
            // SAFETY: the caller's places.
            let (read, runs) = unsafe { cq.read(engine, to, count, sources) };
            match read {
                Err(code::EAGAIN) => Err(runs),
                other => Ok(other),
            }
        })
        .unwrap_or(Err(code::EAGAIN))
    })
}

/// Calls `look` until it gives something, for at most `timeout` milliseconds if that is not
/// negative. If it gives nothing it says whether the gang runs.
pub fn wait<T>(
    shared: &Shared,
    timeout: c_int,
    mut look: impl FnMut(&mut Engine) -> Result<T, bool>,
) -> Option<T> {
    let limit = u64::try_from(timeout).ok().map(Duration::from_millis);
    let begin = Instant::now();
    let mut turn = 0_u32;
    loop {
        let mut engine = lock(shared);
        let runs = match look(&mut engine) {
            Ok(found) => return Some(found),
            Err(runs) => runs,
        };
        if limit.is_some_and(|limit| begin.elapsed() >= limit) {
            return None;
        }
        turn = turn.saturating_add(1);
        match &mut engine.endpoint {
            Some(endpoint) => endpoint.port.rest(turn, runs),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// What the code in an error's completion means.
fn meaning(error: c_int) -> &'static CStr {
    match error as isize {
        code::ETRUNC => c"the message was longer than its receive",
        code::ECANCELED => c"cancelled",
        code::ENOMSG => c"no such message has arrived",
        code::ENETDOWN => c"the gang's network is gone, or another rank failed",
        _ => c"failed",
    }
}

unsafe extern "C" fn strerror(
    _: *mut FidCq,
    error: c_int,
    _: *const c_void,
    to: *mut c_char,
    length: usize,
) -> *const c_char {
    let text = meaning(error);
    if to.is_null() || length == 0 {
        return text.as_ptr();
    }
    // SAFETY: the caller's place of that length.
    unsafe { write_text(&text.to_string_lossy(), to, length) };
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_means_the_same_with_a_place_for_its_text_and_without() {
        let text = |error, to: &mut [c_char]| {
            let begin = to.as_mut_ptr();
            // SAFETY: a place of that length; the queue is not looked at.
            let found = unsafe {
                strerror(
                    std::ptr::null_mut(),
                    error,
                    std::ptr::null(),
                    begin,
                    to.len(),
                )
            };
            // SAFETY: a text with its end.
            unsafe { CStr::from_ptr(found) }.to_owned()
        };
        let codes = [
            code::ETRUNC,
            code::ECANCELED,
            code::ENOMSG,
            code::ENETDOWN,
            1,
        ];
        let meanings = codes.map(|error| text(error as c_int, &mut []));
        for (error, meaning) in codes.iter().zip(&meanings) {
            assert_eq!(&text(*error as c_int, &mut [1; 80]), meaning);
            let others = meanings.iter().filter(|other| *other == meaning);
            assert_eq!(others.count(), 1);
        }
        assert_eq!(text(1, &mut [1; 5]).as_c_str(), c"fail");
    }
}
