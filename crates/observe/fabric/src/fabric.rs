//! One rank's end, whatever carries its messages.

use crate::collectives::{self, Reduction};
use crate::{FabricError, Nodes, PointToPoint};
use idlewave_units::Rank;

/// What waiting calls do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waits {
    /// They call their hook on every iteration.
    #[default]
    Watched,
    /// They make the library's own blocking calls, as an application would, if the fabric has any,
    /// and never call the hook. For measuring the library itself.
    Blocking,
}

/// One rank's end of a fabric: [`PointToPoint`], and what all ranks do together.
pub trait Fabric: PointToPoint {
    /// Called by a rank that gives up: the waits of all ranks fail with
    /// [`FabricError::PeerFailed`]. Over MPI the whole job ends.
    fn fail(&self);

    /// Sets what waiting calls do from now on. Without an underlying library they are always
    /// [`Waits::Watched`].
    fn set_waits(&mut self, _waits: Waits) {}

    /// Which ranks share a node. All ranks must call it.
    ///
    /// # Errors
    /// Another rank failed.
    fn nodes(&mut self) -> Result<Nodes, FabricError>;

    /// Runs `work` on the ranks `members` as a world of their own, in which their rank is their
    /// index in the list. The others sleep until it is done and get `None`. All ranks must call
    /// this with the same list and with no operation under way. A rank whose `work` cannot go on
    /// must [`fail`](Self::fail).
    ///
    /// # Errors
    /// The list is empty, names a rank twice or one that does not exist, or another rank failed.
    ///
    /// # Panics
    /// If called from within such a `work`.
    fn with_ranks<T>(
        &mut self,
        members: &[Rank],
        work: impl FnOnce(&mut Self) -> T,
    ) -> Result<Option<T>, FabricError>
    where
        Self: Sized;

    /// Waits until every rank has called it as often as this one.
    ///
    /// # Errors
    /// Another rank failed.
    fn barrier(&mut self, hook: &mut impl FnMut()) -> Result<(), FabricError>;

    /// Combines `values` element by element over all ranks; all get the result. All ranks pass
    /// slices of the same length. The result is the same on all ranks and in every run.
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

    /// Combines `values` element by element over all ranks; `root` gets the result, and the values
    /// of the others are undefined afterwards.
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

    /// Copies the `data` of `root` to all ranks, which pass slices of the same length.
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

    /// Sends block `i` of `send` to rank `i` and puts the one from rank `i` into block `i` of
    /// `receive`. Both are `size` blocks of equal length.
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

    /// [`alltoall`](Self::alltoall) with blocks of any length: `send_counts[i]` bytes go to rank
    /// `i`, and `receive_counts[i]` bytes come from it, which must be as many as it sends. Blocks
    /// lie one after the other in rank order.
    ///
    /// # Errors
    /// Another rank failed, or over MPI there are more than `i32::MAX` bytes to send or to receive.
    ///
    /// # Panics
    /// If there is not one count per rank, or a buffer's length is not the sum of its counts.
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

    /// Puts the `own` of rank `i` into block `i` of `all` on every rank. All pass slices of the
    /// same length.
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
}
