//! A slurm.conf under which jobs share CPUs, Slurm does not slice them itself, and gang switching
//! is told of each; and back.
//!
//! What is changed:
//!
//! - `OverSubscribe=FORCE:n` for the partitions that take part.
//! - `PreemptMode` without `GANG`. A long `SchedulerTimeSlice` in its place would not do: with
//!   GANG, Slurm stops a job that shares CPUs as soon as it is allocated, for the rest of the
//!   slice.
//! - `PrologSlurmctld` and `EpilogSlurmctld`, which run once per job and are told its nodes, as
//!   Prolog and Epilog are not. They name a program without arguments, so that two small scripts
//!   ([`script`]) are needed, which call the site's own after.
//!
//! [`install`] and [`uninstall`] are functions of text; [`Setup`] does it to files. What was there
//! stands in the changed file as comments, so that the very bytes come back, also when other lines
//! were edited meanwhile.
//!
//! Sources: slurm.conf(5) and the page gang_scheduling of slurm.schedmd.com.

mod error;
mod file;
mod lines;
mod marks;
mod plan;
mod script;

pub use error::ConfError;
pub use file::{Done, Setup};
pub use plan::{Change, Plan, Wanted, install, uninstall};
pub use script::{Hook, script};
