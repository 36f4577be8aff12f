//! Errors of watching a job.

use idlewave_interpose::InterposeError;
use std::path::PathBuf;

/// Errors of this crate. They fit "failed to ...".
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The directory of the state pages cannot be read.
    #[error("read the directory {}: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A state page cannot be read, or is of another version.
    #[error(transparent)]
    Page(#[from] InterposeError),
}
