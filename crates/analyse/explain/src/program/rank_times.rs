//! Where the time of every rank went.

use super::lanes::{Call, Program, calls_within};
use super::recorded::Recorded;
use super::waits::Waits;
use crate::watch::{Charge, between};
use idlewave_run::findings::RankTime;
use idlewave_run::tables::{Marks, OperationClass as Class, Table};
use idlewave_units::{Nanos, Rank};
use std::collections::BTreeMap;

/// The analysed time of every rank: from the return of the last MPI_Init, when all ranks were
/// there, to the rank's entry into MPI_Finalize. A rank that never entered it is analysed up to the
/// end of its last call: whether it computed afterwards, or hung in a call, is not known.
///
/// In a trace without MPI_Init, all ranks are there once each has shown its first call or mark,
/// unless a rank has ended by then.
pub struct Spans {
    begin: u64,
    ends: BTreeMap<Rank, u64>,
}

impl Spans {
    pub fn of(recorded: &Recorded, marks: &Marks) -> Self {
        let program = &recorded.program;
        let calls = program.lanes.iter().flat_map(|l| &l.calls);
        let init = calls.filter(|call| {
            program.class(call) == Class::Life && program.name(call).starts_with("MPI_Init")
        });
        let init = init.map(|call| call.end).max();
        let begin = recorded.phase.0.max(init.unwrap_or(0));
        let end_of = |lanes: &[u32]| {
            let calls = || lanes.iter().flat_map(|&l| &program.lanes[l as usize].calls);
            let finalize = calls()
                .filter(|c| program.class(c) == Class::Life)
                .find(|c| program.name(c).starts_with("MPI_Finalize"));
            finalize.map_or_else(|| calls().map(|c| c.end).max(), |call| Some(call.begin))
        };
        // `None` for a rank without records.
        let ends: Vec<_> = program
            .of_rank
            .iter()
            .map(|(&rank, lanes)| (rank, end_of(lanes)))
            .collect();
        let first_end = ends.iter().filter_map(|(_, end)| *end).min();
        let begin = match (init, all_seen(program, marks)) {
            (None, Some(seen)) if Some(seen) < first_end => begin.max(seen),
            _ => begin,
        };
        let ends = ends
            .into_iter()
            .map(|(rank, end)| (rank, begin.max(end.unwrap_or(begin))));
        Self {
            begin,
            ends: ends.collect(),
        }
    }

    /// When all ranks were there, nanoseconds.
    pub fn begin(&self) -> u64 {
        self.begin
    }

    /// The rank that ends last, the first if there are several, and when.
    pub fn last(&self) -> Option<(Rank, u64)> {
        let ends = self.ends.iter().rev().max_by_key(|&(_, end)| end);
        ends.map(|(&rank, &end)| (rank, end))
    }

    /// From the start to the last end, nanoseconds.
    pub fn total(&self) -> u64 {
        self.last().map_or(0, |(_, end)| end - self.begin)
    }
}

/// When the last rank shows its first call or mark.
fn all_seen(program: &Program, marks: &Marks) -> Option<u64> {
    let mut first: BTreeMap<Rank, u64> = BTreeMap::new();
    let calls = program.lanes.iter().filter_map(|lane| {
        let call = lane.calls.first()?;
        Some((lane.rank, call.begin))
    });
    let marks = marks.rows().filter_map(|m| Some((m.rank?, m.begin_ns)));
    for (rank, begin) in calls.chain(marks) {
        let seen = first.entry(rank).or_insert(begin);
        *seen = begin.min(*seen);
    }
    first.into_values().max()
}

/// The time of every rank. The thread that called MPI most represents its rank, since others may
/// only wait for it.
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
        let inside = time_in_calls(&lane.calls, begin, end);
        let waiting = waits.time_within(main, begin, end);
        // Time taken while the rank waits costs it nothing.
        let (mut taken_inside, mut taken_outside) = (0, 0);
        for charge in between(&charges[main as usize], begin, end) {
            let (from, to) = (charge.begin.max(begin), charge.end.min(end));
            let in_calls = time_in_calls(&lane.calls, from, to);
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
    let ranks = program.of_rank.keys();
    let of = |&rank: &Rank| time(rank, program.main_lane(rank)?);
    ranks.filter_map(of).collect()
}

impl Program {
    /// The lane that stands for a rank: the first of those with the most calls. `None` for a rank
    /// without records.
    pub(super) fn main_lane(&self, rank: Rank) -> Option<u32> {
        let calls = |l: u32| self.lanes[l as usize].calls.len();
        let lanes = self.of_rank.get(&rank)?.iter();
        lanes.rev().max_by_key(|&&l| calls(l)).copied()
    }
}

/// Time in these calls of a lane in `begin..end`.
pub(super) fn time_in_calls(calls: &[Call], begin: u64, end: u64) -> u64 {
    calls[calls_within(calls, begin, end)]
        .iter()
        .map(|c| c.end.min(end).saturating_sub(c.begin.max(begin)))
        .sum()
}
