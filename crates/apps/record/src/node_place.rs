//! A meeting point of a job's processes on one node: a private directory in memory, which processes
//! on other nodes do not see.
//!
//! It holds `lock` (held by the process that records the node), `ready` (what programs need in
//! their environment, once the recorder runs), `node.json`, `bundle` (path of the node's bundle),
//! `pids/` (the processes that the recorder waits for) and, later, `send.N` (created by the sender
//! in round N).

use crate::node_job::Job;
use idlewave_session::NodeFacts;
use idlewave_sys::lock_file::try_lock;
use idlewave_sys::owner::Owner;
use idlewave_sys::private_dir::{Access, PrivateDir};
use idlewave_sys::{Uid, files};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Held while its file is open; the kernel releases it with the last process that has it.
#[derive(Debug)]
pub struct Held(File);

impl Held {
    /// The file, for a child that is to hold it as well.
    pub fn file(&self) -> &File {
        &self.0
    }
}

/// A longer file counts as damaged.
const LONGEST: u64 = 16 << 20;

/// The directory.
#[derive(Clone, Debug)]
pub struct Place {
    directory: PathBuf,
}

impl Place {
    /// Finds or creates the directory of `job` on this node.
    ///
    /// # Errors
    /// There is no place for it, or a directory of that name is not ours.
    pub fn open(job: &Job) -> io::Result<Self> {
        Self::open_for(&job.id)
    }

    /// The same for a job of which only the number is known: 32 random hexadecimal digits.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
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

    /// Finds the directory of `job` on this node, if it exists.
    pub fn find(job: &Job) -> Option<Self> {
        let mut places = bases().map(|base| directory(&base, &job.id));
        let directory = places.find(|d| PrivateDir::open(d, Access::Nobody).is_ok())?;
        Some(Self { directory })
    }

    /// The same as [`open_for`](Self::open_for) below a given directory.
    pub(crate) fn open_in(base: &Path, id: &str) -> io::Result<Self> {
        sweep(base);
        let directory = directory(base, id);
        PrivateDir::make(&directory, Access::Nobody)?;
        let place = Self { directory };
        PrivateDir::make(&place.pids(), Access::Nobody)?;
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
        Ok(try_lock(&file)?.then(|| Held(file)))
    }

