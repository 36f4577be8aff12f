//! A schedule prepared for replays on networks: dependencies, and which receive matches which
//! message.
//!
//! Messages of one tag between two ranks are matched in program order on both sides, as in all
//! schedules of recorded programs and patterns. So matching takes place once, before any replay,
//! and a thousand replays on different placements need no lookups.

use crate::error::NetworkError;
use idlewave_simulate::goal::{Action, Schedule};
use std::collections::HashMap;

/// With more messages than this, those that end shortly after each other end together. This makes
/// replays of irregular placements of thousands of ranks twenty times as fast.
const MANY: usize = 10_000;

/// The action of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    /// Computes for this many nanoseconds, before the stage's slow-down.
    Compute(u64),
    /// Sends this message, by its index.
    Send(u32),
    /// Receives it.
    Receive(u32),
}

/// An operation of a rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub does: Does,
    /// Its CPU, by index among the CPUs of all ranks.
    pub cpu: u32,
    /// Number of operations that it waits for.
    pub waits_for: u32,
    /// Whether something waits for its start.
    pub start_is_awaited: bool,
}

/// A message from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// Its length.
    pub bytes: u64,
    pub(crate) send: u32,
    pub(crate) receive: u32,
}

/// A program, ready for replays.
#[derive(Clone, Debug)]
pub struct Program {
    /// Where the operations of each rank start, then the end of the last rank.
    pub(crate) ranks: Vec<u32>,
    pub(crate) steps: Vec<Step>,
    pub(crate) cpus: u32,
    pub(crate) messages: Vec<Message>,
    /// Where the list of operations that wait for each operation starts.
    pub(crate) begins: Vec<u32>,
    /// Waiting operation, and whether it waits for the start only.
    pub(crate) waiting: Vec<(u32, bool)>,
}

/// A message with one end missing so far.
#[derive(Default)]
struct Ends {
    sends: Vec<(u32, u64)>,
    receives: Vec<u32>,
}

impl Program {
    /// Prepares a schedule.
    ///
    /// # Errors
    /// Wildcard receives, messages that are never received, or receives without a message.
    pub fn new(schedule: &Schedule) -> Result<Program, NetworkError> {
        let ranks = schedule.ranks();
        let count = schedule.operations() as usize;
        let mut program = Program {
            ranks: vec![0],
            steps: Vec::with_capacity(count),
            cpus: 0,
            messages: Vec::new(),
            begins: vec![0],
            waiting: Vec::with_capacity(schedule.dependencies() as usize),
        };
        let mut ends: HashMap<(u32, u32, u32), Ends> = HashMap::new();
        for rank in 0..ranks {
            let mut cpus = 1;
            for operation in schedule.rank(rank) {
                let index = program.steps.len() as u32;
                cpus = cpus.max(u32::from(operation.cpu) + 1);
                let does = match operation.action {
                    Action::Calc { ns } => Does::Compute(ns),
                    Action::Send { bytes, to, tag } => {
                        let of = ends.entry((rank, to, tag)).or_default();
                        of.sends.push((index, bytes));
                        Does::Send(0)
                    }
                    Action::Recv { from, tag, .. } => {
                        let (Some(from), Some(tag)) = (from, tag) else {
                            return Err(NetworkError::AnySource { rank });
                        };
                        ends.entry((from, rank, tag))
                            .or_default()
                            .receives
                            .push(index);
                        Does::Receive(0)
                    }
                };
                program.steps.push(Step {
                    does,
                    cpu: program.cpus + u32::from(operation.cpu),
                    waits_for: 0,
                    start_is_awaited: false,
                });
            }
            program.cpus += cpus;
            program.ranks.push(program.steps.len() as u32);
        }
        program.take_dependencies(schedule);
        program.match_messages(ends)?;
        Ok(program)
    }

    fn take_dependencies(&mut self, schedule: &Schedule) {
        for index in 0..self.steps.len() {
            for dependent in schedule.waiting_for(index) {
                self.steps[dependent.operation].waits_for += 1;
                self.steps[index].start_is_awaited |= dependent.at_start;
                self.waiting
                    .push((dependent.operation as u32, dependent.at_start));
            }
            self.begins.push(self.waiting.len() as u32);
        }
    }

    fn match_messages(&mut self, ends: HashMap<(u32, u32, u32), Ends>) -> Result<(), NetworkError> {
        let mut pairs: Vec<_> = ends.into_iter().collect();
        // In a fixed order, so that the same schedule always gives the same indices.
        pairs.sort_unstable_by_key(|(key, _)| *key);
        for ((from, to, tag), of) in pairs {
            if of.sends.len() != of.receives.len() {
                let (sent, received) = (of.sends.len(), of.receives.len());
                return Err(NetworkError::Unmatched {
                    from,
                    to,
                    tag,
                    sent,
                    received,
                });
            }
            for (&(send, bytes), &receive) in of.sends.iter().zip(&of.receives) {
                let message = self.messages.len() as u32;
                self.steps[send as usize].does = Does::Send(message);
                self.steps[receive as usize].does = Does::Receive(message);
                self.messages.push(Message {
                    from,
                    to,
                    bytes,
                    send,
                    receive,
                });
            }
        }
        Ok(())
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        (self.ranks.len() - 1) as u32
    }

    /// Number of operations.
    pub fn operations(&self) -> u64 {
        self.steps.len() as u64
    }

    /// Whether it has so many messages that those ending shortly after each other end together: see
    /// [`Stage::slack`](crate::Stage).
    pub fn is_played_with_slack(&self) -> bool {
        self.messages.len() > MANY
    }

    /// All messages, by sender, receiver and tag.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Computation of a rank, nanoseconds; 0 if it does not exist.
    pub fn work_ns(&self, rank: u32) -> u64 {
        let at = rank as usize;
        let (Some(&begin), Some(&end)) = (self.ranks.get(at), self.ranks.get(at + 1)) else {
            return 0;
        };
        let of = |step: &Step| match step.does {
            Does::Compute(ns) => ns,
            _ => 0,
        };
        self.steps[begin as usize..end as usize]
            .iter()
            .map(of)
            .sum()
    }

    /// Operations that wait for this one: indices, and whether they wait for its start only.
    pub(crate) fn waiting_for(&self, step: u32) -> &[(u32, bool)] {
        let at = step as usize;
        &self.waiting[self.begins[at] as usize..self.begins[at + 1] as usize]
    }

    /// The rank of an operation.
    pub(crate) fn rank_of(&self, step: u32) -> u32 {
        (self.ranks.partition_point(|&begin| begin <= step) - 1) as u32
    }
}
