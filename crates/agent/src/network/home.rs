//! The directory of an agent's devices, in memory. What an agent left that was killed is removed by the next one: whoever lives holds a lock.

use crate::contexts::{MEMORY, TICKET};
use idlewave_fabric::netctx::DeviceError;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// How the names of these directories begin; the number of the process follows.
const PREFIX: &str = "idlewave-devices.";
/// Ranks of other users pass it by name.
const MODE: u32 = 0o711;

/// A directory, as long as this lives.
#[derive(Debug)]
pub struct Home {
    path: PathBuf,
    _lock: File,
}

impl Home {
    /// Makes one.
    pub fn make() -> Result<Self, DeviceError> {
        Self::within(Path::new(MEMORY))
    }

    fn within(memory: &Path) -> Result<Self, DeviceError> {
        // Several in one process only in tests.
        for n in 0_u32.. {
            let path = memory.join(format!("{PREFIX}{}.{n}", std::process::id()));
            let made = match fs::DirBuilder::new().mode(MODE).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made.and_then(|()| lock(&path)),
            };
            match made {
                Ok(Some(lock)) if path.exists() => return Ok(Self { path, _lock: lock }),
                // Another agent that starts has taken it for one that was left, just before the lock.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound && memory.exists() => {}
                Err(source) => {
                    return Err(DeviceError::File {
                        action: "create",
                        path,
                        source,
                    });
                }
            }
        }
        unreachable!("there are not so many")
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // What stays is removed by the next agent.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes what agents of this user have left that were killed: directories that nobody has locked, then tickets of devices that are gone.
pub fn sweep(memory: &Path) {
    let own = crate::own_user();
    let entries = fs::read_dir(memory).into_iter().flatten().flatten();
    let mut tickets = Vec::new();
    for entry in entries {
        let (name, path) = (entry.file_name(), entry.path());
        let Some(name) = name.to_str() else { continue };
        if name.starts_with(TICKET) {
            tickets.push(path);
            continue;
        }
        let meta = fs::symlink_metadata(&path);
        let ours = name.starts_with(PREFIX) && meta.is_ok_and(|m| m.is_dir() && m.uid() == own);
        if ours && matches!(lock(&path), Ok(Some(_))) {
            let _ = fs::remove_dir_all(&path);
        }
    }
    for path in tickets {
        if device_of(&path).is_some_and(|device| !device.exists()) {
            let _ = fs::remove_file(&path);
        }
    }
}

/// The device that a ticket names.
fn device_of(ticket: &Path) -> Option<PathBuf> {
    let meta = fs::symlink_metadata(ticket).ok()?;
    let text = (meta.is_file() && meta.len() < 4_200).then(|| fs::read_to_string(ticket))?;
    let text = text.ok()?;
    Some(PathBuf::from(text.trim_end().rsplit_once(',')?.0))
}

/// Locks a directory; `None` if somebody else has it.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let directory = File::open(path)?;
    // SAFETY: an open descriptor and a number (flock(2)).
    if unsafe { libc::flock(directory.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(Some(directory));
    }
    let error = io::Error::last_os_error();
    match error.kind() {
        io::ErrorKind::WouldBlock => Ok(None),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_agent_left_is_removed_and_what_a_living_one_has_is_not() {
        let memory = tempfile::tempdir().unwrap();
        let home = Home::within(memory.path()).unwrap();
        let dead = memory.path().join(format!("{PREFIX}1.0"));
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("0"), "device").unwrap();
        let other = memory.path().join("other");
        fs::create_dir(&other).unwrap();
        let ticket = |name: &str, device: &Path| {
            let path = memory.path().join(format!("{TICKET}{name}"));
            fs::write(&path, format!("{},3\n", device.display())).unwrap();
            path
        };
        let stale = ticket("stale", &dead.join("0"));
        let valid = ticket("valid", &other);
        sweep(memory.path());
        assert!(home.path().exists() && other.exists() && !dead.exists());
        assert!(valid.exists() && !stale.exists());
        let path = home.path().to_owned();
        drop(home);
        assert!(!path.exists());
    }
}
