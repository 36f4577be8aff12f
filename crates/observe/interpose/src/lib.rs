//! Records what happens inside an MPI program, and gets the records out.
//!
//! A library is preloaded into the program ([`write_library`]); it writes every MPI call into
//! rings, memory-mapped files that belong to one thread each, and the recorder of the node drains
//! them ([`RingReader`]) and decodes the records ([`Record`]). [`ring`] is the format; both sides
//! are compiled from it.
//!
//! Beside the rings, or without them, the library keeps a page that says what the process is
//! waiting for ([`state`]). Anybody may look at it ([`StatePage`]).

mod bell;
mod decode;
mod error;
mod functions;
mod library;
mod reader;
pub mod ring;
pub mod state;
mod state_reader;
#[doc(hidden)]
pub mod table;

pub use bell::Bell;
pub use decode::{Loss, Mark, Record, decode};
pub use error::{InterposeError, InterposeError as RingError};
pub use functions::{Function, functions};
pub use library::{FILE_NAME, library, write_library};
pub use reader::{RingReader, RingState};
pub use state_reader::{
    StateCollective, StateCommunicator, StateCount, StatePage, StatePair, StatePhase, StateProcess,
    StateRecord, StateWant,
};
