//! The state of a thread while the trace is read.

use crate::import::app::ThreadId;
use idlewave_run::tables::OperationClass;
use idlewave_units::{NodeId, Pid};

/// Marked regions that may be open at once in a thread.
pub(super) const DEEPEST: usize = 1_024;

/// A thread of the trace.
pub(super) struct Live {
    pub id: ThreadId,
    pub node: NodeId,
    pub pid: Pid,
    pub is_idle: bool,
    /// The CPU that it has, and since when.
    pub running: Option<(u32, u64)>,
    /// Start and number of its last state.
    pub state: Option<(u64, u64)>,
    /// Open interrupts by depth: row of `sources`, CPU, start.
    pub interrupts: Vec<Option<(u32, u32, u64)>>,
    pub call: Option<OpenCall>,
    /// Open region of a lockstep run: value and start.
    pub region: Option<(u64, u64)>,
    /// Open marks: value and start.
    pub marks: Vec<(u64, u64)>,
}

/// A call that has not ended.
pub(super) struct OpenCall {
    pub kind: u32,
    pub operation: u32,
    pub class: OperationClass,
    pub begin: u64,
    pub comm: Option<u32>,
    pub sent: Option<u64>,
    pub received: Option<u64>,
    pub is_root: bool,
}
