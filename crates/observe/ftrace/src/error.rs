//! What can go wrong with a raw capture.

use idlewave_run::RunError;
use std::io;
use std::path::{Path, PathBuf};

/// Why a raw capture could not be written, read or decoded.
#[derive(Debug, thiserror::Error)]
pub enum FtraceError {
    /// The operating system refused.
    #[error("{action} {path}: {source}")]
    Io {
        /// What was tried, as a verb: "read", "write".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// `capture.json` does not describe a capture that can be decoded.
    #[error("read {path}: {reason}")]
    Capture {
        /// The file.
        path: PathBuf,
        /// Where and why.
        reason: String,
    },
    /// A `format` file or `header_page` is not what a kernel writes.
    #[error("read {path}, line {line}: {reason}: `{text}`")]
    Format {
        /// The file.
        path: PathBuf,
        /// Line, from 1; one past the last line where something is missing.
        line: usize,
        /// The offending line, shortened.
        text: String,
        /// What does not fit.
        reason: String,
    },
    /// The tables could not be written.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl FtraceError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| FtraceError::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }
}
