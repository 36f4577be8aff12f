//! What the page of a calibration is made from: plain data, filled by whoever measured.

use idlewave_run::findings::Estimate;
use serde::{Deserialize, Serialize};

/// A calibration: everything that its page shows. Estimates are medians over rounds with intervals from resampling the rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibrationSheet {
    /// What was calibrated, one line: "between node1 and node2, 4 ranks on each".
    pub what: String,
    /// Nodes, library and time in words, one line each.
    pub details: Vec<String>,
    /// What was left out, one line each.
    pub notes: Vec<String>,
    /// What makes the parameters doubtful, one line each.
    pub warnings: Vec<String>,
    /// The command line.
    pub command: Vec<String>,
    /// Version of idlewave that measured.
    pub idlewave: String,
    /// Seed of the intervals.
    pub seed: u64,
    /// How far the model is off, typically: standard deviation of the relative residuals of long messages. `None` where none was
    /// measured.
    pub misfit: Option<TypicalMisfit>,
    /// What was fitted.
    pub parameters: Vec<CalibratedParameter>,
    /// Messages back and forth.
    pub ping_pongs: Vec<PingPongPoint>,
    /// Pairs at the same time.
    pub streams: Vec<StreamPoint>,
    /// Everybody with everybody.
    pub all_to_all: Vec<AllToAllPoint>,
    /// Computation that shares memory.
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

/// How far the model is off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TypicalMisfit {
    /// Of which messages, as in `between nodes`.
    pub of: String,
    /// As a share of the time, from 0.
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
    /// Whether it is assumed, as nothing told it.
    pub assumed: bool,
}

/// A length of the ping-pong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PingPongPoint {
    /// Where: "between nodes". Points of one way make one curve.
    pub way: String,
    /// Length of the message, bytes.
    pub bytes: u64,
    /// Half a round trip, nanoseconds.
    pub time_ns: Estimate,
    /// What the model has, nanoseconds.
    pub model_ns: Option<f64>,
}

/// So many pairs at the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamPoint {
    /// Where: "between nodes".
    pub way: String,
    /// Pairs, from 1.
    pub pairs: u32,
    /// Whether both ranks of a pair send.
    pub both_ways: bool,
    /// Length of a message, bytes.
    pub bytes: u64,
    /// Of each pair in one direction, bytes per second.
    pub per_pair: Estimate,
    /// What the model has for it.
    pub model_per_pair: Option<f64>,
}

/// An all-to-all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AllToAllPoint {
    /// Nodes.
    pub nodes: u32,
    /// Ranks on each of them.
    pub per_node: u32,
    /// Message from each rank to each other, bytes.
    pub bytes: u64,
    /// Of one call, nanoseconds.
    pub time_ns: Estimate,
    /// What the model has, nanoseconds.
    pub model_ns: Option<f64>,
}

/// So many ranks that stream through memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowDownPoint {
    /// Ranks of one node.
    pub ranks: u32,
    /// Of one pass of the slowest rank, nanoseconds.
    pub time_ns: Estimate,
    /// Whether there were more ranks than CPUs.
    pub shared_cpus: bool,
}
