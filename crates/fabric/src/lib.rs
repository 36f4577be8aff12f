//! Ranks that send, receive and synchronise, whatever carries their messages.
//!
//! [`Fabric`] is one rank's end. Its semantics are those of MPI point-to-point communication:
//! non-blocking operations on buffers that belong to the fabric until they are complete, order kept
//! per (source, tag), receives matched in the order they were posted. [`threads`] carries messages
//! through shared memory between threads of one process.

mod collectives;
pub mod conformance;
mod error;
mod mailbox;
mod matching;
mod meeting;
mod members;
pub mod mpi;
pub mod netctx;
mod nodes;
pub mod threads;

use idlewave_units::Rank;

pub use error::FabricError;
pub use mpi::MpiFabric;
pub use nodes::Nodes;
pub use threads::{Endpoint, Waiting, world};

/// Tells apart messages between the same two ranks. Below [`Tag::RESERVED`]: MPI promises no more than
/// 32,767 tags, and the last ones carry collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag(pub u32);

impl Tag {
    /// The first tag that is not the user's.
    pub const RESERVED: u32 = 32_512;
}

/// How values of several ranks become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// The smallest.
    Min,
    /// The largest.
    Max,
}

/// What a receive delivered.
#[derive(Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The sender.
    pub from: Rank,
    /// The message in the buffer that was given to the receive, cut to its length.
    pub data: Vec<u8>,
}

/// What waiting calls do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waits {
    /// They call their hook on every turn.
    #[default]
    Watched,
    /// They are the library's own blocking calls, as an application makes them, where the fabric has such: the
    /// hook is not called. For measurements of the library itself.
    Blocking,
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

    /// Ends all ranks' waits: for a rank that gives up. They fail with [`FabricError::PeerFailed`], or, over MPI,
    /// the whole job ends.
    fn fail(&self);

    /// What waiting calls do from now on. A fabric without a library of its own watches always.
    fn set_waits(&mut self, _waits: Waits) {}

    /// Which ranks share a node. All ranks call it.
    ///
    /// # Errors
    /// Another rank failed.
    fn nodes(&mut self) -> Result<Nodes, FabricError>;

    /// Does `work` on the ranks `members`, as a world of their own in which each has its place in the list as its
    /// rank; the others sleep until it is done and get `None`. All ranks call it with the same list, with no
    /// operation under way. A rank on which `work` cannot go on must [`fail`](Self::fail).
    ///
    /// # Errors
    /// The list is empty, names a rank that does not exist or one twice, or another rank failed.
    ///
    /// # Panics
    /// If it is called within such a `work`.
    fn with_ranks<T>(
        &mut self,
        members: &[Rank],
        work: impl FnOnce(&mut Self) -> T,
    ) -> Result<Option<T>, FabricError>
    where
        Self: Sized;

    /// [`with_ranks`](Self::with_ranks) of the first `ranks` ranks, which keep their numbers.
    ///
    /// # Errors
    /// There are not as many ranks or 0 are asked for, or another rank failed.
    ///
    /// # Panics
    /// If it is called within such a `work`.
    fn with_first<T>(
        &mut self,
        ranks: u32,
        work: impl FnOnce(&mut Self) -> T,
    ) -> Result<Option<T>, FabricError>
    where
        Self: Sized,
    {
        let size = self.size();
        if ranks == 0 || ranks > size {
            let rank = Rank::new(ranks.saturating_sub(1));
            return Err(FabricError::NoSuchRank { rank, size });
        }
        let members: Vec<Rank> = (0..ranks).map(Rank::new).collect();
        self.with_ranks(&members, work)
    }

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

    /// Combines `values` element by element over all ranks; all get the result. All ranks give slices of the same
    /// length. The result is the same on all ranks and in every run.
    ///
    /// # Errors
    /// Another rank failed.
    fn allreduce(
        &mut self,
        values: &mut [f64],
        reduction: Reduction,
        hook: &mut impl FnMut(),
    ) -> Result<(), FabricError>
    where
        Self: Sized,
    {
        collectives::allreduce(self, values, reduction, hook)
    }

    /// Combines `values` element by element over all ranks; `root` gets the result, the values of the others are
    /// undefined afterwards.
    ///
    /// # Errors
    /// `root` does not exist, or another rank failed.
    fn reduce(
        &mut self,
        root: Rank,
        values: &mut [f64],
        reduction: Reduction,
        hook: &mut impl FnMut(),
    ) -> Result<(), FabricError>
    where
        Self: Sized,
    {
        collectives::reduce(self, root, values, reduction, hook)
    }

    /// Copies the `data` of `root` to all ranks, which give slices of the same length.
    ///
    /// # Errors
    /// `root` does not exist, or another rank failed.
    fn broadcast(
        &mut self,
        root: Rank,
        data: &mut [u8],
        hook: &mut impl FnMut(),
    ) -> Result<(), FabricError>
    where
        Self: Sized,
    {
        collectives::broadcast(self, root, data, hook)
    }

    /// Sends block `i` of `send` to rank `i` and puts the one from rank `i` into block `i` of `receive`. Both are
    /// `size` blocks of equal length.
    ///
    /// # Errors
    /// Another rank failed.
    fn alltoall(
        &mut self,
        send: &[u8],
        receive: &mut [u8],
        hook: &mut impl FnMut(),
    ) -> Result<(), FabricError>
    where
        Self: Sized,
    {
        collectives::alltoall(self, send, receive, hook)
    }

    /// The same with blocks of any lengths, bytes: `send_counts[i]` of them go to rank `i`, and `receive_counts[i]` come
    /// from it, as many as it sends. Blocks lie one after the other, in order of the ranks.
    ///
    /// # Errors
    /// Another rank failed, or over MPI there are more than `i32::MAX` bytes to send or to receive.
    ///
    /// # Panics
    /// If there is not one count for each rank, or a buffer is not as long as its counts together.
    fn alltoallv(
        &mut self,
        send: &[u8],
        send_counts: &[usize],
        receive: &mut [u8],
        receive_counts: &[usize],
        hook: &mut impl FnMut(),
    ) -> Result<(), FabricError>
    where
        Self: Sized,
    {
        collectives::alltoallv(self, send, send_counts, receive, receive_counts, hook)
    }

    /// Puts the `own` of rank `i` into block `i` of `all` on every rank. All give slices of the same length.
    ///
    /// # Errors
    /// Another rank failed.
    fn allgather(
        &mut self,
        own: &[u8],
        all: &mut [u8],
        hook: &mut impl FnMut(),
    ) -> Result<(), FabricError>
    where
        Self: Sized,
    {
        collectives::allgather(self, own, all, hook)
    }

    /// Sends to one rank and receives from another without blocking in between; `buffer` is where the message goes.
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
