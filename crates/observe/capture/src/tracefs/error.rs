//! Errors of the kernel's tracer.

use idlewave_ftrace::FtraceError;
use idlewave_run::Unavailable;
use idlewave_sys::{file_limit, files};
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
    /// The trace's task numbers cannot be converted to those of this PID namespace.
    #[error(
        "use the kernel's tracer: its task numbers are those of the whole machine, not of this PID namespace, and the numbers \
         cannot be translated: {0}"
    )]
    Namespace(String),
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

    /// What is missing without the tracer, if the machine does not allow it; `None` for failures
    /// during recording.
    pub fn unavailable(&self) -> Option<Unavailable> {
        let allow = match self {
            TraceError::Absent(_) => {
                "sudo mount -t tracefs nodev /sys/kernel/tracing && sudo idlewave ..."
            }
            TraceError::NotPermitted { .. } => "sudo idlewave ...",
            TraceError::Namespace(_) => "docker run --pid host ...",
            TraceError::Io { .. } | TraceError::Capture(_) => return None,
        };
        Some(Unavailable {
            what: "names of tasks, interrupts and softirqs that took the CPU".to_owned(),
            why: self.to_string(),
            allow: Some(allow.to_owned()),
        })
    }

    /// Whether the disk is full, the user's quota is used up, or the limit on file size is reached.
    pub fn is_disk_full(&self) -> bool {
        self.source_io().is_some_and(files::is_full)
    }

    /// Whether the limit on file size is reached.
    pub fn is_file_limit(&self) -> bool {
        self.source_io().is_some_and(file_limit::is_met)
    }

    /// The system's error, if reading or writing failed.
    fn source_io(&self) -> Option<&io::Error> {
        match self {
            TraceError::Io { source, .. } | TraceError::Capture(FtraceError::Io { source, .. }) => {
                Some(source)
            }
            _ => None,
        }
    }
}
