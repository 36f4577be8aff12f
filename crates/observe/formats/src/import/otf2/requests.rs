//! MPI operations that are not complete.

use super::lane::Lane;
use idlewave_run::tables::Transfer;
use idlewave_units::Pid;
use std::collections::BTreeMap;

/// Limit on the open requests of a process; further ones count as never completed.
const MOST: usize = 1 << 20;

/// An operation that is not complete.
#[derive(Clone, Debug)]
pub(super) enum Open {
    Send(Transfer),
    /// The sender and the tag are known only at the end.
    Receive {
        thread: Pid,
        posted_ns: u64,
    },
}

/// Requests of a process.
#[derive(Default)]
pub(super) struct Requests {
    /// Open operations by the number that the trace gives their request.
    open: BTreeMap<u64, Open>,
    started: u64,
}

impl Requests {
    /// Numbers the request that the current call starts.
    pub(super) fn number(&mut self, lane: &mut Lane) {
        if let Some(call) = &mut lane.call {
            call.request = Some(self.started);
        }
        self.started += 1;
    }

    /// Adds an operation. Returns one that will never complete: an earlier one with this number, or
    /// this one if too many are open.
    pub(super) fn insert(&mut self, request: u64, open: Open) -> Option<Open> {
        match self.open.len() < MOST {
            true => self.open.insert(request, open),
            false => Some(open),
        }
    }

    pub(super) fn remove(&mut self, request: u64) -> Option<Open> {
        self.open.remove(&request)
    }

    /// The operations that are still open, by the numbers of their requests.
    pub(super) fn left(self) -> impl Iterator<Item = Open> {
        self.open.into_values()
    }
}
