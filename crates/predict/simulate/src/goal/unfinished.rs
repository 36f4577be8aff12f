//! Describes what is left of a schedule that cannot go on.

use super::schedule::{Action, Schedule};
use idlewave_units::counted;
use std::fmt;

/// Most receives, and most messages, that are listed.
const NAMED: usize = 3;

/// An operation that waits in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Its rank.
    pub rank: u32,
    /// Its position among the operations of the rank, from 0.
    pub index: u32,
    /// Its line in the text, if there is one.
    pub line: Option<u32>,
    /// In a program: the variables of the loops around it, outermost first.
    pub iterations: Vec<(String, i64)>,
    /// The operation: a receive, or the send of a message that is never received.
    pub action: Action,
}

/// A schedule that cannot go on: receives without a message, messages without a receive, and what
/// waits for them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Unfinished {
    /// The first receives without a message, by rank.
    pub receives: Vec<Stuck>,
    /// Number of receives without a message.
    pub receives_in_all: u64,
    /// The sends of the first messages without a receive, by receiving rank.
    pub messages: Vec<Stuck>,
    /// Number of messages without a receive.
    pub messages_in_all: u64,
    /// What never started, because what it waits for never happened.
    pub waiting: Waiting,
}

/// What never started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// This many operations of a schedule.
    Operations(u64),
    /// This many ranks did not reach the end of their program.
    Ranks(u64),
}

/// Where an operation stands: its line or its number.
pub(super) fn place(schedule: &Schedule, index: usize) -> String {
    let record = &schedule.records[index];
    match record.line {
        0 => format!("operation {}", index - schedule.span(record.rank).start),
        line => format!("line {line}"),
    }
}

impl Unfinished {
    /// Describes what is left, in the order of ranks.
    pub(crate) fn new(
        posted: &[u32],
        unexpected: &[u32],
        waiting: Waiting,
        stuck: impl FnMut(&u32) -> Stuck + Copy,
    ) -> Self {
        let first = |all: &[u32]| all.iter().take(NAMED).map(stuck).collect();
        Unfinished {
            receives: first(posted),
            receives_in_all: posted.len() as u64,
            messages: first(unexpected),
            messages_in_all: unexpected.len() as u64,
            waiting,
        }
    }
}

/// An operation of a schedule that waits in vain.
pub(super) fn stuck(schedule: &Schedule, index: usize) -> Stuck {
    let record = &schedule.records[index];
    Stuck {
        rank: record.rank,
        index: (index - schedule.span(record.rank).start) as u32,
        line: (record.line > 0).then_some(record.line),
        iterations: Vec::new(),
        action: record.operation().action,
    }
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} ", self.rank)?;
        match self.line {
            Some(line) => write!(f, "line {line} ")?,
            None => write!(f, "operation {} ", self.index)?,
        }
        for (variable, value) in &self.iterations {
            write!(f, "{variable} = {value} ")?;
        }
        let any = |value: Option<u32>| value.map_or("any".to_owned(), |v| v.to_string());
        match self.action {
            Action::Send { bytes, to, tag } => write!(f, "(send {bytes}b to {to} tag {tag})"),
            Action::Recv { bytes, from, tag } => {
                write!(f, "(recv {bytes}b from {} tag {})", any(from), any(tag))
            }
            Action::Calc { ns } => write!(f, "(calc {ns})"),
        }
    }
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (
                "receive gets no message",
                "receives get no message",
                self.receives_in_all,
                &self.receives,
            ),
            (
                "message is received by nobody",
                "messages are received by nobody",
                self.messages_in_all,
                &self.messages,
            ),
        ];
        let mut separator = "";
        for (one, several, count, named) in parts {
            if count == 0 {
                continue;
            }
            write!(
                f,
                "{separator}{count} {}: ",
                if count == 1 { one } else { several }
            )?;
            let names: Vec<String> = named.iter().map(Stuck::to_string).collect();
            write!(f, "{}", names.join(", "))?;
            if count > named.len() as u64 {
                write!(f, " and {} more", count - named.len() as u64)?;
            }
            separator = "; ";
        }
        match self.waiting {
            Waiting::Operations(0) | Waiting::Ranks(0) => Ok(()),
            Waiting::Operations(1) => write!(f, "{separator}1 operation never started"),
            Waiting::Operations(n) => write!(
                f,
                "{separator}{n} never started",
                n = counted(n, "operation")
            ),
            Waiting::Ranks(1) => write!(f, "{separator}1 rank did not come to its end"),
            Waiting::Ranks(n) => write!(
                f,
                "{separator}{n} did not come to their end",
                n = counted(n, "rank")
            ),
        }
    }
}
