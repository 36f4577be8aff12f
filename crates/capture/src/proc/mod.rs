//! Counters of /proc: what everybody on this machine used, readable without privileges.
//!
//! [`ContaminationMeter`] says how much others disturbed a run; [`ProcSnapshot`] is the record
//! where no kernel trace may be taken: who ran and how much, but not when. Sources: proc(5),
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
