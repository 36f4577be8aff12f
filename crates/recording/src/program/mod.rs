//! A recorded program: what its rings hold goes to the spill as it is, and becomes tables when the recording is over
//! or has been salvaged.
//!
//! [`Drain`] is the first half, used while the program runs; [`gather_program`] is the second, and needs the bundle only.

mod clocks;
mod communicators;
mod drain;
mod gather;
mod join;
mod lines;
mod marks;
mod rings;
mod rows;
mod salvage;
mod sheets;
mod state;
#[cfg(test)]
mod tests;

pub use clocks::{ClockExchange, clock_exchanges};
pub use drain::{Drain, Drained, NewThread};
pub use gather::{Gathered, gather_program};
pub(crate) use lines::add_lines;
pub use rings::Rings;
pub(crate) use salvage::salvage_rings;
pub use salvage::{forget_rings, note_rings};
pub use sheets::complete_ranks;
pub use state::ProgramRing;
