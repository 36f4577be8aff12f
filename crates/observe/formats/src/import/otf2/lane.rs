//! The state of a location while its events are read.

use super::local::Local;
use crate::import::app::ThreadId;
use idlewave_run::tables::{OperationClass, Transfer};
use idlewave_units::{Bytes, Nanos, Rank};

/// Regions that may be open at once in a location; deeper ones are left out.
pub(super) const DEEPEST: usize = 1_024;
/// Ends of messages that are kept until their call ends; further ones are written at once.
pub(super) const MOST_ENDS: usize = 1 << 13;

/// A location that is being read.
pub(super) struct Lane {
    pub thread: ThreadId,
    /// Events that the definitions announce.
    pub announced: u64,
    pub rank: Option<Rank>,
    pub local: Local,
    /// What is added to its times, so that the clocks of ranks agree.
    pub shift: Nanos,
    pub now_ns: u64,
    pub events: u64,
    /// Open regions outside MPI: global number and start.
    pub regions: Vec<(u32, u64)>,
    /// Regions that are open beyond [`DEEPEST`].
    pub too_deep: u64,
    pub call: Option<OpenCall>,
}

impl Lane {
    /// Start of the current call, or the current time if there is none.
    pub(super) fn begin_ns(&self) -> u64 {
        self.call.as_ref().map_or(self.now_ns, |call| call.begin_ns)
    }
}

/// An MPI call that has not ended.
pub(super) struct OpenCall {
    /// Global number of its region.
    pub region: u32,
    pub operation: u32,
    pub class: OperationClass,
    pub begin_ns: u64,
    /// Regions open within it.
    pub within: u64,
    pub comm: Option<u32>,
    pub root: Option<Rank>,
    pub sent: Option<Bytes>,
    pub received: Option<Bytes>,
    pub request: Option<u64>,
    /// Ends of messages that are complete when it ends.
    pub ends: Vec<Transfer>,
}
