//! The data behind the page of a gang-switching study, filled in by the code that measures.

use serde::{Deserialize, Serialize};

/// A number measured in several repeats.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GangNumber {
    /// The median.
    pub median: f64,
    /// Lower end of its 95 % interval; the least of fewer than 6 repeats, and of several programs.
    pub low: f64,
    /// Upper end, or the most.
    pub high: f64,
    /// Number of values.
    pub n: u64,
}

/// One case of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GangRow {
    /// What was done.
    pub label: String,
    /// Whether this is gang switching rather than an alternative to it.
    pub switched: bool,
    /// Its time over that of the reference; 1 is equal.
    pub ratio: GangNumber,
    /// Its time, seconds.
    pub seconds: GangNumber,
    /// Its cache misses over those of the same programs alone; `None` if not measured.
    pub cache_misses: Option<GangNumber>,
    /// Time in switches over the reference; `None` if not measured.
    pub switching: Option<GangNumber>,
    /// CPU time of its ranks over that of the same programs alone; `None` if not measured.
    pub cpu_time: Option<GangNumber>,
}

/// Cases that share a reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GangTable {
    /// Name of the table.
    pub name: String,
    /// What the ratio means, in words.
    pub ratio: String,
    /// Cases.
    pub rows: Vec<GangRow>,
}

/// What the switches of one case cost, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GangSwitches {
    /// The case.
    pub label: String,
    /// Number of switches.
    pub n: u64,
    /// By phase, the total first: name, median, 0.99 quantile.
    pub phases: Vec<(String, f64, f64)>,
    /// Time between the first and the last rank to resume: median, 0.99 quantile, number of thaws;
    /// `None` if not seen.
    pub skew: Option<(f64, f64, u64)>,
}

/// Switches under one policy for network contexts, in seconds: medians, and the interval of the
/// total.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GangContexts {
    /// Size and policy.
    pub label: String,
    /// Number of switches.
    pub n: u64,
    /// Time until nothing was in flight.
    pub drain: f64,
    /// Time to change the context.
    pub context: f64,
    /// Total: median, lower and upper end of its interval.
    pub whole: (f64, f64, f64),
}

/// All results of one `idlewave gang study`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GangSheet {
    /// The machine in words.
    pub machine: String,
    /// What carried the messages and how often everything ran, one line each.
    pub details: Vec<String>,
    /// Each program alone: name, seconds.
    pub alone: Vec<(String, GangNumber)>,
    /// Tables.
    pub tables: Vec<GangTable>,
    /// What switches cost.
    pub switches: Vec<GangSwitches>,
    /// Switches by policy for network contexts; empty if not measured.
    pub contexts: Vec<GangContexts>,
    /// What makes the numbers doubtful, one sentence each.
    pub warnings: Vec<String>,
    /// The command line.
    pub command: Vec<String>,
    /// The version of idlewave that measured.
    pub idlewave: String,
}
