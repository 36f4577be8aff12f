//! One process at a time works on a bundle; a lock tells a living writer from a killed one.

use crate::RecordingError;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Held while a bundle is written or analysed; the kernel releases it with the process, after SIGKILL too.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code)] File);

impl Lock {
    /// Locks the bundle's directory without waiting.
    ///
    /// # Errors
    /// Another process holds it, or the directory cannot be opened.
    pub fn take(bundle: &Path) -> Result<Self, RecordingError> {
        let directory = File::open(bundle).map_err(RecordingError::io("open", bundle))?;
        // SAFETY: the descriptor is open and ours for the whole call.
        let locked = unsafe { libc::flock(directory.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
        match (locked, io::Error::last_os_error().kind()) {
            (0, _) => Ok(Self(directory)),
            (_, io::ErrorKind::WouldBlock) => Err(RecordingError::Busy(bundle.to_owned())),
            // A file system without locks: then nobody can be told apart, and nobody is kept out.
            _ => Ok(Self(directory)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_worker_is_kept_out_until_the_first_has_gone() {
        let dir = tempfile::tempdir().unwrap();
        let first = Lock::take(dir.path()).unwrap();
        assert!(matches!(
            Lock::take(dir.path()),
            Err(RecordingError::Busy(_))
        ));
        drop(first);
        assert!(Lock::take(dir.path()).is_ok());
    }
}
