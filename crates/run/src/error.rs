//! What can go wrong with a bundle on disk.

use crate::SchemaVersion;
use std::io;
use std::path::PathBuf;

/// Why a run could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The operating system refused; the disk may be full.
    #[error("{action} {path}: {source}")]
    Io {
        /// What was tried, as a verb: "read", "write", "create".
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The directory for a new run is there already.
    #[error("create {0}: it exists already")]
    Exists(PathBuf),
    /// No `run.json`, so not a bundle.
    #[error("read {0}: not a run bundle (it has no run.json)")]
    NotARun(PathBuf),
    /// `run.json` is no manifest.
    #[error("read {path}: {reason}")]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// Where and why, from the parser.
        reason: String,
    },
    /// Written by a newer idlewave, in a form this one does not know.
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
    /// The table is cut short, altered, or not a table.
    #[error("read {path}: {reason}")]
    Table {
        /// The table's file.
        path: PathBuf,
        /// What does not fit.
        reason: String,
    },
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

    /// Whether the file is not there.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, RunError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether the disk, or the user's share of it, is full.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, RunError::Io { source, .. }
            if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge))
    }
}
