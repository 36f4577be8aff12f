//! Messages from one rank to another.

use crate::FabricError;
use idlewave_units::Rank;

/// Tells messages between the same two ranks apart. User tags are below [`Tag::RESERVED`]: MPI
/// guarantees only tags up to 32,767, and collectives use the last of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag(pub u32);

impl Tag {
    /// The first tag reserved for collectives.
    pub const RESERVED: u32 = 32_512;
}

/// What a receive delivered.
#[derive(Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The sender.
    pub from: Rank,
    /// Exactly the bytes of the message, where possible in the buffer that was passed to the
    /// receive.
    pub data: Vec<u8>,
}

/// One rank's sends and receives.
///
/// Calls that wait invoke a hook on every iteration: a measuring rank reads its clock there, so
/// that no gap hides in a wait.
pub trait PointToPoint {
    /// A send under way.
    type Sending;
    /// A receive under way.
    type Receiving;

    /// This rank.
    fn rank(&self) -> Rank;
    /// Number of ranks.
    fn size(&self) -> u32;

    /// Starts sending `data`; [`finish_send`](Self::finish_send) returns the buffer.
    ///
    /// # Errors
    /// The rank does not exist, or another rank failed.
    fn start_send(
        &mut self,
        to: Rank,
        tag: Tag,
        data: Vec<u8>,
    ) -> Result<Self::Sending, FabricError>;

    /// Starts receiving a message of at most `capacity` bytes from one rank, or from any if `from`
    /// is `None`. The memory of `buffer` is reused for the message, unless that has already
    /// arrived.
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

    /// Makes progress on messages and returns whether this send is complete.
    ///
    /// # Errors
    /// Another rank failed.
    fn is_sent(&mut self, sending: &Self::Sending) -> Result<bool, FabricError>;

    /// Makes progress on messages and returns whether this receive is complete.
    ///
    /// # Errors
    /// Another rank failed.
    fn is_received(&mut self, receiving: &Self::Receiving) -> Result<bool, FabricError>;

    /// Waits for a send and returns its buffer.
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

    /// Sends to one rank and receives from another without blocking in between. The received
    /// message goes into `buffer`.
    ///
    /// # Errors
    /// A rank does not exist, the message was longer than `capacity`, or another rank failed.
    #[allow(clippy::too_many_arguments)]
    fn send_receive(
        &mut self,
        to: Rank,
        data: Vec<u8>,
        from: Rank,
        tag: Tag,
        capacity: usize,
        buffer: Vec<u8>,
        hook: &mut impl FnMut(),
    ) -> Result<(Vec<u8>, Delivery), FabricError> {
        let receiving = self.start_receive(Some(from), tag, capacity, buffer)?;
        let sending = self.start_send(to, tag, data)?;
        let delivery = self.finish_receive(receiving, hook)?;
        Ok((self.finish_send(sending, hook)?, delivery))
    }
}
