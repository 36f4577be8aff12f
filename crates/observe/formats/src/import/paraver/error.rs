//! Why a Paraver trace could not be read.

use idlewave_run::RunError;
use std::io;
use std::path::PathBuf;

/// Why a Paraver trace could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrvError {
    /// A file could not be read.
    #[error("read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The first line or those of the communicators are not those of a trace.
    #[error("read {}: line {line}: {reason}", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The run could not be written.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The user asked for an end.
    #[error("read the trace: interrupted")]
    Interrupted,
}

impl PrvError {
    /// An error of reading `path`.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
