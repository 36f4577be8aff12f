//! What can go wrong with a bundle on disk.

use crate::SchemaVersion;
use idlewave_sys::files::Odd;
use idlewave_sys::{file_limit, files};
use std::io;
use std::path::PathBuf;

/// Why a run could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An I/O error from the operating system; the disk may be full.
    #[error("{action} {path}: {source}")]
    Io {
        /// The action, as a verb: "read", "write", "create".
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The directory for a new run already exists.
    #[error("create {0}: it already exists")]
    Exists(PathBuf),
    /// No `run.json`, so not a bundle.
    #[error("read {0}: not a run bundle (it has no run.json)")]
    NotARun(PathBuf),
    /// It contains a link or something else that is not allowed in a run.
    #[error("read {}: {}, and a run holds plain files only", .0.path.display(), .0.kind)]
    Odd(Odd),
    /// `run.json` is not a valid manifest.
    #[error("read {path}: {reason}")]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// The parser's message, with position.
        reason: String,
    },
    /// Written by a newer idlewave, with a schema that this one does not support.
    #[error("read {path}: its schema is {found}, this idlewave reads up to {known}")]
    NewerSchema {
        /// The manifest.
        path: PathBuf,
        /// The bundle's schema.
        found: SchemaVersion,
        /// The newest schema known here.
        known: SchemaVersion,
    },
    /// The bundle has no such table.
    #[error("read {path}: the run has no table `{table}`")]
    NoTable {
        /// The bundle.
        path: PathBuf,
        /// The table's name.
        table: String,
    },
    /// The table is truncated, altered, or not a table.
    #[error("read {path}: {reason}")]
    Table {
        /// The table's file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl From<Odd> for RunError {
    fn from(odd: Odd) -> Self {
        RunError::Odd(odd)
    }
}

impl RunError {
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| RunError::Io {
            action,
            path,
            source,
        }
    }

    /// Whether the file does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, RunError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether the disk is full, the user's quota is used up, or the limit on file size is reached.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, RunError::Io { source, .. }
            if files::is_full(source))
    }

    /// Whether the limit on file size is reached.
    pub fn is_file_limit(&self) -> bool {
        matches!(self, RunError::Io { source, .. } if file_limit::is_met(source))
    }
}
