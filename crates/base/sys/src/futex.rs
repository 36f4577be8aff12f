//! Sleeping on a word that several processes share (futex(2)).

use rustix::thread::futex::{self, Flags, Timespec};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps until somebody calls [`wake`], the word is not `seen`, or `longest` is over; at times without a reason.
pub fn sleep_on(word: &AtomicU32, seen: u32, longest: Duration) {
    let longest = Timespec::try_from(longest).ok();
    // Whatever ended it, whoever sleeps looks at the word again.
    let _ = futex::wait(word, Flags::empty(), seen, longest.as_ref());
}

/// Wakes all that sleep on a word, in any process.
pub fn wake(word: &AtomicU32) {
    // It can fail for words at bad addresses only.
    let _ = futex::wake(word, Flags::empty(), i32::MAX.unsigned_abs());
}
