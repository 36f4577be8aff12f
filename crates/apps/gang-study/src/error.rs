//! The errors of a study.

use std::io;
use std::path::{Path, PathBuf};

/// Why a study failed. Completes the phrase "failed to ...".
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// A file operation failed.
    #[error("{doing} {path}: {source}")]
    Io {
        /// `create`, `write`, `open`, `read`.
        doing: &'static str,
        /// Which one.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A file of runs is of something else.
    #[error("go on with the study in {path}: {what}")]
    NotKept {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// There is no command.
    #[error("start a program: none is given")]
    NoProgram,
    /// A command cannot be started.
    #[error("start {program}: {source}")]
    Start {
        /// Which one.
        program: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// Something that was started failed, or did not become ready.
    #[error("run {what}: {why}")]
    Failed {
        /// What failed.
        what: String,
        /// The last line that it printed.
        why: String,
    },
    /// The service does not answer.
    #[error("get an answer from the gang service: {source}")]
    Service {
        /// Why not.
        source: io::Error,
    },
    /// The study was interrupted.
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
