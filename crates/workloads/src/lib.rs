//! What measuring threads run: detour loop, fixed work quantum, lockstep iterations.
//!
//! Every workload runs one pinned thread per CPU or rank. These threads only compute, read a counter
//! and fill preallocated chunks; the caller's thread hands the chunks to a [`Sink`] a few times per second.
//! [`Rows`] makes rows of them when nothing is measured any more.

mod affinity;
mod crew;
pub mod detour;
mod error;
pub mod fibonacci;
pub mod fixed_work;
pub mod lockstep;
pub mod md;
mod recorder;
mod rows;
pub mod triad;

pub use affinity::{Settled, pin};
pub use crew::{Member, Sink};
pub use error::WorkloadError;
pub use rows::Rows;
