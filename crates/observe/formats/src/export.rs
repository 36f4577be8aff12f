//! Runs for foreign viewers and tools.
//!
//! [`Format`] names the formats and starts their exporters, one module each.

mod csv;
mod error;
mod format;
mod job;
mod out;
mod paraver;
#[cfg(feature = "parquet")]
mod parquet;
mod selfish;
mod tables;
mod written;

pub use error::ExportError;
pub use format::Format;
pub use job::Job;
pub use written::{Export, Written};
