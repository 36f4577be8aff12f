//! Checks this machine for what everything here needs.

use crate::SessionError;
use idlewave_sys::pid_namespace::{ProcTrouble, check_proc};
use std::path::Path;

/// Checks that /proc is mounted and shows the processes that this one can address. Without /proc,
/// CPUs, threads and the CPU time of others are unknown; with the /proc of another PID namespace,
/// the wrong processes would be named, bound or killed.
///
/// # Errors
/// The check failed; nothing has been done yet.
pub fn check_machine() -> Result<(), SessionError> {
    check_proc(Path::new("/")).map_err(ProcTrouble::into)
}

impl From<ProcTrouble> for SessionError {
    fn from(trouble: ProcTrouble) -> Self {
        SessionError::NotPossible {
            reason: trouble.reason().to_owned(),
            next: trouble.next_step().to_owned(),
        }
    }
}
