//! What happens inside a recorded MPI program, and how it gets out.
//!
//! A library is preloaded into the program ([`write_library`]); it writes every MPI call into rings, memory-mapped files
//! that belong to one thread each, and the recorder of the node drains them ([`RingReader`]) and decodes the records
//! ([`Record`]). [`ring`] is the format; both sides are compiled from it.

mod bell;
mod decode;
mod error;
mod functions;
mod library;
mod reader;
pub mod ring;
#[doc(hidden)]
pub mod table;

pub use bell::Bell;
pub use decode::{Loss, Mark, Record, decode};
pub use error::{InterposeError, InterposeError as RingError};
pub use functions::{Function, functions};
pub use library::{FILE_NAME, write_library};
pub use reader::{RingReader, RingState};
