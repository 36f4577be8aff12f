//! How the ranks of a lockstep run meet.

use idlewave_run::{Coupling, ExchangeVariant};

/// Bytes that each neighbour is sent.
pub const MESSAGE_BYTES: usize = 1_024;

/// How the ranks meet after their computation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// What they do.
    pub coupling: Coupling,
    /// Ranks along each dimension, for neighbour exchange; empty for a ring of all.
    pub sides: Vec<u32>,
    /// How the neighbour exchange is programmed.
    pub variant: ExchangeVariant,
    /// Bytes of a message to each neighbour, or to each rank of an all-to-all, at least
    /// [`HEADER`](super::HEADER); or of the values that are combined, at least one of 8 bytes.
    pub bytes: usize,
}

impl Pattern {
    /// That of a study: messages of [`MESSAGE_BYTES`] on a ring, or a barrier.
    pub fn of(coupling: Coupling) -> Self {
        Self {
            coupling,
            sides: Vec::new(),
            variant: ExchangeVariant::NonBlocking,
            bytes: MESSAGE_BYTES,
        }
    }
}
