//! Runs for foreign viewers and tools.

mod error;
mod job;

pub use error::ExportError;
pub use job::Job;
