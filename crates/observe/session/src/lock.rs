//! One process at a time works on a bundle; a lock distinguishes a living writer from a killed one.

use crate::SessionError;
use idlewave_sys::lock_file::try_lock;
use std::fs::File;
use std::path::Path;

/// Held while a bundle is written or analysed; the kernel releases it with the process, even after
/// SIGKILL.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code)] File);

impl Lock {
    /// Locks the bundle's directory without waiting.
    ///
    /// # Errors
    /// Another process holds it, or the directory cannot be opened.
    pub fn take(bundle: &Path) -> Result<Self, SessionError> {
        let directory = File::open(bundle).map_err(SessionError::io("open", bundle))?;
        match try_lock(&directory) {
            Ok(false) => Err(SessionError::Busy(bundle.to_owned())),
            // A file system without locks cannot tell the two apart, so nobody is kept out.
            Ok(true) | Err(_) => Ok(Self(directory)),
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
        assert!(matches!(Lock::take(dir.path()), Err(SessionError::Busy(_))));
        drop(first);
        assert!(Lock::take(dir.path()).is_ok());
    }
}
