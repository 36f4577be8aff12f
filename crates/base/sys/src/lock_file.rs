//! Lock files by which one process at a time claims a place (`flock(2)`). The kernel releases the
//! lock when its holder ends, however it ends.

use crate::uid::Uid;
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Locks an open file or directory until it is closed; false if another process has it.
///
/// # Errors
/// Its file system has no locks.
pub fn try_lock(file: &File) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A lock that is held. Dropping it removes the file, and gives the lock back.
#[derive(Debug)]
pub struct LockFile {
    path: PathBuf,
    file: File,
}

impl LockFile {
    /// Takes the lock; `None` if another process holds it.
    ///
    /// # Errors
    /// The file cannot be created, or belongs to another user.
    pub fn take(path: &Path) -> io::Result<Option<Self>> {
        loop {
            let flags = OFlags::RDWR
                | OFlags::CREATE
                | OFlags::NOFOLLOW
                | OFlags::NONBLOCK
                | OFlags::CLOEXEC;
            let file: File = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?.into();
            let about = file.metadata()?;
            if !about.is_file() || Uid::of(&about) != Uid::own() {
                let (own, owner) = (Uid::own(), Uid::of(&about));
                let why = format!("it belongs to user {owner}, not to user {own}");
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
            }
            if !try_lock(&file)? {
                return Ok(None);
            }
            // Its holder may have removed it in between: then this lock is on a file without a
            // name.
            let named = fs::symlink_metadata(path);
            if named.is_ok_and(|named| (named.dev(), named.ino()) == (about.dev(), about.ino())) {
                let path = path.to_owned();
                return Ok(Some(Self { path, file }));
            }
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The locked file.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // The lock is held until the file is closed, so no one locks a name that is about to go. A
        // file left behind does no harm.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_lock_is_held_once_and_leaves_no_file() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("lock");
        let first = LockFile::take(&path).unwrap().unwrap();
        assert!(LockFile::take(&path).unwrap().is_none());
        assert_eq!(first.path(), path);
        drop(first);
        assert!(!path.exists());
        // As left by a killed holder.
        fs::write(&path, "").unwrap();
        assert!(LockFile::take(&path).unwrap().is_some());
    }

    #[test]
    fn no_two_hold_it_however_often_it_is_taken_and_removed() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("lock");
        let (inside, taken) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while taken.load(Ordering::SeqCst) < 2_000 {
                        let Some(lock) = LockFile::take(&path).unwrap() else {
                            continue;
                        };
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        assert!(lock.file().metadata().is_ok());
                        taken.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
    }

    #[test]
    fn a_link_is_not_followed() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("lock");
        std::os::unix::fs::symlink(base.path().join("precious"), &path).unwrap();
        LockFile::take(&path).unwrap_err();
        assert!(!base.path().join("precious").exists());
    }
}
