//! The watchdog's own side: its registrations, and what it does when its owner ends.

use super::pipes::{READY, can_read, never_wait};
use crate::clock::now;
use crate::control::{self, Control, Homes};
use crate::error::FreezeError;
use crate::kind::Kind;
use crate::process;
use crate::process::signal_by_number;
use idlewave_sys::process::{Signal, handle};
use idlewave_units::{Nanos, Pid};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often it checks whether its owner lives, if the kernel has no handles of processes: the pipe
/// may not end because another process has inherited it.
const OWNER_EVERY: Duration = Duration::from_millis(100);

/// A group to thaw.
#[derive(Debug, PartialEq, Eq)]
struct Guarded {
    kind: Kind,
    directory: PathBuf,
    homes: Homes,
    stopped: Vec<(Pid, u64)>,
}

/// Interval of thaws while the owner's lease is expired.
const THAW_EVERY: Nanos = Nanos::from_millis(50);

/// All registrations.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    groups: BTreeMap<u64, Guarded>,
    owner: Option<(Pid, u64)>,
    /// End of the lease, by which the owner must have renewed it.
    lease: Option<Nanos>,
    /// Renewals not answered yet.
    renewed: usize,
    quit: bool,
}

impl Told {
    /// Applies one line. `None` if the line is unknown, which then has no effect.
    fn line(&mut self, line: &str) -> Option<()> {
        let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
        if what == "quit" {
            self.quit = true;
            return Some(());
        }
        if what == "lease" {
            self.lease = Some(Nanos::from_nanos(rest.parse().ok()?));
            self.renewed += 1;
            return Some(());
        }
        let (first, rest) = rest.split_once(' ')?;
        if what == "owner" {
            self.owner = Some((Pid::new(first.parse().ok()?), rest.parse().ok()?));
            return Some(());
        }
        let id = first.parse().ok()?;
        if what == "group" {
            let (kind, directory) = rest.split_once(' ')?;
            let kind = match kind {
                "v2" => Kind::V2,
                "v1" => Kind::V1,
                "signals" => Kind::Signals,
                _ => return None,
            };
            let directory = PathBuf::from(directory);
            let homes = Homes {
                default: directory.parent().map(Path::to_owned).unwrap_or_default(),
                of: BTreeMap::new(),
            };
            let guarded = Guarded {
                kind,
                directory,
                homes,
                stopped: Vec::new(),
            };
            self.groups.insert(id, guarded);
            return Some(());
        }
        let group = self.groups.get_mut(&id)?;
        match what {
            "default" => group.homes.default = rest.into(),
            "home" => {
                let (pid, home) = rest.split_once(' ')?;
                let pid = Pid::new(pid.parse().ok()?);
                group.homes.of.insert(pid, home.into());
            }
            "stopping" => {
                let (pid, start) = rest.split_once(' ')?;
                let process = (Pid::new(pid.parse().ok()?), start.parse().ok()?);
                group.stopped.push(process);
            }
            "going" => group.stopped.clear(),
            "forget" => {
                self.groups.remove(&id);
            }
            _ => return None,
        }
        Some(())
    }

    fn owner_lives(&self) -> bool {
        self.owner.is_none_or(|(pid, start)| {
            process::stat(pid).is_some_and(|s| s.start == start && !matches!(s.state, 'Z' | 'X'))
        })
    }

    /// Time left of the lease; `None` without one.
    fn left(&self, now: Nanos) -> Option<Nanos> {
        self.lease.map(|until| until.saturating_sub(now))
    }

    fn controls(&self) -> impl Iterator<Item = &Guarded> {
        self.groups.values().filter(|g| g.kind != Kind::Signals)
    }

    /// Thaws everything, as far as possible; returns the first process that could not be continued.
    fn thaw(&self) -> Result<(), FreezeError> {
        let stopped = self.groups.values().flat_map(|group| &group.stopped);
        let mut continued = Ok(());
        for (pid, start) in stopped {
            continued = continued.and(signal_by_number(*pid, *start, Signal::CONT));
        }
        for group in self.controls() {
            // A failure is retried, and reported when the group is released.
            let _ = Control::open(group.kind, &group.directory).and_then(|c| c.thaw());
        }
        continued
    }

    /// Thaws everything first, then releases the groups.
    fn restore(&self) -> Result<(), FreezeError> {
        self.controls().fold(self.thaw(), |failed, group| {
            failed.and(control::release(group.kind, &group.directory, &group.homes))
        })
    }
}

