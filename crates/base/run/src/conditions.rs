//! Under which conditions CPUs were measured, other than the usual ones.

use idlewave_units::Nanos;
use serde::{Deserialize, Serialize};

/// Conditions of a measurement of CPUs by themselves; usually all CPUs measure at once, under the
/// ordinary policy, and nothing else is started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    /// Whether one CPU measured after the other.
    pub one_at_a_time: bool,
    /// What idlewave itself ran on the CPUs that did not measure.
    pub neighbours: Vec<Neighbour>,
    /// The real-time policy of the measuring threads; `None` if they had the ordinary one.
    pub realtime: Option<Realtime>,
}

/// A load that idlewave runs beside a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Neighbour {
    /// Computes.
    Cpu,
    /// Streams through arrays that are larger than the caches.
    Memory,
    /// Writes a file and waits until it is on the disk, again and again.
    Io,
}

impl Neighbour {
    /// Its name, as in the option.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Io => "io",
        }
    }
}

/// The policy SCHED_FIFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Realtime {
    /// Priority, 1 to 99.
    pub priority: u8,
    /// What the kernel keeps for ordinary threads; `None` if nothing, or if that is not known.
    pub reserve: Option<Reserve>,
}

/// The time of a CPU that real-time threads do not get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserve {
    /// This much of every period.
    pub time: Nanos,
    /// The period.
    pub period: Nanos,
    /// How the kernel keeps it.
    pub by: ReservedBy,
}

/// How the kernel keeps time for ordinary threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReservedBy {
    /// It stops real-time threads for the rest of the period, even if nobody else wants the CPU
    /// (`sched_rt_runtime_us`, before Linux 6.12).
    Throttling,
    /// It lets ordinary threads that have waited run for the time (the fair server, since Linux
    /// 6.12).
    FairServer,
}
