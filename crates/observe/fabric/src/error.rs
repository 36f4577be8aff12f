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
        /// Its length, bytes; `None` where the library does not tell.
        length: Option<usize>,
        /// What the receive had room for.
        capacity: usize,
    },
    /// Another rank panicked or left while this one waited.
    #[error("another rank failed")]
    PeerFailed,
    /// Whoever had the network of this rank's node has ended, or has taken it away.
    #[error("the network of this node is gone: its agent has ended")]
    NetworkGone,
    /// A message or an array is longer than the fabric can take.
    #[error("send {bytes} bytes in one message: the limit of MPI is {}", i32::MAX)]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// Messages came that this rank does not receive, more than it keeps. None of them is lost; the
    /// rank cannot go on.
    #[error("keep {bytes} bytes of messages that no receive has asked for")]
    NotReceived {
        /// What came.
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
