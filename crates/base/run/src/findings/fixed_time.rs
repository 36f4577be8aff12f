//! How much work fits into equal times.

use super::{Estimate, Periodicity};
use crate::WorkKernel;
use idlewave_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// What the fixed time quantum showed on one CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FixedTimeFindings {
    /// Distance of the points of the clock at which a quantum ends and the next begins.
    pub interval: Nanos,
    /// Work of one unit in steps of the kernel.
    pub work_steps: u64,
    /// What a step does.
    pub kernel: WorkKernel,
    /// Size of the arrays of each CPU; `None` if the kernel has none.
    pub array: Option<Bytes>,
    /// Quanta.
    pub count: u64,
    /// Units that an undisturbed interval has room for: the rate on the fastest speed level.
    pub reference: f64,
    /// The most units that a quantum had.
    pub most: u64,
    /// Median units of a quantum.
    pub median: u64,
    /// Quanta that ended one interval or more after their point of the clock, because the last unit
    /// was interrupted for so long.
    pub overrun: u64,
    /// Share of work lost = 1 - work done / work that the time had room for, 0..=1.
    pub lost: Estimate,
    /// The most time that one quantum lost.
    pub largest: Nanos,
    /// Periods at which work is lost, strongest first.
    pub periods: Vec<Periodicity>,
    /// Work done over time, in stretches of equal length.
    pub work: Vec<WorkStretch>,
}

/// Work done in some successive quanta.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkStretch {
    /// Start, from that of the first quantum.
    pub begin: Nanos,
    /// Work done over work that the time had room for, 0 to about 1.
    pub mean: f64,
    /// The same of the quantum with the least.
    pub least: f64,
}
