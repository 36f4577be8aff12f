//! Watches the ranks of an MPI job through their state pages: which ranks wait for which, and
//! whether that can end.
//!
//! Place in the flow: the preloaded library writes a page per process
//! ([`idlewave_interpose::state`]); [`Watch`] reads the pages in a directory, those of one job on
//! one node, and asks [`idlewave_gang::state::judge`] for the verdict. `idlewave gang watch` prints
//! it; agents use it for the state of a gang, and to know when MPI_Init is over
//! ([`Watch::initialised`]).
//!
//! A deadlock is reported when two looks agree: every rank in it is in the same call, with the same
//! counters, as at an earlier look. A rank with unknown state counts as live, so a verdict may be
//! missed but is never wrong. Stopped ranks are judged by their current call.

mod assess;
mod error;
mod far;
mod look;
mod lookout;
mod paced;
mod pages;
mod process;
mod records;
mod sighting;
mod text;
mod told;
mod watch;

pub use assess::Settings;
pub use error::WatchError;
pub use far::Far;
pub use look::{Doubt, Initialised, Job, Look, RankLook};
pub use lookout::{Lookout, LookoutError};
pub use paced::Paced;
pub use records::{Seen, Small, Snapped, snapshot};
pub use told::{Ask, Page, Told, ToldError};
pub use watch::Watch;
