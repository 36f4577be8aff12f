//! The processes of one job, stopped and thawed together.

use crate::brake::{Brake, Frozen};
use crate::control::{self, Control, Homes, State};
use crate::error::FreezeError;
use crate::freezer::Freezer;
use crate::kind::Kind;
use crate::mounts;
use crate::moves::Moves;
use crate::process;
use crate::signals::Signals;
use crate::watchdog::{Line, Watchdog};
use idlewave_sys::Uid;
use idlewave_units::{Nanos, Pid};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How often an added tree is read again for new children. Only exempt processes, whose children
/// start outside, can keep it changing.
const MOST_READINGS: usize = 100;

/// Processes added to a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// Processes that are new in the group, ascending.
    pub processes: BTreeSet<Pid>,
    /// Descendants of other users, which were ignored, ascending.
    pub others: BTreeSet<Pid>,
}

#[derive(Debug)]
enum Means {
    Control { control: Arc<Control>, homes: Homes },
    Signals(Signals),
}

/// Processes of one user that are stopped and thawed together. When dropped, it thaws them, moves
/// them back to their previous cgroups, and removes its own; its [`Watchdog`] does the same when
/// this process is killed.
#[derive(Debug)]
pub struct Group {
    kind: Kind,
    user: Uid,
    means: Means,
    exempt: BTreeSet<Pid>,
    line: Option<Line>,
    moves: Arc<Moves>,
    given_up: bool,
}

impl Group {
    /// An empty group for processes of that user, in a cgroup with a private name.
    ///
    /// # Errors
    /// [`FreezeError::NotRoot`] for another user if the caller is not root; the cgroup cannot be
    /// created.
    pub fn create(freezer: &Freezer, user: Uid) -> Result<Self, FreezeError> {
        let caller = Uid::own();
        if caller != Uid::ROOT && caller != user {
            return Err(FreezeError::NotRoot {
                wanted: user,
                caller,
            });
        }
        let means = match freezer {
            Freezer::Signals => Means::Signals(Signals::new(user)?),
            Freezer::V2 { parent } | Freezer::V1 { parent } => Means::Control {
                control: Arc::new(Freezer::make(freezer.kind(), parent)?),
                homes: Homes {
                    default: parent.clone(),
                    of: BTreeMap::new(),
                },
            },
        };
        Ok(Group {
            kind: freezer.kind(),
            user,
            means,
            exempt: [Pid::new(std::process::id()), Pid::new(1)].into(),
            line: None,
            moves: Arc::default(),
            given_up: false,
        })
    }

    /// Registers the group, with what it holds already, with a watchdog. From then on it cannot be
    /// frozen without that watchdog.
    ///
    /// # Errors
    /// [`FreezeError::Unguarded`] if the watchdog has ended.
    pub fn guard(&mut self, watchdog: &Watchdog) -> Result<(), FreezeError> {
        let line = watchdog.line();
        match &self.means {
            Means::Control { control, homes } => {
                line.group(self.kind, control.directory())?;
                line.default_home(&homes.default)?;
                for (pid, home) in &homes.of {
                    line.home(*pid, home)?;
                }
            }
            Means::Signals(signals) => {
                line.group(self.kind, Path::new(""))?;
                for (pid, start) in signals.stopped() {
                    line.stopping(pid, start)?;
                }
            }
        }
        self.line = Some(line);
        for pid in watchdog.pids() {
            self.exempt(pid);
        }
        Ok(())
    }

    /// From now on, processes are moved only when `moves` permits.
    pub fn yield_to(&mut self, moves: &Arc<Moves>) {
        self.moves = Arc::clone(moves);
    }

    /// A brake by which another thread can freeze and thaw it, under its present watchdog; `None`
    /// with signals.
    pub fn brake(&self) -> Option<Brake> {
        match &self.means {
            Means::Control { control, .. } => Some(Brake {
                control: Arc::clone(control),
                line: self.line.clone(),
            }),
            Means::Signals(_) => None,
        }
    }

    /// Never stops this process, such as a launcher's daemon; to be called before it is added with
    /// others. Its children are stopped. Those that it starts after [`Group::add`] are found when
    /// `add` is called again. With signals and [`Group::add_session`] they are found at once; a
    /// process that keeps starting children then prevents a freeze from being confirmed.
    pub fn exempt(&mut self, pid: Pid) {
        self.exempt.insert(pid);
        if let Means::Signals(signals) = &mut self.means {
            signals.exempt(pid);
        }
    }

    /// Exempts a process that may be in the group already, for instance because it started there:
    /// it is moved back, and runs from the next thaw on at the latest. Its children stay.
    ///
    /// # Errors
    /// A cgroup cannot be read, or the process cannot leave it.
    pub fn let_go(&mut self, pid: Pid) -> Result<(), FreezeError> {
        self.exempt(pid);
        let Means::Control { control, homes } = &mut self.means else {
            return Ok(());
        };
        if !control::members(control.directory())?.contains(&pid) {
            return Ok(());
        }
        let home = homes.of.get(&pid).unwrap_or(&homes.default).clone();
        match self.moves.go(|| control::enter(&home, pid)) {
            // It has ended in the meantime.
            Err(FreezeError::NoProcess(_)) => Ok(()),
            other => other,
        }
    }

