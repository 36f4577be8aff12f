//! Where the time of every rank went.

use super::analysis::Recorded;
use super::lanes::{Lane, Program};
use super::origins::between;
use super::waits::Waits;
use crate::watch::Charge;
use idlewave_run::findings::RankTime;
use idlewave_run::tables::operation_class as class;
use idlewave_units::{Nanos, Rank};
use std::collections::BTreeMap;

/// The time of every rank that is looked at: from the last MPI_Init left, when all were there, to the rank's own
/// MPI_Finalize entered. A rank that never entered it is looked at up to the end of its last call: whether it computed
/// from then on, or was inside a call that it never left, is not known.
pub struct Spans {
    begin: u64,
    ends: BTreeMap<Rank, u64>,
}

impl Spans {
    pub fn of(recorded: &Recorded) -> Self {
        let program = &recorded.program;
        let mut begin = recorded.phase.0;
        for call in program.lanes.iter().flat_map(|l| &l.calls) {
            if program.class(call) == class::LIFE && program.name(call).starts_with("MPI_Init") {
                begin = begin.max(call.end);
            }
        }
        let end_of = |lanes: &[u32]| {
            let calls = || lanes.iter().flat_map(|&l| &program.lanes[l as usize].calls);
            let finalize = calls()
                .filter(|c| program.class(c) == class::LIFE)
                .find(|c| program.name(c).starts_with("MPI_Finalize"));
            match finalize {
                Some(call) => call.begin,
                None => calls().map(|c| c.end).max().unwrap_or(begin),
            }
        };
        let ends = program
            .of_rank
            .iter()
            .map(|(&rank, lanes)| (rank, end_of(lanes).max(begin)));
        Self {
            begin,
            ends: ends.collect(),
        }
    }

    /// From the begin to the last end, nanoseconds.
    pub fn total(&self) -> u64 {
        self.ends.values().max().map_or(0, |end| end - self.begin)
    }
}

/// What every rank did. Of its threads the one that called MPI most stands for it: others may only wait for that one.
pub fn ranks_time(
    program: &Program,
    waits: &Waits,
    charges: &[Vec<Charge>],
    spans: &Spans,
) -> Vec<RankTime> {
    let nanos = Nanos::from_nanos;
    let time = |rank: Rank, main: u32| {
        let (begin, end) = (spans.begin, *spans.ends.get(&rank)?);
        let lane = &program.lanes[main as usize];
        let inside = time_in_calls(lane, begin, end);
        let waiting = waits.time_within(main, begin, end);
        // What is taken while the rank waits costs it nothing.
        let (mut taken_inside, mut taken_outside) = (0, 0);
        for charge in between(&charges[main as usize], begin, end) {
            let (from, to) = (charge.begin.max(begin), charge.end.min(end));
            let in_calls = time_in_calls(lane, from, to);
            taken_inside += in_calls - waits.time_within(main, from, to);
            taken_outside += to - from - in_calls;
        }
        Some(RankTime {
            rank,
            computing: nanos(end - begin - inside - taken_outside),
            taken: nanos(taken_inside + taken_outside),
            waiting: nanos(waiting),
            communicating: nanos(inside - waiting - taken_inside),
        })
    };
    let of = |(&rank, lanes): (&Rank, &Vec<u32>)| {
        let calls = |l: u32| program.lanes[l as usize].calls.len();
        // The first of equals. Of a rank that was not recorded nothing is known.
        let &main = lanes.iter().rev().max_by_key(|&&l| calls(l))?;
        time(rank, main)
    };
    program.of_rank.iter().filter_map(of).collect()
}

fn time_in_calls(lane: &Lane, begin: u64, end: u64) -> u64 {
    lane.calls[lane.calls_within(begin, end)]
        .iter()
        .map(|c| c.end.min(end).saturating_sub(c.begin.max(begin)))
        .sum()
}
