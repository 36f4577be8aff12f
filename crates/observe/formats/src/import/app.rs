//! Runs from traces that tell what a program did: its threads, MPI calls, messages, communicators
//! and marked regions.
//!
//! The reader of such a trace feeds an [`App`] and keeps only what is specific to its format.
//!
//! ```text
//! program     the tables of the program, and the end of the run
//! threads     its threads, those of ranks among them
//! functions   the MPI functions that it called
//! comms       its communicators
//! skew        how far apart the clocks of its ranks or nodes are
//! node        what the manifest says about a node
//! ```

mod comms;
mod functions;
mod node;
mod program;
mod skew;
mod threads;

pub(super) use functions::{MOST_FUNCTIONS, is_collective};
pub(super) use node::NodeFacts;
pub(super) use program::{App, Call, Told};
pub(super) use skew::{Clocks, Shifts, Skew};
pub(super) use threads::{Thread, ThreadId};
