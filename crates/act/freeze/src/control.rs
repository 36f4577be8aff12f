//! One cgroup with a freezer: its files, their content, and how it is released.
//!
//! Version 2: `cgroup.freeze` is written, `frozen` of `cgroup.events` confirms. Version 1:
//! `freezer.state` does both, and reads `FREEZING` until the last thread has stopped. The files
//! stay open, so a switch resolves no path.

use crate::clock::{look_until, now};
use crate::error::FreezeError;
use crate::kind::Kind;
use crate::moves::Moves;
use idlewave_units::{Nanos, Pid};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// How long confirmation of a thaw may take: the kernel thaws within the write, unless a parent
/// group is frozen.
const THAW_LIMIT: Nanos = Nanos::from_millis(10);
/// How long the last processes may take to leave.
const RELEASE_LIMIT: Nanos = Nanos::from_secs(1);

/// The file names of one version.
struct Names {
    command: &'static str,
    answer: &'static str,
    freeze: &'static [u8],
    thaw: &'static [u8],
}

const V2: Names = Names {
    command: "cgroup.freeze",
    answer: "cgroup.events",
    freeze: b"1",
    thaw: b"0",
};
const V1: Names = Names {
    command: "freezer.state",
    answer: "freezer.state",
    freeze: b"FROZEN",
    thaw: b"THAWED",
};

/// The state of a group, according to its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Thawed,
    /// Version 1 only.
    Freezing,
    Frozen,
}

/// The open files of one group.
#[derive(Debug)]
pub(crate) struct Control {
    kind: Kind,
    directory: PathBuf,
    command: File,
    answer: File,
}

impl Control {
    /// Opens the files of a group; [`Kind::Signals`] has none.
    pub(crate) fn open(kind: Kind, directory: &Path) -> Result<Self, FreezeError> {
        let names = names(kind);
        Self::open_files(kind, directory, names.command, names.answer)
    }

    fn open_files(
        kind: Kind,
        directory: &Path,
        command: &str,
        answer: &str,
    ) -> Result<Self, FreezeError> {
        let (command, answer) = (directory.join(command), directory.join(answer));
        Ok(Control {
            kind,
            directory: directory.to_owned(),
            command: OpenOptions::new()
                .write(true)
                .open(&command)
                .map_err(FreezeError::file("open", &command))?,
            answer: File::open(&answer).map_err(FreezeError::file("open", &answer))?,
        })
    }

    /// The group's directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    fn order(&self, what: &[u8]) -> Result<(), FreezeError> {
        let path = || self.directory.join(names(self.kind).command);
        match self.command.write_at(what, 0) {
            Ok(_) => Ok(()),
            Err(e) => Err(FreezeError::file("write", &path())(e)),
        }
    }

    /// The present state of the group.
    pub(crate) fn state(&self) -> Result<State, FreezeError> {
        let path = || self.directory.join(names(self.kind).answer);
        let mut buffer = [0; 256];
        let read = self
            .answer
            .read_at(&mut buffer, 0)
            .map_err(|e| FreezeError::file("read", &path())(e))?;
        let text = String::from_utf8_lossy(buffer.get(..read).unwrap_or_default());
        parse(self.kind, &text).ok_or_else(|| FreezeError::Unknown {
            path: path(),
            text: idlewave_units::foreign::cut(text.trim()),
        })
    }

    /// Stops the group's processes and waits until all have stopped; returns how long that took.
    /// After the limit they are thawed again.
    pub(crate) fn freeze(&self, limit: Nanos) -> Result<Nanos, FreezeError> {
        let start = now();
        let mut state = State::Thawed;
        let frozen = self.order(names(self.kind).freeze).and_then(|()| {
            look_until(start, limit, || {
                state = self.state()?;
                if state == State::Freezing {
                    // A process that forked in the meantime may have missed the order
                    // (freezer-subsystem.rst recommends this).
                    self.order(names(self.kind).freeze)?;
                }
                Ok((state == State::Frozen).then_some(()))
            })
        });
        let failed = match frozen {
            Ok(Some(((), after))) => return Ok(after),
            Ok(None) => FreezeError::NotFrozen {
                limit,
                after: now().saturating_sub(start),
                state: format!("{} says {state:?}", self.kind),
            },
            Err(e) => e,
        };
        match self.thaw() {
            Ok(_) => Err(failed),
            Err(e) => Err(FreezeError::NotThawedAgain {
                limit,
                source: Box::new(e),
            }),
        }
    }

    /// Thaws the processes; returns how long it took until the group confirmed it.
    pub(crate) fn thaw(&self) -> Result<Nanos, FreezeError> {
        let start = now();
        self.order(names(self.kind).thaw)?;
        let mut state = State::Frozen;
        let thawed = look_until(start, THAW_LIMIT, || {
            state = self.state()?;
            Ok::<_, FreezeError>((state == State::Thawed).then_some(()))
        })?;
        match thawed {
            Some(((), after)) => Ok(after),
            None => Err(FreezeError::NotThawed {
                state: format!("{} says {state:?}", self.kind),
            }),
        }
    }
}

