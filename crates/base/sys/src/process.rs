//! Other processes: signals for them, handles of them, and what becomes of those that are started here.

use idlewave_units::Pid;
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{PidfdFlags, WaitId, WaitIdOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

pub use rustix::process::Signal;

/// As the kernel's calls take it. 0 and numbers that no process has are refused: the former would mean the caller itself, or all of its
/// group.
fn number(pid: Pid) -> Result<rustix::process::Pid, Errno> {
    let number = i32::try_from(pid.get()).map_err(|_| Errno::SRCH)?;
    rustix::process::Pid::from_raw(number).ok_or(Errno::SRCH)
}

/// Number of the calling thread (gettid(2)).
pub fn own_thread() -> Pid {
    Pid::new(rustix::thread::gettid().as_raw_pid().unsigned_abs())
}

/// Sends a signal to one process (kill(2)). The number of a process that was waited for may be another one's: see [`handle`].
///
/// # Errors
/// It has ended, or is somebody else's.
pub fn send(pid: Pid, signal: Signal) -> io::Result<()> {
    Ok(rustix::process::kill_process(number(pid)?, signal)?)
}

/// Whether a process of that number has not been waited for yet.
pub fn exists(pid: Pid) -> bool {
    let told = number(pid).and_then(rustix::process::test_kill_process);
    !matches!(told, Err(Errno::SRCH))
}

/// The group of a process, by the process that leads it (getpgid(2)); `None` if it has ended, or if
/// its leader is outside of the caller's PID namespace.
pub fn group(pid: Pid) -> Option<Pid> {
    let pid = number(pid).ok()?;
    // rustix takes the number for one above 0, but the kernel answers 0 for a leader outside.
    // SAFETY: a number only.
    let leader = unsafe { libc::getpgid(pid.as_raw_pid()) };
    let leader = u32::try_from(leader).ok().filter(|&leader| leader > 0)?;
    Some(Pid::new(leader))
}

/// Whether the calling process leads its session (getsid(2)).
pub fn leads_its_session() -> bool {
    // Not by rustix: the answer is 0 where the leader is outside of the PID namespace.
    // SAFETY: numbers only; 0 is the calling process.
    unsafe { libc::getsid(0) == libc::getpid() }
}

/// A handle of a process (pidfd_open(2), Linux 5.3): it becomes readable when the process ends, and never names another one.
///
/// # Errors
/// The process has gone, the kernel has no handles, or too many files are open.
pub fn handle(pid: Pid) -> io::Result<OwnedFd> {
    Ok(rustix::process::pidfd_open(
        number(pid)?,
        PidfdFlags::empty(),
    )?)
}

/// Sends a signal to the process of a [`handle`].
///
/// # Errors
/// As [`send`].
pub fn send_by_handle(handle: impl AsFd, signal: Signal) -> io::Result<()> {
    Ok(rustix::process::pidfd_send_signal(handle, signal)?)
}

/// Waits until a child has ended, and leaves it to be waited for (waitid(2)).
///
/// # Errors
/// It is no child of this process, or not any more.
pub fn await_end(child: Pid) -> io::Result<()> {
    look_at_end(child, WaitIdOptions::empty()).map(drop)
}

/// Whether a child has ended; leaves it to be waited for, as [`await_end`] does.
///
/// # Errors
/// As [`await_end`].
pub fn has_ended(child: Pid) -> io::Result<bool> {
    look_at_end(child, WaitIdOptions::NOHANG)
}

fn look_at_end(child: Pid, how: WaitIdOptions) -> io::Result<bool> {
    let child = number(child)?;
    let how = how | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let status = retry_on_intr(|| rustix::process::waitid(WaitId::Pid(child), how))?;
    Ok(status.is_some())
}

/// Has what the command starts lead a session of its own: a terminal's ^C, or a kill of this process's group, is not for it.
pub fn in_own_session(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only setsid is called, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            Ok(())
        })
    }
}

/// Has what the command starts get a signal when the calling thread ends (`PR_SET_PDEATHSIG` of prctl(2)).
pub fn ends_with_parent(command: &mut Command, signal: Signal) -> &mut Command {
    // SAFETY: between fork and exec only prctl is called, which is async-signal-safe.
    unsafe { command.pre_exec(move || ask_at_end_of_parent(signal)) }
}

/// Has this process get a signal when the thread that started it ends. It may have ended already.
///
/// # Errors
/// The kernel refuses.
pub fn ask_at_end_of_parent(signal: Signal) -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(
        signal,
    ))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_signal_reaches_a_child_by_its_number_and_by_its_handle_until_it_was_waited_for() {
        for by_handle in [false, true] {
            let mut child = Command::new("sleep").arg("60").spawn().unwrap();
            let pid = Pid::new(child.id());
            let handle = handle(pid).ok();
            assert!(exists(pid) && !has_ended(pid).unwrap());
            match &handle {
                Some(handle) if by_handle => send_by_handle(handle, Signal::TERM).unwrap(),
                _ => send(pid, Signal::TERM).unwrap(),
            }
            await_end(pid).unwrap();
            // It can still be waited for.
            assert!(has_ended(pid).unwrap());
            let status = child.wait().unwrap();
            assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
            assert!(await_end(pid).is_err());
            if let Some(handle) = handle {
                let error = send_by_handle(handle, Signal::TERM).unwrap_err();
                assert_eq!(Errno::from_io_error(&error), Some(Errno::SRCH));
            }
        }
    }

    #[test]
    fn no_number_means_more_than_one_process() {
        for nobody in [0, i32::MAX as u32, i32::MAX as u32 + 1, u32::MAX] {
            let nobody = Pid::new(nobody);
            let error = send(nobody, Signal::WINCH).unwrap_err();
            assert_eq!(Errno::from_io_error(&error), Some(Errno::SRCH));
            assert!(!exists(nobody) && handle(nobody).is_err());
        }
    }

    #[test]
    fn a_session_of_its_own_is_led() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "cut -d ' ' -f 1,6 /proc/$$/stat"]);
        let output = in_own_session(&mut shell).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (process, session) = text.trim().split_once(' ').unwrap();
        assert_eq!(process, session);
    }
}