    /// Makes this process the recorder of the node; `None` if another one is.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn elect(&self) -> io::Result<Option<Held>> {
        self.try_lock("lock")
    }

    /// Makes this process the sender of the node's bundle in this round; false if another one is,
    /// or was.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn elect_sender(&self, round: u32) -> io::Result<bool> {
        match files::create(&self.directory.join(format!("send.{round}"))) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Notes that the recorder has ended: processes that start now are not recorded.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn set_over(&self) -> io::Result<()> {
        files::replace(&self.directory.join("over"), b"")
    }

    /// Whether [`set_over`](Self::set_over) was called.
    pub fn is_over(&self) -> bool {
        self.directory.join("over").exists()
    }

    /// Notes that the program of the process that started the recorder has ended.
    pub fn release_leader(&self) {
        // If the file cannot be written, the recorder notices that the leader is gone.
        let _ = files::replace(&self.directory.join("ended"), b"");
    }

    /// Whether [`release_leader`](Self::release_leader) was called.
    pub fn is_leader_released(&self) -> bool {
        self.directory.join("ended").exists()
    }

    /// Writes a file atomically.
    fn publish(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        files::replace(&self.directory.join(name), bytes)
    }

    /// Stores what programs need in their environment, now that the recorder runs. Empty if the
    /// recorder failed to start.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn set_ready(&self, environment: &[(String, String)]) -> io::Result<()> {
        self.publish("ready", &serde_json::to_vec(environment)?)
    }

    /// What [`set_ready`](Self::set_ready) stored; `None` before.
    pub fn ready(&self) -> Option<Vec<(String, String)>> {
        serde_json::from_slice(&files::read(&self.directory.join("ready"), LONGEST).ok()?).ok()
    }

    /// Stores the path of the node's bundle, and the facts of the node.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn set_bundle(&self, bundle: &Path, facts: &NodeFacts) -> io::Result<()> {
        self.publish("node.json", &serde_json::to_vec(facts)?)?;
        self.publish("bundle", bundle.as_os_str().as_encoded_bytes())
    }

    /// Path of the node's bundle, and the facts of the node; `None` if nothing was recorded.
    pub fn bundle(&self) -> Option<(PathBuf, NodeFacts)> {
        use std::os::unix::ffi::OsStringExt as _;
        let path = std::ffi::OsString::from_vec(
            files::read(&self.directory.join("bundle"), LONGEST).ok()?,
        );
        let facts =
            serde_json::from_slice(&files::read(&self.directory.join("node.json"), LONGEST).ok()?)
                .ok()?;
        Some((PathBuf::from(path), facts))
    }

    /// Makes the recorder wait for this process, which may still execute another program.
    ///
    /// # Errors
    /// It cannot be written, or there is no such process.
    pub fn register(&self, pid: u32) -> io::Result<()> {
        let owner = Owner::of(pid)?;
        files::replace(&self.pids().join(owner.name(REGISTERED, 0)), b"")
    }

    /// Removes a process from the registered ones.
    pub fn unregister(&self, pid: u32) {
        if let Ok(owner) = Owner::of(pid) {
            // If removal fails, the process counts as ended.
            let _ = fs::remove_file(self.pids().join(owner.name(REGISTERED, 0)));
        }
    }

    /// Whether a registered process still exists.
    pub fn is_anybody_left(&self) -> bool {
        let Ok(entries) = fs::read_dir(self.pids()) else {
            return false;
        };
        let mut left = false;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let owner = name
                .to_str()
                .and_then(|name| Owner::parse(REGISTERED, name));
            if owner.is_some_and(|owner| !owner.has_ended()) {
                left = true;
            } else {
                // It is not checked again; a failure to remove it is harmless.
                let _ = fs::remove_file(entry.path());
            }
        }
        left
    }

    /// Whether a process was ever registered; call it before
    /// [`is_anybody_left`](Self::is_anybody_left), which drops those that are gone.
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

/// Prefix of the names of registered processes.
const REGISTERED: &str = "process";

/// How long an unfetched bundle is kept.
const KEPT: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

/// How long a directory without a bundle is kept: by then its lock is held, or its process is gone.
const UNUSED: std::time::Duration = std::time::Duration::from_secs(60);

/// Removes what killed processes left on this node long ago. Errors are ignored.
fn sweep(base: &Path) {
    let prefix = format!("idlewave-node-{}-", Uid::own());
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let meta = entry
            .metadata()
            .ok()
            .filter(|m| m.is_dir() && Uid::of(m) == Uid::own());
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
        // Hold the lock during the removal, so that no new recorder uses the directory. Registered
        // processes still may.
        if let (Ok(Some(_held)), false) = (place.elect(), place.is_anybody_left()) {
            if let Some((bundle, _)) = place.bundle() {
                let _ = fs::remove_dir_all(bundle);
            }
            let _ = place.remove();
        }
    }
}

/// Name of the directory of the job with this number below `base`.
fn directory(base: &Path, id: &str) -> PathBuf {
    // Processes that share /dev/shm but not their PIDs cannot be recorded by one recorder; and /tmp
    // may even be on a file system shared with other machines.
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let numbers = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let apart = format!("{}{}", boot.trim(), numbers.display());
    let unique = crc32fast::hash(apart.as_bytes());
    base.join(format!("idlewave-node-{}-{id}-{unique:08x}", Uid::own()))
}

/// Directories local to this node, best first.
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
    use crate::KernelTrace;
    use std::process::Command;

    fn place() -> (tempfile::TempDir, Job, Place) {
        let dir = tempfile::tempdir().unwrap();
        let job = Job::new(dir.path(), &[], KernelTrace::On).unwrap();
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
        let other = Job::new(dir.path(), &job.command, KernelTrace::On).unwrap();
        // The place is new, then old but with a live recorder, then old and abandoned.
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
