//! The result of one look at a job.

use idlewave_gang::state::{Deadlock, Verdict};
use idlewave_interpose::{StatePhase, StateRecord};
use std::time::Duration;

/// A look at all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// The state of the job.
    pub job: Job,
    /// The verdict of this look alone; `None` if there is nothing to judge.
    pub verdict: Option<Verdict>,
    /// Visible ranks, by rank.
    pub ranks: Vec<RankLook>,
    /// For each communicator number in the verdict: its key, and whether it is MPI_COMM_WORLD.
    pub communicators: Vec<(u64, bool)>,
    /// Progress of MPI_Init.
    pub initialised: Initialised,
}

/// The state of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// No process has called MPI so far.
    NoProcess,
    /// Some process is in MPI_Init. A gang must not be frozen now.
    Initialising,
    /// Ranks of silent nodes are missing, so there is no verdict.
    Incomplete {
        /// Visible ranks.
        seen: u32,
        /// Total number of ranks.
        size: u32,
    },
    /// Several jobs write into one directory, or pages contradict each other.
    Unclear,
    /// Some rank can move, as far as is known.
    Progressing,
    /// Since the previous look, ranks made no calls and used hardly any CPU time. This may change
    /// at any time. A frozen job looks the same.
    Idle,
    /// Ranks wait for something that never comes, as at an earlier look.
    Deadlocked(Deadlock),
    /// The same, unless the doubt applies.
    Suspected(Deadlock, Doubt),
    /// All ranks have ended.
    Terminated,
}

/// Why ranks that seem deadlocked may continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// One of them polls, and may be waiting for something else as well.
    Polling,
    /// Sends to other nodes may just be slow.
    Slow,
}

/// Progress of MPI_Init on the visible nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Initialised {
    /// Processes past MPI_Init, including those that have ended.
    pub past: u32,
    /// Processes in MPI_Init.
    pub within: u32,
    /// Ranks of the job, including those not visible; `None` until a process is past MPI_Init.
    pub size: Option<u32>,
}

impl Initialised {
    /// Whether no visible process is in MPI_Init, and at least one was: those on other nodes are in
    /// the same MPI_Init, and may still be leaving it.
    pub fn all(&self) -> bool {
        self.past > 0 && self.within == 0
    }
}

/// One rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankLook {
    /// Its rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// Its process.
    pub pid: u32,
    /// Its host.
    pub host: String,
    /// Whether the process has ended.
    pub gone: bool,
    /// Whether it is stopped by a signal.
    pub stopped: bool,
    /// CPU time since the previous look, in steps of 10 ms; `None` if unknown.
    pub cpu: Option<Duration>,
    /// How long it has been observed without any move.
    pub still: Duration,
    /// The content of its page.
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
    /// The deadlock of this look that an earlier one showed as well.
    pub fn deadlock(&self) -> Option<&Deadlock> {
        match &self.job {
            Job::Deadlocked(deadlock) => Some(deadlock),
            _ => None,
        }
    }

    /// Ranks that seem deadlocked, as at an earlier look, and the doubt.
    pub fn suspicion(&self) -> Option<(&Deadlock, Doubt)> {
        match &self.job {
            Job::Suspected(deadlock, doubt) => Some((deadlock, *doubt)),
            _ => None,
        }
    }

    /// Ranks that are or seem deadlocked, as at an earlier look.
    pub fn stuck(&self) -> Option<&Deadlock> {
        let suspected = || self.suspicion().map(|(deadlock, _)| deadlock);
        self.deadlock().or_else(suspected)
    }

    /// Ranks that are or seem deadlocked, by this look alone.
    pub fn shown(&self) -> Option<&Deadlock> {
        self.verdict.as_ref()?.state.dead()
    }
}
