//! Memory that processes share through a file, the pipe by which ranks wake the owner of a device,
//! and waits for descriptors and for the end of processes.

use super::DeviceError;
use idlewave_sys::mapping::{Access, Mapping};
use idlewave_sys::poll::is_broken;
use idlewave_sys::process::{exists, handle};
use idlewave_sys::{Uid, files};
use idlewave_units::Pid;
use rustix::fs::{CWD, mkfifoat};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::time::Duration;

/// Only for the user whose ranks these are.
const MODE: u32 = 0o600;

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DeviceError {
    let path = path.to_owned();
    move |source| DeviceError::File {
        action,
        path,
        source,
    }
}

/// A mapped file. Its content is read and written through atomics, or by the side that owns it
/// according to the device's protocol.
#[derive(Debug)]
pub(super) struct Memory(Mapping);

impl Memory {
    /// Creates a file of zeros with its memory allocated, so that no access fails for lack of
    /// memory.
    pub(super) fn create(
        path: &Path,
        bytes: usize,
        user: Option<u32>,
    ) -> Result<Self, DeviceError> {
        let file = files::create_with(path, MODE).map_err(failed("create", path))?;
        let made = || {
            std::os::unix::fs::fchown(&file, user, None)?;
            files::allocate(&file, bytes as u64)?;
            let memory = map(&file, bytes)?;
            // Anyone who can write to a file can truncate it.
            match user {
                Some(_) => memory.cover(),
                None => Ok(memory),
            }
        };
        made().map(Self).map_err(|source| {
            // The remains are useless; if they stay, the next attempt reports that the file exists.
            let _ = std::fs::remove_file(path);
            failed("create", path)(source)
        })
    }

    /// Opens an existing file that only this user can have written.
    pub(super) fn open(path: &Path) -> Result<Self, DeviceError> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true);
        let options = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let file = options.open(path).map_err(failed("open", path))?;
        let bytes = is_own(&file, path)?;
        map(&file, bytes).map(Self).map_err(failed("map", path))
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// A pointer to a `T` at an offset.
    ///
    /// # Panics
    /// If it is not within the memory, or not aligned.
    pub(super) fn at<T>(&self, offset: usize) -> NonNull<T> {
        let end = offset.checked_add(size_of::<T>());
        assert!(
            end.is_some_and(|end| end <= self.bytes()),
            "within the file"
        );
        assert_eq!(offset % align_of::<T>(), 0, "aligned");
        // SAFETY: checked above; the mapping begins at a page.
        unsafe { self.0.base().add(offset).cast() }
    }
}

/// Checks that a file belongs to this user and is inaccessible to all others; returns its length.
pub(super) fn is_own(file: &File, path: &Path) -> Result<usize, DeviceError> {
    let about = file.metadata().map_err(failed("open", path))?;
    let foreign = |reason: &str| DeviceError::Foreign {
        path: path.to_owned(),
        reason: reason.to_owned(),
    };
    if !about.is_file() || about.len() == 0 {
        return Err(foreign("it is empty or not a regular file"));
    }
    if Uid::of(&about) != Uid::own() || about.mode() & 0o077 != 0 {
        return Err(foreign("it must be this user's, with mode 0600"));
    }
    Ok(about.len() as usize)
}

/// Maps a file with all its pages at once, so that no switch takes a page fault.
fn map(file: &File, bytes: usize) -> io::Result<Mapping> {
    Mapping::new(file, bytes, Access::WriteAtOnce)
}

/// The pipe beside a device: a byte in it wakes the owner.
#[derive(Debug)]
pub(super) struct Bell(File);

impl Bell {
    /// The path of a device's pipe.
    pub(super) fn path(device: &Path) -> PathBuf {
        let mut path = device.as_os_str().to_owned();
        path.push(".bell");
        path.into()
    }

    /// The owner's end.
    pub(super) fn create(device: &Path, user: Option<u32>) -> Result<Self, DeviceError> {
        let path = Self::path(device);
        mkfifoat(CWD, &path, MODE.into()).map_err(|error| failed("create", &path)(error.into()))?;
        let opened = Self::open_as(&path, true);
        opened.and_then(|bell| {
            let given = std::os::unix::fs::fchown(&bell.0, user, None);
            given.map_err(failed("create", &path))?;
            Ok(bell)
        })
    }

    /// A rank's end.
    pub(super) fn open(device: &Path) -> Result<Self, DeviceError> {
        Self::open_as(&Self::path(device), false)
    }

