//! Recorded MPI programs: which rank waited for which, and where the delay began.
//!
//! [`lanes`] holds the calls of every thread; [`calls`] reads them, and [`find`] looks them up. [`collectives`] groups the calls of one collective,
//! and [`messages`] pairs the two ends of a message. [`waits`] finds which rank waited for which in
//! which call. [`timing`] determines how long things usually take. [`origins`] splits every wait
//! over what delayed its culprit, and follows the culprit's own waits to the rank where the delay
//! began. [`path`] says what the time of the whole program was made of. [`waves`] finds how a delay
//! travelled, and [`summary`] builds the findings. [`taken`] provides replays with what was taken
//! from the ranks.
//!
//! Memory: 44 bytes per call, 56 per end of a message, 8 per message matched, 56 per row of
//! `messages`, 40 per wait, 24 per part. Ten million calls, a third of which wait for two messages
//! each, take about a gigabyte.

mod analysis;
mod calls;
mod collectives;
mod find;
mod lanes;
mod messages;
mod origins;
mod path;
mod rank_times;
mod recorded;
mod summary;
mod taken;
mod timing;
mod waits;
mod waves;

pub use crate::watch::overlap;
pub(crate) use analysis::{Delay, ProgramAnalysis, add_uncoupled, analyse};
pub use lanes::{Call, Instance, Lane, Operation, Program, is_of_mpi};
pub use messages::{End, Matched};
pub use recorded::Recorded;
pub use taken::taken_from;
