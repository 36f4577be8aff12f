//! Events that find their CPU or NIC busy.
//!
//! By the rules each waits until both are free, keeps its place among those that were made later, and finds them busy again if
//! another one was before it: of n messages that come at once all n would be looked at n times. Here only the first of those that
//! wait for the same is an event; when it has begun, the next one becomes an event at the moment at which both are free again. Nothing else changes:
//! of events that wait for the same CPU and NIC no one can begin before one that was made earlier.

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

/// Those of a rank that wait for the same.
#[derive(Clone, Copy)]
struct Line {
    /// Stamp of the one that is an event; 0 if nobody waits.
    first: u32,
    /// The others, in [`Waiting::others`].
    others: u32,
}

/// With several CPUs (`MANY`) every event that waits stays an event.
pub(super) struct Waiting<const MANY: bool> {
    lines: Vec<Line>,
    /// Stamps, and payloads in the lower bits.
    others: Vec<BinaryHeap<Reverse<u64>>>,
    /// Those of them that nobody uses.
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

    /// What waits on this rank is needed soon.
    #[inline]
    pub fn fetch(&self, rank: u32) {
        prefetch(&self.lines, rank as usize * KINDS);
    }

    /// An event has found busy what it needs, which is free at `free`.
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
            // An eighth more and not twice as much: what lies idle counts.
            others.reserve_exact((others.len() / 8).max(8));
        }
        // Stamp and payload.
        others.push(Reverse(event as u64));
    }

    /// An event has begun, after which what it needed is free at `free`.
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

    /// Makes events of all that wait, at this time, before stamps change.
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
