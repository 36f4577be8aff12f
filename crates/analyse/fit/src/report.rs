//! The report on a fit.

use idlewave_noise::{GoodnessOfFit, Scope, Together};
use idlewave_run::SourceKind;
use serde::Serialize;

/// How a model was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// What was fitted.
    pub about: String,
    /// CPUs of a node.
    pub cpus_per_node: u32,
    /// CPU time watched in nanoseconds, all CPUs together.
    pub watched_ns: u64,
    /// Sources, the one that takes most first, as in the model.
    pub sources: Vec<SourceReport>,
    /// Reasons to doubt the model, as sentences.
    pub warnings: Vec<String>,
    /// Notes on the whole model, as sentences.
    pub notes: Vec<String>,
}

/// How a source was fitted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SourceReport {
    /// Class.
    pub kind: SourceKind,
    /// Name.
    pub name: String,
    /// Only these CPUs of a node; all if `None`.
    pub cpus: Option<Vec<u32>>,
    /// What an event strikes.
    pub strikes: Scope,
    /// CPUs that are struck at the same times.
    pub together: Together,
    /// Share of its speed that a CPU keeps, 0 or more and less than 1.
    pub keeps: f64,
    /// "periodic", "poisson" or "trace".
    pub law: String,
    /// Events observed; for CPUs struck together, those of the node.
    pub events: u64,
    /// CPU time watched, nanoseconds.
    pub watched_ns: u64,
    /// Events per second of a CPU: value and 95 % interval.
    pub rate_per_s: [f64; 3],
    /// Period and jitter in nanoseconds of a periodic source.
    pub period_ns: Option<[u64; 2]>,
    /// Median length, nanoseconds.
    pub length_p50_ns: u64,
    /// 99th percentile of the length, nanoseconds.
    pub length_p99_ns: u64,
    /// The longest, nanoseconds.
    pub length_max_ns: u64,
    /// Shape of the tail with its 95 % interval, if there is one.
    pub tail_shape: Option<[f64; 3]>,
    /// Share of a CPU's time: value and 95 % interval.
    pub stolen: [f64; 3],
    /// Probability of the arrivals under their law; `None` for a trace, or with too few events.
    pub p: Option<f64>,
    /// All tests.
    pub tests: Vec<GoodnessOfFit>,
    /// Reasons for the choice of laws, as sentences without full stops.
    pub why: Vec<String>,
    /// Whether the events are too few to choose a law by evidence.
    pub few: bool,
    /// Whether a test rejected a law, or a trace was shortened.
    pub doubtful: bool,
}
