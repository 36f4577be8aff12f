//! Which receive takes which message: by rank and tag.

use super::schedule::{ANY, Task};

/// Rank and tag by which a waiting operation is met.
#[inline]
pub(super) fn key<const POSTED: bool>(task: &Task) -> (u32, u32) {
    match POSTED {
        true => (task.peer, task.tag),
        false => (task.rank, task.tag),
    }
}

/// Whether a receive takes the message of a send.
#[inline]
fn matches(recv: &Task, send: &Task) -> bool {
    (recv.peer == ANY || recv.peer == send.rank) && (recv.tag == ANY || recv.tag == send.tag)
}

/// Whether an operation that comes meets one that waits.
#[inline]
pub(super) fn fits<const POSTED: bool>(comes: &Task, waits: &Task) -> bool {
    match POSTED {
        true => matches(waits, comes),
        false => matches(comes, waits),
    }
}
