//! All views by name.

use super::daemons::{Daemons, daemons};
use super::interrupts::{Interrupts, interrupts};
use super::latency::{Latency, latency};
use super::losses::Losses;
use super::matrix::{Matrix, matrix};
use super::mpi::{Mpi, mpi};
use super::processes::{Processes, processes};
use super::scope::{Filter, Scope};
use super::states::{States, states};
use super::syscalls::{Syscalls, syscalls};
use super::threads::Threads;
use super::wakeups::{Wakeups, wakeups};
use crate::ExplainError;
use idlewave_run::RunReader;
use idlewave_run::findings::Findings;
use serde::Serialize;
use std::sync::atomic::AtomicBool;

/// Which view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewKind {
    /// Every process and kernel thread.
    Processes,
    /// Every thread by CPU.
    Matrix,
    /// How long threads were running, ready and blocked.
    States,
    /// Threads that run again and again.
    Daemons,
    /// Interrupts by name and CPU, and the clock interrupt.
    Interrupts,
    /// Run-queue latency.
    Latency,
    /// Who woke the culprits.
    Wakeups,
    /// What a recorded MPI program called and sent.
    Mpi,
    /// System calls of the ranks.
    Syscalls,
    /// What was not recorded, lost, or is uncertain.
    Losses,
}

impl ViewKind {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Processes,
        Self::Matrix,
        Self::States,
        Self::Daemons,
        Self::Interrupts,
        Self::Latency,
        Self::Wakeups,
        Self::Mpi,
        Self::Syscalls,
        Self::Losses,
    ];

    /// The name on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Matrix => "matrix",
            Self::States => "states",
            Self::Daemons => "daemons",
            Self::Interrupts => "interrupts",
            Self::Latency => "latency",
            Self::Wakeups => "wakeups",
            Self::Mpi => "mpi",
            Self::Syscalls => "syscalls",
            Self::Losses => "losses",
        }
    }

    /// What it shows, for help texts.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Processes => {
                "Every process and kernel thread: CPU time, bursts, waiting, how bursts ended"
            }
            Self::Matrix => "The same by CPU: total time, average burst, number of bursts",
            Self::States => "How long threads were running, ready and blocked: histograms",
            Self::Daemons => {
                "Threads that run again and again: period, run length, time ready, cost"
            }
            Self::Interrupts => {
                "Interrupts by name and CPU; frequency and skew of the clock interrupt"
            }
            Self::Latency => "How long threads waited for a CPU, by thread and CPU",
            Self::Wakeups => "Who woke the threads that made steps late, and who woke those",
            Self::Mpi => {
                "A recorded MPI program: calls by communicator, bytes between ranks, waits"
            }
            Self::Syscalls => "System calls of ranks recorded with --syscalls: time, time on a CPU",
            Self::Losses => {
                "What was not recorded, was lost or is uncertain, and what to do about it"
            }
        }
    }

    /// The view with this name.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|kind| kind.name() == name)
    }
}

/// A view.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "view", rename_all = "snake_case")]
pub enum View {
    /// Every process and kernel thread.
    Processes(Processes),
    /// Every thread by CPU.
    Matrix(Matrix),
    /// How long threads were running, ready and blocked.
    States(States),
    /// Threads that run again and again.
    Daemons(Daemons),
    /// Interrupts by name and CPU, and the clock interrupt.
    Interrupts(Interrupts),
    /// Run-queue latency.
    Latency(Latency),
    /// Who woke the culprits.
    Wakeups(Wakeups),
    /// What a recorded MPI program called and sent.
    Mpi(Mpi),
    /// System calls of the ranks.
    Syscalls(Syscalls),
    /// What was not recorded, lost, or is uncertain.
    Losses(Losses),
}

/// Computes a view of a run whose findings are known.
///
/// # Errors
/// A table cannot be read, the filter asks for what the run does not have, or `stop` became true.
pub fn view(
    run: &RunReader,
    findings: &Findings,
    kind: ViewKind,
    filter: &Filter,
    stop: &AtomicBool,
) -> Result<View, ExplainError> {
    let threads = Threads::read(run)?;
    let scope = Scope::of(filter, run.manifest(), &threads)?;
    let (threads, scope) = (&threads, &scope);
    if kind == ViewKind::Mpi && filter.cpus.is_some() {
        let why = "calls of MPI are recorded by rank, not by CPU";
        return Err(ExplainError::Filter(why.to_owned()));
    }
    if kind == ViewKind::Losses && filter.is_set() {
        let why = "what is lost or uncertain is that of the whole run";
        return Err(ExplainError::Filter(why.to_owned()));
    }
    Ok(match kind {
        ViewKind::Processes => View::Processes(processes(run, threads, scope, stop)?),
        ViewKind::Matrix => View::Matrix(matrix(run, threads, scope, stop)?),
        ViewKind::States => View::States(states(run, threads, scope, stop)?),
        ViewKind::Daemons => View::Daemons(daemons(run, threads, scope, stop)?),
        ViewKind::Interrupts => View::Interrupts(interrupts(run, scope, stop)?),
        ViewKind::Latency => View::Latency(latency(run, threads, scope, stop)?),
        ViewKind::Mpi => View::Mpi(mpi(run, findings, scope, stop)?),
        ViewKind::Syscalls => View::Syscalls(syscalls(run, threads, scope, stop)?),
        ViewKind::Losses => View::Losses(Losses::of(run.manifest(), findings)),
        ViewKind::Wakeups => View::Wakeups(wakeups(
            run,
            findings,
            scope,
            filter.process.is_some(),
            stop,
        )?),
    })
}