fn names(kind: Kind) -> &'static Names {
    match kind {
        Kind::V1 => &V1,
        Kind::V2 | Kind::Signals => &V2,
    }
}

/// Interprets an answer; `None` if it is unknown.
fn parse(kind: Kind, text: &str) -> Option<State> {
    if kind == Kind::V1 {
        return match text.trim() {
            "THAWED" => Some(State::Thawed),
            "FREEZING" => Some(State::Freezing),
            "FROZEN" => Some(State::Frozen),
            _ => None,
        };
    }
    match text.lines().find_map(|line| line.strip_prefix("frozen "))? {
        "0" => Some(State::Thawed),
        "1" => Some(State::Frozen),
        _ => None,
    }
}

/// Where the processes of a group go when it is released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Homes {
    /// Those that were created in it.
    pub(crate) default: PathBuf,
    /// Those that were moved into it: their previous groups.
    pub(crate) of: BTreeMap<Pid, PathBuf>,
}

/// The processes of a group, by its `cgroup.procs`.
pub(crate) fn members(directory: &Path) -> Result<Vec<Pid>, FreezeError> {
    let path = directory.join("cgroup.procs");
    let text = fs::read_to_string(&path).map_err(FreezeError::file("read", &path))?;
    Ok(text
        .lines()
        .filter_map(|line| line.parse().ok().map(Pid::new))
        .collect())
}

/// Moves a process into a group.
pub(crate) fn enter(directory: &Path, pid: Pid) -> Result<(), FreezeError> {
    let path = directory.join("cgroup.procs");
    // Neither truncates nor creates: a kernel file either exists or does not.
    let written = OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|file| file.write_at(pid.to_string().as_bytes(), 0));
    match written {
        Ok(_) => Ok(()),
        Err(e) if e.raw_os_error() == Some(libc::ESRCH) => Err(FreezeError::NoProcess(pid)),
        Err(e) => Err(FreezeError::file("write", &path)(e)),
    }
}

/// Thaws a group, moves its processes back and removes it. Does nothing if it no longer exists.
pub(crate) fn release(kind: Kind, directory: &Path, homes: &Homes) -> Result<(), FreezeError> {
    release_when(&Moves::default(), kind, directory, homes)
}

/// Like [`release`], moving processes when `moves` permits.
pub(crate) fn release_when(
    moves: &Moves,
    kind: Kind,
    directory: &Path,
    homes: &Homes,
) -> Result<(), FreezeError> {
    if !directory.exists() {
        return Ok(());
    }
    // Whatever happens next, the processes must run. A failed thaw is reported only if the group
    // cannot be removed; otherwise they have left it.
    let thawed = Control::open(kind, directory).and_then(|control| control.thaw());
    let removed = look_until(now(), RELEASE_LIMIT, || {
        for pid in members(directory).unwrap_or_default() {
            let home = homes.of.get(&pid).unwrap_or(&homes.default);
            // Its previous group may have been removed. If it cannot enter the default either, the
            // next round tries again.
            if moves.go(|| enter(home, pid)).is_err() {
                let _ = moves.go(|| enter(&homes.default, pid));
            }
        }
        match fs::remove_dir(directory) {
            Ok(()) => Ok(Some(())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Some(())),
            // A process that is exiting cannot be moved and is gone soon.
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => Ok(None),
            Err(e) => Err(FreezeError::file("remove", directory)(e)),
        }
    })?;
    match (removed, thawed) {
        (Some(_), _) => Ok(()),
        (None, Err(e)) => Err(e),
        (None, Ok(_)) => Err(FreezeError::file("remove", directory)(
            io::Error::from_raw_os_error(libc::EBUSY),
        )),
    }
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
