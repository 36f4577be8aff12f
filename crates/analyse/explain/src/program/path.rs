//! The critical path: what the time of the whole program was made of.
//!
//! The path goes back in time from the end of the last rank. Where the rank waited for another one,
//! the path continues on that rank at the moment when the wait ended (Böhme et al., Scalable
//! critical-path based performance analysis, IPDPS 2012). So the path holds no wait, and its parts
//! add up to the time of the program: a delay off the path cost nothing, since it was waited out.

use super::lanes::{Lane, Program};
use super::origins::Classes;
use super::rank_times::{Spans, time_in_calls};
use super::timing::Timing;
use super::waits::Waits;
use crate::catalog::SourceId;
use crate::watch::{Charge, between, overlap};
use idlewave_run::findings::PathFinding;
use idlewave_units::{Nanos, Rank};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

/// A stretch of the path on one lane, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    lane: u32,
    begin: u64,
    end: u64,
}

/// What the critical path is made of, nanoseconds. The parts add up to the time of the program, and
/// so do the ranks.
#[derive(Debug, Default)]
pub struct Path {
    /// Outside MPI, on a CPU, at its usual speed.
    pub computing: u64,
    /// Inside MPI, on a CPU and not waiting, for as long as usual.
    pub communicating: u64,
    /// Taken, by source.
    pub taken: BTreeMap<SourceId, u64>,
    /// Per rank, the time that the path spends on it.
    pub ranks: BTreeMap<Rank, u64>,
    /// How often the path goes from one rank to another.
    pub hops: u64,
}

impl Path {
    /// Follows the path of a program.
    pub fn of(
        program: &Program,
        waits: &Waits,
        charges: &[Vec<Charge>],
        timings: &[Timing],
        spans: &Spans,
        classes: Classes,
    ) -> Self {
        let mut path = Self::default();
        let mut last = None;
        // Per lane, how many of its calls can still be on the path: it goes back in time.
        let mut left: Vec<usize> = program.lanes.iter().map(|l| l.calls.len()).collect();
        follow(program, waits, spans, |piece| {
            let index = piece.lane as usize;
            let lane = &program.lanes[index];
            let after = near_end(&lane.calls[..left[index]], |c| c.begin < piece.end);
            let first = near_end(&lane.calls[..after], |c| c.end <= piece.begin);
            left[index] = after;
            let (charges, timing) = (&charges[index], &timings[index]);
            path.add(piece, lane, first..after, charges, timing, classes);
            path.hops += u64::from(last.is_some_and(|last| last != lane.rank));
            last = Some(lane.rank);
        });
        path
    }

    /// The finding, given the row of every source in the table of sources.
    pub fn finding(&self, place: &BTreeMap<SourceId, u32>) -> PathFinding {
        let nanos = Nanos::from_nanos;
        let taken = self.taken.iter();
        let mut sources: Vec<_> = taken.map(|(id, &ns)| (place[id], nanos(ns))).collect();
        sources.sort_by_key(|&(source, time)| (Reverse(time), source));
        let ranks = self.ranks.iter();
        let mut ranks: Vec<_> = ranks.map(|(&rank, &ns)| (rank, nanos(ns))).collect();
        ranks.sort_by_key(|&(rank, time)| (Reverse(time), rank));
        PathFinding {
            computing: nanos(self.computing),
            communicating: nanos(self.communicating),
            sources,
            ranks,
            hops: self.hops,
        }
    }

    /// Adds a piece during which its lane was in these calls.
    fn add(
        &mut self,
        piece: Piece,
        lane: &Lane,
        calls: Range<usize>,
        charges: &[Charge],
        timing: &Timing,
        classes: Classes,
    ) {
        let Piece { begin, end, .. } = piece;
        *self.ranks.entry(lane.rank).or_default() += end - begin;
        let within = &lane.calls[calls.clone()];
        let mut outside = end - begin - time_in_calls(within, begin, end);
        let mut inside = end - begin - outside;
        for charge in between(charges, begin, end) {
            let (from, to) = (charge.begin.max(begin), charge.end.min(end));
            let in_calls = time_in_calls(within, from, to);
            inside -= in_calls;
            outside -= to - from - in_calls;
            *self.taken.entry(charge.source).or_default() += to - from;
        }
        let late: u64 = calls
            .clone()
            .filter(|&i| lane.calls[i].end <= end)
            .map(|i| {
                let (from, to) = (lane.calls[i].begin.max(begin), lane.calls[i].end);
                timing.excess(i, to - from - overlap(charges, from, to))
            })
            .sum();
        let slow: u64 = (calls.start..=calls.end.min(lane.calls.len().saturating_sub(1)))
            .filter_map(|i| timing.segment(lane, i, charges, begin, end))
            .map(|segment| segment.slow)
            .sum();
        for (source, ns) in [(classes.network, late), (classes.slow_level, slow)] {
            if ns > 0 {
                *self.taken.entry(source).or_default() += ns;
            }
        }
        self.computing += outside - slow;
        self.communicating += inside - late;
    }
}

/// The partition point of `items`, found in few steps if it is near their end.
fn near_end<T>(items: &[T], is_before: impl Fn(&T) -> bool) -> usize {
    let (mut end, mut step) = (items.len(), 1);
    while end > 0 {
        let from = end.saturating_sub(step);
        if is_before(&items[from]) {
            return from + items[from..end].partition_point(is_before);
        }
        (end, step) = (from, 2 * step);
    }
    0
}

/// Calls `f` with the pieces of the path, the last one first.
fn follow(program: &Program, waits: &Waits, spans: &Spans, mut f: impl FnMut(Piece)) {
    let Some((rank, mut at)) = spans.last() else {
        return;
    };
    let Some(mut lane) = program.main_lane(rank) else {
        return;
    };
    let begin = spans.begin();
    // Per lane, the end of the waits that the path can still meet.
    let lanes = 0..program.lanes.len() as u32;
    let mut left: Vec<usize> = lanes.map(|lane| waits.of_lane(lane).end).collect();
    // Ranks that wait for each other at the same moment would make this loop endless.
    let mut hops_left = program.lanes.len();
    while at > begin {
        let (own, left) = (waits.of_lane(lane), &mut left[lane as usize]);
        let before = own.start + near_end(&waits.all[own.start..*left], |w| w.begin < at);
        *left = before;
        let usable = |end: u64| end < at || hops_left > 0;
        let held = waits.all[own.start..before].iter().rev().find(|wait| {
            // A wait shorter than the clock error may be no wait at all, and is not followed.
            usable(wait.end) && wait.length() >= program.clock_error(lane, wait.culprit)
        });
        let from = held.map_or(begin, |wait| wait.end.clamp(begin, at));
        if from < at {
            hops_left = program.lanes.len();
            f(Piece {
                lane,
                begin: from,
                end: at,
            });
        }
        hops_left = hops_left.saturating_sub(1);
        at = from;
        lane = held.map_or(lane, |wait| wait.culprit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_partition_point_is_found_wherever_it_lies() {
        for length in 0..40_usize {
            let items: Vec<usize> = (0..length).collect();
            for point in 0..=length {
                assert_eq!(near_end(&items, |&i| i < point), point, "of {length}");
            }
        }
    }
}