/// See [`super::Watchdog::serve`].
pub(super) fn serve(priority: Option<u8>) -> Result<(), FreezeError> {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGPIPE] {
        // SAFETY: ignoring a signal installs no handler. The watchdog ends only with its owner,
        // whatever signal both were sent.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    if let Some(priority) = priority {
        // Without priority, the watchdog may act late on a busy machine, but it does act.
        let _ = crate::take_precedence(priority);
    }
    let mut input = io::stdin().lock();
    let broken = |e: io::Error| FreezeError::Watchdog(e.to_string());
    never_wait(&input).map_err(broken)?;
    let mut output = io::stdout();
    writeln!(output, "{READY}")
        .and_then(|()| output.flush())
        .map_err(broken)?;
    never_wait(&output).map_err(broken)?;
    let mut told = Told::default();
    let mut pending = Vec::new();
    // Becomes readable when the owner ends.
    let mut owner = None;
    loop {
        let lives = told.owner_lives();
        let open = read_all(&mut input, &mut pending).map_err(broken)?;
        while let Some(end) = pending.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            let text = String::from_utf8_lossy(&line);
            // From the owner's own code: an unknown line can only be from a later version.
            let _ = told.line(text.trim_end_matches('\n'));
        }
        if told.quit {
            return Ok(());
        }
        if !open || !lives {
            return told.restore();
        }
        // Answers that an owner does not read are of no use.
        let _ = output.write_all(&vec![b'.'; std::mem::take(&mut told.renewed)]);
        let _ = output.flush();
        let left = told.left(now());
        let pause = match left {
            Some(Nanos::ZERO) => {
                // Failures are retried.
                let _ = told.thaw();
                Some(THAW_EVERY)
            }
            left => left,
        };
        if let (None, Some((pid, _))) = (&owner, told.owner) {
            owner = handle(pid).ok();
            // The handle may refer to another process with this PID: the next round checks.
            if owner.is_some() {
                continue;
            }
        }
        let pause = pause.map(Nanos::to_duration);
        match &owner {
            Some(owner) => can_read(&[input.as_fd(), owner.as_fd()], pause),
            None => {
                let pause = pause.map_or(OWNER_EVERY, |pause| pause.min(OWNER_EVERY));
                can_read(&[input.as_fd()], Some(pause))
            }
        };
    }
}

/// Reads what is available without waiting; returns whether more may come.
fn read_all(input: &mut impl Read, pending: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; 4096];
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Ok(n) => pending.extend_from_slice(buffer.get(..n).unwrap_or_default()),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told(lines: &[&str]) -> Told {
        let mut told = Told::default();
        for line in lines {
            told.line(line).unwrap();
        }
        told
    }

    #[test]
    fn what_was_said_is_known_until_it_is_forgotten() {
        let above = told(&["group 7 v2 /a/b/c"]);
        assert_eq!(above.groups[&7].homes.default, PathBuf::from("/a/b"));
        let one = told(&[
            "owner 12 34",
            "group 7 v1 /a b/c",
            "default 7 /h i",
            "home 7 55 /d e",
            "stopping 7 55 99",
            "stopping 7 56 100",
        ]);
        assert_eq!(one.owner, Some((Pid::new(12), 34)));
        let group = &one.groups[&7];
        assert_eq!(
            (group.kind, group.directory.as_os_str()),
            (Kind::V1, "/a b/c".as_ref())
        );
        assert_eq!(group.homes.default, PathBuf::from("/h i"));
        assert_eq!(group.homes.of[&Pid::new(55)], PathBuf::from("/d e"));
        assert_eq!(group.stopped, [(Pid::new(55), 99), (Pid::new(56), 100)]);
        let mut two = one;
        two.line("going 7 ").unwrap();
        assert!(two.groups[&7].stopped.is_empty());
        two.line("forget 7 ").unwrap();
        assert!(two.groups.is_empty() && !two.quit);
        two.line("quit").unwrap();
        assert!(two.quit);
    }

    #[test]
    fn an_owner_lives_if_it_is_the_one_that_started_then() {
        let own = process::stat(Pid::new(std::process::id())).unwrap();
        let of = |start: u64| told(&[&format!("owner {} {start}", own.pid)]);
        assert!(of(own.start).owner_lives());
        assert!(!of(own.start + 1).owner_lives());
        assert!(Told::default().owner_lives());
    }

    #[test]
    fn input_is_taken_to_its_end() {
        let text = vec![b'x'; 10_000];
        let mut pending = Vec::new();
        assert!(!read_all(&mut text.as_slice(), &mut pending).unwrap());
        assert_eq!(pending, text);
    }

    proptest! {
        #[test]
        fn any_line_is_understood_or_changes_nothing(line in "(group|home|stopping|owner|default|going|forget)? ?[0-9x /]{0,12}") {
            let mut after = told(&["group 1 v2 /a", "default 1 /b"]);
            if after.line(&line).is_none() {
                prop_assert_eq!(after, told(&["group 1 v2 /a", "default 1 /b"]));
            }
        }
    }
}
