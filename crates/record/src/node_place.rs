//! A node, as processes of one job that are on it find each other: a private directory in memory that they share, and
//! that processes on other nodes do not see.
//!
//! It holds `lock` (held by the one that records the node), `ready` (what programs need in their environment, once the
//! recorder runs), `node.json`, `bundle` (where the node's bundle is), `pids/` (the processes that the recorder waits
//! for) and, later, `send.N` (made by the one that sends in round N).

use crate::node_job::Job;
use idlewave_capture::owner::started;
use idlewave_recording::NodeFacts;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Held while its file is open; the kernel lets go with the last process that has it.
#[derive(Debug)]
pub struct Held(File);

impl Held {
    /// The file, for a child that is to hold it as well.
    pub fn file(&self) -> &File {
        &self.0
    }
}

/// The directory.
#[derive(Clone, Debug)]
pub struct Place {
    directory: PathBuf,
}

impl Place {
    /// Finds or makes the directory of `job` on this node.
    ///
    /// # Errors
    /// No place for it, or one of that name that is not ours.
    pub fn open(job: &Job) -> io::Result<Self> {
        Self::open_for(&job.id)
    }

    /// The same of a job that has nothing else than this number: 32 random hexadecimal digits.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_for(id: &str) -> io::Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for base in bases() {
            match Self::open_in(&base, id) {
                Ok(place) => return Ok(place),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Finds the directory of `job` on this node, if it is there.
    pub fn find(job: &Job) -> Option<Self> {
        let directory = bases().map(|base| directory(&base, &job.id)).find(|d| {
            fs::symlink_metadata(d).is_ok_and(|found| found.is_dir() && found.uid() == user())
        })?;
        Some(Self { directory })
    }

    /// The same as [`open_for`](Self::open_for) below a given directory.
    pub(crate) fn open_in(base: &Path, id: &str) -> io::Result<Self> {
        sweep(base);
        let directory = directory(base, id);
        match DirBuilder::new().mode(0o700).create(&directory) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        let found = fs::symlink_metadata(&directory)?;
        if !found.is_dir() || found.uid() != user() || found.mode() & 0o077 != 0 {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("{} is not private", directory.display()),
            ));
        }
        let place = Self { directory };
        match DirBuilder::new().mode(0o700).create(place.pids()) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        Ok(place)
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    fn pids(&self) -> PathBuf {
        self.directory.join("pids")
    }

