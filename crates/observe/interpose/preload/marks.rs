//! Marks: regions and points that the program itself names.

use crate::ring::{MARKS, kind, loss};
use crate::thread::{self, Thread};
use crate::{clock, files, losses};
use std::ffi::{CStr, c_char};

/// Longest name that a record holds, in bytes.
const LONGEST: usize = 56;

/// Enters a marked region.
///
/// # Safety
/// `name` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn idlewave_mark_begin(name: *const c_char) {
    // SAFETY: the caller guarantees it.
    unsafe { mark(kind::MARK_BEGIN, name) }
}

/// Leaves a marked region.
///
/// # Safety
/// `name` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn idlewave_mark_end(name: *const c_char) {
    // SAFETY: the caller guarantees it.
    unsafe { mark(kind::MARK_END, name) }
}

/// Marks a point in time.
///
/// # Safety
/// `name` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn idlewave_mark_point(name: *const c_char) {
    // SAFETY: the caller guarantees it.
    unsafe { mark(kind::MARK_POINT, name) }
}

/// # Safety
/// `name` is null or a C string.
unsafe fn mark(kind: u8, name: *const c_char) {
    // SAFETY: the state of the calling thread; not used while the thread is inside our own code,
    // as a signal handler may find it.
    let thread = unsafe { &mut *thread::current() };
    if thread.depth != 0 || !files::wanted() {
        return;
    }
    thread.depth = 1;
    if thread.records() {
        let time = clock::now();
        if name.is_null() {
            losses::count(thread, loss::MARK);
        } else {
            // SAFETY: the caller guarantees it.
            let name = unsafe { CStr::from_ptr(name) }.to_bytes();
            match number(thread, cut(name)) {
                Some(number) => {
                    let word = u64::from(kind) | u64::from(number) << 32;
                    thread.write(&[time, 0, word, 0, 0, 0, 0, 0]);
                }
                None => losses::count(thread, loss::MARK),
            }
        }
    }
    thread.depth = 0;
}

/// As much of a name as fits, cut between two UTF-8 characters.
fn cut(name: &[u8]) -> &[u8] {
    if name.len() <= LONGEST {
        return name;
    }
    let mut end = LONGEST;
    while end > 0 && name[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    &name[..end]
}

/// The number of a name in this ring; `None` if there are too many names or there is no room.
fn number(thread: &mut Thread, name: &[u8]) -> Option<u32> {
    let marks = &thread.extra().marks;
    if let Some(&number) = marks.get(name) {
        return Some(number);
    }
    if marks.len() >= MARKS {
        return None;
    }
    let number = marks.len() as u32;
    let mut padded = [0_u8; LONGEST];
    padded[..name.len()].copy_from_slice(name);
    let mut words = padded.chunks_exact(8).map(|chunk| {
        chunk
            .iter()
            .rev()
            .fold(0_u64, |word, &byte| word << 8 | u64::from(byte))
    });
    let mut next = || words.next().unwrap_or(0);
    let word = u64::from(kind::MARK_NAME) | u64::from(number) << 32;
    let record = [next(), next(), word, next(), next(), next(), next(), next()];
    if !thread.write(&record) {
        return None;
    }
    thread.extra().marks.insert(name.to_vec(), number);
    Some(number)
}
