//! MPI without `mpi.h`: the binary interfaces of the libraries as data ([`abi`]), who launched a
//! process ([`Launch`]), which libraries a program needs ([`Needs`]), and the site's library, found
//! and opened at run time ([`Library`]).

pub mod abi;
mod calls;
mod candidate;
mod error;
mod launch;
mod library;
mod needs;
mod path;
mod program;
mod search;
#[doc(hidden)]
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use abi::{Abi, Family};
pub use calls::{Calls, RawHandle, RawStatus, Slot};
pub use error::{Attempt, MpiError};
pub use launch::{Launch, Launcher};
pub use library::Library;
pub use needs::Needs;
pub use path::in_path;
pub use program::needed_by;
pub use search::Search;
