//! Replays recorded MPI programs: as schedules at their own scale, and from their pattern at other
//! rank counts.
//!
//! The way through this crate: [`script`] lists what every rank did in its calls and between them;
//! [`schedule`] writes it as operations, with collectives resolved by
//! [`idlewave_simulate::collectives`]; [`costs`] estimates what messages cost; [`like`](mod@like)
//! plays the schedule and compares it with the measurement; [`phases`] and [`looped`] find the loop
//! of each rank, [`find_pattern`] finds the [`pattern`] that all loops share, and
//! [`extrapolate`](mod@extrapolate) turns that into a program for any number of ranks.
//!
//! Place in the flow: after message matching ([`idlewave_explain::program`]), with a noise model if
//! there is one. docs/simulate.md lists the assumptions.

mod costs;
mod error;
mod extrapolate;
mod find_pattern;
mod lengths;
mod like;
mod line;
mod lockstep;
mod looped;
mod neighbours;
mod pattern;
mod phases;
mod schedule;
mod script;

pub use costs::{Cost, MessageCosts, message_costs};
pub use error::ReplayError;
pub use extrapolate::{Extrapolated, Extrapolation};
pub use find_pattern::pattern_of;
pub use idlewave_simulate::collectives::Algorithms;
pub use lengths::Scaling;
pub use like::{AtScale, Like, LikeOptions, NoiseOfRun, Predicted, Scaled, like, scaling};
pub use lockstep::LikeLockstep;
pub use looped::Times;
pub use pattern::{NoPattern, PatternOfRun, PhaseKindOfRun, PhaseOfRun};
pub use schedule::{Replay, ReplayOptions, schedule_of};
pub use script::Taken;
