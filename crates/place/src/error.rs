//! Why there is no placement.

use thiserror::Error;

/// Why a program cannot be placed. Fits "failed to ...".
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// Nothing to put ranks on.
    #[error("place {ranks} ranks: no node is free")]
    NoNodes {
        /// Ranks of the program.
        ranks: u32,
    },
    /// A node of which nobody told how many cores it has.
    #[error("place ranks on {node}: it is not known how many cores it has; give --cores")]
    UnknownCores {
        /// Its name.
        node: String,
    },
    /// All cores together are too few.
    #[error("place {ranks} ranks: the {nodes} nodes that it may have are of {cores} cores in all")]
    TooFewCores {
        /// Ranks of the program.
        ranks: u32,
        /// Nodes that it may have.
        nodes: usize,
        /// Their cores.
        cores: u64,
    },
    /// Nodes in several parts, none of which is large enough.
    #[error(
        "place {ranks} ranks: the nodes are in {parts} parts that nothing joins, and the largest has {cores} cores in all"
    )]
    Parted {
        /// Ranks of the program.
        ranks: u32,
        /// Parts with nodes that it may have.
        parts: usize,
        /// Cores of the largest one.
        cores: u64,
    },
    /// No number of ranks per node fits, although there are cores enough.
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
        /// Nodes with that many cores, or as many as may be used.
        nodes: usize,
        /// Parts of the network that nothing joins; the nodes are of one of them.
        parts: usize,
    },
    /// No such node.
    #[error("find node {index}: there are {count}")]
    NoSuchNode {
        /// The index that was given.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// A program without ranks, or 0 ranks per node.
    #[error("place {what}")]
    Nothing {
        /// What was asked for.
        what: &'static str,
    },
    /// More assignments than the caller lets be tried.
    #[error("try every placement: there are more than {limit}")]
    TooMany {
        /// The limit.
        limit: u64,
    },
    /// A mapping that is none.
    #[error("read a Scotch mapping: line {line}: {why}")]
    Mapping {
        /// Line, from 1.
        line: usize,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A mapping of another program.
    #[error("read a mapping: it is of {there} ranks and not of {wanted}")]
    OtherRanks {
        /// Ranks that it has.
        there: usize,
        /// Ranks of the program.
        wanted: u64,
    },
    /// A mapping to other nodes.
    #[error("read a mapping: rank {rank} is on node {node} of {nodes}")]
    OtherNode {
        /// The rank.
        rank: u32,
        /// Its node, from 0.
        node: u32,
        /// Nodes that there are.
        nodes: usize,
    },
    /// A mapping that piles up ranks.
    #[error("read a mapping: {ranks} ranks are on node {node}, which has {slots} slots")]
    Unbalanced {
        /// The node, from 0.
        node: u32,
        /// Its ranks.
        ranks: u32,
        /// Ranks that a node may have.
        slots: u32,
    },
    /// Nodes that nothing joins, or places that do not fit the program.
    #[error(transparent)]
    Network(#[from] idlewave_network::NetworkError),
}

fn of_one(parts: usize) -> String {
    match parts {
        0 | 1 => String::new(),
        _ => format!(
            ", as only one of the {parts} parts of the network is used, which nothing joins"
        ),
    }
}
