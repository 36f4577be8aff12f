//! Operations of MPI that are not complete.

use idlewave_run::tables::Transfer;
use idlewave_units::Pid;
use std::collections::BTreeMap;

/// More requests of a process that are open at once count as never completed.
pub(super) const MOST: usize = 1 << 20;

/// An operation that is not complete.
#[derive(Clone, Debug)]
pub(super) enum Open {
    Send(Transfer),
    /// Who sends, and with which tag, is known at the end only.
    Receive {
        thread: Pid,
        posted_ns: u64,
    },
}

/// Open operations of a process by the trace's number of their request.
pub(super) type Requests = BTreeMap<u64, Open>;
