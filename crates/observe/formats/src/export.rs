//! Runs for foreign viewers and tools.

pub mod chrome;
mod error;
mod job;
mod kernel;
mod names;
mod output;
pub mod perfetto;
pub mod trace_dat;
mod view;

pub use error::ExportError;
pub use job::Job;
