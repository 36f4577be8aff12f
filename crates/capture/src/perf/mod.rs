//! Switches of own threads, recorded by perf events, and cache misses, counted by them: users may do both without privileges.
//!
//! Where no kernel trace may be taken, this says when a rank was off its CPU, exactly, and whether
//! it was preempted or slept, though not who ran instead. Source: perf_event_open(2), records
//! `PERF_RECORD_SWITCH` (since Linux 4.3).

mod bursts;
mod count;
mod error;
mod event;
mod record;
mod recorder;
mod ring;

pub use count::CacheMisses;
pub use error::PerfError;
pub use recorder::{SwitchRecorder, SwitchRecords};

use crate::host::root::Root;

/// Whether this process may record its switches: opens an event for the calling thread and closes
/// it.
pub(crate) fn probe_switches() -> Result<(), PerfError> {
    ring::Ring::open(recorder::own_thread()).map(drop)
}

/// `kernel.perf_event_paranoid` below `root`; `None` if it cannot be read.
pub(crate) fn paranoid_level(root: &Root) -> Option<i64> {
    let text = root.text("proc/sys/kernel/perf_event_paranoid").ok()??;
    text.trim().parse().ok()
}
