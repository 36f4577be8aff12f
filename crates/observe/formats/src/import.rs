//! Foreign traces as runs.
//!
//! [`import`] recognises the format and writes the run. [`kernel`] has the readers of kernel traces,
//! whose run is like one of `idlewave record -- COMMAND` of a program that does not use MPI;
//! [`paraver`], [`otf2`] and [`kineto`] read traces of ranks. What a program did, whatever the
//! trace, goes through [`app`].
//!
//! ```text
//! detect     which format a file has, by its content
//! start      the start of a file
//! ask        what to import
//! imported   what came of it
//! entry      from the one to the other
//! join       a kernel trace and the traces of the program, as one run
//! ```

mod app;
mod ask;
mod detect;
mod entry;
mod error;
mod imported;
mod join;
pub mod kernel;
mod kineto;
mod otf2;
mod paraver;
pub mod perfetto;
mod start;

pub use ask::Ask;
pub use detect::{Format, Recorder, detect};
pub use entry::import;
pub use error::ImportError;
pub use imported::{Imported, Joined, Subject};
pub use kernel::{Chosen, Program, Rule};
