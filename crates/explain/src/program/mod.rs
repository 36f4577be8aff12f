//! Recorded MPI programs: who waited for whom, and where the delay began.
//!
//! The way through this module: [`lanes`] holds the calls of every thread, [`collectives`] puts the calls of one
//! collective together and [`messages`] the two ends of a message; [`waits`] finds who waited for whom in which
//! call; [`timing`] knows how long things usually take; [`origins`] splits every wait over what held its culprit
//! back, followed through the culprit's own waits to the rank where the delay began; [`waves`] sees how a delay
//! travelled; [`summary`] makes findings of it. [`taken`] says what was taken from the ranks to those who play the
//! program again.
//!
//! Memory: 32 bytes per call, 56 per end of a message, 8 per message matched, 56 per row of `messages`, 40 per
//! wait, 24 per part. Ten million calls of which a third waits for two messages each are below a gigabyte.

mod analysis;
mod collectives;
mod lanes;
mod messages;
mod origins;
mod rank_times;
mod summary;
mod taken;
mod timing;
mod waits;
mod waves;

pub use analysis::Recorded;
pub(crate) use analysis::{Delay, add_uncoupled, analyse};
pub use collectives::Instance;
pub use lanes::{Call, Lane, Operation, Program};
pub use messages::{End, Matched};
pub use origins::overlap;
pub use taken::taken_from;
