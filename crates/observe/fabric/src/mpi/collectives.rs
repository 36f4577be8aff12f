//! Collectives as library calls: non-blocking ones for watched waits, blocking ones otherwise.

use super::fabric::{MpiFabric, count};
use super::operation::{place, place_mut};
use crate::collectives::blocks_of;
use crate::{FabricError, PointToPoint, Reduction, Waits};
use idlewave_mpi::{RawHandle, Slot};
use idlewave_units::Rank;
use std::ffi::{c_int, c_void};

/// Lengths and offsets of blocks, as MPI takes them.
struct Blocks {
    counts: Vec<c_int>,
    begins: Vec<c_int>,
}

impl Blocks {
    fn new(counts: &[usize], length: usize, ranks: u32) -> Result<Self, FabricError> {
        let blocks = blocks_of(counts, length, ranks);
        // No offset and no block length exceeds the length of the whole buffer.
        count(length, 1)?;
        Ok(Self {
            counts: blocks.iter().map(|block| block.len() as c_int).collect(),
            begins: blocks.iter().map(|block| block.start as c_int).collect(),
        })
    }

    fn places(&self) -> (*const c_int, *const c_int) {
        (self.counts.as_ptr(), self.begins.as_ptr())
    }
}

impl MpiFabric {
    fn operation(&self, reduction: Reduction) -> RawHandle {
        match reduction {
            Reduction::Sum => self.job.handles.sum,
            Reduction::Min => self.job.handles.min,
            Reduction::Max => self.job.handles.max,
        }
    }

    fn in_place(&self) -> *const c_void {
        self.job.abi.in_place as usize as *const c_void
    }

    /// Makes the blocking or the non-blocking call, depending on how this rank waits, and completes
    /// it.
    fn collective(
        &self,
        name: &'static str,
        hook: &mut impl FnMut(),
        blocking: impl FnOnce() -> c_int,
        start: impl FnOnce(*mut Slot) -> c_int,
    ) -> Result<(), FabricError> {
        if self.waits == Waits::Blocking {
            return self.job.check(name, blocking());
        }
        let mut slot = Slot::default();
        let result = start(&mut slot);
        self.job.check(name, result)?;
        self.complete(name, slot, hook)
    }

    pub(super) fn combine_all(
        &self,
        values: &mut [f64],
        reduction: Reduction,
        hook: &mut impl FnMut(),
    ) -> Result<(), FabricError> {
        let (n, double) = (count(size_of_val(values), 8)?, self.job.handles.double);
        let (op, comm, calls) = (
            self.operation(reduction),
            self.communicator,
            &self.job.calls,
        );
        let (own, data) = (self.in_place(), place_mut(values));
        self.collective(
            "MPI_Allreduce",
            hook,
            // SAFETY: `data` has `n` doubles; the handles belong to this job.
            || unsafe { (calls.allreduce)(own, data, n, double, op, comm) },
            // SAFETY: as above; `collective` returns only when the call is complete.
            |slot| unsafe { (calls.iallreduce)(own, data, n, double, op, comm, slot) },
        )
    }

    pub(super) fn combine(
        &self,
        root: Rank,
        values: &mut [f64],
        reduction: Reduction,
        hook: &mut impl FnMut(),
    ) -> Result<(), FabricError> {
        let (n, double) = (count(size_of_val(values), 8)?, self.job.handles.double);
        let (op, comm, calls) = (
            self.operation(reduction),
            self.communicator,
            &self.job.calls,
        );
        let data: *mut c_void = place_mut(values);
        let (own, result) = match root == self.rank() {
            true => (self.in_place(), data),
            // The result buffer is significant only at the root.
            false => (data.cast_const(), std::ptr::null_mut()),
        };
        let root = self.root(root)?;
        self.collective(
            "MPI_Reduce",
            hook,
            // SAFETY: `data` has `n` doubles; the handles belong to this job.
            || unsafe { (calls.reduce)(own, result, n, double, op, root, comm) },
            // SAFETY: as above; `collective` returns only when the call is complete.
            |slot| unsafe { (calls.ireduce)(own, result, n, double, op, root, comm, slot) },
        )
    }

