//! An instance of our own, and how those of killed predecessors are found.

use super::{TraceError, Tracefs};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// All our instances begin with this.
const PREFIX: &str = "idlewave";
/// Tries to remove an instance that is still busy (a reader's file that is just being closed), 10 ms apart.
const REMOVE_TRIES: u32 = 50;

/// An instance. Dropping it removes it.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
    removed: bool,
}

impl Instance {
    /// Makes one, with tracing off.
    ///
    /// # Errors
    /// Not permitted, or no memory for its buffers.
    pub fn create(tracefs: &Tracefs) -> Result<Self, TraceError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let owner = Owner::current()?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = tracefs.root().join("instances").join(owner.name(number));
        fs::create_dir(&path).map_err(TraceError::io("create", &path))?;
        let instance = Self {
            path,
            removed: false,
        };
        instance.write("tracing_on", "0")?;
        Ok(instance)
    }

    /// A file of the instance.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes one of its files.
    ///
    /// # Errors
    /// The kernel refuses the value.
    pub fn write(&self, name: &str, value: &str) -> Result<(), TraceError> {
        let path = self.file(name);
        fs::write(&path, value).map_err(TraceError::io("write", &path))
    }

    /// Reads one of its files.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self, name: &str) -> Result<String, TraceError> {
        let path = self.file(name);
        fs::read_to_string(&path).map_err(TraceError::io("read", &path))
    }

    /// Removes it. All files of it must be closed.
    ///
    /// # Errors
    /// It stays busy.
    pub fn remove(mut self) -> Result<(), TraceError> {
        self.removed = true;
        remove(&self.path)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if !self.removed {
            // Nobody is left to be told; the next start tries again.
            let _ = remove(&self.path);
        }
    }
}

fn remove(path: &Path) -> Result<(), TraceError> {
    // Off first: so that nothing is written while the events are switched off one by one.
    for file in ["tracing_on", "events/enable"] {
        // Whether it worked shows when the directory is removed.
        let _ = fs::write(path.join(file), "0");
    }
    for attempt in 0.. {
        match fs::remove_dir(path) {
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy && attempt < REMOVE_TRIES => {
                std::thread::sleep(Duration::from_millis(10));
            }
            done => return done.map_err(TraceError::io("remove", path)),
        }
    }
    Ok(())
}

/// Who made an instance: enough to tell whether that process still lives.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    /// Inode of the process's PID namespace: numbers mean nothing in another one.
    namespace: u64,
    pid: u32,
    /// Ticks after boot when the process started: numbers are used again.
    start: u64,
}

impl Owner {
    fn current() -> Result<Self, TraceError> {
        let path = Path::new("/proc/self/stat");
        let pid = std::process::id();
        let start = start_time(pid).ok_or_else(|| {
            TraceError::io("read", path)(io::Error::other("no start time of this process"))
        })?;
        Ok(Self {
            namespace: pid_namespace()?,
            pid,
            start,
        })
    }

    fn name(&self, number: u32) -> String {
        format!(
            "{PREFIX}-{}-{}-{}-{number}",
            self.namespace, self.pid, self.start
        )
    }

    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(PREFIX)?.strip_prefix('-')?.split('-');
        let mut next = || parts.next()?.parse::<u64>().ok();
        let owner = Self {
            namespace: next()?,
            pid: u32::try_from(next()?).ok()?,
            start: next()?,
        };
        next().map(|_number| owner)
    }

    fn lives(&self) -> bool {
        start_time(self.pid) == Some(self.start)
    }
}

fn pid_namespace() -> Result<u64, TraceError> {
    use std::os::unix::fs::MetadataExt;
    let path = Path::new("/proc/self/ns/pid");
    Ok(fs::metadata(path)
        .map_err(TraceError::io("read", path))?
        .ino())
}

/// Field 22 of /proc/PID/stat, behind the name, which may hold anything but ends at the last parenthesis (proc(5)).
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

/// Removes the instances that killed processes of this PID namespace have left; returns how many.
/// Those of living processes and of other namespaces are left alone.
///
/// # Errors
/// The instances cannot be listed.
pub fn clean_stale(tracefs: &Tracefs) -> Result<usize, TraceError> {
    let path = tracefs.root().join("instances");
    let namespace = pid_namespace()?;
    let mut removed = 0;
    for entry in fs::read_dir(&path)
        .map_err(TraceError::io("list", &path))?
        .flatten()
    {
        let Some(owner) = entry.file_name().to_str().and_then(Owner::parse) else {
            continue;
        };
        if owner.namespace == namespace && !owner.lives() && remove(&entry.path()).is_ok() {
            removed += 1;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_owner() {
        let owner = Owner {
            namespace: 4_026_531_836,
            pid: 77,
            start: 123_456,
        };
        assert_eq!(Owner::parse(&owner.name(3)), Some(owner));
    }

    #[test]
    fn names_of_others_are_not_taken_for_ours() {
        for name in [
            "trace",
            "idlewave",
            "idlewave-",
            "idlewave-1-2-x-0",
            "idlewave-1-2-3",
            "idlewave-1-99999999999-3-0",
        ] {
            assert_eq!(Owner::parse(name), None, "{name}");
        }
    }

    #[test]
    fn this_process_lives_and_one_with_another_start_time_does_not() {
        let owner = Owner::current().expect("/proc is mounted");
        assert!(owner.lives());
        assert!(
            !Owner {
                start: owner.start + 1,
                ..owner
            }
            .lives()
        );
    }
}
