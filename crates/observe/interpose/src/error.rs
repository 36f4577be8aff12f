//! What can go wrong outside the recorded program.

use std::path::PathBuf;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
pub enum InterposeError {
    /// A file could not be written, opened or mapped.
    #[error("{action} {}: {source}", path.display())]
    File {
        /// What was tried: "write", "open", "map".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The ring is still being made: its header is not complete yet. Try again later.
    #[error("read {}: the ring is not initialized yet", .0.display())]
    NotReady(PathBuf),
    /// The file is not a ring, or is damaged.
    #[error("read {}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        reason: String,
    },
    /// A record is of no known kind.
    #[error("decode a record: {what}")]
    Record {
        /// What is wrong with it.
        what: String,
    },
}
