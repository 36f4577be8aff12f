//! The limit on the size of files (`ulimit -f`, RLIMIT_FSIZE in setrlimit(2)).
//!
//! A process that writes beyond it gets SIGXFSZ, which by default kills it silently. If the signal
//! is handled, the write fails with EFBIG and is reported like a full disk.

use std::io;

/// Makes writes beyond the limit fail, for the whole process. Installs an empty handler: unlike an
/// ignored signal, started programs do not inherit it (execve(2)). A signal that is already ignored
/// stays ignored, for them too.
pub fn survive() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the handler does nothing, which is allowed in one. Where it cannot be installed all
    // is as before.
    unsafe {
        if libc::signal(libc::SIGXFSZ, nothing as *const () as libc::sighandler_t) == libc::SIG_IGN
        {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        }
    }
}

/// Whether a write failed because of this limit, or that of the file system.
pub fn is_met(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::FileTooLarge
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Resource, Rlimit, setrlimit};
    use std::io::Write;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    /// Set in the process that this test starts.
    const INSIDE: &str = "IDLEWAVE_TEST_FILE_LIMIT";
    const BYTES: usize = 4_096;

    /// The test runs itself again in a process of its own under the limit.
    #[test]
    fn a_write_beyond_the_limit_fails_and_programs_get_the_signal_as_ever() {
        if let Some(path) = std::env::var_os(INSIDE) {
            survive();
            let mut file = std::fs::File::create(path).unwrap();
            let error = file.write_all(&[0; 2 * BYTES]).unwrap_err();
            assert!(is_met(&error), "{error}");
            let status = Command::new("grep")
                .args(["-q", "^SigIgn:.*[13579bdf]......$", "/proc/self/status"])
                .status();
            assert_eq!(status.unwrap().code(), Some(1), "SIGXFSZ is not ignored");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args([
            "--exact",
            "file_limit::tests::a_write_beyond_the_limit_fails_and_programs_get_the_signal_as_ever",
        ]);
        again.env(INSIDE, dir.path().join("file"));
        // SAFETY: setrlimit is async-signal-safe; the limit lives through the call.
        unsafe {
            again.pre_exec(|| {
                let limit = Some(BYTES as u64);
                let limit = Rlimit {
                    current: limit,
                    maximum: limit,
                };
                Ok(setrlimit(Resource::Fsize, limit)?)
            });
        }
        // Output goes through pipes, which have no size limit.
        let ended = again.output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
    }
}
