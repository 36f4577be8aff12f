//! GOAL schedules under the LogGOPS model: what every rank sends, receives and computes, played
//! event by event.
//!
//! Place in the flow: a schedule comes from a file ([`Schedule::read`]) or from a program
//! ([`ScheduleBuilder`]); [`simulate()`] gives the time at which every rank finishes.
//!
//! Sources: T. Hoefler, C. Siebert, A. Lumsdaine, "Group Operation Assembly Language", ICPP 2009
//! (the schedules); T. Hoefler, T. Schneider, A. Lumsdaine, "LogGOPSim", HPDC 2010 (the model and
//! both file forms). The rules, and where they differ from LogGOPSim, are in docs/simulate.md.

mod binary;
mod blocks;
mod build;
mod clocks;
mod crowd;
mod engine;
mod flat;
mod layout;
mod lex;
mod lists;
mod matching;
mod outcome;
mod parameters;
mod prefetch;
mod queue;
mod read;
mod read_error;
mod schedule;
mod text;
mod unfinished;
mod waiting;
mod work;
mod write;

pub use build::{BuildError, Circle, OperationId, ScheduleBuilder};
pub(crate) use clocks::Clocks;
pub(crate) use engine::{Engine, Failure};
pub use flat::{simulate, simulate_with};
pub use outcome::{GoalError, Outcome};
pub use parameters::{Parameters, ParsePerByteError, PerByte};
pub(crate) use prefetch::prefetch;
pub use read_error::{BinaryProblem, ReadError, TextProblem};
pub(crate) use schedule::{ANY, Kind, Task};
pub use schedule::{Action, Dependent, Operation, Schedule};
pub use unfinished::{Stuck, Unfinished, Waiting};
pub(crate) use work::{Stop, When, Work};
