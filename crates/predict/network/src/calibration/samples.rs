//! Raw measurements of a calibration: the times of all repetitions.

use crate::NetworkError;
use idlewave_units::Bytes;
use idlewave_units::counted;
use serde::{Deserialize, Serialize};

/// Distance of two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distance {
    /// On one node.
    Inside,
    /// On two nodes below one switch, as far as known.
    Outside,
    /// On two nodes below different leaf switches.
    Across,
}

impl Distance {
    /// In words: "inside a node".
    pub const fn words(self) -> &'static str {
        match self {
            Distance::Inside => "inside a node",
            Distance::Outside => "between nodes",
            Distance::Across => "across leaves",
        }
    }
}

/// The measurement in a repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Probe {
    /// One message back and forth, `rounds` times. The time is half a round trip, the mean over the
    /// rounds.
    PingPong {
        /// Distance.
        way: Distance,
        /// Length of the message.
        bytes: u64,
        /// Round trips per repetition, at least 1.
        rounds: u64,
    },
    /// `pairs` pairs at the same time, each sending `messages` messages. One way, the sender
    /// measures from its first send to the receiver's empty acknowledgement of the last message.
    /// Both ways, a rank measures until it has sent and received all messages.
    Stream {
        /// Distance.
        way: Distance,
        /// Pairs of ranks, at least 1.
        pairs: u32,
        /// Whether both ranks of a pair send.
        both_ways: bool,
        /// Length of a message.
        bytes: u64,
        /// Messages of a pair in each direction, at least 1.
        messages: u64,
    },
    /// Every rank sends a message to every other one, `calls` times. The time is that of one call.
    AllToAll {
        /// Nodes, at least 1.
        nodes: u32,
        /// Ranks per node, at least 1.
        per_node: u32,
        /// Length of the message between each two ranks.
        bytes: u64,
        /// Calls per repetition, at least 1.
        calls: u64,
    },
    /// `ranks` ranks of a node stream through their own arrays, `passes` times. The time is that of
    /// one pass.
    Memory {
        /// Ranks, at least 1.
        ranks: u32,
        /// Total length of a rank's arrays.
        bytes: u64,
        /// Passes per repetition, at least 1.
        passes: u64,
    },
}

impl Probe {
    /// Length of a message, or of a rank's arrays.
    pub fn bytes(&self) -> u64 {
        match self {
            Probe::PingPong { bytes, .. }
            | Probe::Stream { bytes, .. }
            | Probe::AllToAll { bytes, .. }
            | Probe::Memory { bytes, .. } => *bytes,
        }
    }

    /// In words, for display.
    pub fn words(&self) -> String {
        let size = |bytes| Bytes::new(bytes).exact_text();
        match *self {
            Probe::PingPong { way, bytes, .. } => {
                format!("ping-pong of {} {}", size(bytes), way.words())
            }
            Probe::Stream {
                way,
                pairs,
                both_ways,
                bytes,
                ..
            } => {
                let ways = if both_ways { "both ways" } else { "one way" };
                let noun = if pairs == 1 { "pair" } else { "pairs" };
                format!("{pairs} {noun} {ways}, {} {}", size(bytes), way.words())
            }
            Probe::AllToAll {
                nodes,
                per_node,
                bytes,
                ..
            } => format!(
                "all-to-all of {} on {nodes} x {per_node}",
                size(bytes),
                per_node = counted(per_node, "rank")
            ),
            Probe::Memory { ranks: by, .. } => {
                format!("streaming through memory by {}", ranks(by))
            }
        }
    }
}

/// A rank count in words.
pub(super) fn ranks(count: u32) -> String {
    match count {
        1 => "1 rank".to_owned(),
        _ => counted(count, "rank"),
    }
}

/// A point with its repetitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SamplePoint {
    /// The measurement.
    pub probe: Probe,
    /// Seconds of each repetition in order, of the slowest rank.
    pub seconds: Vec<f64>,
    /// The same for the fastest rank; nearly equal for pairs that share fairly.
    pub fastest_seconds: Vec<f64>,
}

/// All measurements of a calibration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibrationSamples {
    /// Version of idlewave that measured.
    pub idlewave: String,
    /// The transport of the messages, for display.
    pub fabric: String,
    /// Host names of all nodes.
    pub nodes: Vec<String>,
    /// Ranks that took part on each node.
    pub ranks_per_node: u32,
    /// CPUs available to the ranks of a node together, on the node with the fewest.
    pub cpus_per_node: u32,
    /// Requested time, seconds.
    pub budget_seconds: f64,
    /// Time taken, seconds.
    pub seconds: f64,
    /// Whether it was interrupted.
    pub interrupted: bool,
    /// The points.
    pub points: Vec<SamplePoint>,
    /// What was left out or reduced, and why; one line each.
    pub notes: Vec<String>,
}

/// More repetitions than any calibration has.
const MOST_REPETITIONS: usize = 100_000;

impl CalibrationSamples {
    /// Whether a node has more ranks than CPUs: then they wait for CPUs, which is not a property of
    /// the network.
    pub fn shared_cpus(&self) -> bool {
        self.ranks_per_node > self.cpus_per_node
    }

    /// Whether messages over a distance were measured.
    pub(super) fn cover(&self, wanted: Distance) -> bool {
        self.points
            .iter()
            .any(|p| matches!(p.probe, Probe::PingPong { way, .. } if way == wanted))
    }

    /// Largest number of repetitions of a point.
    pub fn repetitions(&self) -> usize {
        let lengths = self.points.iter().map(|p| p.seconds.len());
        lengths.max().unwrap_or(0)
    }

    /// Validates samples from a file.
    ///
    /// # Errors
    /// The first impossible point, by number.
    pub fn check(&self) -> Result<(), NetworkError> {
        for (i, point) in self.points.iter().enumerate() {
            let counts: [u64; 2] = match point.probe {
                Probe::PingPong { rounds, .. } => [rounds, 1],
                Probe::Stream {
                    pairs, messages, ..
                } => [u64::from(pairs), messages],
                Probe::AllToAll {
                    nodes,
                    per_node,
                    calls,
                    ..
                } => [u64::from(nodes) * u64::from(per_node), calls],
                Probe::Memory { ranks, passes, .. } => [u64::from(ranks), passes],
            };
            let times = point.seconds.iter().chain(&point.fastest_seconds);
            let sound = times.clone().all(|t| t.is_finite() && *t > 0.0)
                && point.seconds.len() == point.fastest_seconds.len()
                && (1..=MOST_REPETITIONS).contains(&point.seconds.len())
                && counts.iter().all(|&count| (1..1 << 40).contains(&count));
            if !sound {
                let why = format!("point {i} has impossible counts or times");
                return Err(NetworkError::Samples(why));
            }
        }
        Ok(())
    }
}
