//! Errors in a network, a placement or a program on it.

/// Why something cannot be replayed on a network.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NetworkError {
    /// A file of parameters has an invalid format; the message has the line.
    #[error("{0}")]
    Form(String),
    /// No fit to the measurement is possible.
    #[error("fit a network: {0}")]
    Samples(String),
    /// An invalid parameter.
    #[error("parameter {name}: {why}")]
    Parameter {
        /// Its name in the file.
        name: String,
        /// What is expected.
        why: &'static str,
    },
    /// A program with wildcard receives, whose order is unknown before it is replayed.
    #[error("rank {rank} receives from any rank or with any tag: a recorded run says from which")]
    AnySource {
        /// The receiver.
        rank: u32,
    },
    /// Sends and receives do not match.
    #[error(
        "rank {from} sends {sent} messages of tag {tag} to rank {to}, which receives {received}"
    )]
    Unmatched {
        /// The sender.
        from: u32,
        /// The receiver.
        to: u32,
        /// Their tag.
        tag: u32,
        /// Messages sent.
        sent: usize,
        /// Receives for them.
        received: usize,
    },
    /// A deadlock.
    #[error(
        "finish rank {rank}: deadlock, it waits for a message that waits for it, or for a receive that comes too late"
    )]
    Stuck {
        /// The first such rank.
        rank: u32,
    },
    /// The number of places differs from the number of ranks.
    #[error("{places} places for {ranks} ranks")]
    Places {
        /// Ranks of the program.
        ranks: u32,
        /// Places given.
        places: usize,
    },
    /// Nodes that are not connected, or do not exist.
    #[error(transparent)]
    Topology(#[from] idlewave_topology::TopologyError),
}
