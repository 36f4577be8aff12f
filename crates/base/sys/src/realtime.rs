//! The real-time policy of a thread (sched(7)).

use std::io;

/// Gives the calling thread the policy SCHED_FIFO and a priority, 1 to 99. Processes that it starts
/// from then on do not inherit it (`SCHED_RESET_ON_FORK`).
///
/// A thread of this class keeps its CPU until it sleeps.
///
/// # Errors
/// The priority does not exist, or the kernel does not allow it to this user.
pub fn take_fifo(priority: u8) -> io::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: libc::c_int::from(priority),
    };
    // SAFETY: 0 is the calling thread; the parameters outlive the call.
    let done = unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &parameters)
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
