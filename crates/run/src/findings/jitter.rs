//! What is found of a computation that all ranks repeat in every step, part of `findings.json`.

use super::Estimate;
use idlewave_units::{Nanos, Rank};
use serde::{Deserialize, Serialize};

/// How much a computation varies that every rank repeats in every step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JitterFindings {
    /// Index of the phase in the manifest.
    pub phase: u32,
    /// What is computed: "forces", "computation (barrier)", or the program's name for a region it marked.
    pub name: String,
    /// Ranks.
    pub ranks: u32,
    /// Steps that all ranks completed.
    pub steps: u64,
    /// Median of all durations.
    pub median: Nanos,
    /// The distribution without its tail; `None` with fewer than 100 durations or 5 steps, or if more than half of the durations are equal.
    pub core: Option<JitterCore>,
    /// The longest of all.
    pub slowest: JitterSlowest,
    /// Efficiency of waiting for the slowest rank after every step: sum of the steps' means over the sum of their maxima, 0..=1.
    pub efficiency: Estimate,
    /// The same at more ranks, by the core alone and by all durations measured here. The first entry has the own number of ranks.
    pub scale: Vec<JitterScale>,
    /// Distribution function of all durations: points in rising order of duration, the last one the longest.
    pub distribution: Vec<JitterPoint>,
    /// How often each rank was the slowest.
    pub slowest_counts: Vec<u64>,
    /// Ranks that were the slowest significantly more often than by chance.
    pub slow_ranks: Vec<Rank>,
    /// Mean number of successive steps with the same slowest rank.
    pub run_length: f64,
    /// The same if steps did not depend on each other.
    pub run_length_by_chance: f64,
    /// Longest stretch of steps with the same slowest rank.
    pub longest_run: u64,
    /// Which rank was the slowest when.
    pub map: JitterMap,
    /// What took time from the slowest rank in the steps beyond the outlier limit, most time first; index into the `sources`
    /// of the findings. Empty where nothing was recorded of who had the CPUs.
    pub culprits: Vec<JitterCulprit>,
}

/// A Gaussian core: below a limit, durations are distributed as (1 - tail) times a Gaussian.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JitterCore {
    /// Mean, in nanoseconds.
    pub mean: Estimate,
    /// Standard deviation, in nanoseconds.
    pub deviation: Estimate,
    /// Share of the durations that are not of the core, 0..=1.
    pub tail: Estimate,
    /// Largest distance between measured and fitted distribution function, 0..=1: from a few per cent on the core is no Gaussian.
    pub misfit: f64,
    /// Outliers are farther from the mean than this many standard deviations.
    pub outlier_z: f64,
    /// The same as a duration.
    pub outlier_from: Nanos,
    /// Outliers.
    pub outliers: u64,
    /// Efficiency without the outliers, 0..=1.
    pub efficiency_without_outliers: f64,
    /// Part of the loss of efficiency that is not there without the outliers, 0..=1; `None` if nothing is lost.
    pub outlier_share: Option<f64>,
}

/// The longest duration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JitterSlowest {
    /// Its length.
    pub duration: Nanos,
    /// Rank.
    pub rank: Rank,
    /// Step.
    pub step: u64,
    /// Begin.
    pub begin_ns: u64,
    /// Distance from the core's mean in its standard deviations; `None` without a core.
    pub z: Option<f64>,
}

/// Efficiency of a number of ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JitterScale {
    /// Ranks.
    pub ranks: u64,
    /// If durations were those of the core alone, a Gaussian: 0..=1. `None` without a core.
    pub gaussian: Option<f64>,
    /// If all ranks varied as those measured, independently: 0..=1. `None` where the measurement is too short to say.
    pub measured: Option<f64>,
}

/// A point of a distribution function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JitterPoint {
    /// Duration.
    pub duration: Nanos,
    /// Durations up to this one.
    pub count: u64,
    /// Share of durations up to this one that the core alone has, 0..=1; `None` without a core.
    pub fitted: Option<f64>,
}

/// The slowest rank over ranks and steps, in at most 200 by 200 cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JitterMap {
    /// Steps in a column; fewer in the last one.
    pub steps_per_column: u64,
    /// Ranks in a row; fewer in the last one.
    pub ranks_per_row: u32,
    /// Column, row, and in how many steps of the column the slowest rank was one of the row; cells with none are left out.
    pub cells: Vec<(u32, u32, u64)>,
}

/// What took time from the slowest ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JitterCulprit {
    /// Index into the `sources` of the findings.
    pub source: u32,
    /// Time that it took in the outliers.
    pub time: Nanos,
    /// Outliers in which it took most.
    pub steps: u64,
}
