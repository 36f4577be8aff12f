//! The data behind a calibration's page, filled in by the code that measures.

use idlewave_run::findings::Estimate;
use serde::{Deserialize, Serialize};

/// A calibration: everything its page shows. Estimates are medians over rounds, with intervals from
/// resampling the rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibrationSheet {
    /// What was calibrated, in one line: "between node1 and node2, 4 ranks on each".
    pub what: String,
    /// Nodes, library and time in words, one line each.
    pub details: Vec<String>,
    /// What was left out, one line each.
    pub notes: Vec<String>,
    /// What makes the parameters doubtful, one line each.
    pub warnings: Vec<String>,
    /// The command line.
    pub command: Vec<String>,
    /// The version of idlewave that measured.
    pub idlewave: String,
    /// Seed of the intervals.
    pub seed: u64,
    /// Typical error of the model: standard deviation of the relative residuals of long messages.
    /// `None` if none were measured.
    pub misfit: Option<TypicalMisfit>,
    /// The fitted parameters.
    pub parameters: Vec<CalibratedParameter>,
    /// Ping-pongs.
    pub ping_pongs: Vec<PingPongPoint>,
    /// Pairs that send simultaneously.
    pub streams: Vec<StreamPoint>,
    /// All-to-all exchanges.
    pub all_to_all: Vec<AllToAllPoint>,
    /// Slow-down of computation that shares memory.
    pub slow_down: Vec<SlowDownPoint>,
}

/// Unit of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParameterUnit {
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes per second.
    BytesPerSecond,
    /// Bytes.
    Bytes,
    /// A factor.
    Factor,
}

/// How far off the model is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TypicalMisfit {
    /// Which messages: "between nodes".
    pub of: String,
    /// Share of the time, at least 0.
    pub value: f64,
}

/// A parameter of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibratedParameter {
    /// In words.
    pub name: String,
    /// Unit of the value.
    pub unit: ParameterUnit,
    /// The value with its interval.
    pub value: Estimate,
    /// Whether the value is assumed because no measurement determines it.
    pub assumed: bool,
}

/// One message length of the ping-pong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PingPongPoint {
    /// Where: "between nodes". Points with the same `way` form one curve.
    pub way: String,
    /// Length of the message, bytes.
    pub bytes: u64,
    /// Half a round trip, nanoseconds.
    pub time_ns: Estimate,
    /// The model's value, nanoseconds.
    pub model_ns: Option<f64>,
}

/// Several pairs that send simultaneously.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamPoint {
    /// Where: "between nodes".
    pub way: String,
    /// Number of pairs, at least 1.
    pub pairs: u32,
    /// Whether both ranks of a pair send.
    pub both_ways: bool,
    /// Length of a message, bytes.
    pub bytes: u64,
    /// Bandwidth of each pair in one direction, bytes per second.
    pub per_pair: Estimate,
    /// The model's value for it.
    pub model_per_pair: Option<f64>,
}

/// An all-to-all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AllToAllPoint {
    /// Nodes.
    pub nodes: u32,
    /// Ranks on each of them.
    pub per_node: u32,
    /// Length of the message from each rank to each other, bytes.
    pub bytes: u64,
    /// Time of one call, nanoseconds.
    pub time_ns: Estimate,
    /// The model's value, nanoseconds.
    pub model_ns: Option<f64>,
}

/// Several ranks that stream through memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowDownPoint {
    /// Ranks on one node.
    pub ranks: u32,
    /// Time of one pass on the slowest rank, nanoseconds.
    pub time_ns: Estimate,
    /// Whether there were more ranks than CPUs.
    pub shared_cpus: bool,
}