    fn open_as(path: &Path, owner: bool) -> Result<Self, DeviceError> {
        let mut options = OpenOptions::new();
        // The owner opens it for writing too: so it never reads end-of-file as ranks come and go,
        // and it can wake its own thread.
        let options = options.read(owner).write(true);
        let options = options.custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW);
        let file = options.open(path).map_err(failed("open", path))?;
        Ok(Self(file))
    }

    /// Rings. If the pipe is full, it has already been rung; if nobody reads, there is nobody to
    /// wake.
    pub(super) fn ring(&self) {
        use std::io::Write;
        let _ = (&self.0).write(&[1]);
    }

    /// Consumes the bytes in the pipe.
    pub(super) fn quiet(&self) {
        use std::io::Read;
        let mut bytes = [0; 64];
        // Bytes left over wake the owner again.
        let _ = (&self.0).read(&mut bytes);
    }

    /// Whether the device's owner is alive, seen from a rank's end.
    pub(super) fn is_heard(&self) -> bool {
        !is_broken(&self.0)
    }

    pub(super) fn descriptor(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// A descriptor that can be polled for the end of a process; `None` if it has ended, or there is no
/// such process.
///
/// # Errors
/// The process seems to be alive but cannot be polled: there are no descriptors left, or the kernel
/// is older than 5.3.
pub(super) fn watch_process(process: u32) -> io::Result<Option<OwnedFd>> {
    let process = Pid::new(process);
    match handle(process) {
        Ok(handle) => Ok(Some(handle)),
        Err(_) if !exists(process) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Waits until one of the descriptors is readable, for at most `longest`; returns which are.
pub(super) fn wait_for(descriptors: &[i32], longest: Duration) -> Vec<bool> {
    let entry = |fd: &i32| libc::pollfd {
        fd: *fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut polled: Vec<libc::pollfd> = descriptors.iter().map(entry).collect();
    let time = libc::timespec {
        tv_sec: longest.as_secs() as libc::time_t,
        tv_nsec: longest.subsec_nanos() as libc::c_long,
    };
    let count = polled.len() as libc::nfds_t;
    // SAFETY: `polled` has `count` entries; it and `time` outlive the call.
    let ready = unsafe { libc::ppoll(polled.as_mut_ptr(), count, &time, std::ptr::null()) };
    // An interrupted wait reports nothing.
    polled.iter().map(|p| ready > 0 && p.revents != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn nobody_has_ended_and_whoever_lives_is_watched() {
        for nobody in [i32::MAX as u32, u32::MAX] {
            assert!(watch_process(nobody).expect("it can be told").is_none());
        }
        let watched = watch_process(std::process::id()).expect("a descriptor");
        let watched = watched.expect("it lives");
        assert_eq!(wait_for(&[watched.as_raw_fd()], Duration::ZERO), [false]);
    }

    #[test]
    fn a_file_that_its_user_shortens_is_zeros_from_then_on_and_ends_nobody() {
        let directory = tempfile::tempdir().expect("a directory");
        let user = std::fs::metadata(directory.path()).expect("it").uid();
        let make = |name: &str, bytes| {
            let path = directory.path().join(name);
            let memory = Memory::create(&path, bytes, Some(user)).expect("memory");
            (path, memory)
        };
        let at = |memory: &Memory, place: usize| {
            // SAFETY: within the memory, which nobody else uses.
            unsafe { memory.at::<AtomicU32>(place).as_ref() }
        };
        let ((path, memory), (_, other)) = (make("one", 3 << 16), make("other", 3 << 16));
        let far = 2 << 16;
        at(&memory, far).store(7, Relaxed);
        at(&other, far).store(9, Relaxed);
        let file = OpenOptions::new().write(true).open(&path);
        file.and_then(|file| file.set_len(0)).expect("it is ours");
        assert_eq!(at(&memory, far).load(Relaxed), 0);
        at(&memory, 0).store(5, Relaxed);
        at(&memory, far).store(6, Relaxed);
        assert_eq!(
            (at(&memory, 0).load(Relaxed), at(&memory, far).load(Relaxed)),
            (5, 6)
        );
        assert_eq!(at(&other, far).load(Relaxed), 9);
        // Dropped memory is no longer covered: there is always room for another.
        drop((memory, other));
        for n in 0..300 {
            drop(make(&n.to_string(), 4_096));
        }
    }
}
