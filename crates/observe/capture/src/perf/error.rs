//! Errors of perf events.

use idlewave_units::Pid;

/// Why switches of own threads could not be recorded, or cache misses not counted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PerfError {
    /// The kernel's setting forbids perf events to users without privileges.
    #[error(
        "open a perf event: not permitted, as kernel.perf_event_paranoid is {level} \
         (`sudo sysctl kernel.perf_event_paranoid=2` would allow it)"
    )]
    NotPermitted {
        /// The setting; 2 or less allows it.
        level: i64,
    },
    /// The setting allows it, or cannot be read, but the call was refused by a container's seccomp
    /// filter or a security module.
    #[error("open a perf event: refused by a container's filter or a security module ({0})")]
    Filtered(#[source] std::io::Error),
    /// This kernel has no perf events, or is older than Linux 4.3 (switch records).
    #[error("open a perf event: this kernel does not support records of switches ({0})")]
    Unsupported(#[source] std::io::Error),
    /// The CPU, or the virtual machine, has no such counter.
    #[error("open a perf event: this CPU, or its hypervisor, has no counter of cache misses")]
    NoCounter,
    /// A counter cannot be read.
    #[error("read a counter of cache misses: {0}")]
    Count(#[source] std::io::Error),
    /// The thread does not exist (any longer).
    #[error("open a perf event: thread {0} does not exist")]
    NoThread(Pid),
    /// Another failure of the call, such as too many open files.
    #[error("open a perf event for thread {pid}: {source}")]
    Open {
        /// The thread.
        pid: Pid,
        /// The reason.
        source: std::io::Error,
    },
    /// The ring could not be mapped, usually because of the limit on locked memory.
    #[error("map the perf ring of thread {pid}: {source}")]
    Map {
        /// The thread.
        pid: Pid,
        /// The reason.
        source: std::io::Error,
    },
    /// The thread that drains the rings could not be started.
    #[error("start the reader of perf rings: {0}")]
    Reader(#[source] std::io::Error),
}

impl PerfError {
    /// The command that would allow the recording, if there is one.
    pub fn allow(&self) -> Option<&'static str> {
        match self {
            PerfError::NotPermitted { .. } => Some("sudo sysctl kernel.perf_event_paranoid=2"),
            PerfError::Filtered(_) => Some("docker run --cap-add PERFMON ..."),
            PerfError::Map { .. } => Some("ulimit -l unlimited"),
            PerfError::Open { .. } => Some("ulimit -n 65536"),
            _ => None,
        }
    }
}
