//! Reading the calls of a recorded program.

use super::find::LaneFinder;
use super::lanes::{Call, Entry, Lane, Program, inconsistent, mix};
use crate::ExplainError;
use idlewave_run::tables::Calls;
use idlewave_run::{Ledger, RunReader};
use std::num::NonZeroU32;

/// The calls of a run as its threads made them.
#[derive(Debug, Default)]
pub(super) struct RecordedCalls {
    of_lanes: Vec<Vec<Call>>,
    /// Per operation, the bytes that its collectives sent.
    sent: Vec<u64>,
    entries: Vec<Entry>,
}

impl RecordedCalls {
    /// Reads the calls of the threads of `program`. `None` if the run has none.
    pub fn read(run: &RunReader, program: &Program) -> Result<Option<Self>, ExplainError> {
        let mut found = Self {
            of_lanes: vec![Vec::new(); program.lanes.len()],
            sent: vec![0; program.operations.len()],
            entries: Vec::new(),
        };
        let mut wrong = None;
        let mut row = 0u32;
        let mut lanes = LaneFinder::of(program);
        run.for_each::<Calls>(|c| {
            let this_row = row;
            row = row.saturating_add(1);
            let (Some(lane), Some(sent)) = (
                lanes.find(c.rank, c.thread),
                found.sent.get_mut(c.operation as usize),
            ) else {
                wrong = Some((this_row, c.rank, c.thread, c.operation));
                return;
            };
            *sent += c.sent.map_or(0, |b| b.get());
            let instance = c.comm.zip(c.sequence).and_then(|(comm, sequence)| {
                found.entries.push(Entry {
                    comm,
                    sequence,
                    root: c.root,
                });
                NonZeroU32::new(found.entries.len() as u32)
            });
            found.of_lanes[lane as usize].push(Call {
                begin: c.begin_ns,
                end: c.end_ns,
                row: this_row,
                operation: c.operation as u16,
                site: mix(c.operation, c.comm.map_or(0, |c| c.wrapping_add(1))),
                instance,
            });
        })?;
        match wrong {
            Some((row, rank, thread, operation)) => Err(inconsistent(
                "calls",
                format!(
                    "row {row} names thread {thread} of rank {rank} and operation {operation}, which the \
                     manifest and the table of operations do not have"
                ),
            )),
            None => Ok((row > 0).then_some(found)),
        }
    }
}

impl Program {
    /// Gives the threads their calls.
    pub(super) fn add_calls(&mut self, recorded: RecordedCalls, losses: &mut Ledger) {
        for (lane, calls) in self.lanes.iter_mut().zip(recorded.of_lanes) {
            lane.calls = calls;
        }
        for (operation, sent) in self.operations.iter_mut().zip(recorded.sent) {
            operation.sent = sent;
        }
        let nested: u64 = self.lanes.iter_mut().map(order).sum();
        losses.enter(
            "MPI calls inside other calls, or with times out of order",
            nested,
            "they are ignored",
            "report this with the run: the recorder should not write them",
        );
        self.make_instances(&recorded.entries, losses);
    }
}

/// Sorts the calls of a lane and drops those that overlap the one before; returns how many.
fn order(lane: &mut Lane) -> u64 {
    if !lane.calls.windows(2).all(|c| c[0].begin <= c[1].begin) {
        lane.calls.sort_by_key(|c| (c.begin, c.row));
    }
    let before = lane.calls.len();
    let mut until = 0;
    lane.calls.retain(|call| {
        let fits = call.begin >= until && call.end >= call.begin;
        if fits {
            until = call.end;
        }
        fits
    });
    (before - lane.calls.len()) as u64
}
