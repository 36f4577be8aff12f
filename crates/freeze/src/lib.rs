//! Stops and thaws the processes of a job on one node, and confirms it.
//!
//! The arm that acts on a machine: it knows nothing of gangs, slices or other nodes. A [`Group`] holds the processes of one
//! job; a [`Freezer`] says how they are stopped: the freezer of cgroup v2
//! (Documentation/admin-guide/cgroup-v2.rst of the kernel), that of v1
//! (Documentation/admin-guide/cgroup-v1/freezer-subsystem.rst), or signals, which need no rights and are seen by the
//! processes' parents. Frozen is never the last state: a group thaws when it is dropped, a [`Watchdog`] thaws it when its
//! owner is killed, and [`recover`] thaws what an owner without a watchdog left.
//!
//! Nothing here spins: a controller of real-time priority that polled without sleeping would keep the very threads from
//! running that have to stop ([`clock`]).

mod brake;
pub mod clock;
mod control;
mod error;
mod freezer;
mod group;
mod mounts;
mod moves;
mod process;
mod realtime;
mod recover;
mod signals;
mod watchdog;

pub use brake::Brake;
pub use error::FreezeError;
pub use freezer::{Choice, Freezer, Kind};
pub use group::{Added, Frozen, Group};
pub use moves::Moves;
pub use process::{Uid, open as open_process};
pub use realtime::{become_realtime, lock_memory};
pub use recover::recover;
pub use watchdog::Watchdog;
