//! What can be wrong with a graph of nodes and switches.

use thiserror::Error;

/// Why there is no such topology, or no such route. Fits "failed to ...".
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum TopologyError {
    /// Two nodes that no sequence of switches joins.
    #[error("find a way from {from} to {to}: no switches join them")]
    NoPath {
        /// Name of the node that sends.
        from: String,
        /// Name of the node that receives.
        to: String,
    },
    /// An index that is not of this topology.
    #[error("find {what} {index}: there are {count}")]
    NoSuch {
        /// What was looked for.
        what: &'static str,
        /// The index that was given.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// A name that two nodes, two switches, or a node and a switch have.
    #[error("tell two of the name {name:?} apart")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A name that is empty, too long, or has characters that no format can hold.
    #[error(
        "use the name {name:?}: a name has 1 to 255 characters and none of them is a space, a control character or one of ,[]=#\""
    )]
    Name {
        /// The name, cut.
        name: String,
    },
    /// A cable from a vertex to itself.
    #[error("join {name} with itself")]
    Loop {
        /// Name of the vertex.
        name: String,
    },
    /// A number of something that is zero or beyond what is supported.
    #[error("take {count} {what}: it must be {least} to {most}")]
    Count {
        /// What is counted.
        what: &'static str,
        /// The number that was given.
        count: u64,
        /// The least one.
        least: u64,
        /// The greatest one.
        most: u64,
    },
    /// A dragonfly with too few global ports to join each two groups.
    #[error(
        "join {groups} groups each with each other: {ports} global ports per group reach {ports} others"
    )]
    GlobalPorts {
        /// Groups of the dragonfly.
        groups: u64,
        /// Global ports of one group.
        ports: u64,
    },
}
