//! Stopping with signals: every process one by one, until none runs.
//!
//! A process may start a child while others are being stopped. So they are read again until a
//! reading that began when everything known had stopped finds no new process: stopped processes
//! start no children. A freeze takes at least two readings, of the members with their lists of
//! children, or of all processes of the machine if the members are those of a session or the kernel
//! has no such lists. A thaw is one signal for each, and no reading.
//!
//! After `vfork(2)`, as in `posix_spawn(3)`, a parent sleeps uninterruptibly until its child
//! executes its program. If such a child was stopped first, it is released until its parent stops.

use crate::clock::{look_until, now};
use crate::error::FreezeError;
use crate::journal::Journal;
use crate::process::{self, Stat, signal_by_number, told};
use crate::watchdog::Line;
use idlewave_sys::Uid;
use idlewave_sys::process::{Signal, handle, send_by_handle};
use idlewave_units::{Nanos, Pid, counted};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

/// A process that was stopped here.
#[derive(Debug)]
struct Stopped {
    start: u64,
    /// Refers to the process, not its PID; `None` before Linux 5.3.
    handle: Option<OwnedFd>,
}

/// Processes that are stopped one by one.
#[derive(Debug)]
pub(crate) struct Signals {
    user: Uid,
    sessions: BTreeSet<Pid>,
    /// All processes ever found, with their start times: their children are found even when they
    /// themselves have gone.
    known: BTreeMap<Pid, u64>,
    exempt: BTreeSet<Pid>,
    /// Processes to continue; not those that others had stopped.
    stopped: BTreeMap<Pid, Stopped>,
    /// The same, for recovery after this process has died.
    journal: Journal,
}

impl Signals {
    pub(crate) fn new(user: Uid) -> Result<Self, FreezeError> {
        Ok(Signals {
            user,
            sessions: BTreeSet::new(),
            known: BTreeMap::new(),
            exempt: [Pid::new(std::process::id()), Pid::new(1)].into(),
            stopped: BTreeMap::new(),
            journal: Journal::create()?,
        })
    }

    pub(crate) fn exempt(&mut self, pid: Pid) {
        self.exempt.insert(pid);
    }

    pub(crate) fn add(&mut self, pid: Pid, start: u64) {
        self.known.insert(pid, start);
    }

    pub(crate) fn add_session(&mut self, session: Pid) {
        self.sessions.insert(session);
    }

    /// Finds the present members of the group and remembers them.
    pub(crate) fn find(&mut self) -> Result<BTreeMap<Pid, Stat>, FreezeError> {
        let of_lists = match self.sessions.is_empty() {
            true => process::descendants(&self.known),
            false => None,
        };
        let mut found = match of_lists {
            Some(found) => found,
            None => self.find_among_all()?,
        };
        let known = &self.known;
        found.retain(|pid, stat| {
            known.get(pid) == Some(&stat.start) || process::check_user(*pid, self.user).is_ok()
        });
        self.known = found.iter().map(|(pid, stat)| (*pid, stat.start)).collect();
        found.retain(|pid, _| !self.exempt.contains(pid));
        Ok(found)
    }

    fn find_among_all(&self) -> Result<BTreeMap<Pid, Stat>, FreezeError> {
        let mut all = process::all()?;
        // A process that reused a PID is not one of ours.
        let same = |pid: &Pid, start: u64| all.get(pid).is_some_and(|stat| stat.start == start);
        let roots = self.known.iter().filter(|(pid, start)| same(pid, **start));
        let roots: BTreeSet<Pid> = roots.map(|(pid, _)| *pid).collect();
        let found = process::closure(&all, &roots, &self.sessions);
        all.retain(|pid, _| found.contains(pid));
        Ok(all)
    }

    /// Stops running members once; returns what was found.
    fn round(&mut self, line: Option<&Line>) -> Result<Round, FreezeError> {
        let before = self.known.clone();
        let found = self.find()?;
        let mut round = Round {
            new: found
                .iter()
                .any(|(pid, stat)| before.get(pid) != Some(&stat.start)),
            running: 0,
            processes: found.len(),
        };
        let waits = |pid: &Pid| self.stopped.contains_key(pid) && process::waits(*pid);
        let waiting: BTreeSet<Pid> = found.keys().copied().filter(waits).collect();
        for (pid, Stat { start, parent, .. }) in found {
            if waiting.contains(&parent) {
                round.running += 1;
                if let Some(stopped) = self.stopped.get(&pid) {
                    stopped.signal(pid, Signal::CONT)?;
                }
                continue;
            }
            if process::rests(pid) != Some(false) {
                continue;
            }
            round.running += 1;
            if self.stopped.get(&pid).is_none_or(|s| s.start != start) {
                // Registered first: a process stopped without a record would stay stopped.
                self.journal.stopping(pid, start)?;
                if let Some(line) = line {
                    line.stopping(pid, start)?;
                }
                let handle = handle(pid).ok();
                // The handle or PID must still refer to the process that was found.
                if process::stat(pid).is_none_or(|stat| stat.start != start) {
                    continue;
                }
                self.stopped.insert(pid, Stopped { start, handle });
            }
            // Stops it again if another process continued it.
            if let Some(stopped) = self.stopped.get(&pid) {
                stopped.signal(pid, Signal::STOP)?;
            }
        }
        Ok(round)
    }

