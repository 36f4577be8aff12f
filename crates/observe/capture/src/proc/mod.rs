//! Counters of /proc, readable without privileges: what all processes of this machine used.
//!
//! [`ContaminationMeter`] tells how much others disturbed a run. [`ProcSnapshot`] replaces a kernel
//! trace that is not permitted: which tasks ran and for how long, but not when. Sources: proc(5),
//! Documentation/scheduler/sched-stats.rst, Documentation/accounting/psi.rst of the kernel.

mod contamination;
mod interrupts;
mod snapshot;
mod stat;
mod tasks;

#[cfg(test)]
mod tests;

pub use contamination::ContaminationMeter;
pub use snapshot::ProcSnapshot;
pub use tasks::{ProcTask, tasks};
