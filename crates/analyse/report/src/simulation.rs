//! The data behind a simulation's page, filled in by the code that runs the simulation.

use idlewave_run::SourceKind;
use idlewave_run::findings::Estimate;
use serde::{Deserialize, Serialize};

/// The result of one `idlewave simulate`: everything its page shows. Estimates have intervals over
/// replications.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulationSheet {
    /// What was simulated, one line: "nearest neighbours, 1 KiB messages".
    pub what: String,
    /// Program, costs and noise in words, one line each.
    pub details: Vec<String>,
    /// The command line.
    pub command: Vec<String>,
    /// The version of idlewave that simulated.
    pub idlewave: String,
    /// Seed of everything random.
    pub seed: u64,
    /// The results, one for each point, in any order.
    pub points: Vec<SimulationPoint>,
    /// What the finish time of one point consists of; `None` if it was not traced back.
    pub path: Option<SimulatedPath>,
}

/// The result for one rank count, layout and granularity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulationPoint {
    /// How ranks wait for each other: "1D", "2D", "3D", or the name of a collective. Points of one
    /// layout form one curve.
    pub layout: String,
    /// Ranks, at least 1.
    pub ranks: u64,
    /// Computation of each rank per step, nanoseconds.
    pub granularity_ns: u64,
    /// Mean undisturbed step, nanoseconds.
    pub quiet_step_ns: f64,
    /// Mean step over the undisturbed one, minus 1.
    pub slowdown: Estimate,
    /// Slow-down over the share of time that the noise takes from a single rank: how often the
    /// program pays for the same noise. `None` without noise.
    pub amplification: Option<Estimate>,
    /// What leaving out one source saves, largest first; empty if not requested.
    pub without: Vec<SourceCost>,
    /// Whether the interval is as narrow as requested.
    pub precise: bool,
    /// Whether steps were still growing while they were averaged, so that the true slow-down is
    /// larger.
    pub still_rises: bool,
}

/// What leaving out one source, or several under one name, saves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceCost {
    /// Name as requested.
    pub name: String,
    /// Remaining slow-down.
    pub left: Estimate,
    /// Slow-down saved, from pairs with the same random numbers.
    pub saved: Estimate,
}

/// The critical path, traced back from the last finish. The shares of work, communication and all
/// sources add up to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulatedPath {
    /// Index of its point in `points`.
    pub point: usize,
    /// Undisturbed computation, as a share of the finish time, 0..=1.
    pub work: Estimate,
    /// Messages, as a share of the finish time.
    pub communication: Estimate,
    /// Noise by source, largest first.
    pub noise: Vec<PathSource>,
}

/// A source on the critical path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathSource {
    /// Class; `None` for one-off delays.
    pub kind: Option<SourceKind>,
    /// Name.
    pub name: String,
    /// Share of the finish time, 0..=1.
    pub share: Estimate,
}
