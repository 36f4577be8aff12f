//! Stopping with signals: every process by itself, until none runs.
//!
//! A process may have a child while others are being stopped. So they are read again until a reading that began when
//! everything known had already stopped shows nobody new: what has stopped has no more children. A freeze is at least two
//! readings, of the members with their lists of children, or of all processes of the machine where the members are those of a session
//! or the kernel has no such lists. A thaw is one signal for each, and no reading.
//!
//! A parent waits uninterruptibly until the child that it had with `vfork(2)`, as `posix_spawn(3)` does, executes its program. Such a
//! child that was stopped before is let go until its parent stops.

use crate::clock::{look_until, now};
use crate::error::FreezeError;
use crate::process::{self, Stat, Uid};
use crate::watchdog::Line;
use idlewave_units::{Nanos, Pid};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// A process that was stopped here.
#[derive(Debug)]
struct Stopped {
    start: u64,
    /// It names the process, not its number; `None` before Linux 5.3.
    handle: Option<OwnedFd>,
}

/// Processes that are stopped one by one.
#[derive(Debug)]
pub(crate) struct Signals {
    user: Uid,
    sessions: BTreeSet<Pid>,
    /// Everybody who was seen, and when they started: their children are found even when they themselves have gone meanwhile.
    known: BTreeMap<Pid, u64>,
    exempt: BTreeSet<Pid>,
    /// Who is to be continued. Who had been stopped by others is not among them.
    stopped: BTreeMap<Pid, Stopped>,
}

impl Signals {
    pub(crate) fn new(user: Uid) -> Self {
        Signals {
            user,
            sessions: BTreeSet::new(),
            known: BTreeMap::new(),
            exempt: [Pid::new(std::process::id()), Pid::new(1)].into(),
            stopped: BTreeMap::new(),
        }
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

    /// Whoever belongs to the group now; and remembers them.
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
        // A number that another process has got is not one of ours.
        let same = |pid: &Pid, start: u64| all.get(pid).is_some_and(|stat| stat.start == start);
        let roots = self.known.iter().filter(|(pid, start)| same(pid, **start));
        let roots: BTreeSet<Pid> = roots.map(|(pid, _)| *pid).collect();
        let found = process::closure(&all, &roots, &self.sessions);
        all.retain(|pid, _| found.contains(pid));
        Ok(all)
    }

    /// Stops whoever runs; whether nobody new was there and everybody rests.
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
                    stopped.signal(pid, libc::SIGCONT)?;
                }
                continue;
            }
            if process::rests(pid) != Some(false) {
                continue;
            }
            round.running += 1;
            if self.stopped.get(&pid).is_none_or(|s| s.start != start) {
                // Said first: a process that is stopped without anybody's knowing stays so.
                if let Some(line) = line {
                    line.stopping(pid, start)?;
                }
                let handle = process::open(pid).ok();
                // What is behind the handle or the number still is who was found.
                if process::stat(pid).is_none_or(|stat| stat.start != start) {
                    continue;
                }
                self.stopped.insert(pid, Stopped { start, handle });
            }
            // Said again to whom somebody else continued.
            if let Some(stopped) = self.stopped.get(&pid) {
                stopped.signal(pid, libc::SIGSTOP)?;
            }
        }
        Ok(round)
    }

    /// Stops all and waits until they have; see [`crate::Group::freeze`].
    pub(crate) fn freeze(
        &mut self,
        limit: Nanos,
        line: Option<&Line>,
    ) -> Result<Nanos, FreezeError> {
        let start = now();
        // Whether the reading before this one saw everybody at rest.
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
                state: format!("{} of {} processes ran", last.running, last.processes),
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

    /// Continues whom it stopped; how long that took.
    pub(crate) fn thaw(&mut self, line: Option<&Line>) -> Result<Nanos, FreezeError> {
        let start = now();
        let mut failed = None;
        self.stopped
            .retain(|pid, stopped| match stopped.signal(*pid, libc::SIGCONT) {
                Ok(()) => false,
                Err(e) => {
                    failed = Some(e);
                    true
                }
            });
        let took = now().saturating_sub(start);
        if let (Some(line), true) = (line, self.stopped.is_empty()) {
            // A watchdog that has ended continues nobody twice.
            let _ = line.going();
        }
        failed.map_or(Ok(took), Err)
    }

    /// Whether everybody rests now.
    pub(crate) fn is_frozen(&mut self) -> Result<bool, FreezeError> {
        let found = self.find()?;
        Ok(found.keys().all(|pid| process::rests(*pid) != Some(false)))
    }

    /// Whom a new watchdog has to continue.
    pub(crate) fn stopped(&self) -> impl Iterator<Item = (Pid, u64)> + '_ {
        self.stopped.iter().map(|(pid, s)| (*pid, s.start))
    }
}

/// What one reading of /proc showed.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// Somebody was there who had not been known.
    new: bool,
    /// How many were found running, and told to stop.
    running: usize,
    processes: usize,
}

/// What comes after a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// All have stopped.
    Frozen,
    /// The reading that has to confirm it.
    AtOnce,
    /// Another one, when those who were told to stop have had the time for it.
    Later,
}

impl Round {
    /// After this reading, where the one before it may have seen everybody at rest. One alone is not enough: who was seen running by
    /// the list of children, and at rest by the look at the state, may have had a child in between.
    fn next(&self, rested: bool) -> Next {
        match (self.running, rested) {
            (0, true) if !self.new => Next::Frozen,
            (0, false) => Next::AtOnce,
            _ => Next::Later,
        }
    }
}

impl Stopped {
    /// Nothing is wrong with a process that has ended.
    fn signal(&self, pid: Pid, signal: libc::c_int) -> Result<(), FreezeError> {
        let sent = match &self.handle {
            // SAFETY: the descriptor is open as long as the handle; no information is passed along.
            Some(handle) => unsafe {
                libc::syscall(
                    libc::SYS_pidfd_send_signal,
                    handle.as_raw_fd(),
                    signal,
                    std::ptr::null::<libc::siginfo_t>(),
                    0,
                ) == 0
            },
            None => return signal_by_number(pid, self.start, signal),
        };
        told(sent, pid)
    }
}

/// A signal to a process of that start; nothing where it is another one or none.
pub(crate) fn signal_by_number(
    pid: Pid,
    start: u64,
    signal: libc::c_int,
) -> Result<(), FreezeError> {
    let same = process::stat(pid).is_some_and(|stat| stat.start == start);
    let (true, Ok(number)) = (same, libc::pid_t::try_from(pid.get())) else {
        return Ok(());
    };
    // SAFETY: the call takes two numbers; the first is positive, so it names one process.
    told(unsafe { libc::kill(number, signal) } == 0, pid)
}

fn told(sent: bool, pid: Pid) -> Result<(), FreezeError> {
    let error = io::Error::last_os_error();
    if sent || error.raw_os_error() == Some(libc::ESRCH) {
        return Ok(());
    }
    let path = format!("/proc/{pid}");
    Err(FreezeError::file("signal", path.as_ref())(error))
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
