//! What all ranks have in common: one loop, whose peers follow from the rank.

use crate::looped::Times;
use idlewave_simulate::Stencil;
use idlewave_simulate::bulk::Collective;
use std::fmt;

/// The loop that all ranks of a run execute.
#[derive(Clone, Debug, PartialEq)]
pub struct PatternOfRun {
    /// Number of ranks.
    pub ranks: u32,
    /// Iterations that every rank completed.
    pub steps: u64,
    /// One iteration.
    pub phases: Vec<PhaseOfRun>,
    /// How long the loop took the slowest rank in the run, from the start of its first call to the
    /// end of its last, in nanoseconds.
    pub span_ns: u64,
    /// Ignored differences, and other stencils that would fit, in words.
    pub notes: Vec<String>,
}

/// A phase of the loop with the computation before it.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseOfRun {
    /// What all ranks do together.
    pub kind: PhaseKindOfRun,
    /// What each rank computes before it.
    pub work: Vec<Times>,
    /// What each rank computes while messages are in flight.
    pub meanwhile: Vec<Times>,
}

/// What all ranks do together.
#[derive(Clone, Debug, PartialEq)]
pub enum PhaseKindOfRun {
    /// Messages between neighbours.
    Exchange {
        /// Which ranks are neighbours.
        stencil: Stencil,
        /// The longest message.
        bytes: u64,
        /// Whether ranks wait for one direction before they begin the next.
        blocking: bool,
        /// Whether ranks compute while messages are in flight.
        overlapped: bool,
    },
    /// A collective of all ranks.
    Collective {
        /// The operation.
        operation: Collective,
        /// Bytes per rank; for an all-to-all, per pair of ranks.
        bytes: u64,
    },
}

/// Why a run has no pattern: the first rank that differs from the others, and its call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPattern {
    /// The rank.
    pub rank: u32,
    /// Row of the table `calls`, if a single call differs.
    pub call: Option<u32>,
    /// What differs.
    pub reason: String,
}

impl fmt::Display for NoPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.call {
            Some(row) => write!(f, "rank {}, row {row} of calls: {}", self.rank, self.reason),
            None => write!(f, "rank {}: {}", self.rank, self.reason),
        }
    }
}
