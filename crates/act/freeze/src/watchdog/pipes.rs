//! The pipes between an owner and its watchdogs.

use idlewave_sys::poll::wait;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// The watchdog's message when it serves.
pub(super) const READY: &str = "idlewave-watchdog-ready";

/// Whether one of these can be read, has ended or has failed within `longest`; `None`: no limit.
pub(super) fn can_read(files: &[BorrowedFd<'_>], longest: Option<Duration>) -> bool {
    wait(files, longest).is_ok_and(|ready| ready.contains(&true))
}

/// Makes a full pipe an error instead of a wait: the writer may have real-time priority.
pub(super) fn never_wait(pipe: impl AsFd) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(pipe, true)?)
}