    /// Stops all and waits until they have stopped; see [`crate::Group::freeze`].
    pub(crate) fn freeze(
        &mut self,
        limit: Nanos,
        line: Option<&Line>,
    ) -> Result<Nanos, FreezeError> {
        let start = now();
        // Whether the previous reading found all processes at rest.
        let mut rested = false;
        let mut last = Round::default();
        let frozen = look_until(start, limit, || {
            loop {
                last = self.round(line)?;
                let next = last.next(rested);
                rested = last.running == 0;
                match next {
                    Next::Frozen => return Ok(Some(())),
                    Next::AtOnce => {}
                    Next::Later => return Ok(None),
                }
            }
        });
        let failed = match frozen {
            Ok(Some(((), after))) => return Ok(after),
            Ok(None) => FreezeError::NotFrozen {
                limit,
                after: now().saturating_sub(start),
                state: format!(
                    "{} of {} ran",
                    last.running,
                    counted(last.processes, "process")
                ),
            },
            Err(e) => e,
        };
        match self.thaw(line) {
            Ok(_) => Err(failed),
            Err(e) => Err(FreezeError::NotThawedAgain {
                limit,
                source: Box::new(e),
            }),
        }
    }

    /// Continues the processes it stopped; returns how long that took.
    pub(crate) fn thaw(&mut self, line: Option<&Line>) -> Result<Nanos, FreezeError> {
        let start = now();
        let mut failed = None;
        self.stopped
            .retain(|pid, stopped| match stopped.signal(*pid, Signal::CONT) {
                Ok(()) => false,
                Err(e) => {
                    failed = Some(e);
                    true
                }
            });
        let took = now().saturating_sub(start);
        if self.stopped.is_empty() {
            self.journal.going();
            // A watchdog that has ended continues nothing twice.
            let _ = line.map(Line::going);
        }
        failed.map_or(Ok(took), Err)
    }

    /// Whether all are at rest now.
    pub(crate) fn is_frozen(&mut self) -> Result<bool, FreezeError> {
        let found = self.find()?;
        Ok(found.keys().all(|pid| process::rests(*pid) != Some(false)))
    }

    /// Processes that a new watchdog must continue.
    pub(crate) fn stopped(&self) -> impl Iterator<Item = (Pid, u64)> + '_ {
        self.stopped.iter().map(|(pid, s)| (*pid, s.start))
    }
}

/// The result of one reading of /proc.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// Whether there were unknown processes.
    new: bool,
    /// Number of processes found running, and told to stop.
    running: usize,
    processes: usize,
}

/// What follows a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// All have stopped.
    Frozen,
    /// A confirming reading at once.
    AtOnce,
    /// Another one, after the signalled processes had time to stop.
    Later,
}

impl Round {
    /// What follows this reading, given whether the previous one found all at rest. One reading is
    /// not enough: a process that was running when its children were listed, and at rest when its
    /// state was read, may have started a child in between.
    fn next(&self, rested: bool) -> Next {
        match (self.running, rested) {
            (0, true) if !self.new => Next::Frozen,
            (0, false) => Next::AtOnce,
            _ => Next::Later,
        }
    }
}

impl Stopped {
    /// A process that has ended is no error.
    fn signal(&self, pid: Pid, signal: Signal) -> Result<(), FreezeError> {
        match &self.handle {
            Some(handle) => told(send_by_handle(handle, signal), pid),
            None => signal_by_number(pid, self.start, signal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_second_reading_that_shows_nobody_new_confirms_a_first_at_rest() {
        let next = |running, new, rested| {
            let processes = 3;
            let round = Round {
                new,
                running,
                processes,
            };
            round.next(rested)
        };
        assert_eq!(next(0, false, true), Next::Frozen);
        for new in [false, true] {
            assert_eq!(next(0, new, false), Next::AtOnce);
            assert_eq!(next(1, new, false), Next::Later);
            assert_eq!(next(1, new, true), Next::Later);
        }
        assert_eq!(next(0, true, true), Next::Later);
    }
}
