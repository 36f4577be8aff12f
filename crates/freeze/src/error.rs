//! What can go wrong when processes are stopped or thawed.

use crate::freezer::Kind;
use crate::process::Uid;
use idlewave_units::{Nanos, Pid};
use std::path::PathBuf;

/// Why processes could not be stopped, thawed or put into a group.
#[derive(Debug, thiserror::Error)]
pub enum FreezeError {
    /// This way of stopping does not work here.
    #[error("freeze with {kind}: {why}")]
    Unusable {
        /// The way.
        kind: Kind,
        /// What is in the way, and what would help.
        why: String,
    },
    /// A file of a control group, of /proc or of the watchdog.
    #[error("{doing} {path}: {source}")]
    File {
        /// `read`, `write`, `create` ...
        doing: &'static str,
        /// Which one.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// There is no such process, or it ended meanwhile.
    #[error("find process {0}: there is none, or it has ended")]
    NoProcess(Pid),
    /// The process belongs to another user than the group.
    #[error("freeze process {pid} of user {theirs}: the group is of user {group}")]
    OtherUser {
        /// The process.
        pid: Pid,
        /// Its user: the first of its real, effective and saved ones that differs.
        theirs: Uid,
        /// Whose processes the group may hold.
        group: Uid,
    },
    /// Only root stops processes of others.
    #[error(
        "freeze processes of user {wanted} as user {caller}: only root can on behalf of another"
    )]
    NotRoot {
        /// Whose processes were to be stopped.
        wanted: Uid,
        /// Who asked.
        caller: Uid,
    },
    /// Stopping this one would stop who has to thaw it, or the machine.
    #[error("freeze process {0}: it is the caller or the first process of the machine")]
    Essential(Pid),
    /// Not everything stopped in time; everything was thawed again.
    #[error("freeze within {limit}: {state} after {after}; thawed again")]
    NotFrozen {
        /// How long it was allowed to take.
        limit: Nanos,
        /// How long it was waited for.
        after: Nanos,
        /// What the kernel said last.
        state: String,
    },
    /// A process is being moved between control groups, for which a freeze would have to wait; nothing was frozen.
    #[error(
        "freeze within {limit}: a process is being moved between control groups, and the kernel does one after the other"
    )]
    Moving {
        /// How long it was waited for.
        limit: Nanos,
    },
    /// Not everything stopped in time, and thawing it failed too.
    #[error("freeze within {limit}; thaw again: {source}")]
    NotThawedAgain {
        /// How long it was allowed to take.
        limit: Nanos,
        /// Why it is not thawed.
        source: Box<FreezeError>,
    },
    /// The group still is frozen after it was thawed.
    #[error("thaw: {state}; a group above it may be frozen")]
    NotThawed {
        /// What the kernel said last.
        state: String,
    },
    /// A group that is guarded is not frozen without its watchdog.
    #[error("freeze: the watchdog that would thaw the group has ended")]
    Unguarded,
    /// The watchdog could not be started.
    #[error("start the watchdog: {0}")]
    Watchdog(String),
    /// A file says something that is not known.
    #[error("understand {path}: `{text}`")]
    Unknown {
        /// Which file.
        path: PathBuf,
        /// Its text, cut.
        text: String,
    },
    /// Real-time priority or locked memory was refused.
    #[error("{wanted}: {source}; {advice}")]
    Refused {
        /// What was asked for.
        wanted: String,
        /// What the kernel said.
        source: std::io::Error,
        /// What would allow it.
        advice: String,
    },
    /// No priority of that number.
    #[error("take real-time priority {0}: they go from 1 to 99")]
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
