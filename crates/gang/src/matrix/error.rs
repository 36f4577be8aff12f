//! Why a gang cannot be placed.

use crate::GangId;
use idlewave_units::NodeId;
use thiserror::Error;

/// Why a gang cannot enter or leave the matrix. Fits "failed to ...".
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MatrixError {
    /// Its number is taken.
    #[error("place gang {0}: it is in the matrix already")]
    Present(GangId),
    /// It has no number here.
    #[error("remove gang {0}: it is not in the matrix")]
    Absent(GangId),
    /// It asks for nothing.
    #[error("place gang {0}: it asks for no slot")]
    Empty(GangId),
    /// A node named twice.
    #[error("place gang {gang}: node {node} is named twice")]
    Twice {
        /// The gang.
        gang: GangId,
        /// The node.
        node: NodeId,
    },
    /// A node that is not there.
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
        /// Ranks wanted there.
        ranks: u32,
        /// Slots of the node.
        slots: u32,
    },
    /// Too few nodes with enough slots, even when all are free.
    #[error(
        "place gang {gang}: {wanted} nodes with {ranks} slots each are wanted, and {nodes} have as many"
    )]
    TooFewNodes {
        /// The gang.
        gang: GangId,
        /// Nodes wanted.
        wanted: u32,
        /// Ranks wanted on each.
        ranks: u32,
        /// Nodes with as many slots.
        nodes: usize,
    },
    /// All rows are taken, and no more are allowed.
    #[error("place gang {gang}: none of the {rows} rows has room; allow more rows, or wait")]
    Full {
        /// The gang.
        gang: GangId,
        /// Rows allowed.
        rows: usize,
    },
}
