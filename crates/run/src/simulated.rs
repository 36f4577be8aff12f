//! What a simulated run was made from: all that is needed to make it again.

use idlewave_units::{Nanos, Rank};
use serde::{Deserialize, Serialize};

/// The origin of a simulated run. Nothing in such a run was measured; times count from the begin of the simulated program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Simulated {
    /// What made it, in words: "bulk-synchronous program, noise on the wall clock".
    pub engine: String,
    /// The program, one line for each part of a step and one for what messages cost.
    pub program: Vec<String>,
    /// Steps.
    pub steps: u64,
    /// The noise model, as its file would be written (TOML).
    pub noise_model: String,
    /// Number of the repetition among those with the same seed, which is that of the manifest.
    pub replication: u32,
    /// Sources of the model that were left out, by name.
    pub without: Vec<String>,
    /// Delays that happened once.
    pub delays: Vec<SimulatedDelay>,
}

/// A delay that happened once: the rank stood still after its computation of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimulatedDelay {
    /// The rank.
    pub rank: Rank,
    /// The step, from 0.
    pub step: u64,
    /// For how long.
    pub length: Nanos,
}
