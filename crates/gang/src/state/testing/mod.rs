//! An oracle: a small interpreter of message programs, and all the ways in which one can go on.
//!
//! For tests and for the example `snapshots`. [`Program`] is run step by step by a [`Machine`] to any point; [`Machine::snapshot`] is what a
//! recorder would see there; [`Machine::can_move`] walks through every continuation, so that it knows which ranks can ever move.

mod explore;
mod generate;
mod machine;
mod program;
mod random;
mod view;
mod walk;

pub use machine::{Machine, Step};
pub use program::{Op, Program};
pub use random::Random;
pub use view::Seen;
pub use walk::walk;
