//! Why a run could not be exported.

use idlewave_run::RunError;
use std::io;
use std::path::PathBuf;

/// Why a run could not be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The run could not be read.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A file could not be written.
    #[error("write {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file or directory of the export exists already.
    #[error("write {}: it already exists", .0.display())]
    Exists(PathBuf),
    /// The tools that read the format refuse a file of this name.
    #[error("write {}: {reason}", path.display())]
    Name {
        /// The name.
        path: PathBuf,
        /// Why, in words.
        reason: &'static str,
        /// A name that the tools accept.
        instead: PathBuf,
    },
    /// The run lacks what the format is about.
    #[error("export to {format}: {reason}")]
    Lacks {
        /// The format's name.
        format: &'static str,
        /// What is missing, in words.
        reason: String,
    },
    /// The library that writes the format is not installed.
    #[error("export to {format}: its library cannot be opened: {why}")]
    Library {
        /// The format's name.
        format: &'static str,
        /// The system's error message.
        why: String,
        /// The packages that have it.
        package: &'static str,
    },
    /// The user asked to stop.
    #[error("export the run: interrupted")]
    Interrupted,
}

impl ExportError {
    /// An error in writing `path`.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
