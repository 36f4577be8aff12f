//! Changes a slurm.conf so that jobs share CPUs, Slurm gives them no time slices, and gang
//! switching learns of each job; and changes it back.
//!
//! The changes:
//!
//! - `OverSubscribe=FORCE:n` for the partitions that take part.
//! - `PreemptMode` without `GANG`. A long `SchedulerTimeSlice` would not do instead: with GANG,
//!   Slurm stops a job that shares CPUs as soon as it is allocated, for the rest of the slice.
//! - `PrologSlurmctld` and `EpilogSlurmctld`, which run once per job and, unlike Prolog and
//!   Epilog, receive its nodes. They name a program without arguments, so two small scripts
//!   ([`script`]) are needed, which then call the site's own programs.
//!
//! [`install`] and [`uninstall`] work on text; [`Setup`] applies them to files. The changed file
//! keeps the original lines as comments, so that they can be restored byte for byte, even if other
//! lines were edited meanwhile.
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
