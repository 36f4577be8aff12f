//! Why a gang cannot be placed.

use crate::GangId;
use idlewave_units::NodeId;
use thiserror::Error;

/// Why a gang cannot enter or leave the matrix. Fits "failed to ...".
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MatrixError {
    /// Its number is already used.
    #[error("place gang {0}: it is already in the matrix")]
    Present(GangId),
    /// It is not in the matrix.
    #[error("remove gang {0}: it is not in the matrix")]
    Absent(GangId),
    /// It requests no slots.
    #[error("place gang {0}: it requests no slots")]
    Empty(GangId),
    /// A node named twice.
    #[error("place gang {gang}: node {node} is named twice")]
    Twice {
        /// The gang.
        gang: GangId,
        /// The node.
        node: NodeId,
    },
    /// A node that does not exist.
    #[error("place gang {gang}: node {node} is not one of the {nodes} nodes")]
    NoSuchNode {
        /// The gang.
        gang: GangId,
        /// The node.
        node: NodeId,
        /// Nodes of the matrix.
        nodes: usize,
    },
    /// A node with fewer slots than ranks.
    #[error("place gang {gang}: {ranks} ranks on node {node}, which has {slots} slots")]
    TooFewSlots {
        /// The gang.
        gang: GangId,
        /// The node.
        node: NodeId,
        /// Ranks requested there.
        ranks: u32,
        /// Slots of the node.
        slots: u32,
    },
    /// Too few nodes with enough slots, even if all were free.
    #[error(
        "place gang {gang}: it needs {wanted} nodes with {ranks} slots each, and only {nodes} have as many"
    )]
    TooFewNodes {
        /// The gang.
        gang: GangId,
        /// Nodes requested.
        wanted: u32,
        /// Ranks requested on each.
        ranks: u32,
        /// Nodes with as many slots.
        nodes: usize,
    },
    /// All rows are taken, and no more are allowed.
    #[error("place gang {gang}: all {rows} rows are full; allow more rows, or wait")]
    Full {
        /// The gang.
        gang: GangId,
        /// Rows allowed.
        rows: usize,
    },
}
