//! The directory of the rings, with the preloaded library beside it. It is private, in memory if
//! there is space, and removed at the end.

use crate::SessionError;
use idlewave_interpose::{Bell, InterposeError};
use idlewave_sys::Uid;
use idlewave_sys::file_limit;
use idlewave_sys::files::{self, may_execute, room};
use idlewave_sys::owner::Owner;
use idlewave_sys::private_dir::{Access, PrivateDir};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Prefix of the names of our directories.
const PREFIX: &str = "idlewave-rings";
/// The kernel's in-memory file system.
const MEMORY: &str = "/dev/shm";
/// Place of the library if no temporary directory allows execution.
const LAST: &str = "/var/tmp";
/// File of a bundle that holds the path of its rings while they exist.
pub(super) const RINGS: &str = "rings";
/// File beside the rings that holds the path of their bundle.
pub(super) const BUNDLE: &str = "run";
/// Longest path that the kernel accepts (PATH_MAX).
const LONGEST_PATH: u64 = 4_096;
/// Space for the rings of two threads per CPU: 4 MiB each.
const ROOM_PER_CPU: u64 = 8 << 20;

/// A private directory for rings. Dropping it removes it.
#[derive(Debug)]
pub struct Rings {
    path: PathBuf,
    /// The library's directory, if not `path`.
    other: Option<PathBuf>,
}

impl Rings {
    /// Creates a directory, in memory if there is space. Removes those that killed predecessors of
    /// this user left, except for those whose run is yet to be completed.
    ///
    /// # Errors
    /// There is not enough space.
    pub fn create() -> Result<Self, SessionError> {
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

    /// Creates the bell by which programs wake the process that drains these rings. Call this once.
    ///
    /// # Errors
    /// There is not enough space.
    pub fn bell(&self) -> Result<Bell, SessionError> {
        Bell::create(&self.path).map_err(no_room)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A directory from which a library can be loaded: this one, or another private one if memory
    /// is mounted noexec (as in many containers). It is removed with this one.
    ///
    /// # Errors
    /// There is no such place.
    pub fn library_directory(&mut self) -> Result<&Path, SessionError> {
        if self.other.is_none() && !may_execute(&self.path) {
            let mut places = places();
            places.push(PathBuf::from(LAST));
            let Some(place) = places.iter().find(|place| may_execute(place)) else {
                return Err(SessionError::NotPossible {
                    reason: "no temporary directory allows execution of files".to_owned(),
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
            // Nothing can be reported here; the next start tries again.
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// Files beside the rings cannot be written.
pub fn no_room(error: InterposeError) -> SessionError {
    match error {
        InterposeError::File {
            action,
            path,
            source,
        } if file_limit::is_met(&source) => SessionError::Io {
            action,
            path,
            source,
        },
        error => SessionError::NotPossible {
            reason: error.to_string(),
            next: "free space in TMPDIR, or set it to another directory".to_owned(),
        },
    }
}

/// The directory of rings that a killed recorder left, if it can be adopted: it is idlewave's,
/// belongs to this user, and its recorder has ended. Dropping it removes it.
pub(crate) fn adopt(path: &Path) -> Option<Rings> {
    let name = path.file_name()?.to_str()?;
    let owner = Owner::parse(PREFIX, name)?;
    PrivateDir::open(path, Access::Nobody).ok()?;
    owner.has_ended().then(|| Rings {
        path: path.to_owned(),
        other: None,
    })
}

fn make(place: &Path) -> Result<PathBuf, SessionError> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let owner = Owner::current().map_err(SessionError::io("read", "/proc/self/stat"))?;
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = place.join(owner.name(PREFIX, number));
    let made = fs::DirBuilder::new().mode(0o700).create(&path);
    made.map_err(SessionError::io("create", &path))?;
    Ok(path)
}

fn places() -> Vec<PathBuf> {
    let mut places = vec![PathBuf::from(MEMORY), std::env::temp_dir()];
    places.retain(|place| place.is_dir());
    places
}

/// The path that a file holds; empty if there is no file.
pub(super) fn noted(file: &Path) -> PathBuf {
    let path = files::read(file, LONGEST_PATH).unwrap_or_default();
    PathBuf::from(OsString::from_vec(path))
}

/// Whether a run still waits for what these rings hold.
fn is_awaited(rings: &Path) -> bool {
    let bundle = noted(&rings.join(BUNDLE));
    bundle.is_absolute() && noted(&bundle.join(RINGS)) == rings
}

/// Removes what killed predecessors of this user left, unless a run waits for it.
fn clean(place: &Path) {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| Owner::parse(PREFIX, name));
        let ours = entry.metadata().is_ok_and(|m| Uid::of(&m) == Uid::own());
        let ended = owner.is_some_and(|owner| owner.has_ended());
        if ours && ended && !is_awaited(&entry.path()) {
            // Another process may be removing it; the next start tries again.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::salvage::{forget_rings, note_rings};
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

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

    /// The directory of a recorder that has ended, in this place.
    fn dead(place: &Path) -> PathBuf {
        let alive = make(place).unwrap();
        let name = alive.file_name().unwrap().to_str().unwrap();
        let mut parts: Vec<&str> = name.split('-').collect();
        let at = parts.len() - 2;
        parts[at] = "1";
        let dead = place.join(parts.join("-"));
        fs::rename(&alive, &dead).unwrap();
        dead
    }

    #[test]
    fn rings_stay_until_their_run_has_been_made_whole_or_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        for made_whole in [true, false] {
            fs::create_dir(&run).unwrap();
            let rings = dead(dir.path());
            note_rings(&run, &rings).unwrap();
            clean(dir.path());
            assert!(rings.exists());
            match made_whole {
                true => forget_rings(&run).unwrap(),
                false => fs::remove_dir_all(&run).unwrap(),
            }
            clean(dir.path());
            assert!(!rings.exists());
            let _ = fs::remove_dir_all(&run);
        }
        // A run that waits for other rings.
        fs::create_dir(&run).unwrap();
        let [first, second] = [dead(dir.path()), dead(dir.path())];
        note_rings(&run, &first).unwrap();
        note_rings(&run, &second).unwrap();
        clean(dir.path());
        assert!(!first.exists() && second.exists());
    }

    #[test]
    fn every_place_where_something_may_be_left_is_cleaned() {
        let mut places = places();
        places.push(PathBuf::from(LAST));
        for place in places {
            let dead = dead(&place);
            drop(Rings::create().unwrap());
            assert!(!dead.exists(), "{}", dead.display());
        }
    }

    #[test]
    fn what_a_killed_predecessor_left_is_removed_and_what_others_own_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let dead = dead(dir.path());
        let alive = make(dir.path()).unwrap();
        let stranger = dir.path().join("idlewave-rings-of-somebody");
        fs::create_dir(&stranger).unwrap();
        assert!(adopt(&stranger).is_none());
        // Others may read it, so it was not created here.
        let mode = |mode| fs::Permissions::from_mode(mode);
        fs::set_permissions(&dead, mode(0o755)).unwrap();
        assert!(adopt(&dead).is_none());
        fs::set_permissions(&dead, mode(0o700)).unwrap();
        drop(adopt(&dead).expect("its owner has ended"));
        assert!(!dead.exists());
        fs::create_dir(&dead).unwrap();
        clean(dir.path());
        assert!(alive.exists() && stranger.exists() && !dead.exists());
    }
}
