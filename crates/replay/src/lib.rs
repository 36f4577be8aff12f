//! Recorded MPI programs, played again: as schedules at their own scale, and by their pattern on other numbers of ranks.
//!
//! The way through this crate: [`script`] has what every rank did between its calls and in them; [`schedule`] writes it as
//! operations, with collectives resolved by [`idlewave_simulate::collectives`]; [`costs`] finds out what messages cost; [`like`](mod@like) plays it and
//! compares with what was measured; [`phases`] and [`looped`] find the loop of every rank, [`pattern`] what it has in common with those of all
//! others, and [`extrapolate`](mod@extrapolate) makes a program for any number of ranks of it.
//!
//! Place in the flow: after the matching of messages ([`idlewave_explain::program`]), with a noise model if there is one.
//! docs/simulate.md has the assumptions.

mod costs;
mod error;
mod extrapolate;
mod like;
mod looped;
mod pattern;
mod phases;
mod schedule;
mod script;

pub use costs::{Cost, MessageCosts, message_costs};
pub use error::ReplayError;
pub use extrapolate::{Extrapolated, Extrapolation, Scaling};
pub use idlewave_simulate::collectives::Algorithms;
pub use like::{Like, LikeOptions, NoiseOfRun, Predicted, Scaled, like, scaling};
pub use pattern::{NoPattern, PatternOfRun, PhaseKindOfRun, PhaseOfRun, Times, pattern_of};
pub use schedule::{Replay, ReplayOptions, schedule_of};
pub use script::Taken;
