//! Why a trace could not be imported.

use idlewave_ftrace::FtraceError;
use idlewave_run::RunError;
use idlewave_sys::files::Kind;
use std::io;
use std::path::{Path, PathBuf};

/// Why a trace could not be imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A file could not be read.
    #[error("read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file has no format that can be imported.
    #[error("import {}: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Why not, in words.
        reason: String,
        /// What to do instead.
        next: String,
    },
    /// The file contradicts its own header.
    #[error("import {}: {reason} at byte {offset}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where, in bytes from the start of the file.
        offset: u64,
        /// What does not fit.
        reason: String,
    },
    /// A line of a text does not follow its format.
    #[error("import {}: line {line}: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The trace lacks what a run needs.
    #[error("import {}: {what}", path.display())]
    Lacks {
        /// The file.
        path: PathBuf,
        /// What is missing.
        what: String,
        /// How to record it.
        next: String,
    },
    /// No thread of the trace belongs to the program that was asked for.
    #[error("import: no thread of the trace belongs to {asked}")]
    NoProgram {
        /// The program, in words.
        asked: String,
        /// Programs that used the most CPU time, the busiest first.
        busiest: Vec<String>,
    },
    /// The files that were given do not go together.
    #[error("import {}: {reason}", path.display())]
    Together {
        /// The one that does not fit.
        path: PathBuf,
        /// Why not, in words.
        reason: String,
        /// What to give instead.
        next: String,
    },
    /// Sub-buffers could not be decoded.
    #[error(transparent)]
    Trace(#[from] FtraceError),
    /// The run could not be written.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The user interrupted the import.
    #[error("import: interrupted")]
    Interrupted,
}

impl ImportError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    /// The next step for the user, in a line.
    pub fn next_step(&self) -> String {
        match self {
            Self::Io { source, .. } => match source.get_ref().and_then(|s| s.downcast_ref()) {
                Some(Kind::Link) => "give the file that the link leads to",
                Some(Kind::Directory) => "give a file, not a directory",
                Some(_) => {
                    "give a regular file: save what a pipe or a device delivers into one first"
                }
                None => match source.kind() {
                    io::ErrorKind::NotFound => "check the path: there is no such file",
                    io::ErrorKind::PermissionDenied => "give a file that you may read",
                    _ => "copy the file again from where it was recorded",
                },
            }
            .to_owned(),
            Self::Format { next, .. } | Self::Lacks { next, .. } | Self::Together { next, .. } => {
                next.clone()
            }
            Self::Damaged { .. } | Self::Line { .. } => {
                "copy the file again from where it was recorded: it may be cut short".to_owned()
            }
            Self::NoProgram { busiest, .. } if busiest.is_empty() => {
                "leave --program out: the trace has no user programs".to_owned()
            }
            Self::NoProgram { busiest, .. } => {
                format!("give one of these with --program: {}", busiest.join(", "))
            }
            Self::Trace(_) => "copy the trace again from where it was recorded".to_owned(),
            Self::Run(_) => "choose a directory that you may write with -o".to_owned(),
            Self::Interrupted => "import again".to_owned(),
        }
    }
}
