//! What a benchmark communicates, in what order, without running it: input for simulations.

use idlewave_units::Bytes;

/// The operations of the timed part, the same on all ranks.
///
/// Left out is the agreement whether to stop early, an allreduce of 8 bytes at most 20 times a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Before the first iteration.
    pub before: Vec<Operation>,
    /// Of every iteration.
    pub iteration: Vec<Operation>,
    /// After the last iteration.
    pub after: Vec<Operation>,
}

/// One operation that every rank does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Each rank computes.
    Compute,
    /// All ranks combine values.
    Allreduce {
        /// Bytes of the values of one rank.
        bytes: Bytes,
    },
    /// The same amount from every rank to every rank.
    Alltoall {
        /// Bytes from one rank to another.
        bytes_per_pair: Bytes,
    },
}

impl Operation {
    /// Bytes that all ranks together pass to it.
    pub fn bytes(&self, ranks: u32) -> Bytes {
        let ranks = u64::from(ranks);
        Bytes::new(match self {
            Self::Compute => 0,
            Self::Allreduce { bytes } => ranks * bytes.get(),
            Self::Alltoall { bytes_per_pair } => ranks * ranks * bytes_per_pair.get(),
        })
    }
}
