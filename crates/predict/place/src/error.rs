//! Errors of placing.

use idlewave_simulate::goal::BuildError;
use idlewave_units::counted;
use thiserror::Error;

/// Why a program cannot be placed. Fits "failed to ...".
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// No node is available.
    #[error("place {ranks} ranks: no node is free")]
    NoNodes {
        /// Ranks of the program.
        ranks: u32,
    },
    /// A node with an unknown number of cores.
    #[error("place ranks on {node}: its number of cores is not known; use --cores")]
    UnknownCores {
        /// Its name.
        node: String,
    },
    /// There are too few cores in all.
    #[error("place {ranks} ranks: the {nodes} available nodes have {cores} cores in all")]
    TooFewCores {
        /// Ranks of the program.
        ranks: u32,
        /// Nodes available.
        nodes: usize,
        /// Their cores.
        cores: u64,
    },
    /// Nodes in several disconnected parts, none of which is large enough.
    #[error(
        "place {ranks} ranks: the nodes are in {parts} disconnected parts, the largest with {cores} cores in all"
    )]
    Parted {
        /// Ranks of the program.
        ranks: u32,
        /// Parts with available nodes.
        parts: usize,
        /// Cores of the largest one.
        cores: u64,
    },
    /// No rank count per node fits, although there are enough cores.
    #[error(
        "place {ranks} ranks with at most {per_node} of them per node on at most {nodes} nodes{}: \
         allow more ranks per node or more nodes",
        of_one(*parts)
    )]
    TooFewNodes {
        /// Ranks of the program.
        ranks: u32,
        /// The most ranks per node that are allowed and fit.
        per_node: u32,
        /// Nodes with that many cores, or the number allowed.
        nodes: usize,
        /// Disconnected parts of the network; the nodes are of one of them.
        parts: usize,
    },
    /// No such node.
    #[error("find node {index}: there are only {count}")]
    NoSuchNode {
        /// The given index.
        index: usize,
        /// Their number.
        count: usize,
    },
    /// A program without ranks, or 0 ranks per node.
    #[error("place {what}")]
    Nothing {
        /// What was requested.
        what: &'static str,
    },
    /// A program that takes too much memory.
    #[error("place {what}: it has {}", counted(*operations, "operation"))]
    TooLong {
        /// Its name.
        what: String,
        /// Its operations.
        operations: u64,
    },
    /// As [`TooLong`](Self::TooLong), found before all operations were counted.
    #[error(
        "place {what}: it has more than {}",
        counted(*limit, "operation")
    )]
    OverLimit {
        /// Its name.
        what: String,
        /// The most that are played.
        limit: u64,
    },
    /// A description that gives no valid schedule.
    #[error("describe {what}: {error}")]
    Description {
        /// Its name.
        what: String,
        /// The reason.
        error: BuildError,
    },
    /// More assignments than allowed.
    #[error("try every placement: there are more than {limit}")]
    TooMany {
        /// The limit.
        limit: u64,
    },
    /// An invalid mapping.
    #[error("read a Scotch mapping: line {line}: {why}")]
    Mapping {
        /// Line, from 1.
        line: usize,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A mapping for another program.
    #[error("read a mapping: it has {there} ranks instead of {wanted}")]
    OtherRanks {
        /// Its ranks.
        there: usize,
        /// Ranks of the program.
        wanted: u64,
    },
    /// A mapping to other nodes.
    #[error("read a mapping: rank {rank} is on node {node}, but there are {nodes}")]
    OtherNode {
        /// The rank.
        rank: u32,
        /// Its node, from 0.
        node: u32,
        /// Number of nodes.
        nodes: usize,
    },
    /// An unbalanced mapping.
    #[error("read a mapping: {ranks} ranks are on node {node}, which has {slots} slots")]
    Unbalanced {
        /// The node, from 0.
        node: u32,
        /// Its ranks.
        ranks: u32,
        /// Slots of the node.
        slots: u32,
    },
    /// A mapping with unknown nodes.
    #[error("place ranks as given: the network has no node {names}")]
    UnknownNodes {
        /// Their names, folded and cut.
        names: String,
    },
    /// A mapping with more ranks on a node than cores.
    #[error("place ranks as given: {ranks} ranks on {node}, which has {cores} cores")]
    Crowded {
        /// The node.
        node: String,
        /// Its ranks.
        ranks: usize,
        /// Its cores.
        cores: u32,
    },
    /// A mapping with a core that the node does not have.
    #[error("place ranks as given, {place}: the node has no such core")]
    NoCore {
        /// Node and rank.
        place: String,
    },
    /// A mapping with two ranks on one core.
    #[error("place ranks as given, core {core} of {place}: it is used by another rank")]
    SharedCore {
        /// Node and rank.
        place: String,
        /// The core.
        core: u32,
    },
    /// Nodes that are not connected, or places that do not fit the program.
    #[error(transparent)]
    Network(#[from] idlewave_network::NetworkError),
}

fn of_one(parts: usize) -> String {
    match parts {
        0 | 1 => String::new(),
        _ => format!(", as only one of the {parts} disconnected parts of the network is used"),
    }
}
