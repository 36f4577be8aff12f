//! Counts of what is not followed.
//!
//! A record is written when a count reaches a power of two, and at the end: few records however
//! many calls, and a crash loses at most half of a count and never the function's name.

use crate::ring::{kind, loss};
use crate::thread::Thread;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// More than the number of functions; checked on use.
const FUNCTIONS: usize = 512;
const REASONS: usize = 8;

struct Count {
    seen: AtomicU64,
    written: AtomicU64,
}

impl Count {
    const ZERO: Self = Self {
        seen: AtomicU64::new(0),
        written: AtomicU64::new(0),
    };
}

static NOT_FOLLOWED: [Count; FUNCTIONS] = [const { Count::ZERO }; FUNCTIONS];
static OTHER: [Count; REASONS] = [const { Count::ZERO }; REASONS];

/// Counts a call of a function that is not followed.
pub fn not_followed(thread: &mut Thread, function: u16) {
    if let Some(count) = NOT_FOLLOWED.get(usize::from(function)) {
        add(thread, count, loss::NOT_FOLLOWED, u64::from(function) + 1);
    }
}

/// Counts another loss.
pub fn count(thread: &mut Thread, reason: u32) {
    if let Some(count) = OTHER.get(reason as usize) {
        add(thread, count, reason, 0);
    }
}

fn add(thread: &mut Thread, count: &Count, reason: u32, function: u64) {
    if (count.seen.fetch_add(1, Relaxed) + 1).is_power_of_two() {
        write(thread, count, reason, function);
    }
}

fn write(thread: &mut Thread, count: &Count, reason: u32, function: u64) {
    let seen = count.seen.load(Relaxed);
    // Another thread may write the same count at the same time: each writes its own part.
    let before = count.written.fetch_max(seen, Relaxed);
    if before < seen {
        let word = u64::from(kind::LOSS) | u64::from(reason) << 32;
        thread.write(&[0, 0, word, function, 0, seen - before, 0, 0]);
    }
}

/// Writes all counts that have not been written yet.
pub fn flush(thread: &mut Thread) {
    for (function, count) in NOT_FOLLOWED.iter().enumerate() {
        write(thread, count, loss::NOT_FOLLOWED, function as u64 + 1);
    }
    for (reason, count) in OTHER.iter().enumerate() {
        write(thread, count, reason as u32, 0);
    }
}
