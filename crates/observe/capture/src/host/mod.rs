//! The host sheet: a node's hardware and its settings that matter for noise.
//!
//! First in the flow: read once at the start of a run and stored in its manifest. All readers take
//! a root directory, so a fake /proc and /sys can represent any machine. A setting that a machine
//! lacks is `None`; one that exists but cannot be read is listed with the reason in
//! [`HostSheet::unreadable`](idlewave_run::HostSheet). Sources: proc(5), and Documentation/ABI/ and
//! admin-guide/ of the kernel.

mod affinity;
pub(crate) mod cgroup;
mod error;
#[cfg(test)]
pub(crate) mod fake;
mod kernel;
mod memory;
mod notes;
mod processor;
mod realtime;
pub(crate) mod root;
mod sheet;
mod topology;

#[cfg(test)]
mod tests;

pub use affinity::allowed_cpus;
pub use error::CaptureError;
pub use memory::available_memory;
pub use realtime::realtime_reserve;
pub use sheet::read_host;
