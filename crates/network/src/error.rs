//! What can be wrong with a network, a placement or a program on it.

/// Why something cannot be played on a network.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NetworkError {
    /// A file of parameters is not of the form; the message has the line.
    #[error("{0}")]
    Form(String),
    /// Nothing can be fitted to what was measured.
    #[error("fit a network: {0}")]
    Samples(String),
    /// A parameter cannot be.
    #[error("parameter {name}: {why}")]
    Parameter {
        /// As in the file.
        name: String,
        /// What it must be.
        why: &'static str,
    },
    /// A program takes what comes first, which is not known before it is played.
    #[error("rank {rank} receives from any rank or with any tag: a recorded run says from which")]
    AnySource {
        /// The receiver.
        rank: u32,
    },
    /// Sends and receives do not go together.
    #[error("rank {from} sends {sent} messages of tag {tag} to rank {to}, which takes {received}")]
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
    /// Ranks wait for each other in a circle.
    #[error(
        "finish rank {rank}: it waits for a message that waits for it, or for a receive that comes too late"
    )]
    Stuck {
        /// The first of them.
        rank: u32,
    },
    /// Not one place per rank.
    #[error("{places} places for {ranks} ranks")]
    Places {
        /// Ranks of the program.
        ranks: u32,
        /// Places given.
        places: usize,
    },
    /// Nodes cannot reach each other, or there is no such node.
    #[error(transparent)]
    Topology(#[from] idlewave_topology::TopologyError),
}
