//! Sends and receives under way, each with its request and its buffer.

use super::job::Job;
use crate::{Delivery, FabricError};
use idlewave_mpi::{Family, RawStatus, Slot};
use idlewave_units::Rank;
use std::cell::Cell;
use std::ffi::{c_int, c_void};

/// A request, and, once it is complete, how it ended.
#[derive(Debug)]
pub(super) struct Request {
    slot: Cell<Slot>,
    status: Cell<RawStatus>,
    result: Cell<Option<c_int>>,
}

impl Request {
    pub(super) fn new(slot: Slot) -> Self {
        Self {
            slot: Cell::new(slot),
            status: Cell::new(RawStatus::default()),
            result: Cell::new(None),
        }
    }

    /// Makes progress on messages and returns whether the request is complete.
    #[inline]
    pub(super) fn test(&self, job: &Job) -> bool {
        if self.result.get().is_some() {
            return true;
        }
        let mut done = 0;
        // SAFETY: the slot holds an active request of this job, the status is large enough for any
        // family.
        let result =
            unsafe { (job.calls.test)(self.slot.as_ptr(), &mut done, self.status.as_ptr()) };
        // An operation that failed is complete, whatever the flag says.
        if done != 0 || result != job.abi.success {
            self.result.set(Some(result));
        }
        self.result.get().is_some()
    }

    /// Blocks until the request is complete.
    pub(super) fn wait(&self, job: &Job) {
        if self.result.get().is_none() {
            // SAFETY: as in `test`.
            let result = unsafe { (job.calls.wait)(self.slot.as_ptr(), self.status.as_ptr()) };
            self.result.set(Some(result));
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.result.get().is_some()
    }

    /// How a complete request ended.
    pub(super) fn end(&self, job: &Job, call: &'static str) -> Result<(), FabricError> {
        match self.result.get() {
            Some(code) => job.check(call, code),
            None => Ok(()),
        }
    }
}

/// The address of empty messages. An empty slice may have the address 1, which is `MPI_IN_PLACE` in
/// some libraries.
static NOWHERE: u64 = 0;

/// The address of a slice, for a library.
pub(super) fn place<T>(slice: &[T]) -> *const c_void {
    match slice {
        [] => (&raw const NOWHERE).cast(),
        _ => slice.as_ptr().cast(),
    }
}

/// The same for a slice that the library fills; it writes nothing into an empty one.
pub(super) fn place_mut<T>(slice: &mut [T]) -> *mut c_void {
    match slice {
        [] => (&raw const NOWHERE).cast_mut().cast(),
        _ => slice.as_mut_ptr().cast(),
    }
}

/// A buffer that the library may write or read until its request is complete. If the operation is
/// dropped before that, the buffer is leaked.
#[derive(Debug)]
pub(super) struct Lent {
    pub(super) request: Request,
    pub(super) buffer: Vec<u8>,
}

impl Lent {
    /// The buffer of a complete operation.
    pub(super) fn take(mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if !self.request.is_complete() {
            std::mem::forget(std::mem::take(&mut self.buffer));
        }
    }
}

/// A send under way.
#[derive(Debug)]
pub struct Sending(pub(super) Lent);

/// A receive under way.
#[derive(Debug)]
pub struct Receiving {
    pub(super) lent: Lent,
    pub(super) capacity: usize,
}

impl Receiving {
    /// What a complete receive delivered.
    pub(super) fn deliver(self, job: &Job) -> Result<Delivery, FabricError> {
        let status = self.lent.request.status.get();
        let code = self.lent.request.result.get().unwrap_or(job.abi.success);
        let from = Rank::new(status.int(job.abi.status.source).max(0) as u32);
        if code != job.abi.success {
            if job.class_of(code) != job.abi.err_truncate {
                job.check("MPI_Irecv", code)?;
            }
            let length = self.true_length(job, code, &status);
            return Err(FabricError::TooLong {
                from,
                length,
                capacity: self.capacity,
            });
        }
        let length = count(job, &status)?;
        let capacity = self.capacity;
        let mut data = self.lent.take();
        assert!(
            length <= capacity,
            "{length} bytes were received into {capacity}"
        );
        // SAFETY: the capacity was reserved when the receive was posted, and the library has
        // written `length` bytes, which is at most the capacity.
        unsafe { data.set_len(length) };
        Ok(Delivery { from, data })
    }

    /// The length of a truncated message: Open MPI counts it in the status, MPICH 5 reports it in
    /// the error's text, MPICH 4 not at all.
    fn true_length(&self, job: &Job, code: c_int, status: &RawStatus) -> Option<usize> {
        let length = match job.abi.family {
            Family::OpenMpi => count(job, status).ok(),
            // The status of MPICH 4 may then hold the count of an earlier message.
            Family::Mpich | Family::Standard => length_said(&job.text_of(code)),
        };
        length.filter(|length| *length > self.capacity)
    }
}

fn count(job: &Job, status: &RawStatus) -> Result<usize, FabricError> {
    let mut bytes = 0;
    // SAFETY: the library filled the status, the int belongs to this frame.
    let result = unsafe { (job.calls.get_count)(status, job.handles.byte, &mut bytes) };
    job.check("MPI_Get_count", result)?;
    Ok(bytes.max(0) as usize)
}

/// The larger number in "100 bytes received but buffer size is 99": MPICH 5 swaps the two.
fn length_said(text: &str) -> Option<usize> {
    let (before, after) = text.split_once(" bytes received but buffer size is ")?;
    let digits = |c: char| !c.is_ascii_digit();
    let received: usize = before.rsplit(digits).next()?.parse().ok()?;
    let room: usize = after.split(digits).next()?.parse().ok()?;
    Some(received.max(room))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_cut_message_is_read_from_what_mpich_says() {
        let text = "Message truncated, error stack:; MPIR_Test(60)...: MPIR_Test; (unknown)(): Message from \
                    rank 1 and tag 60 truncated; 100 bytes received but buffer size is 99 (100 99 60)";
        assert_eq!(length_said(text), Some(100));
        let swapped =
            "Message from rank 0 and tag 60 truncated; 99 bytes received but buffer size is 100";
        assert_eq!(length_said(swapped), Some(100));
        assert_eq!(length_said("Message truncated"), None);
    }
}