    fn try_lock(&self, name: &str) -> io::Result<Option<Held>> {
        let mut options = OpenOptions::new();
        let file = options
            .create(true)
            .append(true)
            .mode(0o600)
            .open(self.directory.join(name))?;
        // SAFETY: the descriptor is open and ours for the whole call.
        match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
            0 => Ok(Some(Held(file))),
            _ => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
                e => Err(e),
            },
        }
    }

    /// Makes this process the one that records the node; `None` if another one does.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn elect(&self) -> io::Result<Option<Held>> {
        self.try_lock("lock")
    }

    /// Makes this process the one that sends the node's bundle in this round; false if another one does, or did.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn elect_sender(&self, round: u32) -> io::Result<bool> {
        match File::create_new(self.directory.join(format!("send.{round}"))) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// The recorder has ended: nothing that comes now is recorded.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn set_over(&self) -> io::Result<()> {
        fs::write(self.directory.join("over"), b"")
    }

    /// Whether [`set_over`](Self::set_over) was called.
    pub fn is_over(&self) -> bool {
        self.directory.join("over").exists()
    }

    /// The program of the process that started the recorder has ended.
    pub fn release_leader(&self) {
        // Where it cannot be written, the recorder sees that the leader is gone.
        let _ = fs::write(self.directory.join("ended"), b"");
    }

    /// Whether [`release_leader`](Self::release_leader) was called.
    pub fn is_leader_released(&self) -> bool {
        self.directory.join("ended").exists()
    }

    /// Writes a file in one step.
    fn publish(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let beside = self.directory.join(format!("{name}.new"));
        fs::write(&beside, bytes)?;
        fs::rename(beside, self.directory.join(name))
    }

    /// The recorder runs: what programs need in their environment. Empty if it failed to start.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn set_ready(&self, environment: &[(String, String)]) -> io::Result<()> {
        self.publish("ready", &serde_json::to_vec(environment)?)
    }

    /// What [`set_ready`](Self::set_ready) has written; `None` before that.
    pub fn ready(&self) -> Option<Vec<(String, String)>> {
        serde_json::from_slice(&fs::read(self.directory.join("ready")).ok()?).ok()
    }

    /// Notes where the node's bundle is, and what the node is.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn set_bundle(&self, bundle: &Path, facts: &NodeFacts) -> io::Result<()> {
        self.publish("node.json", &serde_json::to_vec(facts)?)?;
        self.publish("bundle", bundle.as_os_str().as_encoded_bytes())
    }

    /// Where the node's bundle is, and what the node is; `None` where nothing was recorded.
    pub fn bundle(&self) -> Option<(PathBuf, NodeFacts)> {
        use std::os::unix::ffi::OsStringExt as _;
        let path = std::ffi::OsString::from_vec(fs::read(self.directory.join("bundle")).ok()?);
        let facts =
            serde_json::from_slice(&fs::read(self.directory.join("node.json")).ok()?).ok()?;
        Some((PathBuf::from(path), facts))
    }

    /// The recorder is to wait for this process, which may yet become another program.
    ///
    /// # Errors
    /// It cannot be written, or there is no such process.
    pub fn register(&self, pid: u32) -> io::Result<()> {
        let started = started(pid).ok_or(io::ErrorKind::NotFound)?;
        fs::write(self.pids().join(format!("{pid}.{started}")), b"")
    }

    /// Whether a registered process is still there.
    pub fn is_anybody_left(&self) -> bool {
        let Ok(entries) = fs::read_dir(self.pids()) else {
            return false;
        };
        let mut left = false;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let known = name.to_str().and_then(|n| n.split_once('.'));
            let alive = known.is_some_and(|(pid, at)| {
                pid.parse()
                    .is_ok_and(|pid| started(pid).is_some_and(|now| now.to_string() == at))
            });
            if alive {
                left = true;
            } else {
                // Not asked for again; that it cannot be removed changes nothing.
                let _ = fs::remove_file(entry.path());
            }
        }
        left
    }

    /// Whether a process was ever registered; asked before [`is_anybody_left`](Self::is_anybody_left) forgets those that
    /// are gone.
    pub fn has_anybody_come(&self) -> bool {
        fs::read_dir(self.pids()).is_ok_and(|mut entries| entries.next().is_some())
    }

    /// Removes the directory.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        fs::remove_dir_all(&self.directory)
    }
}

/// How long a bundle that nobody has fetched is kept.
const KEPT: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

/// The same where there is no bundle: by then its lock is held, or its process is gone.
const UNUSED: std::time::Duration = std::time::Duration::from_secs(60);

/// Removes what killed processes have left on this node long ago. Nobody is hindered where that fails.
fn sweep(base: &Path) {
    let prefix = format!("idlewave-node-{}-", user());
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let meta = entry
            .metadata()
            .ok()
            .filter(|m| m.is_dir() && m.uid() == user());
        let old = meta
            .and_then(|m| m.modified().ok()?.elapsed().ok())
            .is_some_and(|age| {
                age > if entry.path().join("bundle").exists() {
                    KEPT
                } else {
                    UNUSED
                }
            });
        if !old || !name.to_string_lossy().starts_with(&prefix) {
            continue;
        }
        let place = Place {
            directory: entry.path(),
        };
        // Held while it is removed: nobody begins to use it meanwhile. Processes that are registered still may.
        if let (Ok(Some(_held)), false) = (place.elect(), place.is_anybody_left()) {
            if let Some((bundle, _)) = place.bundle() {
                let _ = fs::remove_dir_all(bundle);
            }
            let _ = place.remove();
        }
    }
}

fn user() -> u32 {
    // SAFETY: geteuid always succeeds and touches no memory.
    unsafe { libc::geteuid() }
}

