//! How the noise of a CPU depends on how many are busy.

use super::Estimate;
use idlewave_units::{Cpu, CpuSet};
use serde::{Deserialize, Serialize};

/// Detours and speed with more and more CPUs busy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadSweep {
    /// The first of the CPUs, which is busy at every point.
    pub first: Cpu,
    /// Fewest busy CPUs first.
    pub points: Vec<LoadPoint>,
    /// Median length of the first CPU's detours with all CPUs busy, nanoseconds; `None` without any.
    pub length_of_first: Option<Estimate>,
    /// The same of all other CPUs together.
    pub length_of_others: Option<Estimate>,
    /// Median length of a timer tick on the first CPU with all CPUs busy, nanoseconds; `None` without
    /// any in a kernel trace.
    #[serde(default)]
    pub tick_of_first: Option<Estimate>,
    /// The same of all other CPUs together.
    #[serde(default)]
    pub tick_of_others: Option<Estimate>,
}

/// What was seen with some CPUs busy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadPoint {
    /// How many CPUs were busy.
    pub busy: u32,
    /// Which.
    pub cpus: CpuSet,
    /// Share of the time of these CPUs that detours took, 0..=1.
    pub stolen: Estimate,
    /// Detours per second of each of them.
    pub rate: Estimate,
    /// Median length of a detour, nanoseconds; `None` without any.
    pub length: Option<Estimate>,
    /// Median length of a timer tick on the first CPU, nanoseconds; `None` without any in a kernel
    /// trace.
    #[serde(default)]
    pub tick: Option<Estimate>,
    /// Median duration of the same work on the first CPU, nanoseconds; `None` if it was not
    /// measured.
    pub work: Option<Estimate>,
}
