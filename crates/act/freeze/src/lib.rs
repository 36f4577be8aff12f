//! Stops and thaws the processes of a job on one node, with confirmation.
//!
//! This arm acts on a machine and knows nothing of gangs, slices or other nodes. A [`Group`] holds
//! the processes of one job. A [`Freezer`] is the method of stopping: the freezer of cgroup v2
//! (Documentation/admin-guide/cgroup-v2.rst of the kernel), that of v1
//! (Documentation/admin-guide/cgroup-v1/freezer-subsystem.rst), or signals, which need no rights
//! but are visible to the processes' parents. Frozen is never the last state: a group thaws when
//! dropped, a [`Watchdog`] thaws it when its owner is killed or stalled, and [`recover`] thaws what
//! remains when an owner was killed along with its watchdogs.
//!
//! Nothing here spins: a controller that polled at real-time priority without sleeping would keep
//! the very threads from running that must stop ([`clock`]).

mod brake;
pub mod clock;
mod control;
mod error;
mod freezer;
mod group;
mod journal;
mod kind;
mod mounts;
mod moves;
mod private_name;
mod process;
mod realtime;
mod recover;
mod signals;
mod watchdog;

pub use brake::{Brake, Frozen};
pub use error::FreezeError;
pub use freezer::{Choice, Freezer};
pub use group::{Added, Group};
pub use kind::Kind;
pub use moves::Moves;
pub use realtime::{become_realtime, follow_realtime, lock_memory, take_precedence};
pub use recover::recover;
pub use watchdog::Watchdog;
