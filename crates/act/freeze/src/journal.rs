//! Records processes stopped by signals in a file in memory, in case the owner and all of its
//! watchdogs are killed at once: a cgroup is found by its name ([`crate::recover`]), but the kernel
//! keeps no trace of who stopped a process.
//!
//! PID and start time are written before the process is stopped, and removed once all processes
//! continue. The file's name identifies its owner. The file is removed on drop.

use crate::error::FreezeError;
use crate::private_name::PrivateName;
use crate::process::signal_by_number;
use idlewave_sys::process::Signal;
use idlewave_sys::{Uid, files};
use idlewave_units::Pid;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Directories searched on every start on this machine, best first: all users may create files
/// there, but remove only their own.
const PLACES: [&str; 2] = ["/dev/shm", "/tmp"];
/// PID and start time, 8 bytes each.
const ENTRY: usize = 16;
/// A longer file was not written by a journal: 65,536 processes.
const LONGEST: u64 = 1 << 20;
/// How many names may be taken already, by another user.
const TRIES: u32 = 100;

/// The file of one group.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    entries: u64,
}

impl Journal {
    /// Creates an empty journal.
    pub(crate) fn create() -> Result<Self, FreezeError> {
        let mut failed = None;
        for place in PLACES {
            match Self::within(Path::new(place)) {
                Ok(journal) => return Ok(journal),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        Err(failed.unwrap_or(FreezeError::Unguarded))
    }

    fn within(place: &Path) -> Result<Self, FreezeError> {
        let mut tries = TRIES;
        loop {
            let path = place.join(PrivateName::next()?.of_journal());
            match files::create_with(&path, 0o600) {
                Ok(file) => {
                    return Ok(Self {
                        path,
                        file,
                        entries: 0,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries > 0 => {
                    tries -= 1;
                }
                Err(error) => return Err(FreezeError::file("create", &path)(error)),
            }
        }
    }

    /// Records that a process is about to be stopped.
    pub(crate) fn stopping(&mut self, pid: Pid, start: u64) -> Result<(), FreezeError> {
        let mut entry = [0; ENTRY];
        let (number, began) = entry.split_at_mut(ENTRY / 2);
        number.copy_from_slice(&u64::from(pid.get()).to_ne_bytes());
        began.copy_from_slice(&start.to_ne_bytes());
        let written = self.file.write_all_at(&entry, self.entries * ENTRY as u64);
        written.map_err(FreezeError::file("write", &self.path))?;
        self.entries += 1;
        Ok(())
    }

    /// Records that all stopped processes continue.
    pub(crate) fn going(&mut self) {
        // If this fails and the process is killed, the next start continues the remaining entries
        // once more, which does no harm.
        if self.entries > 0 && self.file.set_len(0).is_ok() {
            self.entries = 0;
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Continues what dead owners of this user had stopped; removes their files and returns the paths.
pub(crate) fn recover(here: u64) -> Result<Vec<PathBuf>, FreezeError> {
    let mut recovered = Vec::new();
    let mut failed = Ok(());
    for place in PLACES {
        let orphans = recover_within(Path::new(place), here);
        failed = failed.and(orphans.map(|paths| recovered.extend(paths)));
    }
    failed.map(|()| recovered)
}

fn recover_within(place: &Path, here: u64) -> Result<Vec<PathBuf>, FreezeError> {
    let mut recovered = Vec::new();
    let mut failed = Ok(());
    // A missing directory holds nothing.
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_str().and_then(PrivateName::parse_journal);
        if !name.is_some_and(|name| name.is_orphan(here)) {
            continue;
        }
        let path = entry.path();
        match continued(&path) {
            Ok(true) => {
                // Another start may have been faster.
                let _ = fs::remove_file(&path);
                recovered.push(path);
            }
            // Another user's.
            Ok(false) => {}
            Err(error) => failed = failed.and(Err(error)),
        }
    }
    failed.map(|()| recovered)
}

/// Continues the processes in a journal; false if it belongs to another user.
fn continued(path: &Path) -> Result<bool, FreezeError> {
    let Ok(file) = files::open(path) else {
        return Ok(false);
    };
    let read = || -> io::Result<Option<Vec<u8>>> {
        if Uid::of(&file.metadata()?) != Uid::own() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        (&file).take(LONGEST).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    };
    let Some(bytes) = read().map_err(FreezeError::file("read", path))? else {
        return Ok(false);
    };
    let mut failed = Ok(());
    for entry in bytes.chunks_exact(ENTRY) {
        let (number, start) = entry.split_at(ENTRY / 2);
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_ne_bytes).unwrap_or(0);
        if let Ok(number) = u32::try_from(word(number)) {
            let told = signal_by_number(Pid::new(number), word(start), Signal::CONT);
            failed = failed.and(told);
        }
    }
    failed.map(|()| true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;

    #[test]
    fn what_is_stopped_stands_in_the_file_until_all_go_on_and_the_file_goes_with_its_owner() {
        let place = tempfile::tempdir().unwrap();
        let mut journal = Journal::within(place.path()).unwrap();
        let path = journal.path.clone();
        for start in 0..3 {
            journal.stopping(Pid::new(7), start).unwrap();
        }
        assert_eq!(fs::read(&path).unwrap().len(), 3 * ENTRY);
        journal.going();
        assert_eq!(fs::read(&path).unwrap().len(), 0);
        journal.stopping(Pid::new(8), 1).unwrap();
        assert_eq!(fs::read(&path).unwrap().len(), ENTRY);
        // Its owner is alive.
        let here = PrivateName::next().unwrap().namespace();
        assert!(recover_within(place.path(), here).unwrap().is_empty());
        drop(journal);
        assert!(!path.exists());
    }

    #[test]
    fn the_next_start_continues_who_still_is_the_same_and_nobody_else() {
        let place = tempfile::tempdir().unwrap();
        let sleeper = || {
            let child = std::process::Command::new("sleep").arg("30").spawn();
            child.unwrap()
        };
        let mut both = [sleeper(), sleeper()];
        let pids = both.each_ref().map(|child| Pid::new(child.id()));
        let stats = pids.map(|pid| process::stat(pid).unwrap());
        let mut journal = Journal::within(place.path()).unwrap();
        journal.stopping(pids[0], stats[0].start).unwrap();
        // As if its PID had been reused.
        journal.stopping(pids[1], stats[1].start - 1).unwrap();
        let state = |pid| process::stat(pid).unwrap().state;
        for (pid, stat) in pids.iter().zip(stats) {
            signal_by_number(*pid, stat.start, Signal::STOP).unwrap();
            while state(*pid) != 'T' {
                std::thread::yield_now();
            }
        }
        // As if its owner had been killed: the start time belongs to another process.
        let here = PrivateName::next().unwrap().namespace();
        let name = journal.path.file_name().unwrap().to_str().unwrap();
        let orphan = PrivateName::parse_journal(name).unwrap().of_nobody();
        let left = place.path().join(orphan.of_journal());
        fs::rename(&journal.path, &left).unwrap();
        std::os::unix::fs::symlink(&left, place.path().join(orphan.of_journal() + "0")).unwrap();
        assert_eq!(
            recover_within(place.path(), here).unwrap(),
            std::slice::from_ref(&left)
        );
        assert!(!left.exists());
        while state(pids[0]) == 'T' {
            std::thread::yield_now();
        }
        assert_eq!(state(pids[1]), 'T');
        for child in &mut both {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
