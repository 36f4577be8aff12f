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
    /// A list of ranks names one more than once.
    #[error("rank {rank} is named twice")]
    Twice {
        /// The rank.
        rank: Rank,
    },
    /// A message did not fit into the receive that it matched.
    #[error("receive a message of {} from rank {from}: there is room for {capacity} bytes", told(*length))]
    TooLong {
        /// The sender.
        from: Rank,
        /// The message's length in bytes; `None` if the library does not report it.
        length: Option<usize>,
        /// Bytes that the receive had room for.
        capacity: usize,
    },
    /// Another rank panicked or left while this one waited.
    #[error("another rank failed")]
    PeerFailed,
    /// The owner of this node's network has ended or withdrawn it.
    #[error("the network of this node is gone: its agent has ended")]
    NetworkGone,
    /// A message or an array is longer than the fabric can take.
    #[error("send {bytes} bytes in one message: the limit of MPI is {}", i32::MAX)]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// More unexpected messages have arrived than this rank keeps. None is lost, but the rank
    /// cannot go on.
    #[error("keep {bytes} bytes of messages that no receive has asked for")]
    NotReceived {
        /// Bytes kept.
        bytes: usize,
    },
    /// MPI cannot be used, or one of its calls failed.
    #[error(transparent)]
    Mpi(#[from] idlewave_mpi::MpiError),
}

fn told(length: Option<usize>) -> String {
    length.map_or_else(
        || "more bytes".to_owned(),
        |length| format!("{length} bytes"),
    )
}
