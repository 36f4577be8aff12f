//! What happens inside a recorded MPI program, and how it gets out.
//!
//! A library is preloaded into the program; it writes every MPI call into rings, memory-mapped files that
//! belong to one thread each, and the recorder of the node drains them. [`ring`] is the format; both sides
//! are compiled from it.

pub mod ring;

mod reader;

pub use reader::{RingError, RingReader, RingState};
