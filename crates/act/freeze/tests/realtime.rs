//! Priority and locked memory, as the kernel reports them afterwards. A program of its own, since
//! the process stays locked.

#![allow(clippy::unwrap_used)]

mod common;

use idlewave_freeze::{become_realtime, follow_realtime, lock_memory, take_precedence};

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
    rustix::mm::munlockall().unwrap();
}

/// Not a test: what the child of a test does.
#[test]
fn acts_in_a_child() {
    common::act(&[("precede", precede)]);
}

/// Leads a session of its own, and says which precedence it got.
fn precede(_: &str) {
    rustix::process::setsid().unwrap();
    // The process's first thread is the test harness's.
    let main = libc::pid_t::try_from(std::process::id()).unwrap();
    let refused = take_precedence(50).err().map(|e| e.to_string());
    let parameters = libc::sched_param { sched_priority: 50 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: a number, and parameters that outlive the call.
    unsafe { libc::sched_setscheduler(main, policy, &parameters) };
    let follows = || {
        follow_realtime();
        self::policy() & !libc::SCHED_RESET_ON_FORK
    };
    let helper = std::thread::spawn(follows).join().unwrap();
    let autogroup = std::fs::read_to_string("/proc/self/autogroup").unwrap_or_default();
    println!("\nsays: {refused:?} {helper} {}", autogroup.trim());
}

#[test]
fn a_session_of_its_own_goes_before_others_with_all_that_helps() {
    let mut command = common::command("precede", "");
    let (says, _child) = common::Act::start_saying(&mut command, "says:");
    if !says.starts_with("None") {
        assert!(says.contains("take real-time priority 50: "), "{says}");
        return common::skip(&says);
    }
    assert!(
        says.starts_with(&format!("None {}", libc::SCHED_FIFO)),
        "{says}"
    );
    let kernel = std::path::Path::new("/proc/sys/kernel/sched_autogroup_enabled");
    if kernel.exists() && common::is_root() {
        assert!(says.ends_with("nice -20"), "{says}");
    }
}
