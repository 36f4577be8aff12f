//! What the page of a study of gang switching is made from: plain data, filled by whoever measured.

use serde::{Deserialize, Serialize};

/// A number over repeats.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GangNumber {
    /// The median.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
    /// Of how many.
    pub n: u64,
}

/// One case of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GangRow {
    /// What was done.
    pub label: String,
    /// Whether it is gang switching, and not what it is compared with.
    pub switched: bool,
    /// Its time over what it is compared with: 1 is as long.
    pub ratio: GangNumber,
    /// Its time, seconds.
    pub seconds: GangNumber,
    /// Its cache misses over those of the same programs alone; `None`: not measured.
    pub cache_misses: Option<GangNumber>,
}

/// Cases that are compared with one thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GangTable {
    /// Its name.
    pub name: String,
    /// What the ratio is, in words.
    pub ratio: String,
    /// Cases.
    pub rows: Vec<GangRow>,
}

/// What switches of one case cost, seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GangSwitches {
    /// Of which case.
    pub label: String,
    /// Switches.
    pub n: u64,
    /// By phase, the whole first: name, median, 0.99 quantile.
    pub phases: Vec<(String, f64, f64)>,
    /// Between the first and the last rank to go on: median, 0.99 quantile, thaws; `None`: not seen.
    pub skew: Option<(f64, f64, u64)>,
}

/// Switches by what is done with network contexts, seconds: medians, and the interval of the whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GangContexts {
    /// Size and policy.
    pub label: String,
    /// Switches.
    pub n: u64,
    /// Until nothing was under way.
    pub drain: f64,
    /// Change of the context.
    pub context: f64,
    /// All of it: median, lower and upper end of its interval.
    pub whole: (f64, f64, f64),
}

/// All numbers of one `idlewave gang study`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GangSheet {
    /// The machine in words.
    pub machine: String,
    /// What carried messages, and how often everything was run, one line each.
    pub details: Vec<String>,
    /// Each program alone: name, seconds.
    pub alone: Vec<(String, GangNumber)>,
    /// Tables.
    pub tables: Vec<GangTable>,
    /// What switches cost.
    pub switches: Vec<GangSwitches>,
    /// What is done with network contexts; empty: not measured.
    pub contexts: Vec<GangContexts>,
    /// What makes the numbers doubtful, one sentence each.
    pub warnings: Vec<String>,
    /// The command line.
    pub command: Vec<String>,
    /// Version of idlewave that measured.
    pub idlewave: String,
}
