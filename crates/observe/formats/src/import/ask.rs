//! What to import.

use crate::import::kernel::Program;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// What to import, and where to.
pub struct Ask<'a> {
    /// The file or directory.
    pub input: &'a Path,
    /// Further files of the same trace, where its format has one for each rank.
    pub more: &'a [PathBuf],
    /// Traces of the program, to be joined with the kernel trace in `input`.
    pub app: &'a [PathBuf],
    /// What to add to the program's times to get the kernel's; otherwise it is estimated.
    pub app_offset: Option<i64>,
    /// The run's directory, which must not exist or be empty.
    pub output: &'a Path,
    /// The command line, for the manifest.
    pub command: &'a [String],
    /// When the trace was recorded, as far as known, in RFC 3339; for display only. A date in the
    /// trace itself takes precedence.
    pub started: &'a str,
    /// The program under study.
    pub program: &'a Program,
    /// Becomes true when the user asks to stop.
    pub stop: &'a AtomicBool,
    /// Called with the share of the work done so far, 0..=1.
    pub progress: &'a dyn Fn(f64),
}

impl<'a> Ask<'a> {
    /// Imports the busiest program of a trace, without progress reports and without a way to stop.
    pub fn new(input: &'a Path, output: &'a Path) -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Self {
            input,
            more: &[],
            app: &[],
            app_offset: None,
            output,
            command: &[],
            started: "",
            program: &Program::Busiest,
            stop: &NEVER,
            progress: &|_| (),
        }
    }
}
