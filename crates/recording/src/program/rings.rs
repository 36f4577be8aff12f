//! The directory of the rings, and the preloaded library beside it: private, in memory where there is room, and removed
//! again.

use crate::RecordingError;
use idlewave_capture::owner::Owner;
use idlewave_interpose::Bell;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// All our directories begin with this.
const PREFIX: &str = "idlewave-rings";
/// Where the kernel keeps files in memory.
const MEMORY: &str = "/dev/shm";
/// Where the library goes if none of the temporary directories allows to execute files.
const LAST: &str = "/var/tmp";
/// Room of the rings of two threads per CPU: 4 MiB each.
const ROOM_PER_CPU: u64 = 8 << 20;

/// A private directory for rings. Dropping it removes it.
#[derive(Debug)]
pub struct Rings {
    path: PathBuf,
    /// Where the library is, if not in `path`.
    other: Option<PathBuf>,
}

impl Rings {
    /// Makes one, in memory if there is room, and removes those that killed predecessors of this user have left.
    ///
    /// # Errors
    /// There is no place for it.
    pub fn create() -> Result<Self, RecordingError> {
        let places = places();
        for place in places.iter().map(PathBuf::as_path).chain([Path::new(LAST)]) {
            clean(place);
        }
        let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
        let fits = |place: &&PathBuf| room(place).is_some_and(|r| r >= cpus * ROOM_PER_CPU);
        let place = places.iter().find(fits).or(places.last());
        let place = place.map_or(Path::new("/tmp"), PathBuf::as_path);
        Ok(Self {
            path: make(place)?,
            other: None,
        })
    }

    /// Makes the bell with which programs call whoever drains these rings; once.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn bell(&self) -> Result<Bell, RecordingError> {
        Bell::create(&self.path).map_err(|e| RecordingError::NotPossible {
            reason: e.to_string(),
            next: "make room in TMPDIR, or set it to another directory".to_owned(),
        })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A directory from which a library can be loaded: this one, or another private one where memory may not be
    /// executed (as in many containers). It is removed with this one.
    ///
    /// # Errors
    /// There is no such place.
    pub fn library_directory(&mut self) -> Result<&Path, RecordingError> {
        if self.other.is_none() && !may_execute(&self.path) {
            let mut places = places();
            places.push(PathBuf::from(LAST));
            let Some(place) = places.iter().find(|place| may_execute(place)) else {
                return Err(RecordingError::NotPossible {
                    reason: "no temporary directory allows to execute files".to_owned(),
                    next: "set TMPDIR to a directory that is not mounted with noexec".to_owned(),
                });
            };
            self.other = Some(make(place)?);
        }
        Ok(self.other.as_deref().unwrap_or(&self.path))
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        for path in std::iter::once(&self.path).chain(&self.other) {
            // Nobody is left to be told; the next start tries again.
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// The directory of rings that a killed recorder left, if it can be taken over: it is one of ours, belongs to this
/// user and its recorder has ended. Dropping it removes it.
pub(crate) fn adopt(path: &Path) -> Option<Rings> {
    let name = path.file_name()?.to_str()?;
    let owner = Owner::parse(PREFIX, name)?;
    let meta = fs::symlink_metadata(path).ok()?;
    (meta.is_dir() && meta.uid() == user() && owner.has_ended()).then(|| Rings {
        path: path.to_owned(),
        other: None,
    })
}

fn make(place: &Path) -> Result<PathBuf, RecordingError> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let owner = Owner::current().map_err(RecordingError::io("read", "/proc/self/stat"))?;
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = place.join(owner.name(PREFIX, number));
    let made = fs::DirBuilder::new().mode(0o700).create(&path);
    made.map_err(RecordingError::io("create", &path))?;
    Ok(path)
}

fn places() -> Vec<PathBuf> {
    let mut places = vec![PathBuf::from(MEMORY), std::env::temp_dir()];
    places.retain(|place| place.is_dir());
    places
}

/// Removes what killed predecessors of this user have left.
fn clean(place: &Path) {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| Owner::parse(PREFIX, name));
        let ours = entry.metadata().is_ok_and(|m| m.uid() == user());
        if ours && owner.is_some_and(|owner| owner.has_ended()) {
            // Somebody else may be at it; the next start tries again.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

fn file_system(path: &Path) -> io::Result<libc::statvfs> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: all-zero bytes are a valid `statvfs`.
    let mut out: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a path that ends with a zero, and room for the answer.
    match unsafe { libc::statvfs(path.as_ptr(), &mut out) } {
        0 => Ok(out),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Bytes that this user may write there.
#[allow(clippy::unnecessary_cast)] // the fields are narrower on some systems
fn room(path: &Path) -> Option<u64> {
    let fs = file_system(path).ok()?;
    Some(fs.f_bavail as u64 * fs.f_frsize as u64)
}

fn may_execute(path: &Path) -> bool {
    file_system(path).is_ok_and(|fs| fs.f_flag & libc::ST_NOEXEC == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_rings_is_private_and_goes_with_its_owner() {
        let rings = Rings::create().unwrap();
        let path = rings.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        fs::write(path.join("1.1.ring"), "x").unwrap();
        assert!(adopt(&path).is_none(), "its owner lives");
        let second = Rings::create().unwrap();
        assert_ne!(second.path(), path);
        drop(rings);
        assert!(!path.exists());
    }

    #[test]
    fn every_place_where_something_may_be_left_is_cleaned() {
        let mut places = places();
        places.push(PathBuf::from(LAST));
        for place in places {
            let alive = make(&place).unwrap();
            let name = alive.file_name().unwrap().to_str().unwrap();
            let mut parts: Vec<&str> = name.split('-').collect();
            let at = parts.len() - 2;
            parts[at] = "1";
            let dead = place.join(parts.join("-"));
            fs::rename(&alive, &dead).unwrap();
            drop(Rings::create().unwrap());
            assert!(!dead.exists(), "{}", dead.display());
        }
    }

    #[test]
    fn what_a_killed_predecessor_left_is_removed_and_what_others_own_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let alive = make(dir.path()).unwrap();
        let name = alive.file_name().unwrap().to_str().unwrap();
        let mut parts: Vec<&str> = name.split('-').collect();
        let at = parts.len() - 2;
        parts[at] = "1";
        let dead = dir.path().join(parts.join("-"));
        let stranger = dir.path().join("idlewave-rings-of-somebody");
        fs::create_dir(&dead).unwrap();
        fs::create_dir(&stranger).unwrap();
        assert!(adopt(&stranger).is_none());
        drop(adopt(&dead).expect("its owner has ended"));
        assert!(!dead.exists());
        fs::create_dir(&dead).unwrap();
        clean(dir.path());
        assert!(alive.exists() && stranger.exists() && !dead.exists());
    }
}