    /// Adds a process with all its descendants, including future ones. Descendants of other users
    /// and the caller are ignored. In a cgroup, a program with other rights (set-user-ID) that a
    /// member starts later is a member too.
    ///
    /// # Errors
    /// [`FreezeError::OtherUser`] if the process does not fully belong to the group's user,
    /// [`FreezeError::NoProcess`], [`FreezeError::Essential`] for the caller and process 1; errors
    /// of the kernel.
    pub fn add(&mut self, pid: Pid) -> Result<Added, FreezeError> {
        if pid == Pid::new(std::process::id()) || pid == Pid::new(1) {
            return Err(FreezeError::Essential(pid));
        }
        process::check_user(pid, self.user)?;
        self.add_all(&[pid].into(), &BTreeSet::new())
    }

    /// Adds all processes of a session (`setsid(2)`; a batch step is one) with their descendants.
    /// With signals, new processes of the session are found later even if their parents have gone,
    /// which [`Group::add`] cannot guarantee.
    ///
    /// # Errors
    /// As for [`Group::add`]; [`FreezeError::NoProcess`] if the session has no process of the user.
    pub fn add_session(&mut self, session: Pid) -> Result<Added, FreezeError> {
        let added = self.add_all(&BTreeSet::new(), &[session].into())?;
        if let Means::Signals(signals) = &mut self.means {
            signals.add_session(session);
        }
        match added.processes.is_empty() {
            true => Err(FreezeError::NoProcess(session)),
            false => Ok(added),
        }
    }

    fn add_all(
        &mut self,
        roots: &BTreeSet<Pid>,
        sessions: &BTreeSet<Pid>,
    ) -> Result<Added, FreezeError> {
        let mut added = Added::default();
        let mut roots = roots.clone();
        for _ in 0..MOST_READINGS {
            let all = process::all()?;
            let mut todo = process::closure(&all, &roots, sessions);
            let inside: BTreeSet<Pid> = self.members()?.into_iter().collect();
            todo.retain(|p| {
                !(inside.contains(p) || self.exempt.contains(p) || added.others.contains(p))
            });
            // A parent may end while its children are read, so children of all processes found so
            // far are searched for.
            roots.extend(&todo);
            let before = added.processes.len();
            for pid in todo {
                let start = all.get(&pid).map_or(0, |stat| stat.start);
                match self.take(pid, start) {
                    Ok(()) => {
                        added.processes.insert(pid);
                    }
                    Err(FreezeError::OtherUser { .. }) => {
                        added.others.insert(pid);
                    }
                    Err(FreezeError::NoProcess(_)) => {}
                    Err(e) => return Err(e),
                }
            }
            if added.processes.len() == before {
                break;
            }
        }
        Ok(added)
    }

    /// Adds one process that was found with that start time.
    fn take(&mut self, pid: Pid, start: u64) -> Result<(), FreezeError> {
        process::check_user(pid, self.user)?;
        let same = || process::stat(pid).is_some_and(|stat| stat.start == start);
        let (control, homes) = match &mut self.means {
            Means::Signals(signals) => {
                signals.add(pid, start);
                return Ok(());
            }
            Means::Control { control, homes } => (control, homes),
        };
        let home = home(self.kind, pid).unwrap_or_else(|| homes.default.clone());
        // Registered first: its way back must be known once it is in the group.
        if let Some(line) = &self.line {
            line.home(pid, &home)?;
        }
        self.moves.go(|| control::enter(control.directory(), pid))?;
        if !same() {
            // The PID was reused between the look and the move: this process is not ours.
            let _ = self.moves.go(|| control::enter(&home, pid));
            return Err(FreezeError::NoProcess(pid));
        }
        if homes.of.is_empty() {
            // Processes created inside belong where the first member came from.
            if let Some(line) = &self.line {
                line.default_home(&home)?;
            }
            homes.default = home.clone();
        }
        homes.of.insert(pid, home);
        Ok(())
    }

    /// Stops all processes and waits, asleep, until all threads have stopped. A group that is
    /// already frozen is confirmed again.
    ///
    /// # Errors
    /// [`FreezeError::NotFrozen`] after the limit: the processes were thawed.
    /// [`FreezeError::NotThawedAgain`] if even that failed. [`FreezeError::Unguarded`] if its
    /// watchdog has ended, [`FreezeError::LeaseOver`] if this process was stopped for longer than
    /// its lease: then nothing is frozen.
    pub fn freeze(&mut self, limit: Nanos) -> Result<Frozen, FreezeError> {
        if let Some(line) = &self.line {
            line.check()?;
        }
        let after = match &mut self.means {
            Means::Control { control, .. } => control.freeze(limit)?,
            Means::Signals(signals) => signals.freeze(limit, self.line.as_ref())?,
        };
        if let Some(Err(over)) = self.line.as_ref().map(Line::check) {
            // If this process was stopped in between, it has frozen what a watchdog had thawed.
            self.thaw()?;
            return Err(over);
        }
        Ok(Frozen { after })
    }

