//! How the ranks of a lockstep run meet.

use idlewave_run::{Coupling, ExchangeVariant};

/// Bytes sent to each neighbour.
pub const MESSAGE_BYTES: usize = 1_024;

/// How the ranks meet after their computation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The operation by which they meet.
    pub coupling: Coupling,
    /// Ranks along each dimension, for neighbour exchange; empty for one ring.
    pub sides: Vec<u32>,
    /// How the neighbour exchange is programmed.
    pub variant: ExchangeVariant,
    /// Bytes of a message to each neighbour, or to each rank of an all-to-all, at least
    /// [`HEADER`](super::HEADER); or of the values to combine, at least one of 8 bytes.
    pub bytes: usize,
}

impl Pattern {
    /// The pattern of a study: messages of [`MESSAGE_BYTES`] on a ring, or a barrier.
    pub fn of(coupling: Coupling) -> Self {
        Self {
            coupling,
            sides: Vec::new(),
            variant: ExchangeVariant::NonBlocking,
            bytes: MESSAGE_BYTES,
        }
    }
}
