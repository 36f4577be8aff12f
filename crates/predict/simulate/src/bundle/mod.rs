//! A simulated run as a run bundle: a bulk-synchronous program under a noise model.
//!
//! Place in the flow: the bulk engine and the noise model come before, `explain` and `report`
//! after. They treat the bundle like a measured one; the bundle says that it was simulated
//! (docs/run-bundle.md).
//!
//! Every rank has a CPU of its own. A step of a rank is a computation and a wait. The bundle holds
//! the noise as each CPU served it, during waits too, so that the noise that waits absorb is known.

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
