//! Findings on a computation that all ranks repeat in every step, part of `findings.json`.

use super::Estimate;
use idlewave_units::{Nanos, Rank};
use serde::{Deserialize, Serialize};

/// How much a computation that every rank repeats in every step varies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JitterFindings {
    /// Index of the phase in the manifest.
    pub phase: u32,
    /// What is computed: "forces", "computation (barrier)", or the program's name for a region it
    /// marked.
    pub name: String,
    /// Ranks.
    pub ranks: u32,
    /// Steps that all ranks completed.
    pub steps: u64,
    /// Median of all durations.
    pub median: Nanos,
    /// The distribution without its tail; `None` with fewer than 100 durations or 5 steps, or if
    /// more than half of the durations are equal.
    pub core: Option<JitterCore>,
    /// The longest of all.
    pub slowest: JitterSlowest,
    /// Parallel efficiency if all ranks wait for the slowest after every step: sum of the steps'
    /// means over the sum of their maxima, 0..=1.
    pub efficiency: Estimate,
    /// The same at more ranks, from the core alone and from all measured durations. The first entry
    /// has this run's number of ranks.
    pub scale: Vec<JitterScale>,
    /// Shape of the generalised Pareto tail by which efficiencies are extrapolated: from 1/2 on its
    /// variance is infinite. `None` if none is extrapolated.
    #[serde(default)]
    pub tail_shape: Option<Estimate>,
    /// Distribution function of all durations, in rising order of duration; the last point is the
    /// longest.
    pub distribution: Vec<JitterPoint>,
    /// How often each rank was the slowest.
    pub slowest_counts: Vec<u64>,
    /// Ranks that were slowest significantly more often than chance allows.
    pub slow_ranks: Vec<Rank>,
    /// Mean number of successive steps with the same slowest rank.
    pub run_length: f64,
    /// The same, expected by chance if steps were independent.
    pub run_length_by_chance: f64,
    /// Longest stretch of steps with the same slowest rank.
    pub longest_run: u64,
    /// In which order ranks were the slowest. `None` with fewer than 64 steps or two ranks.
    #[serde(default)]
    pub order: Option<JitterOrder>,
    /// Which rank was slowest, over time.
    pub map: JitterMap,
    /// What took time from the slowest rank in outlier steps, most time first; index into the
    /// `sources` of the findings. Empty if the use of the CPUs was not recorded.
    pub culprits: Vec<JitterCulprit>,
}

/// A Gaussian core: below a limit, durations are distributed as (1 - tail) times a Gaussian.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JitterCore {
    /// Mean, in nanoseconds.
    pub mean: Estimate,
    /// Standard deviation, in nanoseconds.
    pub deviation: Estimate,
    /// Share of the durations outside the core, 0..=1.
    pub tail: Estimate,
    /// Largest distance between measured and fitted distribution function, 0..=1: above a few per
    /// cent the core is not Gaussian.
    pub misfit: f64,
    /// Outliers lie more than this many standard deviations above the mean.
    pub outlier_z: f64,
    /// The same as a duration.
    pub outlier_from: Nanos,
    /// Outliers.
    pub outliers: u64,
    /// Efficiency without the outliers, 0..=1.
    pub efficiency_without_outliers: f64,
    /// Part of the loss of efficiency that outliers cause, 0..=1; `None` if nothing is lost.
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
    /// Start.
    pub begin_ns: u64,
    /// Distance from the core's mean in its standard deviations; `None` without a core.
    pub z: Option<f64>,
}

/// Efficiency at a number of ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JitterScale {
    /// Ranks.
    pub ranks: u64,
    /// If durations followed the Gaussian core alone, 0..=1. `None` without a core.
    pub gaussian: Option<f64>,
    /// If all ranks varied like those measured, independently, 0..=1. `None` where the measurement
    /// is too short.
    pub measured: Option<f64>,
    /// The same where the measurement is too short, extrapolated by a generalised Pareto tail. The
    /// lower end is 0 if the durations do not exclude a tail without a mean.
    #[serde(default)]
    pub extrapolated: Option<Estimate>,
    /// Why there is neither of the two.
    #[serde(default)]
    pub not_extrapolated: Option<String>,
}

/// A point of a distribution function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JitterPoint {
    /// Duration.
    pub duration: Nanos,
    /// Durations up to this one.
    pub count: u64,
    /// Fitted share of durations up to this one, by the core alone, 0..=1; `None` without a core.
    pub fitted: Option<f64>,
}

/// The slowest rank over ranks and steps, in at most 200 by 200 cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JitterMap {
    /// Steps in a column; fewer in the last one.
    pub steps_per_column: u64,
    /// Ranks in a row; fewer in the last one.
    pub ranks_per_row: u32,
    /// Column, row, and the number of the column's steps in which the slowest rank was in this row;
    /// empty cells are left out.
    pub cells: Vec<(u32, u32, u64)>,
}

/// In which order ranks are the slowest: the strongest pattern of each kind, significant or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JitterOrder {
    /// Steps looked at.
    pub steps: u64,
    /// Largest lag looked at, in steps.
    pub lags: u64,
    /// Another rank, by a fixed distance. `None` with fewer than three ranks, or if one rank is
    /// always the slowest.
    pub moves: Option<JitterPattern>,
    /// The same rank again.
    pub returns: JitterPattern,
}

/// A lag and a shift of the slowest rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JitterPattern {
    /// Steps from one to the next.
    pub lag: u64,
    /// Ranks from one to the next, negative towards smaller ranks; 0 for the same rank.
    pub shift: i64,
    /// Share of the steps after which the slowest rank is found there, 0..=1.
    pub share: Estimate,
    /// The same, if steps were independent.
    pub by_chance: f64,
    /// Probability of a pattern as strong, of any lag and shift of its kind, if there is no order.
    pub p: f64,
}

impl JitterPattern {
    /// Whether the pattern is unlikely to be chance. Two kinds are tested, so that one run of 20
    /// without any order has a significant pattern.
    pub fn is_significant(&self) -> bool {
        self.p < 0.025
    }
}

/// A source that took time from the slowest ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JitterCulprit {
    /// Index into the `sources` of the findings.
    pub source: u32,
    /// Time it took in the outliers.
    pub time: Nanos,
    /// Outliers in which it took the most time.
    pub steps: u64,
}
