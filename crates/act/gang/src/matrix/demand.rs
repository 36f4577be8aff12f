//! What a gang requests, and the packing rule.

use idlewave_units::NodeId;

/// What a gang requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// This many ranks on each of these nodes.
    On(Vec<(NodeId, u32)>),
    /// This many ranks on each of any `nodes` nodes.
    Any {
        /// Nodes.
        nodes: u32,
        /// Ranks on each.
        ranks: u32,
    },
}

/// How gangs are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// The first row with room, and in it the first nodes with room.
    FirstFit,
    /// The smallest large enough aligned block of 2^k nodes; of these blocks the one with the
    /// fewest rows in use, then the first; in it the first row with room. Small gangs thus leave
    /// whole blocks to large ones. Requested nodes are used as given.
    Buddy,
}
