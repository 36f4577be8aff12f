//! What one look at a job shows.

use idlewave_gang::state::{Deadlock, State, Verdict};
use idlewave_interpose::{StatePhase, StateRecord};
use std::time::Duration;

/// A look at all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// How the job is.
    pub job: Job,
    /// What follows from this look alone; `None` where there is nothing to judge.
    pub verdict: Option<Verdict>,
    /// Whether the deadlock that it shows rests on sends to other nodes that may just be slow on their way.
    pub slow: bool,
    /// Ranks that are seen, by rank.
    pub ranks: Vec<RankLook>,
    /// By number of a communicator in the verdict: its key, and whether it is MPI_COMM_WORLD.
    pub communicators: Vec<(u64, bool)>,
    /// How far MPI_Init is.
    pub initialised: Initialised,
}

/// How a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// No process has called MPI so far.
    NoProcess,
    /// Some process is in MPI_Init. A gang must not be frozen now.
    Initialising,
    /// Ranks of nodes that are not heard of are not seen, so nothing follows.
    Incomplete {
        /// Ranks seen.
        seen: u32,
        /// Ranks in all.
        size: u32,
    },
    /// Several jobs write into one directory, or pages contradict each other.
    Unclear,
    /// Some rank can move, as far as is known.
    Progressing,
    /// Nothing was called, and hardly any CPU time used, since the look before; nothing says that it stays so. A job that is frozen looks like that, too.
    Idle,
    /// Ranks wait for what never comes, and did so at an earlier look.
    Deadlocked(Deadlock),
    /// All ranks have ended.
    Terminated,
}

/// How far MPI_Init is, on the nodes that are seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Initialised {
    /// Processes that are past MPI_Init, those that have ended among them.
    pub past: u32,
    /// Processes in MPI_Init.
    pub within: u32,
    /// Ranks of the job, those that are not seen among them; `None` until a process is past MPI_Init.
    pub size: Option<u32>,
}

impl Initialised {
    /// Whether no process that is seen is in MPI_Init, and at least one was: those of other nodes are in the same MPI_Init,
    /// and may still be on the way out of it.
    pub fn all(&self) -> bool {
        self.past > 0 && self.within == 0
    }
}

/// One rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankLook {
    /// In MPI_COMM_WORLD.
    pub rank: u32,
    /// Its process.
    pub pid: u32,
    /// Its host.
    pub host: String,
    /// Whether the process has ended.
    pub gone: bool,
    /// Whether it is stopped by a signal.
    pub stopped: bool,
    /// CPU time since the look before, to 10 ms; `None` where it is not known.
    pub cpu: Option<Duration>,
    /// How long it has been seen where it is, without any move.
    pub still: Duration,
    /// What its page says.
    pub record: StateRecord,
}

impl RankLook {
    /// Whether it has entered MPI_Finalize, or ended.
    pub fn ended(&self) -> bool {
        let phase = self.record.phase;
        self.gone || matches!(phase, StatePhase::Finalising | StatePhase::Finalised)
    }
}

impl Look {
    /// The deadlock that this look shows and that an earlier one has shown as well.
    pub fn deadlock(&self) -> Option<&Deadlock> {
        match &self.job {
            Job::Deadlocked(deadlock) => Some(deadlock),
            _ => None,
        }
    }

    /// The deadlock that this look alone shows.
    pub fn suspected(&self) -> Option<&Deadlock> {
        match &self.verdict.as_ref()?.state {
            State::Deadlocked(deadlock) => Some(deadlock),
            _ => None,
        }
    }
}
