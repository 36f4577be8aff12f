//! Errors of stopping and thawing processes.

use crate::kind::Kind;
use idlewave_sys::Uid;
use idlewave_units::{Nanos, Pid};
use std::path::PathBuf;

/// Why processes could not be stopped, thawed or put into a group.
#[derive(Debug, thiserror::Error)]
pub enum FreezeError {
    /// This method does not work here.
    #[error("freeze with {kind}: {why}")]
    Unusable {
        /// The method.
        kind: Kind,
        /// The reason, and what would help.
        why: String,
    },
    /// A file of a control group, of /proc or of the watchdog.
    #[error("{doing} {path}: {source}")]
    File {
        /// `read`, `write`, `create` ...
        doing: &'static str,
        /// Its path.
        path: PathBuf,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// There is no such process, or it has ended.
    #[error("find process {0}: it does not exist or has ended")]
    NoProcess(Pid),
    /// The process belongs to another user than the group.
    #[error("freeze process {pid} of user {theirs}: the group belongs to user {group}")]
    OtherUser {
        /// The process.
        pid: Pid,
        /// Its user: the first of its real, effective and saved ones that differs.
        theirs: Uid,
        /// The user of the group's processes.
        group: Uid,
    },
    /// Only root stops processes of others.
    #[error(
        "freeze processes of user {wanted} as user {caller}: only root can stop processes of other users"
    )]
    NotRoot {
        /// The user whose processes were to be stopped.
        wanted: Uid,
        /// The user who asked.
        caller: Uid,
    },
    /// Stopping this one would stop the process that must thaw it, or the machine.
    #[error("freeze process {0}: it is the caller or the first process of the machine")]
    Essential(Pid),
    /// Not everything stopped in time; everything was thawed again.
    #[error("freeze within {limit}: {state} after {after}; thawed again")]
    NotFrozen {
        /// The time limit.
        limit: Nanos,
        /// The time waited.
        after: Nanos,
        /// The last state.
        state: String,
    },
    /// A process is being moved between cgroups, for which a freeze would have to wait; nothing was
    /// frozen.
    #[error(
        "freeze within {limit}: a process is being moved between control groups, for which the kernel makes a freeze wait"
    )]
    Moving {
        /// The time waited.
        limit: Nanos,
    },
    /// Not everything stopped in time, and thawing it failed too.
    #[error("freeze within {limit}; thaw again: {source}")]
    NotThawedAgain {
        /// The time limit.
        limit: Nanos,
        /// Why it could not be thawed.
        source: Box<FreezeError>,
    },
    /// The group is still frozen after it was thawed.
    #[error("thaw: {state}; a group above it may be frozen")]
    NotThawed {
        /// The last state.
        state: String,
    },
    /// A group that is guarded is not frozen without its watchdog.
    #[error("freeze: the watchdog that would thaw the group has ended")]
    Unguarded,
    /// The owner did not renew its lease in time, so its watchdog has thawed everything.
    #[error(
        "freeze: this process was stalled for longer than its lease, and its watchdog thawed everything"
    )]
    LeaseOver,
    /// The watchdog could not be started.
    #[error("start the watchdog: {0}")]
    Watchdog(String),
    /// A file has unknown content.
    #[error("parse {path}: `{text}`")]
    Unknown {
        /// The file.
        path: PathBuf,
        /// Its text, truncated.
        text: String,
    },
    /// Real-time priority or locked memory was refused.
    #[error("{wanted}: {source}; {advice}")]
    Refused {
        /// What was requested.
        wanted: String,
        /// The kernel's error.
        source: std::io::Error,
        /// What would allow it.
        advice: String,
    },
    /// Not a valid priority.
    #[error("take real-time priority {0}: must be 1 to 99")]
    Priority(u8),
}

impl FreezeError {
    /// For `map_err` of file operations.
    pub(crate) fn file(
        doing: &'static str,
        path: &std::path::Path,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| FreezeError::File {
            doing,
            path,
            source,
        }
    }
}
