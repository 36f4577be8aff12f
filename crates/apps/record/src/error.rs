//! Why a program could not be recorded.

use crate::launch::LaunchError;
use idlewave_session::SessionError;
use std::io;

/// Why a program was not started. Once it runs, its own exit code counts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// No command was given.
    #[error("record: no command")]
    NoCommand,
    /// The command does not exist.
    #[error("start {0}: no such command")]
    NotFound(String),
    /// The command is not executable.
    #[error("start {command}: {source}")]
    NotStarted {
        /// Its name.
        command: String,
        /// The system's error.
        source: io::Error,
    },
    /// The program's place in the launcher's command was not found.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The bundle or the recording could not be started.
    #[error(transparent)]
    Recording(#[from] SessionError),
}
