//! Infers the kinds of threads that no list gave: which are kernel threads.

use idlewave_ftrace::SeenTask;
use idlewave_run::tables::TaskKind;
use std::collections::BTreeMap;

/// The thread that starts all other kernel threads (`kernel/kthread.c`).
const KTHREADD: u32 = 2;

/// Whole names that only kernel threads have.
const WHOLE: &[&str] = &[
    "kthreadd",
    "cifsd",
    "hwrng",
    "kauditd",
    "kblockd",
    "kcryptd",
    "kdevtmpfs",
    "khugepaged",
    "khungtaskd",
    "khvcd",
    "kintegrityd",
    "kmemleak",
    "kprefillmgr",
    "ksmd",
    "kstrp",
    "kthrotld",
    "ktimers",
    "lockd",
    "nfsd",
    "oom_reaper",
    "pool_workqueue_",
    "psimon",
    "rcu_bh",
    "rcu_gp",
    "rcu_par_gp",
    "rcu_preempt",
    "rcu_sched",
    "usb-storage",
    "watchdogd",
    "writeback",
];

/// Prefixes of names that only kernel threads have.
const BEGIN: &[&str] = &[
    "backlog_napi/",
    "btrfs-",
    "cpuhp/",
    "dm_bufio",
    "dmcrypt_write/",
    "ext4-rsv-conver",
    "idle_inject/",
    "irq/",
    "irq_work/",
    "jbd2/",
    "kcompactd",
    "kdamond.",
    "khelper/",
    "kiblnd_",
    "kpktgend_",
    "ksoftirqd/",
    "kswapd",
    "ktimers/",
    "kworker/",
    "ldlm_",
    "md/",
    "migration/",
    "napi/",
    "nvidia-modeset/",
    "nvme-",
    "posixcputmr/",
    "ptlrpcd_",
    "rcu_exp_",
    "rcu_tasks_",
    "rcub/",
    "rcuc/",
    "rcuog/",
    "rcuop/",
    "rcuos/",
    "scsi_eh_",
    "scsi_tmf_",
    "socknal_",
    "stopper/",
    "sugov:",
    "watchdog/",
    "xfs-",
    "xfsaild/",
];

/// Whether only a kernel thread has this name.
pub(crate) fn is_kernel_name(name: &str) -> bool {
    WHOLE.contains(&name) || BEGIN.iter().any(|begin| name.starts_with(begin))
}

/// Tells kernel threads from user threads by their names and parents. Returns how many threads got
/// their kind that way; idle ones do not count.
pub(crate) fn infer(seen: &mut [SeenTask]) -> u64 {
    infer_where(seen, |kind| kind != TaskKind::Idle)
}

/// The same for threads whose kind is not known yet.
pub(crate) fn infer_rest(seen: &mut [SeenTask]) -> u64 {
    infer_where(seen, |kind| kind == TaskKind::Unknown)
}

fn infer_where(seen: &mut [SeenTask], open: impl Fn(TaskKind) -> bool) -> u64 {
    let parents: BTreeMap<u32, u32> = seen
        .iter()
        .filter_map(|t| Some((t.pid.get(), t.parent?.get())))
        .collect();
    let mut inferred = 0;
    for task in seen.iter_mut().filter(|t| open(t.kind)) {
        let mut at = task.pid.get();
        // A chain longer than this, or a cycle, is damage.
        for _ in 0..64 {
            match parents.get(&at) {
                Some(&parent) => at = parent,
                None => break,
            }
        }
        task.kind = match at == KTHREADD || is_kernel_name(&task.name) {
            true => TaskKind::Kernel,
            false => TaskKind::User,
        };
        inferred += 1;
    }
    inferred
}

/// The same for a system whose kernel threads have no common ancestor.
pub(crate) fn infer_by_name(seen: &mut [SeenTask], is_kernel: impl Fn(&str) -> bool) -> u64 {
    let mut inferred = 0;
    for task in seen.iter_mut().filter(|t| t.kind != TaskKind::Idle) {
        task.kind = match is_kernel(&task.name) {
            true => TaskKind::Kernel,
            false => TaskKind::User,
        };
        inferred += 1;
    }
    inferred
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_units::Pid;

    fn task(pid: u32, parent: Option<u32>, name: &str) -> SeenTask {
        SeenTask {
            pid: Pid::new(pid),
            process: None,
            parent: parent.map(Pid::new),
            name: name.to_owned(),
            kind: if pid == 0 {
                TaskKind::Idle
            } else {
                TaskKind::Unknown
            },
            ran_ns: 0,
        }
    }

    #[test]
    fn what_was_told_of_a_thread_goes_before_its_name() {
        let mut seen = [
            task(0, None, "idle"),
            task(17, None, "kworker/1:2"),
            task(18, None, "kworker/1:3"),
            task(19, None, "mystery"),
        ];
        seen[1].kind = TaskKind::User;
        seen[3].kind = TaskKind::Kernel;
        assert_eq!(infer_rest(&mut seen), 1);
        use TaskKind::{Idle, Kernel, User};
        assert_eq!(seen.map(|t| t.kind), [Idle, User, Kernel, Kernel]);
    }

    #[test]
    fn kernel_threads_are_known_by_name_or_by_their_ancestor() {
        let mut seen = [
            task(0, None, "idle"),
            task(2, None, "kthreadd"),
            task(17, None, "kworker/1:2-events"),
            task(30, Some(2), "mystery"),
            task(31, Some(30), "its child"),
            task(40, None, "kworkerlike"),
            task(41, Some(42), "a"),
            task(42, Some(41), "b"),
        ];
        assert_eq!(infer(&mut seen), 7);
        let kinds: Vec<_> = seen.iter().map(|t| t.kind).collect();
        use TaskKind::{Idle, Kernel, User};
        assert_eq!(
            kinds,
            [Idle, Kernel, Kernel, Kernel, Kernel, User, User, User]
        );
    }

    #[test]
    fn user_threads_with_a_part_of_such_a_name_are_none() {
        for kernel in ["hwrng", "ptlrpcd_00_01", "sugov:3", "kworker/R-mld"] {
            assert!(is_kernel_name(kernel), "{kernel}");
        }
        for user in ["hwrngd", "sugov", "ptlrpc", "nfsdcld", "ksmtuned"] {
            assert!(!is_kernel_name(user), "{user}");
        }
    }
}
