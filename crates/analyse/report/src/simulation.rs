//! What the page of a simulation is made from: plain data, filled by whoever asked the simulation.

use idlewave_run::SourceKind;
use idlewave_run::findings::Estimate;
use serde::{Deserialize, Serialize};

/// The answers of one `idlewave simulate`: everything that its page shows. Estimates are with intervals over replications.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulationSheet {
    /// What was simulated, one line: "nearest neighbours, 1 KiB messages".
    pub what: String,
    /// Program, costs and noise in words, one line each.
    pub details: Vec<String>,
    /// The command line.
    pub command: Vec<String>,
    /// Version of idlewave that simulated.
    pub idlewave: String,
    /// Seed of everything random.
    pub seed: u64,
    /// The answers, one for each point, in any order.
    pub points: Vec<SimulationPoint>,
    /// What the finish time of one point was made of; `None` if it was not followed back.
    pub path: Option<SimulatedPath>,
}

/// The answer for one number of ranks, layout and granularity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulationPoint {
    /// How ranks wait for each other: "1D", "2D", "3D", or the name of a collective. Points of one layout make one curve.
    pub layout: String,
    /// Ranks, from 1 on.
    pub ranks: u64,
    /// Computation of each rank in each step, nanoseconds.
    pub granularity_ns: u64,
    /// Mean undisturbed step, nanoseconds.
    pub quiet_step_ns: f64,
    /// Mean step over the undisturbed one, less 1.
    pub slowdown: Estimate,
    /// Slow-down over the share that the noise takes from a rank alone: how often the same noise is paid for.
    /// `None` without noise.
    pub amplification: Option<Estimate>,
    /// What goes away without one source, most first; empty where it was not asked for.
    pub without: Vec<SourceCost>,
    /// Whether the interval is as narrow as was asked for.
    pub precise: bool,
    /// Whether steps still became longer while they were averaged, so that the slow-down is more than this.
    pub still_rises: bool,
}

/// What leaving out one source, or several under one name, brings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceCost {
    /// As it was asked for.
    pub name: String,
    /// Slow-down that is left.
    pub left: Estimate,
    /// Slow-down that goes away, from pairs under the same random numbers.
    pub saved: Estimate,
}

/// The critical path back from the last finish. The shares of work, communication and all sources add up to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulatedPath {
    /// Index of its point in `points`.
    pub point: usize,
    /// Undisturbed computation, share of the finish time, 0..=1.
    pub work: Estimate,
    /// Messages, likewise.
    pub communication: Estimate,
    /// Noise by source, most first.
    pub noise: Vec<PathSource>,
}

/// A source on the critical path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathSource {
    /// Class; `None` for delays that happen once.
    pub kind: Option<SourceKind>,
    /// Name.
    pub name: String,
    /// Share of the finish time, 0..=1.
    pub share: Estimate,
}
