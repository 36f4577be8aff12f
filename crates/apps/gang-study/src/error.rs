//! What can go wrong in a study.

use std::io;
use std::path::{Path, PathBuf};

/// Why a study cannot be made. Fits "failed to ...".
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// A file.
    #[error("{doing} {path}: {source}")]
    Io {
        /// `create`, `write`, `open`, `read`.
        doing: &'static str,
        /// Which one.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// There is no command.
    #[error("start a program: none is given")]
    NoProgram,
    /// A command cannot be started.
    #[error("start {program}: {source}")]
    Start {
        /// Which one.
        program: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// Something that was started failed, or did not come.
    #[error("run {what}: {why}")]
    Failed {
        /// What.
        what: String,
        /// Its last words.
        why: String,
    },
    /// The service does not answer.
    #[error("hear from the gang service: {source}")]
    Service {
        /// Why not.
        source: io::Error,
    },
    /// Someone stopped it.
    #[error("finish the study: interrupted")]
    Interrupted,
}

impl TrialError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| TrialError::Io {
            doing,
            path,
            source,
        }
    }
}
