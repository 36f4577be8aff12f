//! One rank's end, whatever carries its messages.

use crate::collectives::{self, Reduction};
use crate::{FabricError, Nodes, PointToPoint};
use idlewave_units::Rank;

/// What waiting calls do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waits {
    /// They call their hook on every turn.
    #[default]
    Watched,
    /// They are the library's own blocking calls, as an application makes them, where the fabric
    /// has such: the hook is not called. For measurements of the library itself.
    Blocking,
}

/// One rank's end of a fabric: [`PointToPoint`], and what all ranks do together.
pub trait Fabric: PointToPoint {
    /// Ends all ranks' waits: for a rank that gives up. They fail with [`FabricError::PeerFailed`],
    /// or, over MPI, the whole job ends.
    fn fail(&self);

    /// What waiting calls do from now on. A fabric without a library of its own watches always.
    fn set_waits(&mut self, _waits: Waits) {}

    /// Which ranks share a node. All ranks call it.
    ///
    /// # Errors
    /// Another rank failed.
    fn nodes(&mut self) -> Result<Nodes, FabricError>;

    /// Does `work` on the ranks `members`, as a world of their own in which each has its place in
    /// the list as its rank; the others sleep until it is done and get `None`. All ranks call it
    /// with the same list, with no operation under way. A rank on which `work` cannot go on must
    /// [`fail`](Self::fail).
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
    /// There are fewer ranks than requested, 0 were requested, or another rank failed.
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

    /// Waits until every rank has called it as often as this one.
    ///
    /// # Errors
    /// Another rank failed.
    fn barrier(&mut self, hook: &mut impl FnMut()) -> Result<(), FabricError>;

    /// Combines `values` element by element over all ranks; all get the result. All ranks give
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

    /// Combines `values` element by element over all ranks; `root` gets the result, the values of
    /// the others are undefined afterwards.
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

    /// The same with blocks of any lengths, bytes: `send_counts[i]` of them go to rank `i`, and
    /// `receive_counts[i]` come from it, as many as it sends. Blocks lie one after the other, in
    /// order of the ranks.
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

    /// Puts the `own` of rank `i` into block `i` of `all` on every rank. All give slices of the
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