    pub(super) fn spread(
        &self,
        root: Rank,
        data: &mut [u8],
        hook: &mut impl FnMut(),
    ) -> Result<(), FabricError> {
        let (n, byte, root) = (
            count(data.len(), 1)?,
            self.job.handles.byte,
            self.root(root)?,
        );
        let (comm, calls) = (self.communicator, &self.job.calls);
        let data: *mut c_void = place_mut(data);
        self.collective(
            "MPI_Bcast",
            hook,
            // SAFETY: `data` has `n` bytes; the handles belong to this job.
            || unsafe { (calls.bcast)(data, n, byte, root, comm) },
            // SAFETY: as above; `collective` returns only when the call is complete.
            |slot| unsafe { (calls.ibcast)(data, n, byte, root, comm, slot) },
        )
    }

    pub(super) fn exchange_all(
        &self,
        send: &[u8],
        receive: &mut [u8],
        hook: &mut impl FnMut(),
    ) -> Result<(), FabricError> {
        assert_eq!(send.len(), receive.len(), "as much is received as is sent");
        let (n, byte) = (
            count(send.len() / self.size() as usize, 1)?,
            self.job.handles.byte,
        );
        let (comm, calls) = (self.communicator, &self.job.calls);
        let (from, to) = (place(send), place_mut(receive));
        self.collective(
            "MPI_Alltoall",
            hook,
            // SAFETY: both buffers have at least `n` bytes per rank; the handles belong to this
            // job.
            || unsafe { (calls.alltoall)(from, n, byte, to, n, byte, comm) },
            // SAFETY: as above; `collective` returns only when the call is complete.
            |slot| unsafe { (calls.ialltoall)(from, n, byte, to, n, byte, comm, slot) },
        )
    }

    pub(super) fn exchange_blocks(
        &self,
        send: &[u8],
        send_counts: &[usize],
        receive: &mut [u8],
        receive_counts: &[usize],
        hook: &mut impl FnMut(),
    ) -> Result<(), FabricError> {
        // They live until the call is complete: if a hook panics before that, `collective` ends the
        // job.
        let outgoing = Blocks::new(send_counts, send.len(), self.size())?;
        let incoming = Blocks::new(receive_counts, receive.len(), self.size())?;
        let (comm, calls, byte) = (self.communicator, &self.job.calls, self.job.handles.byte);
        let (from, to) = (place(send), place_mut(receive));
        let ((n, at), (m, into)) = (outgoing.places(), incoming.places());
        self.collective(
            "MPI_Alltoallv",
            hook,
            // SAFETY: the blocks lie within their buffers, there is one for each rank; the handles
            // belong to this job.
            || unsafe { (calls.alltoallv)(from, n, at, byte, to, m, into, byte, comm) },
            // SAFETY: as above; `collective` returns only when the call is complete.
            |slot| unsafe { (calls.ialltoallv)(from, n, at, byte, to, m, into, byte, comm, slot) },
        )
    }

    pub(super) fn gather_all(
        &self,
        own: &[u8],
        all: &mut [u8],
        hook: &mut impl FnMut(),
    ) -> Result<(), FabricError> {
        let needed = own.len() * self.size() as usize;
        assert_eq!(all.len(), needed, "there is a block for each rank");
        let (n, byte) = (count(own.len(), 1)?, self.job.handles.byte);
        let (comm, calls) = (self.communicator, &self.job.calls);
        let (from, to) = (place(own), place_mut(all));
        self.collective(
            "MPI_Allgather",
            hook,
            // SAFETY: `from` has `n` bytes and `to` as many per rank; the handles belong to this
            // job.
            || unsafe { (calls.allgather)(from, n, byte, to, n, byte, comm) },
            // SAFETY: as above; `collective` returns only when the call is complete.
            |slot| unsafe { (calls.iallgather)(from, n, byte, to, n, byte, comm, slot) },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_begin_where_the_one_before_ends() {
        let blocks = Blocks::new(&[3, 0, 5], 8, 3).expect("few bytes");
        assert_eq!(
            (blocks.counts, blocks.begins),
            (vec![3, 0, 5], vec![0, 3, 3])
        );
    }

    #[test]
    fn blocks_of_more_bytes_than_mpi_counts_are_refused_with_their_sum() {
        let most = c_int::MAX as usize;
        assert!(Blocks::new(&[most - 1, 1], most, 2).is_ok());
        let refused = Blocks::new(&[most, 1], most + 1, 2).map(|_| ());
        assert_eq!(refused, Err(FabricError::TooLarge { bytes: most + 1 }));
    }
}
