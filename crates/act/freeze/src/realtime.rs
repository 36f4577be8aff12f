//! Priority and memory of a process that switches others: `sched(7)`, `mlockall(2)`,
//! `getrlimit(2)`.

use crate::error::FreezeError;
use idlewave_sys::process::leads_its_session;
use idlewave_sys::realtime::take_fifo;
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, getrlimit, setpriority_process};

/// Gives the calling thread a `SCHED_FIFO` priority, 1 to 99; ranks that are real-time themselves
/// need a lower one. Processes that it starts from then on do not inherit it
/// (`SCHED_RESET_ON_FORK`).
///
/// A thread of this class keeps its CPU until it sleeps, so it must only wait asleep
/// ([`crate::clock`]).
///
/// # Errors
/// [`FreezeError::Priority`], and [`FreezeError::Refused`] with what would allow it.
pub fn become_realtime(priority: u8) -> Result<(), FreezeError> {
    if !(1..=99).contains(&priority) {
        return Err(FreezeError::Priority(priority));
    }
    take_fifo(priority).map_err(|source| FreezeError::Refused {
        wanted: format!("take real-time priority {priority}"),
        source,
        advice: format!(
            "it needs CAP_SYS_NICE or a limit of real-time priorities (ulimit -r, LimitRTPRIO=) of {priority}, which is {}; \
             in a control group of version 1, cpu.rt_runtime_us above 0",
            limit_text(Resource::Rtprio)
        ),
    })
}

/// Gives the calling process precedence: its thread by real-time priority, and its session by the
/// nice value of its autogroup (`sched(7)`), if it is the session leader. The kernel first shares
/// CPUs among sessions: an ordinary process started here, such as the successor of a dead agent,
/// would starve beside ranks of a session with more weight.
///
/// # Errors
/// As for [`become_realtime`]; the error says whether the process has precedence by its nice value
/// instead.
pub fn take_precedence(priority: u8) -> Result<(), FreezeError> {
    let raised = raise_session();
    let refused = become_realtime(priority);
    let Err(FreezeError::Refused {
        wanted,
        source,
        advice,
    }) = refused
    else {
        return refused;
    };
    let nice = setpriority_process(None, -20).is_ok();
    let instead = match nice && raised {
        true => "nice -20 of process and session is used instead",
        false => {
            "without it, ranks of a session that weighs more (/proc/PID/autogroup) keep it waiting"
        }
    };
    Err(FreezeError::Refused {
        wanted,
        source,
        advice: format!("{advice}; {instead}"),
    })
}

/// Gives this session the highest weight among sessions; returns whether that worked. A session
/// shared with other processes, such as that of a terminal, is not changed.
fn raise_session() -> bool {
    let autogroup = std::path::Path::new("/proc/self/autogroup");
    // Without autogroups the nice value of the process itself counts.
    let Ok(text) = std::fs::read_to_string(autogroup) else {
        return true;
    };
    let leads = leads_its_session();
    text.trim_end().ends_with("nice -20") || leads && std::fs::write(autogroup, "-20").is_ok()
}

/// If this process has real-time priority, gives the calling thread the lowest one, ahead of
/// ordinary threads and behind the switching thread. For helper threads that sleep most of the
/// time: as ordinary ones they would starve beside ranks of a session with more weight.
pub fn follow_realtime() {
    let Ok(main) = libc::pid_t::try_from(std::process::id()) else {
        return;
    };
    // SAFETY: a number only.
    let policy = unsafe { libc::sched_getscheduler(main) } & !libc::SCHED_RESET_ON_FORK;
    if policy == libc::SCHED_FIFO {
        // If the process may, its thread may; otherwise nothing changes.
        let _ = become_realtime(1);
    }
}

/// Locks all present and future memory of this process: a page that must be read back delays a
/// switch by milliseconds.
///
/// # Errors
/// [`FreezeError::Refused`] with what would allow it.
pub fn lock_memory() -> Result<(), FreezeError> {
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).map_err(|source| FreezeError::Refused {
        wanted: "lock the memory".to_owned(),
        source: source.into(),
        advice: format!(
            "it needs CAP_IPC_LOCK or a limit of locked memory (ulimit -l, LimitMEMLOCK=) above the process's size, which is {}",
            limit_text(Resource::Memlock)
        ),
    })
}

/// The soft limit, or `unlimited`.
fn limit_text(resource: Resource) -> String {
    let soft = getrlimit(resource).current;
    soft.map_or_else(|| "unlimited".to_owned(), |n| n.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_go_from_1_to_99() {
        for wrong in [0, 100, 255] {
            assert!(matches!(
                become_realtime(wrong),
                Err(FreezeError::Priority(n)) if n == wrong
            ));
        }
    }

    #[test]
    fn a_limit_is_told_as_the_kernel_has_it() {
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = limits
            .lines()
            .find_map(|l| l.strip_prefix("Max open files"))
            .unwrap();
        let soft = line.split_whitespace().next().unwrap();
        assert_eq!(limit_text(Resource::Nofile), soft);
    }
}
