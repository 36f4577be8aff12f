//! Sources of the kernel's view: trace instance, perf switch records, counters of /proc, the host
//! sheet.

pub mod capabilities;
pub mod host;
pub mod perf;
pub mod proc;
pub mod tracefs;