    /// Thaws the processes; returns how long it took until the kernel confirmed it. The scheduler
    /// decides when they run. Processes stopped by a signal from elsewhere stay stopped.
    ///
    /// # Errors
    /// [`FreezeError::NotThawed`] if a parent group is frozen too.
    pub fn thaw(&mut self) -> Result<Nanos, FreezeError> {
        match &mut self.means {
            Means::Control { control, .. } => control.thaw(),
            Means::Signals(signals) => signals.thaw(self.line.as_ref()),
        }
    }

    /// The current processes of the group, ascending. With signals this reads all of /proc.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn members(&mut self) -> Result<Vec<Pid>, FreezeError> {
        match &mut self.means {
            Means::Control { control, .. } => {
                let mut members = control::members(control.directory())?;
                members.sort();
                Ok(members)
            }
            Means::Signals(signals) => Ok(signals.find()?.into_keys().collect()),
        }
    }

    /// Whether all of it has stopped. An empty cgroup keeps its ordered state; an empty signal
    /// group counts as frozen, since nothing runs.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn is_frozen(&mut self) -> Result<bool, FreezeError> {
        match &mut self.means {
            Means::Control { control, .. } => Ok(control.state()? == State::Frozen),
            Means::Signals(signals) => signals.is_frozen(),
        }
    }

    /// Its cgroup; `None` with signals.
    pub fn directory(&self) -> Option<&Path> {
        match &self.means {
            Means::Control { control, .. } => Some(control.directory()),
            Means::Signals(_) => None,
        }
    }

    /// Like dropping the group (thaws the processes, moves them back and removes the group), but
    /// returns errors.
    ///
    /// # Errors
    /// Something was left. A watchdog still knows it, and [`crate::recover`] finds it later.
    pub fn remove(mut self) -> Result<(), FreezeError> {
        self.give_up()
    }

    fn give_up(&mut self) -> Result<(), FreezeError> {
        if self.given_up {
            return Ok(());
        }
        self.given_up = true;
        match &mut self.means {
            Means::Control { control, homes } => {
                control::release_when(&self.moves, self.kind, control.directory(), homes)?;
            }
            Means::Signals(signals) => {
                signals.thaw(self.line.as_ref())?;
            }
        }
        if let Some(line) = &self.line {
            // A watchdog that has ended has nothing to forget.
            let _ = line.forget();
        }
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = self.give_up();
    }
}

/// The cgroup of that kind that a process is in.
fn home(kind: Kind, pid: Pid) -> Option<PathBuf> {
    let membership = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let place = mounts::place(kind, &membership, &mountinfo).ok()?;
    Some(place.directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sleeping process and an empty group for it, for each cgroup freezer that this machine has.
    fn with_each(test: impl Fn(&mut Group, Pid, u64)) {
        for kind in [Kind::V2, Kind::V1] {
            let freezer = match Freezer::of_kind(kind) {
                Ok(freezer) => freezer,
                Err(e) => {
                    println!("skipped: {e}");
                    continue;
                }
            };
            let mut sleep = std::process::Command::new("sleep")
                .arg("20")
                .spawn()
                .unwrap();
            let pid = Pid::new(sleep.id());
            let mut group = Group::create(&freezer, Uid::own()).unwrap();
            test(&mut group, pid, process::stat(pid).unwrap().start);
            group.remove().unwrap();
            sleep.kill().unwrap();
            sleep.wait().unwrap();
        }
    }

    #[test]
    fn a_number_that_another_process_has_got_is_sent_back_where_it_was() {
        with_each(|group, pid, start| {
            let before = home(group.kind, pid);
            let taken = group.take(pid, start + 1);
            assert!(matches!(taken, Err(FreezeError::NoProcess(p)) if p == pid));
            assert_eq!(group.members().unwrap(), []);
            assert_eq!(home(group.kind, pid), before);
            group.take(pid, start).unwrap();
            assert_eq!(group.members().unwrap(), [pid]);
        });
    }

    #[test]
    fn who_is_let_go_goes_home_and_is_not_taken_again() {
        with_each(|group, pid, _| {
            let before = home(group.kind, pid);
            group.add(pid).unwrap();
            assert_ne!(home(group.kind, pid), before);
            group.let_go(pid).unwrap();
            assert_eq!(home(group.kind, pid), before);
            assert!(group.add(pid).unwrap().processes.is_empty());
            assert_eq!(group.members().unwrap(), []);
        });
    }
}
