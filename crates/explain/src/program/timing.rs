//! How long things usually take: the computation between two calls, and a call beyond its wait.

use super::lanes::{Lane, Program, mix};
use super::origins::overlap;
use super::waits::Waits;
use crate::edges::Edge;
use crate::reference::Reference;
use crate::watch::Charge;
use std::num::NonZeroU32;

/// Fewer samples than this say nothing of what is usual.
const SAMPLES: usize = 8;

/// What is usual on one lane.
#[derive(Debug, Default)]
pub struct Timing {
    /// Per call, the reference of the computation before it, plus 1.
    before: Vec<Option<NonZeroU32>>,
    references: Vec<Reference>,
    /// Per call, what is usual of it beyond its wait, plus 1.
    usual: Vec<Option<NonZeroU32>>,
    edges: Vec<Edge>,
}

/// The computation before a call, or a part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Segment {
    pub begin: u64,
    pub end: u64,
    /// Without what was taken.
    pub net: u64,
    /// Of `net`, what it is undisturbed: all of it where nothing usual is known.
    pub work: u64,
    /// Of `net`, what a slow speed level added.
    pub slow: u64,
    /// Scatter of such computations.
    pub spread: f64,
}

impl Timing {
    /// Learns from a lane, its waits and what was taken from it.
    pub fn of(lane: &Lane, index: u32, waits: &Waits, charges: &[Charge]) -> Self {
        let mut timing = Timing::default();
        let own = &waits.all[waits.of_lane(index)];
        let mut net = Vec::with_capacity(lane.calls.len());
        let mut beyond = Vec::with_capacity(lane.calls.len());
        let (mut from, mut next) = (0, 0);
        for (i, call) in lane.calls.iter().enumerate() {
            let before = match i {
                0 => call.begin,
                _ => lane.calls[i - 1].end,
            };
            let mut wait_end = call.begin;
            let mut waited = 0;
            if let Some(wait) = own.get(next).filter(|w| w.call as usize == i) {
                (wait_end, waited) = (wait.end, wait.length());
                next += 1;
            }
            // Charges are in order, so the search goes on where the last call ended.
            while charges.get(from).is_some_and(|c| c.end <= before) {
                from += 1;
            }
            let taken = overlap(&charges[from..], before, call.begin);
            net.push((call.begin - before).saturating_sub(taken));
            let taken = overlap(&charges[from..], wait_end, call.end);
            beyond.push((call.end - call.begin - waited).saturating_sub(taken));
        }
        let mut keys: Vec<(u32, u32)> = (1..lane.calls.len())
            .map(|i| (mix(lane.calls[i - 1].site, lane.calls[i].site), i as u32))
            .collect();
        timing.before = vec![None; lane.calls.len()];
        groups(&mut keys, |group| {
            let ends: Vec<u64> = group
                .iter()
                .map(|g| lane.calls[g.1 as usize].begin)
                .collect();
            let durations: Vec<u64> = group.iter().map(|g| net[g.1 as usize]).collect();
            timing.references.push(Reference::of(&ends, &durations));
            let number = NonZeroU32::new(timing.references.len() as u32);
            for &(_, i) in group {
                timing.before[i as usize] = number;
            }
        });
        let mut keys: Vec<(u32, u32)> = (0..lane.calls.len())
            .map(|i| (lane.calls[i].site, i as u32))
            .collect();
        timing.usual = vec![None; lane.calls.len()];
        groups(&mut keys, |group| {
            let mut lengths: Vec<u64> = group.iter().map(|g| beyond[g.1 as usize]).collect();
            timing.edges.push(Edge::of(&mut lengths));
            let number = NonZeroU32::new(timing.edges.len() as u32);
            for &(_, i) in group {
                timing.usual[i as usize] = number;
            }
        });
        timing
    }

    /// The computation before call `i`, cut to `begin..end`; `None` if nothing of it lies there.
    pub fn segment(
        &self,
        lane: &Lane,
        i: usize,
        charges: &[Charge],
        begin: u64,
        end: u64,
    ) -> Option<Segment> {
        let from = lane.calls[i.checked_sub(1)?].end.max(begin);
        let to = lane.calls[i].begin.min(end);
        if from >= to {
            return None;
        }
        let net = (to - from).saturating_sub(overlap(charges, from, to));
        let mut segment = Segment {
            begin: from,
            end: to,
            net,
            work: net,
            slow: 0,
            spread: 0.0,
        };
        if let Some(n) = self.before[i] {
            let reference = &self.references[n.get() as usize - 1];
            segment.work = net.min(reference.fast);
            segment.slow = (net - segment.work).min(reference.slow_by(to));
            segment.spread = reference.spread;
        }
        Some(segment)
    }

    /// By how much call `i` took longer than usual, if it took `ns` beyond its wait.
    pub fn excess(&self, i: usize, ns: u64) -> u64 {
        self.usual[i].map_or(0, |n| self.edges[n.get() as usize - 1].excess(ns))
    }
}

/// Calls `f` with every group of equal keys that is large enough, its members in order.
fn groups(keys: &mut [(u32, u32)], mut f: impl FnMut(&[(u32, u32)])) {
    keys.sort_unstable();
    keys.chunk_by(|a, b| a.0 == b.0)
        .filter(|group| group.len() >= SAMPLES)
        .for_each(&mut f);
}

impl Program {
    /// What is usual on every lane.
    pub fn timings(&self, waits: &Waits, charges: &[Vec<Charge>]) -> Vec<Timing> {
        self.lanes
            .iter()
            .zip(charges)
            .enumerate()
            .map(|(i, (lane, charges))| Timing::of(lane, i as u32, waits, charges))
            .collect()
    }
}
