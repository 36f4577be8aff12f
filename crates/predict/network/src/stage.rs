//! The stage of a replay: resources, the path of each message through them, and the speed of ranks.

use crate::maxmin::Use;
use crate::program::Program;

/// The path of messages from one place to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// Resources that a flow on it uses.
    pub uses: Vec<Use>,
    /// Bandwidth of one message, bytes per second, above 0.
    pub limit: f64,
    /// Nanoseconds from the end of the sender's overhead to the first byte at the receiver.
    pub latency_ns: u64,
}

/// The stage of a replay: resources, the path of each message, and the speed of ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Bytes per second of each resource, above 0.
    pub capacity: Vec<f64>,
    /// All paths of messages.
    pub ways: Vec<Way>,
    /// The path of each message of the program, by its index.
    pub way_of_message: Vec<u32>,
    /// How much longer each rank computes than in the measurement.
    pub slow_down: Vec<f64>,
    /// Ranks on each node in the measurement of the program's computation, at least 1.
    pub measured_with: u32,
    /// CPU time for each end of a message, nanoseconds.
    pub overhead_ns: u64,
    /// Eager limit: longer messages wait for their receive.
    pub eager_limit: u64,
    /// A message may end together with another one if at most this share of it is left; 0 for exact
    /// times. No transfer is shortened by more.
    pub slack: f64,
}

impl Stage {
    /// Bytes that the messages of a program move over each resource.
    pub fn loads(&self, program: &Program) -> Vec<f64> {
        let mut loads = vec![0.0; self.capacity.len()];
        for (message, &way) in program.messages().iter().zip(&self.way_of_message) {
            for one in &self.ways[way as usize].uses {
                loads[one.resource as usize] += one.share * message.bytes as f64;
            }
        }
        loads
    }
}
