//! A simulated run is a run: a bulk-synchronous program under a noise model, written as a run bundle.
//!
//! Place in the flow: the bulk engine and the noise model before it, `explain` and `report` after it. They work on the bundle as
//! on a measured one, and the bundle says that it was simulated: docs/run-bundle.md.
//!
//! Every rank has a CPU of its own. One step of a rank is a computation and a wait; the noise is there as each CPU served it,
//! in waits too, so that what waits absorb is known.

mod cpu;
mod error;
mod lockstep;
mod sheets;
mod threads;
mod write;

pub use error::SimulatedError;
pub use write::{MOST_EVENTS, MOST_RANK_STEPS, MOST_RANKS, Run, Written, write_run};