/// Name of the directory of the job of this number below `base`.
fn directory(base: &Path, id: &str) -> PathBuf {
    // Processes that share /dev/shm but not their numbers cannot be recorded by one recorder; and a /tmp may even be on
    // a file system that other machines see.
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let numbers = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let apart = format!("{}{}", boot.trim(), numbers.display());
    let unique = crc32fast::hash(apart.as_bytes());
    base.join(format!("idlewave-node-{}-{id}-{unique:08x}", user()))
}

/// Directories of this node only, the best first.
fn bases() -> impl Iterator<Item = PathBuf> {
    let user = std::env::var_os("TMPDIR").map(PathBuf::from);
    [PathBuf::from("/dev/shm")]
        .into_iter()
        .chain(user)
        .chain([PathBuf::from("/tmp")])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn place() -> (tempfile::TempDir, Job, Place) {
        let dir = tempfile::tempdir().unwrap();
        let job = Job::new(dir.path(), &[], true).unwrap();
        let place = Place::open_in(dir.path(), &job.id).unwrap();
        (dir, job, place)
    }

    #[test]
    fn one_process_is_elected_and_another_one_when_it_has_gone() {
        let (dir, job, place) = place();
        let first = place.elect().unwrap();
        assert!(first.is_some());
        let other = Place::open_in(dir.path(), &job.id).unwrap();
        assert!(other.elect().unwrap().is_none());
        assert!(other.elect_sender(1).unwrap());
        assert!(!place.elect_sender(1).unwrap());
        assert!(place.elect_sender(2).unwrap());
        drop(first);
        assert!(other.elect().unwrap().is_some());
    }

    #[test]
    fn what_the_recorder_needs_to_say_is_found_by_the_others() {
        let (dir, job, place) = place();
        assert_eq!(place.ready(), None);
        assert_eq!(place.bundle(), None);
        let environment = vec![("LD_PRELOAD".to_owned(), "/a b".to_owned())];
        place.set_ready(&environment).unwrap();
        let facts = NodeFacts::here();
        place.set_bundle(Path::new("/tmp/x"), &facts).unwrap();
        let other = Place::open_in(dir.path(), &job.id).unwrap();
        assert_eq!(other.ready(), Some(environment));
        assert_eq!(other.bundle(), Some((PathBuf::from("/tmp/x"), facts)));
        place.remove().unwrap();
        assert!(!place.path().exists());
    }

    #[test]
    fn processes_are_waited_for_until_they_are_gone_collected_or_not() {
        let (_dir, _, place) = place();
        assert!(!place.is_anybody_left());
        place.register(std::process::id()).unwrap();
        assert!(place.is_anybody_left());
        let (_dir, _, place) = self::place();
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        place.register(child.id()).unwrap();
        assert!(place.is_anybody_left());
        child.kill().unwrap();
        while place.is_anybody_left() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(place.register(child.id()).is_err());
    }

    #[test]
    fn what_was_left_long_ago_is_removed_unless_it_is_still_recorded() {
        let (dir, job, place) = place();
        let bundle = dir.path().join("bundle");
        fs::create_dir(&bundle).unwrap();
        place.set_bundle(&bundle, &NodeFacts::here()).unwrap();
        let old = std::time::SystemTime::now() - 2 * KEPT;
        let age = |place: &Place| File::open(place.path()).unwrap().set_modified(old).unwrap();
        let other = Job::new(dir.path(), &job.command, true).unwrap();
        // Young, then old but recorded, then old and left.
        Place::open_in(dir.path(), &other.id).unwrap();
        assert!(place.path().exists());
        let held = place.elect().unwrap();
        age(&place);
        Place::open_in(dir.path(), &other.id).unwrap();
        assert!(place.path().exists());
        drop(held);
        age(&place);
        Place::open_in(dir.path(), &other.id).unwrap();
        assert!(!place.path().exists() && !bundle.exists());
    }

    #[test]
    fn a_directory_that_others_may_read_is_not_used() {
        use std::os::unix::fs::PermissionsExt as _;
        let (dir, job, place) = place();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(
            Place::open_in(dir.path(), &job.id).unwrap_err().kind(),
            io::ErrorKind::PermissionDenied
        );
    }
}
