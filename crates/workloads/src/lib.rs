//! What measuring threads run: detour loop, fixed work quantum, lockstep iterations.
//!
//! Every workload runs one pinned thread per CPU or rank. These threads only compute, read a counter
//! and fill preallocated chunks; the caller's thread collects the chunks a few times per second,
//! converts counts to CLOCK_MONOTONIC and hands table rows to a [`Sink`].

mod affinity;
mod crew;
pub mod detour;
mod error;
pub mod fibonacci;
pub mod fixed_work;
pub mod lockstep;
mod recorder;

pub use affinity::{Settled, pin};
pub use crew::Sink;
pub use error::WorkloadError;
