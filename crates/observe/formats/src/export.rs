//! Runs for foreign viewers and tools.
//!
//! [`Format`] names the formats and starts their exporters, one module each.

mod chrome;
mod csv;
mod error;
mod format;
mod job;
mod kernel;
mod names;
mod otf2;
mod out;
mod paraver;
#[cfg(feature = "parquet")]
mod parquet;
pub(crate) mod perfetto;
mod selfish;
mod sorter;
mod tables;
mod trace_dat;
mod view;
mod written;

pub use error::ExportError;
pub use format::Format;
pub use job::Job;
pub use written::{Export, Written};
