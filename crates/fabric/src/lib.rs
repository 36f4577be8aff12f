//! Ranks that send, receive and synchronise, whatever carries their messages.
//!
//! [`Fabric`] is one rank's end. Its semantics are those of MPI point-to-point communication:
//! non-blocking operations on buffers that belong to the fabric until they are complete, order kept
//! per (source, tag), receives matched in the order they were posted. [`threads`] carries messages
//! through shared memory between threads of one process.

pub mod conformance;
mod error;
mod mailbox;
mod matching;
pub mod threads;

use idlewave_units::Rank;

pub use error::FabricError;
pub use threads::{Endpoint, Waiting, world};

/// Tells apart messages between the same two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag(pub u32);

/// What a receive delivered.
#[derive(Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The sender.
    pub from: Rank,
    /// The message in the buffer that was given to the receive, cut to its length.
    pub data: Vec<u8>,
}

/// One rank's end of a fabric.
///
/// Waiting calls take a hook that is called on every turn of the wait: a measuring rank watches its
/// clock there, so that a wait hides no gap.
pub trait Fabric {
    /// A send under way.
    type Sending;
    /// A receive under way.
    type Receiving;

    /// The own rank.
    fn rank(&self) -> Rank;
    /// Number of ranks.
    fn size(&self) -> u32;

    /// Starts to send `data`; the buffer comes back from [`finish_send`](Self::finish_send).
    ///
    /// # Errors
    /// The rank does not exist, or another rank failed.
    fn start_send(
        &mut self,
        to: Rank,
        tag: Tag,
        data: Vec<u8>,
    ) -> Result<Self::Sending, FabricError>;

    /// Starts to receive a message of at most `capacity` bytes from one rank, or from any if `from` is `None`.
    /// `buffer` is where it goes; its content is dropped, its memory kept.
    ///
    /// # Errors
    /// The rank does not exist, or another rank failed.
    fn start_receive(
        &mut self,
        from: Option<Rank>,
        tag: Tag,
        capacity: usize,
        buffer: Vec<u8>,
    ) -> Result<Self::Receiving, FabricError>;

    /// Moves messages on and tells whether this send is complete.
    ///
    /// # Errors
    /// Another rank failed.
    fn is_sent(&mut self, sending: &Self::Sending) -> Result<bool, FabricError>;

    /// Moves messages on and tells whether this receive is complete.
    ///
    /// # Errors
    /// Another rank failed.
    fn is_received(&mut self, receiving: &Self::Receiving) -> Result<bool, FabricError>;

    /// Waits for a send and gives its buffer back.
    ///
    /// # Errors
    /// Another rank failed.
    fn finish_send(
        &mut self,
        sending: Self::Sending,
        hook: &mut impl FnMut(),
    ) -> Result<Vec<u8>, FabricError>;

    /// Waits for a receive.
    ///
    /// # Errors
    /// The message was longer than the receive's capacity, or another rank failed.
    fn finish_receive(
        &mut self,
        receiving: Self::Receiving,
        hook: &mut impl FnMut(),
    ) -> Result<Delivery, FabricError>;

    /// Waits until every rank has called it as often as this one.
    ///
    /// # Errors
    /// Another rank failed.
    fn barrier(&mut self, hook: &mut impl FnMut()) -> Result<(), FabricError>;
}
