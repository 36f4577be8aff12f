//! Priority and memory of a process that switches others: `sched(7)`, `mlockall(2)`, `getrlimit(2)`.

use crate::error::FreezeError;
use std::io;

/// Makes the calling thread a `SCHED_FIFO` one of that priority, 1 to 99; ranks that are real-time themselves need a lower
/// one. What it starts from then on is not (`SCHED_RESET_ON_FORK`): a job is not to inherit it.
///
/// A thread of this class keeps its CPU until it sleeps: it must only wait asleep ([`crate::clock`]).
///
/// # Errors
/// [`FreezeError::Priority`], and [`FreezeError::Refused`] with what would allow it.
pub fn become_realtime(priority: u8) -> Result<(), FreezeError> {
    if !(1..=99).contains(&priority) {
        return Err(FreezeError::Priority(priority));
    }
    let parameters = libc::sched_param {
        sched_priority: libc::c_int::from(priority),
    };
    // SAFETY: 0 is the calling thread; the parameters outlive the call.
    let done = unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &parameters)
    };
    if done == 0 {
        return Ok(());
    }
    let source = io::Error::last_os_error();
    Err(FreezeError::Refused {
        wanted: format!("take real-time priority {priority}"),
        source,
        advice: format!(
            "it needs CAP_SYS_NICE or a limit of real-time priorities (ulimit -r, LimitRTPRIO=) of {priority}, which is {}; \
             in a control group of version 1, cpu.rt_runtime_us above 0",
            limit_text(libc::RLIMIT_RTPRIO)
        ),
    })
}

/// Keeps all memory of this process resident, now and later: a page that has to be read back delays a switch by milliseconds.
///
/// # Errors
/// [`FreezeError::Refused`] with what would allow it.
pub fn lock_memory() -> Result<(), FreezeError> {
    // SAFETY: the call takes no pointers and changes no memory's content.
    let done = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) };
    if done == 0 {
        return Ok(());
    }
    let source = io::Error::last_os_error();
    Err(FreezeError::Refused {
        wanted: "lock the memory".to_owned(),
        source,
        advice: format!(
            "it needs CAP_IPC_LOCK or a limit of locked memory (ulimit -l, LimitMEMLOCK=) above the process's size, which is {}",
            limit_text(libc::RLIMIT_MEMLOCK)
        ),
    })
}

/// The soft limit, or `unlimited`.
fn limit_text(resource: libc::__rlimit_resource_t) -> String {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure outlives the call, which writes only to it.
    let done = unsafe { libc::getrlimit(resource, &mut limit) };
    match limit.rlim_cur {
        _ if done != 0 => "not known".to_owned(),
        libc::RLIM_INFINITY => "unlimited".to_owned(),
        n => n.to_string(),
    }
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
        assert_eq!(limit_text(libc::RLIMIT_NOFILE), soft);
    }
}
