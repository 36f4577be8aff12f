//! What measuring threads run: detour loop, fixed work quantum, lockstep iterations.
//!
//! Every workload runs one pinned thread per CPU or rank. These threads only compute, read a
//! counter and fill preallocated chunks; a few times per second the caller's thread hands the
//! chunks to a [`Sink`]. [`Rows`] turns them into rows after the measurement.
//!
//! A [`Benchmark`] is a program of fixed size whose ranks report how long they took and in which
//! operations: integer sort ([`is`]) and halo exchange ([`halo`]).

mod affinity;
mod benchmark;
mod crew;
pub mod detour;
mod error;
pub mod fibonacci;
pub mod fixed_time;
pub mod fixed_work;
pub mod halo;
pub mod is;
mod kernel;
pub mod lockstep;
pub mod md;
mod neighbours;
pub mod npb;
mod quanta;
mod randlc;
mod recorder;
mod rows;
pub mod speed;
mod stopwatch;
#[cfg(test)]
mod testing;
pub mod triad;
mod verified;

pub use affinity::{Settled, enter_realtime, pin};
pub use benchmark::{Benchmark, ParseBenchmarkError};
pub use crew::{Member, Sink};
pub use error::WorkloadError;
pub use kernel::{Fma, Integer, Kernel};
pub use neighbours::Neighbours;
pub use quanta::Quanta;
pub use rows::Rows;
pub use stopwatch::{
    Call, CallTable, Calls, MOST_ITERATIONS, MOST_STRETCHES, Parts, Record, Region, Stopwatch,
};
pub use verified::Verified;
