//! Why a recording, or its analysis, ended without its result.

use idlewave_capture::host::CaptureError;
use idlewave_capture::tracefs::TraceError;
use idlewave_clock::ClockError;
use idlewave_explain::ExplainError;
use idlewave_ftrace::FtraceError;
use idlewave_report::ReportError;
use idlewave_run::RunError;
use idlewave_simulate::SimulateError;
use idlewave_workloads::WorkloadError;
use std::io;
use std::path::PathBuf;

/// What to do about a full disk.
const DISK_FULL: &str = "free some space, then see with `idlewave explain RUN` what was recorded; \
    or choose another place with -o";

/// Why a recording, or its analysis, ended without its result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// An option cannot be carried out as it stands.
    #[error("use {option}: {reason}")]
    Option {
        /// The option with its value.
        option: String,
        /// What does not fit.
        reason: String,
        /// What would.
        next: String,
    },
    /// This machine, or this user's rights on it, do not allow the measurement.
    #[error("measure this machine: {reason}")]
    NotPossible {
        /// Why.
        reason: String,
        /// What would help.
        next: String,
    },
    /// The bundle belongs to a process that is at work on it.
    #[error("open {0}: another idlewave is at work on it")]
    Busy(PathBuf),
    /// The bundle's raw capture cannot be decoded.
    #[error(transparent)]
    Damaged(FtraceError),
    /// A file beside the bundle could not be read or written.
    #[error("{action} {path}: {source}")]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Reading or writing the bundle failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The kernel's view could not be recorded to its end.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A measurement failed.
    #[error(transparent)]
    Workload(WorkloadError),
    /// The run could not be explained.
    #[error(transparent)]
    Explain(ExplainError),
    /// The prediction failed.
    #[error("predict: {0}")]
    Predict(SimulateError),
    /// The report could not be made.
    #[error(transparent)]
    Report(ReportError),
    /// The work was ended on request before there was a result.
    #[error("finish: interrupted; {kept}")]
    Interrupted {
        /// What there is to be read all the same.
        kept: String,
    },
}

impl RecordingError {
    /// A file beside the bundle could not be read or written; `action` is a verb.
    pub fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| RecordingError::Io {
            action,
            path,
            source,
        }
    }

    /// What the user can do about it, one line.
    pub fn next_step(&self) -> Option<String> {
        let text = match self {
            RecordingError::Option { next, .. } | RecordingError::NotPossible { next, .. } => {
                return Some(next.clone());
            }
            RecordingError::Busy(_) => "wait until it has finished, then try again",
            RecordingError::Damaged(_) | RecordingError::Explain(_) => {
                "copy the bundle again from where it was recorded, or record anew"
            }
            RecordingError::Io { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => DISK_FULL,
                io::ErrorKind::NotFound => {
                    "make the directory above it first, or choose another place with -o"
                }
                _ => "choose a place that you may write with -o",
            },
            RecordingError::Trace(e) if e.is_disk_full() => DISK_FULL,
            RecordingError::Run(e) if e.is_disk_full() => DISK_FULL,
            RecordingError::Trace(_) => "try again with --no-trace",
            _ => return None,
        };
        Some(text.to_owned())
    }
}

impl From<CaptureError> for RecordingError {
    fn from(error: CaptureError) -> Self {
        RecordingError::NotPossible {
            reason: error.to_string(),
            next: "allow at least one CPU for this process, as with taskset -c 0".to_owned(),
        }
    }
}

impl From<ClockError> for RecordingError {
    fn from(error: ClockError) -> Self {
        RecordingError::NotPossible {
            reason: error.to_string(),
            next: "choose another clock source in /sys/devices/system/clocksource".to_owned(),
        }
    }
}

impl From<WorkloadError> for RecordingError {
    fn from(error: WorkloadError) -> Self {
        match error {
            WorkloadError::Run(error) => RecordingError::Run(error),
            WorkloadError::Pin { .. } => RecordingError::NotPossible {
                reason: error.to_string(),
                next: "give CPUs that this process may use with --cpus".to_owned(),
            },
            WorkloadError::Spawn(_) => RecordingError::NotPossible {
                reason: error.to_string(),
                next: "use fewer --ranks, or allow more threads with ulimit -u".to_owned(),
            },
            other => RecordingError::Workload(other),
        }
    }
}

impl From<ExplainError> for RecordingError {
    fn from(error: ExplainError) -> Self {
        match error {
            ExplainError::Run(error) => RecordingError::Run(error),
            ExplainError::Interrupted => RecordingError::Interrupted {
                kept: "the bundle is as it was".to_owned(),
            },
            other => RecordingError::Explain(other),
        }
    }
}

impl From<FtraceError> for RecordingError {
    fn from(error: FtraceError) -> Self {
        match error {
            FtraceError::Run(error) => RecordingError::Run(error),
            other => RecordingError::Damaged(other),
        }
    }
}

impl From<ReportError> for RecordingError {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::Run(error) => RecordingError::Run(error),
            other => RecordingError::Report(other),
        }
    }
}
