//! Errors in graphs of nodes and switches.

use thiserror::Error;

/// Why a topology or a route is invalid. Fits "failed to ...".
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum TopologyError {
    /// Two nodes that no path of switches connects.
    #[error("find a route from {from} to {to}: no switches connect them")]
    NoPath {
        /// Name of the node that sends.
        from: String,
        /// Name of the node that receives.
        to: String,
    },
    /// An index outside this topology.
    #[error("find {what} {index}: there are {count}")]
    NoSuch {
        /// What was looked up.
        what: &'static str,
        /// The index that was given.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// A name shared by two nodes, two switches, or a node and a switch.
    #[error("use the name {name:?}: it is given twice")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A name that is empty, too long, or has characters that some format cannot represent.
    #[error(
        "use the name {name:?}: a name has 1 to 255 characters other than spaces, control characters and ,[]=#\""
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
    /// A number that is zero or beyond its limit.
    #[error("use {count} {what}: must be {least} to {most}")]
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
    /// A dragonfly with too few global ports to connect each two groups.
    #[error(
        "connect {groups} groups with each other: {ports} global ports per group reach only {ports} others"
    )]
    GlobalPorts {
        /// Groups of the dragonfly.
        groups: u64,
        /// Global ports of one group.
        ports: u64,
    },
}
