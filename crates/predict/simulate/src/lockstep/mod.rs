//! Ranks in lockstep on the wall clock: compute, wait for the neighbours, step after step, for
//! millions of ranks.
//!
//! Place in the flow: a [`Noise`](idlewave_noise::Noise) and a [`Stencil`](crate::Stencil) go
//! in, the times at which every rank ends every step come out. Model: in step k rank i computes
//! from t(i, k) on, delayed by the events that its CPU meets on the wall clock, so that noise
//! during its wait costs nothing; and
//! t(i, k+1) = max over itself and its neighbours j of the end of j's computation, plus the time of
//! communication.
//!
//! The result is exact in nanoseconds and the same for any number of threads, vector width and
//! tiling: events are drawn by counter, and each rank meets its own in order.

mod columns;
mod engine;
mod error;
mod kernel;
mod layout;
mod portable;
mod rate;
mod settle;
mod tiles;
#[cfg(target_arch = "x86_64")]
mod wide;

pub use engine::{InjectedDelay, Lockstep, LockstepConfig};
pub use error::LockstepError;
pub use rate::StepTime;

#[cfg(test)]
mod tests;
