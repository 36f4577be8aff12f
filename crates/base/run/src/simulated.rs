//! The origin of a simulated run: everything needed to repeat the simulation.

use idlewave_units::{Nanos, Rank};
use serde::{Deserialize, Serialize};

/// The origin of a simulated run. Nothing in such a run was measured; times count from the start of
/// the simulated program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Simulated {
    /// The engine, in words: "bulk-synchronous program, noise on the wall clock".
    pub engine: String,
    /// The program: one line per part of a step, and one for the cost of messages.
    pub program: Vec<String>,
    /// Steps.
    pub steps: u64,
    /// The noise model, as its file would be written (TOML).
    pub noise_model: String,
    /// Number of the replication among those with the seed in the manifest.
    pub replication: u32,
    /// Names of the sources left out of the model.
    pub without: Vec<String>,
    /// One-off delays.
    pub delays: Vec<SimulatedDelay>,
}

/// A one-off delay: the rank stalled after its computation of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimulatedDelay {
    /// The rank.
    pub rank: Rank,
    /// The step, from 0.
    pub step: u64,
    /// Its length.
    pub length: Nanos,
}
