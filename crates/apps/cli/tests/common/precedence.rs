//! For tests that measure on CPUs that other programs may want as well.

use std::io;

/// Gives this test program, and what it starts, a session that takes precedence over all others:
/// the kernel shares CPUs among sessions first, by the nice value of their autogroups (`sched(7)`).
/// Needs root's rights; prints a line without them.
pub fn go_before_others() {
    let session = rustix::process::setsid().map_err(io::Error::from);
    let raised = session.and_then(|_| std::fs::write("/proc/self/autogroup", "-20"));
    if let Err(error) = raised {
        println!("other programs may take the CPUs from this test: {error}");
    }
}
