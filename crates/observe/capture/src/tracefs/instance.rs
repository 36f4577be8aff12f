//! A trace instance of our own, and removal of those left by killed predecessors.

use super::{TraceError, Tracefs};
use idlewave_sys::owner::Owner;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Prefix of the names of our instances.
const PREFIX: &str = "idlewave";
/// Copies lines that programs write to the top-level `trace_marker` to this instance (Linux 6.15).
pub(super) const COPY_MARKERS: &str = "options/copy_trace_marker";
/// Attempts to remove an instance that is still busy (a reader's file is being closed), 10 ms
/// apart.
const REMOVE_TRIES: u32 = 50;

/// An instance. Dropping it removes it.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
    removed: bool,
}

impl Instance {
    /// Creates an instance, with tracing off.
    ///
    /// # Errors
    /// This is not permitted, or there is no memory for the buffers.
    pub fn create(tracefs: &Tracefs) -> Result<Self, TraceError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let own = Path::new("/proc/self/stat");
        let owner = Owner::current().map_err(TraceError::io("read", own))?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = tracefs
            .root()
            .join("instances")
            .join(owner.name(PREFIX, number));
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
    /// The kernel rejects the value.
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

    /// Removes it. All of its files must be closed.
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
            // Nothing can be reported here; the next start tries again.
            let _ = remove(&self.path);
        }
    }
}

fn remove(path: &Path) -> Result<(), TraceError> {
    // Turn tracing off first, so that nothing is written while the events are switched off one by
    // one. Before that, stop copying the lines of programs, whose writes would otherwise fail.
    for file in [COPY_MARKERS, "tracing_on", "events/enable"] {
        // Removal of the directory shows whether it worked.
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

/// Removes the instances left by processes that are known to have ended; returns how many.
///
/// # Errors
/// The instances cannot be listed.
pub fn clean_stale(tracefs: &Tracefs) -> Result<usize, TraceError> {
    let path = tracefs.root().join("instances");
    let mut removed = 0;
    for entry in fs::read_dir(&path)
        .map_err(TraceError::io("list", &path))?
        .flatten()
    {
        let Some(owner) = entry
            .file_name()
            .to_str()
            .and_then(|name| Owner::parse(PREFIX, name))
        else {
            continue;
        };
        if owner.has_ended() && remove(&entry.path()).is_ok() {
            removed += 1;
        }
    }
    Ok(removed)
}
