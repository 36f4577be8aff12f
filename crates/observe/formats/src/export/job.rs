//! What every exporter gets.

use crate::export::ExportError;
use idlewave_run::RunReader;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// One export: each format has a function `write(&Job) -> Result<Export, ExportError>`.
pub struct Job<'a> {
    /// The run.
    pub run: &'a RunReader,
    /// The file to write; formats of several files derive their names from it.
    pub output: &'a Path,
    /// Becomes true when the user asks to stop.
    pub stop: &'a AtomicBool,
    /// Called with the share of the work done so far, 0..=1.
    pub progress: &'a dyn Fn(f64),
}

impl Job<'_> {
    /// An error once the user has asked to stop.
    pub fn go_on(&self) -> Result<(), ExportError> {
        // The flag carries no data, so no ordering is needed.
        match self.stop.load(Ordering::Relaxed) {
            true => Err(ExportError::Interrupted),
            false => Ok(()),
        }
    }
}
