//! Which receive takes which message: matching by rank and tag.

use super::schedule::{ANY, Task};

/// Rank and tag that a waiting operation is matched by.
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

/// Whether a new operation matches a waiting one.
#[inline]
pub(super) fn fits<const POSTED: bool>(comes: &Task, waits: &Task) -> bool {
    match POSTED {
        true => matches(waits, comes),
        false => matches(comes, waits),
    }
}
