//! The directory of an agent's devices, in memory. Directories of killed agents are removed by the
//! next one; a living agent holds a lock.

use crate::ticket::{MEMORY, TICKET};
use idlewave_fabric::netctx::DeviceError;
use idlewave_sys::Uid;
use idlewave_sys::lock_file::try_lock;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Prefix of the directories' names; the PID follows.
const PREFIX: &str = "idlewave-devices.";
/// Ranks of other users open files in it by name.
const MODE: u32 = 0o711;

/// A directory, for as long as this lives.
#[derive(Debug)]
pub struct Home {
    path: PathBuf,
    _lock: File,
}

impl Home {
    /// Creates one.
    pub fn make() -> Result<Self, DeviceError> {
        Self::within(Path::new(MEMORY))
    }

    fn within(memory: &Path) -> Result<Self, DeviceError> {
        // Several in one process occur in tests only.
        for n in 0_u32.. {
            let path = memory.join(format!("{PREFIX}{}.{n}", std::process::id()));
            let made = match fs::DirBuilder::new().mode(MODE).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made.and_then(|()| lock(&path)),
            };
            match made {
                Ok(Some(lock)) => return Ok(Self { path, _lock: lock }),
                // Another starting agent took it for a leftover, just before it was locked.
                Ok(None) => {}
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
        // The next agent removes what is left.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes leftovers of this user's killed agents: directories that are not locked, then tickets of
/// devices that are gone.
pub fn sweep(memory: &Path) {
    let own = Uid::own();
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
        let ours = name.starts_with(PREFIX) && meta.is_ok_and(|m| m.is_dir() && Uid::of(&m) == own);
        if !ours {
            continue;
        }
        // Held until it is removed, so that no one else can take its name in between.
        if let Ok(Some(_held)) = lock(&path) {
            let _ = fs::remove_dir_all(&path);
        }
    }
    for path in tickets {
        if device_of(&path).is_some_and(|device| !device.exists()) {
            let _ = fs::remove_file(&path);
        }
    }
}

/// The device named by a ticket.
fn device_of(ticket: &Path) -> Option<PathBuf> {
    // Anyone may have made it: neither links nor FIFOs are opened.
    let text = idlewave_sys::files::read_text(ticket, 4_200).ok()?;
    Some(PathBuf::from(text.trim_end().rsplit_once(',')?.0))
}

/// Locks a directory; `None` if another process holds it, or removed it before it was locked: its
/// name may belong to another directory by then.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let directory = File::open(path)?;
    if !try_lock(&directory)? {
        return Ok(None);
    }
    let locked = directory.metadata()?;
    let named = fs::symlink_metadata(path)?;
    let same = (locked.dev(), locked.ino()) == (named.dev(), named.ino());
    Ok(same.then_some(directory))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

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

    #[test]
    fn nobody_removes_a_directory_that_has_the_name_of_one_that_was_left() {
        let memory = tempfile::tempdir().unwrap();
        let memory = memory.path();
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !ended.load(Ordering::Relaxed) {
                        sweep(memory);
                    }
                });
            }
            let made = || {
                for _ in 0..2_000 {
                    let home = Home::within(memory).unwrap();
                    let device = home.path().join("0");
                    fs::write(&device, "device").unwrap();
                    assert!(device.exists());
                }
            };
            let makers = [(); 2].map(|()| scope.spawn(made));
            let done = makers.map(std::thread::ScopedJoinHandle::join);
            ended.store(true, Ordering::Relaxed);
            assert!(done.iter().all(Result::is_ok));
        });
    }
}
