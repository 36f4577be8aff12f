//! Why a recording ended without a result.

use idlewave_capture::host::CaptureError;
use idlewave_capture::tracefs::TraceError;
use idlewave_clock::ClockError;
use idlewave_ftrace::FtraceError;
use idlewave_run::RunError;
use idlewave_sys::{file_limit, files};
use idlewave_workloads::WorkloadError;
use std::io;
use std::path::PathBuf;

/// Advice for a full disk.
const DISK_FULL: &str = "free some space, then see with `idlewave explain RUN` what was recorded; \
    or choose another place with -o";

/// Advice for the limit on file size.
const FILE_LIMIT: &str = "raise the limit on the size of files, as with ulimit -f unlimited; \
    `idlewave explain RUN` shows what was recorded";

/// Advice for a damaged bundle.
pub const COPY_AGAIN: &str = "copy the bundle again from where it was recorded, or record again";

/// Advice for the limit on file size if nothing was recorded.
const RAISE: &str = "raise the limit on the size of files, as with ulimit -f unlimited";

/// Why a recording ended without a result, or a bundle could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// An option is not possible.
    #[error("use {option}: {reason}")]
    Option {
        /// The option with its value.
        option: String,
        /// The reason.
        reason: String,
        /// The next step.
        next: String,
    },
    /// This machine, or this user's rights, do not allow the measurement.
    #[error("measure this machine: {reason}")]
    NotPossible {
        /// The reason.
        reason: String,
        /// The next step.
        next: String,
    },
    /// Another process is working on the bundle.
    #[error("open {0}: another idlewave is at work on it")]
    Busy(PathBuf),
    /// The bundle's raw capture cannot be decoded.
    #[error(transparent)]
    Damaged(FtraceError),
    /// A file beside the bundle could not be read or written.
    #[error("{action} {path}: {source}")]
    Io {
        /// The action, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Reading or writing the bundle failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Recording of the kernel's view failed.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A measurement failed.
    #[error(transparent)]
    Workload(WorkloadError),
    /// The recording failed before anything was measured, and its run was removed.
    #[error("{0}; nothing had been measured, so no run was kept")]
    NothingKept(Box<SessionError>),
    /// The user interrupted the recording before there was a result.
    #[error("finish: interrupted; {kept}")]
    Interrupted {
        /// What can still be used.
        kept: String,
    },
}

impl SessionError {
    /// A file beside the bundle could not be read or written; `action` is a verb.
    pub fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| SessionError::Io {
            action,
            path,
            source,
        }
    }

    /// Whether the limit on file size (`ulimit -f`) is reached.
    pub fn is_file_limit(&self) -> bool {
        match self {
            SessionError::Io { source, .. } => file_limit::is_met(source),
            SessionError::Trace(e) => e.is_file_limit(),
            SessionError::Run(e) => e.is_file_limit(),
            SessionError::NothingKept(e) => e.is_file_limit(),
            SessionError::Damaged(FtraceError::Io { source, .. }) => file_limit::is_met(source),
            _ => false,
        }
    }

    /// Whether the disk is full, the user's quota is used up, or the limit on file size is reached.
    fn is_full(&self) -> bool {
        match self {
            SessionError::Io { source, .. } => files::is_full(source),
            SessionError::Trace(e) => e.is_disk_full(),
            SessionError::Run(e) => e.is_disk_full(),
            _ => self.is_file_limit(),
        }
    }

    /// Advice for the user, one line.
    pub fn next_step(&self) -> Option<String> {
        let text = match self {
            SessionError::Option { next, .. } | SessionError::NotPossible { next, .. } => {
                return Some(next.clone());
            }
            SessionError::Busy(_) => "wait until it has finished, then try again",
            SessionError::Damaged(_) => COPY_AGAIN,
            SessionError::NothingKept(e) if e.is_file_limit() => RAISE,
            SessionError::NothingKept(e) if e.is_full() => {
                "free some space, or choose another place with -o"
            }
            SessionError::NothingKept(e) => return e.next_step(),
            error if error.is_file_limit() => FILE_LIMIT,
            error if error.is_full() => DISK_FULL,
            SessionError::Io { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => {
                    "create its parent directory, or choose another place with -o"
                }
                _ => "choose a writable place with -o",
            },
            SessionError::Trace(_) => "try again with --no-trace",
            _ => return None,
        };
        Some(text.to_owned())
    }
}

impl From<CaptureError> for SessionError {
    fn from(error: CaptureError) -> Self {
        SessionError::NotPossible {
            reason: error.to_string(),
            next: "allow at least one CPU for this process, as with taskset -c 0".to_owned(),
        }
    }
}

impl From<ClockError> for SessionError {
    fn from(error: ClockError) -> Self {
        SessionError::NotPossible {
            reason: error.to_string(),
            next: "choose another clock source in /sys/devices/system/clocksource".to_owned(),
        }
    }
}

impl From<WorkloadError> for SessionError {
    fn from(error: WorkloadError) -> Self {
        match error {
            WorkloadError::Run(error) => SessionError::Run(error),
            WorkloadError::Pin { .. } => SessionError::NotPossible {
                reason: error.to_string(),
                next: "give CPUs that this process may use with --cpus".to_owned(),
            },
            WorkloadError::Realtime { priority, .. } => SessionError::NotPossible {
                reason: error.to_string(),
                next: format!(
                    "run as root, or allow it: CAP_SYS_NICE, or LimitRTPRIO= (ulimit -r) of {priority}"
                ),
            },
            WorkloadError::Neighbour { neighbour, .. } => SessionError::NotPossible {
                reason: error.to_string(),
                next: format!(
                    "leave out --load {neighbour}, or choose another place with -o or TMPDIR"
                ),
            },
            WorkloadError::Spawn(_) => SessionError::NotPossible {
                reason: error.to_string(),
                next: "use fewer --ranks, or allow more threads with ulimit -u".to_owned(),
            },
            other => SessionError::Workload(other),
        }
    }
}

impl From<FtraceError> for SessionError {
    fn from(error: FtraceError) -> Self {
        match error {
            FtraceError::Run(error) => SessionError::Run(error),
            other => SessionError::Damaged(other),
        }
    }
}
