//! A recorded program: the contents of its rings are copied to the spill, and become tables when
//! the recording has ended or is recovered.
//!
//! [`Drain`] is the first half and runs beside the program; [`gather_program`] is the second and
//! needs only the bundle.

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
pub use rings::{Rings, no_room};
pub(crate) use salvage::salvage_rings;
pub use salvage::{forget_rings, note_rings};
pub use sheets::{complete_ranks, enter_without_rings};
pub use state::ProgramRing;
