//! Perf events of own threads: switch records and cache misses, both available without privileges.
//!
//! Where no kernel trace is permitted, this shows exactly when a rank was off its CPU, and whether
//! it was preempted or slept, but not which task ran instead. Source: perf_event_open(2), records
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
pub(crate) use event::paranoid_level;
pub use recorder::{SwitchRecorder, SwitchRecords};

/// Whether this process may record its switches: opens an event for the calling thread, and closes
/// it.
pub(crate) fn probe_switches() -> Result<(), PerfError> {
    ring::Ring::open(idlewave_sys::process::own_thread()).map(drop)
}
