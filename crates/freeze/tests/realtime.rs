//! Priority and locked memory, as the kernel has them afterwards. Alone in its program: the process stays locked.

#![allow(clippy::unwrap_used)]

mod common;

use idlewave_freeze::{become_realtime, lock_memory};

fn policy() -> i32 {
    // SAFETY: 0 is the calling thread.
    unsafe { libc::sched_getscheduler(0) }
}

#[test]
fn a_thread_becomes_realtime_and_its_children_do_not() {
    let at = |priority| {
        std::thread::spawn(move || {
            become_realtime(priority).map(|()| {
                let mut parameters = libc::sched_param { sched_priority: 0 };
                // SAFETY: 0 is the calling thread; the parameters outlive the call.
                unsafe { libc::sched_getparam(0, &mut parameters) };
                let child = std::thread::spawn(policy).join().unwrap();
                (policy(), parameters.sched_priority, child)
            })
        })
    };
    match at(7).join().unwrap() {
        Ok((policy, priority, child)) => {
            assert_eq!(policy, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK);
            assert_eq!(priority, 7);
            assert_eq!(child, libc::SCHED_OTHER);
        }
        Err(e) => {
            assert!(
                e.to_string().starts_with("take real-time priority 7: "),
                "{e}"
            );
            common::skip(&e.to_string());
        }
    }
    assert_eq!(policy(), libc::SCHED_OTHER);
}

#[test]
fn memory_is_locked() {
    if let Err(e) = lock_memory() {
        assert!(e.to_string().contains("ulimit -l"), "{e}");
        return common::skip(&e.to_string());
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let locked = status
        .lines()
        .find_map(|l| l.strip_prefix("VmLck:"))
        .unwrap();
    let kib: u64 = locked.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib > 500, "{kib}");
    // SAFETY: the call takes nothing.
    unsafe { libc::munlockall() };
}
