//! A test oracle: a small interpreter of message programs with all their continuations.
//!
//! For tests and for the example `snapshots`. A [`Machine`] runs a [`Program`] step by step to any
//! point; [`Machine::snapshot`] is what a recorder would see there; [`Machine::can_move`] explores
//! every continuation, so it knows which ranks can ever move.

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
