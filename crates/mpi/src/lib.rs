//! MPI without `mpi.h`: the binary interfaces of the libraries as data ([`abi`]), who launched a process
//! ([`Launch`]), and which libraries a program needs ([`Needs`]).

pub mod abi;
mod error;
mod launch;
mod needs;
#[doc(hidden)]
pub mod testing;

pub use abi::{Abi, Family};
pub use error::{Attempt, MpiError};
pub use launch::{Launch, Launcher};
pub use needs::Needs;
