//! Why the kernel could not be traced.

use idlewave_ftrace::FtraceError;
use idlewave_run::Unavailable;
use std::io;
use std::path::{Path, PathBuf};

/// Why the kernel could not be traced.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// This kernel has no tracefs, or hides it.
    #[error("find tracefs: {0}")]
    Absent(String),
    /// Tracing needs rights that this process does not have.
    #[error("use the kernel's tracer ({path}): {source}")]
    NotPermitted {
        /// What was refused.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Reading or writing failed otherwise.
    #[error("{action} {path}: {source}")]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The capture's description could not be written.
    #[error(transparent)]
    Capture(#[from] FtraceError),
}

impl TraceError {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => TraceError::NotPermitted { path, source },
            io::ErrorKind::ReadOnlyFilesystem => TraceError::NotPermitted { path, source },
            _ => TraceError::Io {
                action,
                path,
                source,
            },
        }
    }

    /// What is missing without the tracer, if the reason is the machine and not a fault on the way.
    pub fn unavailable(&self) -> Option<Unavailable> {
        let allow = match self {
            TraceError::Absent(_) => {
                "sudo mount -t tracefs nodev /sys/kernel/tracing && sudo idlewave ..."
            }
            TraceError::NotPermitted { .. } => "sudo idlewave ...",
            TraceError::Io { .. } | TraceError::Capture(_) => return None,
        };
        Some(Unavailable {
            what: "names of tasks, interrupts and softirqs that took the CPU".to_owned(),
            why: self.to_string(),
            allow: Some(allow.to_owned()),
        })
    }

    /// Whether the disk, or the user's share of it, is full.
    pub fn is_disk_full(&self) -> bool {
        let (TraceError::Io { source, .. } | TraceError::Capture(FtraceError::Io { source, .. })) =
            self
        else {
            return false;
        };
        matches!(
            source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        )
    }
}
