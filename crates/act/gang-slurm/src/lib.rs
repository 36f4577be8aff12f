//! What gang switching needs to know about jobs of Slurm when it runs beside Slurm.
//!
//! Slurm remains the resource manager: it admits jobs that share CPUs (`OverSubscribe=FORCE:n`)
//! but no longer gives them time slices. This crate reads and writes text and files only and uses
//! no Slurm library:
//!
//! - [`find`] gives the processes of a job on this node: by control groups ([`Membership`]), by
//!   their environment, and by their parents; [`ListPids`] is Slurm's own list, as a check.
//! - [`Job`] is what a prolog or an epilog learns about a job.
//! - [`conf`] changes a slurm.conf so that jobs share CPUs and are announced, and restores it.
//!
//! Sources: slurm.conf(5) and scontrol(1) of Slurm 22.05; the pages cgroup_v2, gang_scheduling and
//! prolog_epilog of slurm.schedmd.com; proc(5). Tested with Slurm 22.05.

mod cgroup;
pub mod conf;
mod error;
mod find;
mod hook;
mod ids;
mod launcher;
mod listpids;
mod proc;

pub use cgroup::{Membership, Side};
pub use error::SlurmError;
pub use find::{Found, How, Launcher, Process, Table, find};
pub use hook::{Job, Moment};
pub use ids::{JobId, NoJobId, Step};
pub use launcher::{LAUNCHERS, is_launcher};
pub use listpids::{ListPids, Listed};
