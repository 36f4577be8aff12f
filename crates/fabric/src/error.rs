//! What can go wrong between ranks.

use idlewave_units::Rank;

/// Why a message could not be carried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FabricError {
    /// There is no such rank.
    #[error("rank {rank} does not exist among {size} ranks")]
    NoSuchRank {
        /// The rank asked for.
        rank: Rank,
        /// Number of ranks.
        size: u32,
    },
    /// A message did not fit into the receive that it matched.
    #[error(
        "a message of {length} bytes from rank {from} does not fit into a receive of {capacity} bytes"
    )]
    TooLong {
        /// The sender.
        from: Rank,
        /// Its length.
        length: usize,
        /// What the receive had room for.
        capacity: usize,
    },
    /// Another rank panicked or left while this one waited.
    #[error("another rank failed")]
    PeerFailed,
}
