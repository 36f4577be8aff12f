//! The same program as single operations, for the LogGOPS engine.
//!
//! The CPU part of every message becomes a computation of its own, and the wire part becomes the
//! latency of the parameters that go with the schedule. Both engines then agree, rank by rank and
//! nanosecond by nanosecond.

use super::engine::{BulkError, OneOff, Part, prepare};
use super::exchange::{Cost, Partners};
use super::program::Program;
use crate::goal::{
    BuildError, Operation, OperationId, Parameters, PerByte, Schedule, ScheduleBuilder,
};
use idlewave_units::Nanos;

/// Why a program has no equivalent schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSchedule {
    /// The program is invalid.
    #[error(transparent)]
    Program(#[from] BulkError),
    /// Messages with different costs on the wire: a schedule has only one latency.
    #[error("messages of different lengths have no common latency")]
    Lengths,
    /// A message for which the sender waits (rendezvous).
    #[error("a message above the rendezvous limit has a handshake, which a schedule has not")]
    Rendezvous,
    /// A gap above the overhead: a rank would wait without computing.
    #[error("a gap above the overhead has no place in a schedule")]
    Gap,
    /// Time without computation, message or wait.
    #[error("a pause has no place in a schedule")]
    Pause,
    /// Too many operations.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// `steps` steps of a program as a schedule, with the parameters to play it with.
///
/// # Errors
/// Programs that one latency cannot describe, and schedules that are too large.
pub fn schedule(
    program: &Program,
    steps: u64,
    delays: &[OneOff],
) -> Result<(Schedule, Parameters), NoSchedule> {
    let parts: Vec<Part> = prepare(program)?.into_iter().flatten().collect();
    let latency = common_latency(&parts)?;
    let mut builder = ScheduleBuilder::new(program.ranks)?;
    for rank in 0..program.ranks as usize {
        let mut writer = Writer {
            builder: &mut builder,
            rank,
            last: Vec::new(),
        };
        for step in 0..steps {
            let late = delays
                .iter()
                .filter(|d| d.step == step && d.rank as usize == rank);
            writer.step(&parts, late.map(|d| d.ns).sum())?;
        }
        builder.end_rank()?;
    }
    let parameters = Parameters {
        latency: Nanos::from_nanos(latency),
        overhead: Nanos::ZERO,
        gap: Nanos::ZERO,
        gap_per_byte: PerByte::ZERO,
        overhead_per_byte: PerByte::ZERO,
        ..program.costs
    };
    Ok((builder.finish()?, parameters))
}

/// The time that every message takes on the wire.
fn common_latency(parts: &[Part]) -> Result<u64, NoSchedule> {
    let mut common = None;
    let mut see = |cost: &Cost, in_a_row: usize| {
        if cost.rendezvous {
            return Err(NoSchedule::Rendezvous);
        }
        if in_a_row > 1 && cost.gap > cost.send {
            return Err(NoSchedule::Gap);
        }
        let wire = cost.latency.saturating_add(cost.transfer);
        match *common.get_or_insert(wire) == wire {
            true => Ok(()),
            false => Err(NoSchedule::Lengths),
        }
    };
    for part in parts {
        match part {
            Part::Compute(_) => {}
            Part::Pause(_) => return Err(NoSchedule::Pause),
            Part::Exchange {
                directions, cost, ..
            } => see(cost, directions.len())?,
            Part::Round(_, cost) => see(cost, 1)?,
        }
    }
    Ok(common.unwrap_or(0))
}

/// The operations of one rank.
struct Writer<'a> {
    builder: &'a mut ScheduleBuilder,
    rank: usize,
    /// The operations that the next one waits for.
    last: Vec<OperationId>,
}

impl Writer<'_> {
    fn step(&mut self, parts: &[Part], late: u64) -> Result<(), BuildError> {
        let mut delayed = false;
        // Messages of a pair of ranks match in the order in which they were sent, so each step may
        // reuse the same tags.
        let mut tag = 0;
        for part in parts {
            match part {
                Part::Compute(work) => {
                    self.calc(work.of(self.rank))?;
                    if !std::mem::replace(&mut delayed, true) {
                        self.calc(late)?;
                    }
                }
                // Rejected before.
                Part::Pause(_) => {}
                Part::Exchange {
                    stencil,
                    directions,
                    cost,
                    meanwhile,
                } => {
                    let work = meanwhile.as_ref().map(|w| w.of(self.rank));
                    self.exchange(&stencil.partners(directions), *cost, work, tag)?;
                    tag += directions.len() as u32;
                }
                Part::Round(round, cost) => {
                    self.exchange(round, *cost, None, tag)?;
                    tag += 1;
                }
            }
        }
        if !delayed {
            self.calc(late)?;
        }
        Ok(())
    }

    /// Adds an operation that depends on the last ones.
    fn push(&mut self, operation: Operation) -> Result<OperationId, BuildError> {
        let id = self.builder.push(operation)?;
        for &earlier in &self.last {
            self.builder.requires(id, earlier)?;
        }
        Ok(id)
    }

    /// Adds a computation, unless it takes no time.
    fn calc(&mut self, ns: u64) -> Result<(), BuildError> {
        if ns > 0 {
            self.last = vec![self.push(Operation::calc(ns))?];
        }
        Ok(())
    }

    fn exchange(
        &mut self,
        partners: &impl Partners,
        cost: Cost,
        work: Option<u64>,
        tag: u32,
    ) -> Result<(), BuildError> {
        let directions = || (0..partners.directions()).zip(tag..);
        let mut received = Vec::new();
        for (direction, tag) in directions() {
            if let Some(from) = partners.source(self.rank, direction) {
                let receive = Operation::recv(1, from as u32).tag(tag);
                received.push(self.push(receive)?);
            }
        }
        for (direction, tag) in directions() {
            if let Some(to) = partners.target(self.rank, direction) {
                self.calc(cost.send)?;
                let send = self.push(Operation::send(1, to as u32).tag(tag))?;
                if cost.send == 0 {
                    self.last = vec![send];
                }
            }
        }
        self.calc(work.unwrap_or(0))?;
        let waits = std::mem::take(&mut self.last);
        let mut all = waits.clone();
        for receive in received {
            let taken = match cost.take > 0 {
                true => {
                    let take = self.builder.push(Operation::calc(cost.take))?;
                    self.builder.requires(take, receive)?;
                    for &earlier in &waits {
                        self.builder.requires(take, earlier)?;
                    }
                    take
                }
                false => receive,
            };
            all.push(taken);
        }
        self.last = all;
        Ok(())
    }
}
