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
        follow(program, waits, spans, |piece| {
            let index = piece.lane as usize;
            let lane = &program.lanes[index];
            path.add(piece, lane, &charges[index], &timings[index], classes);
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

    fn add(
        &mut self,
        piece: Piece,
        lane: &Lane,
        charges: &[Charge],
        timing: &Timing,
        classes: Classes,
    ) {
        let Piece { begin, end, .. } = piece;
        *self.ranks.entry(lane.rank).or_default() += end - begin;
        let mut outside = end - begin - time_in_calls(lane, begin, end);
        let mut inside = end - begin - outside;
        for charge in between(charges, begin, end) {
            let (from, to) = (charge.begin.max(begin), charge.end.min(end));
            let in_calls = time_in_calls(lane, from, to);
            inside -= in_calls;
            outside -= to - from - in_calls;
            *self.taken.entry(charge.source).or_default() += to - from;
        }
        let calls = lane.calls_within(begin, end);
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

/// Calls `f` with the pieces of the path, the last one first.
fn follow(program: &Program, waits: &Waits, spans: &Spans, mut f: impl FnMut(Piece)) {
    let Some((rank, mut at)) = spans.last() else {
        return;
    };
    let Some(mut lane) = program.main_lane(rank) else {
        return;
    };
    let begin = spans.begin();
    // Ranks that wait for each other at the same moment would make this loop endless.
    let mut hops_left = program.lanes.len();
    while at > begin {
        let own = waits.of_lane(lane);
        let before = own.start + waits.all[own.clone()].partition_point(|w| w.begin < at);
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
