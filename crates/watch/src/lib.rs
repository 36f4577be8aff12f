//! Watches the ranks of an MPI job through their state pages: who waits for whom, and whether that ever ends.
//!
//! Place in the flow: the preloaded library writes a page per process ([`idlewave_interpose::state`]); [`Watch`] reads those of a
//! directory, of one job on one node, and asks [`idlewave_gang::state::judge`] what follows. `idlewave gang watch` prints it; agents use it for the state
//! of a gang, and to know when MPI_Init is over ([`Watch::initialised`]).
//!
//! A deadlock is reported when two looks agree: every rank in it is in the same call, with the same counters, as at an earlier look. What a page
//! does not know makes its rank live, so a verdict is missed rather than wrong. Ranks that are stopped count by the call that they are in.

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
pub use look::{Initialised, Job, Look, RankLook};
pub use lookout::{Lookout, LookoutError};
pub use paced::Paced;
pub use records::{Seen, Small, Snapped, snapshot};
pub use told::{Ask, Page, Told, ToldError};
pub use watch::Watch;
