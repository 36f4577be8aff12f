//! What a calibration measured: times of all repetitions, as they were taken.

use crate::NetworkError;
use idlewave_units::Bytes;
use serde::{Deserialize, Serialize};

/// Where two ranks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distance {
    /// On one node.
    Inside,
    /// On two nodes that one switch joins, as far as was told.
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

/// What was done in a repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Probe {
    /// One message back and forth, `rounds` times. The time is half a round trip, the mean over the rounds.
    PingPong {
        /// Where.
        way: Distance,
        /// Length of the message.
        bytes: u64,
        /// Round trips of a repetition, from 1.
        rounds: u64,
    },
    /// So many pairs at the same time; each sends `messages` messages. One way, the time is from the first send to the empty
    /// message with which the receiver acknowledges the last one, on the sender. Both ways, it is until a rank has sent and received all.
    Stream {
        /// Where.
        way: Distance,
        /// Pairs of ranks, from 1.
        pairs: u32,
        /// Whether both ranks of a pair send.
        both_ways: bool,
        /// Length of a message.
        bytes: u64,
        /// Messages of a pair in each direction, from 1.
        messages: u64,
    },
    /// Every rank sends a message to every other one, `calls` times. The time is that of one call.
    AllToAll {
        /// Nodes, from 1.
        nodes: u32,
        /// Ranks on each of them, from 1.
        per_node: u32,
        /// Length of the message from each rank to each other.
        bytes: u64,
        /// Calls of a repetition, from 1.
        calls: u64,
    },
    /// So many ranks of a node stream through arrays of their own, `passes` times. The time is that of one pass.
    Memory {
        /// Ranks, from 1.
        ranks: u32,
        /// Length of the arrays of a rank together.
        bytes: u64,
        /// Passes of a repetition, from 1.
        passes: u64,
    },
}

impl Probe {
    /// Length of a message, or of the arrays of a rank.
    pub fn bytes(&self) -> u64 {
        match self {
            Probe::PingPong { bytes, .. }
            | Probe::Stream { bytes, .. }
            | Probe::AllToAll { bytes, .. }
            | Probe::Memory { bytes, .. } => *bytes,
        }
    }

    /// In words, for people.
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
                "all-to-all of {} on {nodes} x {per_node} ranks",
                size(bytes)
            ),
            Probe::Memory { ranks: by, .. } => {
                format!("streaming through memory by {}", ranks(by))
            }
        }
    }
}

/// A number of ranks in words.
pub(super) fn ranks(count: u32) -> String {
    match count {
        1 => "1 rank".to_owned(),
        _ => format!("{count} ranks"),
    }
}

/// A point with its repetitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SamplePoint {
    /// What was done.
    pub probe: Probe,
    /// Seconds of each repetition in their order, of the slowest rank.
    pub seconds: Vec<f64>,
    /// The same of the fastest rank: of pairs that share fairly they are nearly the same.
    pub fastest_seconds: Vec<f64>,
}

/// All that a calibration measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibrationSamples {
    /// Version of idlewave that measured.
    pub idlewave: String,
    /// What carried the messages, for people.
    pub fabric: String,
    /// Host names of all nodes.
    pub nodes: Vec<String>,
    /// Ranks that took part on each node.
    pub ranks_per_node: u32,
    /// CPUs that the ranks of a node may use together, of the node with the fewest.
    pub cpus_per_node: u32,
    /// Time that was asked for, seconds.
    pub budget_seconds: f64,
    /// Time that it took, seconds.
    pub seconds: f64,
    /// Whether it was ended on request.
    pub interrupted: bool,
    /// The points.
    pub points: Vec<SamplePoint>,
    /// What was left out or made smaller, and why; one line each.
    pub notes: Vec<String>,
}

/// More repetitions of a point than any calibration has.
const MOST_REPETITIONS: usize = 100_000;

impl CalibrationSamples {
    /// Whether the ranks of a node are more than its CPUs: they wait for CPUs then, which is no property of the network.
    pub fn shared_cpus(&self) -> bool {
        self.ranks_per_node > self.cpus_per_node
    }

    /// Most repetitions that a point has.
    pub fn repetitions(&self) -> usize {
        let lengths = self.points.iter().map(|p| p.seconds.len());
        lengths.max().unwrap_or(0)
    }

    /// Checks what a file may have wrong.
    ///
    /// # Errors
    /// The first point that cannot have been measured, by its number.
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
                let why = format!("point {i} has counts or times that cannot be");
                return Err(NetworkError::Samples(why));
            }
        }
        Ok(())
    }
}
