//! A simulated run is a run: a bulk-synchronous program under a noise model, written as a run bundle.
//!
//! Place in the flow: the bulk engine and the noise model before it, `explain` and `report` after it. They work on the bundle as
//! on a measured one, and the bundle says that it was simulated: docs/run-bundle.md.
//!
//! Every rank has a CPU of its own. One step of a rank is a computation and a wait; the noise is there as each CPU served it,
//! in waits too, so that what waits absorb is known.

mod cpu;
mod error;
mod limits;
mod phase;
mod run;
mod sheets;
mod threads;
mod write;

pub use error::BundleError;
pub use limits::{MOST_EVENTS, MOST_RANK_STEPS, MOST_RANKS};
pub use run::Run;
pub use write::{Written, write_run};
