//! Events that find their CPU or NIC busy.
//!
//! By the rules, each such event waits until both are free, keeps its place among those created
//! later, and finds them busy again if another event came first: of n messages that arrive at once,
//! all n would be examined n times. Here, of those that wait for the same CPU and NIC, only the
//! first is an event. Once it has begun, the next one becomes an event at the time when both are
//! free again. Nothing else changes: of events that wait for the same CPU and NIC, none can begin
//! before one created earlier.

use super::prefetch::prefetch;
use super::queue::{self, EventQueue};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What an event waits for, besides the CPU.
#[derive(Clone, Copy)]
pub(super) enum Needs {
    Cpu,
    Sending,
    Receiving,
}

const KINDS: usize = 3;
const NONE: u32 = u32::MAX;

/// The events of a rank that wait for the same resources.
#[derive(Clone, Copy)]
struct Line {
    /// Stamp of the one that is an event; 0 if none waits.
    first: u32,
    /// The others, in [`Waiting::others`].
    others: u32,
}

/// Waiting events. With several CPUs (`MANY`) every waiting event stays in the queue.
pub(super) struct Waiting<const MANY: bool> {
    lines: Vec<Line>,
    /// Stamps, with payloads in the lower bits.
    others: Vec<BinaryHeap<Reverse<u64>>>,
    /// Unused entries of `others`.
    unused: Vec<u32>,
}

impl<const MANY: bool> Waiting<MANY> {
    pub fn new(ranks: u32) -> Self {
        let nobody = Line {
            first: 0,
            others: NONE,
        };
        let count = if MANY { 0 } else { ranks as usize * KINDS };
        Waiting {
            lines: vec![nobody; count],
            others: Vec::new(),
            unused: Vec::new(),
        }
    }

    /// Prefetches what waits on this rank.
    #[inline]
    pub fn fetch(&self, rank: u32) {
        prefetch(&self.lines, rank as usize * KINDS);
    }

    /// An event found what it needs busy; it is free at `free`.
    #[inline]
    pub fn wait(
        &mut self,
        queue: &mut EventQueue,
        rank: u32,
        needs: Needs,
        event: u128,
        free: u64,
    ) {
        if MANY {
            queue.push(queue::at(event, free));
            return;
        }
        let line = &mut self.lines[rank as usize * KINDS + needs as usize];
        let stamp = queue::stamp(event);
        if line.first == 0 || stamp <= line.first {
            line.first = stamp;
            queue.push(queue::at(event, free));
            return;
        }
        if line.others == NONE {
            line.others = self.unused.pop().unwrap_or_else(|| {
                self.others.push(BinaryHeap::new());
                (self.others.len() - 1) as u32
            });
        }
        let others = &mut self.others[line.others as usize];
        if others.len() == others.capacity() {
            // Grows by an eighth instead of doubling: idle memory counts.
            others.reserve_exact((others.len() / 8).max(8));
        }
        // Stamp and payload.
        others.push(Reverse(event as u64));
    }

    /// An event has begun; what it needed is free again at `free`.
    #[inline]
    pub fn begun(
        &mut self,
        queue: &mut EventQueue,
        rank: u32,
        needs: Needs,
        event: u128,
        free: u64,
    ) {
        if MANY {
            return;
        }
        let line = &mut self.lines[rank as usize * KINDS + needs as usize];
        if line.first != queue::stamp(event) {
            return;
        }
        line.first = 0;
        if line.others == NONE {
            return;
        }
        let others = &mut self.others[line.others as usize];
        if let Some(Reverse(next)) = others.pop() {
            let next = queue::at(next.into(), free);
            line.first = queue::stamp(next);
            queue.push(next);
        }
        if others.is_empty() {
            self.unused.push(line.others);
            line.others = NONE;
        }
    }

    /// Turns all that wait into events at this time, before stamps are renumbered.
    #[cold]
    pub fn all_to(&mut self, queue: &mut EventQueue, now: u64) {
        for line in &mut self.lines {
            line.first = 0;
            line.others = NONE;
        }
        for other in self.others.drain(..).flatten() {
            queue.push(queue::at(other.0.into(), now));
        }
        self.unused.clear();
    }
}
