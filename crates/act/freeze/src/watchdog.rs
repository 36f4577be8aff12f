//! Processes that thaw what their owner froze when the owner dies, by whatever signal, or is
//! stalled.
//!
//! There are two of them, so that one may be killed along with the owner. Each is a program of its
//! own, started by the owner in its own session, with a pipe from the owner. Registrations come
//! through the pipe. The watchdogs act when the pipe ends (or the owner, if another process
//! inherited the pipe). Everything sent before the owner died is read first.
//!
//! A stopped owner keeps its pipe open. So the owner also renews a lease on `CLOCK_MONOTONIC`, a
//! clock common to all. When the lease expires, the watchdogs thaw everything, repeatedly, until it
//! is renewed. The owner relies on a freeze only if the lease is valid by the same clock before and
//! afterwards. The watchdogs answer renewals, so that a stopped watchdog is noticed.

mod pipes;
mod serve;

use crate::error::FreezeError;
use crate::kind::Kind;
use idlewave_sys::poll::is_broken;
use idlewave_sys::process::in_own_session;
use idlewave_units::{Nanos, Pid};
use pipes::{READY, can_read, never_wait};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a watchdog may take to start: a program is started, perhaps on a busy machine. One that
/// fails to is noticed at once.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long a watchdog may take to exit.
const EXIT_LIMIT: Duration = Duration::from_secs(10);
/// Atomic size of a pipe write: a longer line could be split.
const LONGEST_LINE: usize = libc::PIPE_BUF;

/// How long a watchdog may take to answer a renewal of the lease. One that does not answer is
/// stopped itself, and cannot thaw anything.
const DEAF: Nanos = Nanos::from_secs(2);
/// A process that kills the owner may also kill one watchdog: the other one thaws.
const DOGS: usize = 2;

/// The watchdog of this process: two equal programs. [`crate::Group::guard`] registers groups with
/// it. When this is dropped, the programs exit without touching anything, so drop the groups first.
#[derive(Debug)]
pub struct Watchdog {
    dogs: Vec<Dog>,
    line: Arc<Lines>,
    groups: AtomicU64,
}

/// One of the programs.
#[derive(Debug)]
struct Dog {
    child: Child,
    /// Sends a byte for each renewal received.
    hears: File,
    /// When the first unanswered renewal was sent, ns; 0: all are answered. Used by one thread
    /// only.
    asked: AtomicU64,
}

/// Sends lines to each of the programs, without a lock: a line is written atomically, and a
/// real-time thread must not wait for one without a CPU.
#[derive(Debug)]
struct Lines {
    pipes: Vec<ChildStdin>,
    /// End of the owner's lease, ns; 0: none. A freeze after it is not reliable: a watchdog may
    /// already have thawed. Not ordered with anything else: every thread compares it to the clock
    /// that the watchdog uses.
    until: AtomicU64,
}

impl Watchdog {
    /// Starts two instances of a program that calls [`Watchdog::serve`], such as this one with a
    /// hidden argument. Their input and output are taken over; output before they serve is ignored.
    /// Their errors go where the command says: an inherited standard error stays open for as long
    /// as they live.
    ///
    /// # Errors
    /// [`FreezeError::Watchdog`] if it cannot be started or does not serve within a minute.
    pub fn start(command: &mut Command) -> Result<Self, FreezeError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        in_own_session(command);
        let failed = |e: io::Error| FreezeError::Watchdog(e.to_string());
        let (mut dogs, mut pipes) = (Vec::new(), Vec::new());
        for _ in 0..DOGS {
            let mut child = command.spawn().map_err(failed)?;
            let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
            // From here on dropping it ends the program.
            let hears = stdout.map_or_else(|| File::open("/dev/null"), |out| Ok(out_of(out)));
            dogs.push(Dog {
                child,
                hears: hears.map_err(failed)?,
                asked: AtomicU64::new(0),
            });
            pipes.extend(stdin);
        }
        let line = Arc::new(Lines {
            pipes,
            until: AtomicU64::new(0),
        });
        let watchdog = Watchdog {
            dogs,
            line,
            groups: AtomicU64::new(0),
        };
        for (dog, pipe) in watchdog.dogs.iter().zip(&watchdog.line.pipes) {
            await_ready(&dog.hears).map_err(FreezeError::Watchdog)?;
            never_wait(pipe).map_err(failed)?;
            never_wait(&dog.hears).map_err(failed)?;
        }
        let owner = Pid::new(std::process::id());
        let start = crate::process::stat(owner).map_or(0, |stat| stat.start);
        watchdog.line.say(&format!("owner {owner} {start}"))?;
        Ok(watchdog)
    }

    /// The watchdog's program: waits for the end of its owner, thaws and removes what was
    /// registered, and returns. While the owner's lease is expired it thaws repeatedly, since a
    /// stopped owner may resume in the middle of a freeze. Takes a real-time priority if given one,
    /// so that ranks with such a priority do not delay it; if that is refused, it serves without.
    ///
    /// # Errors
    /// The first group that could not be thawed, after all others were tried; a broken standard
    /// input.
    pub fn serve(priority: Option<u8>) -> Result<(), FreezeError> {
        serve::serve(priority)
    }

    /// PIDs of the programs.
    pub fn pids(&self) -> impl Iterator<Item = Pid> + '_ {
        self.dogs.iter().map(|dog| Pid::new(dog.child.id()))
    }

    /// Whether both programs run: without full protection nothing is frozen.
    pub fn serves(&self) -> bool {
        let now = crate::clock::now();
        !self.line.is_broken() && !self.dogs.iter().any(|dog| dog.is_deaf(now))
    }

    /// Promises to call this again within `lease`. If that call is late, the watchdog thaws
    /// everything, and freezes fail. To be called by one thread only, the one that freezes and
    /// thaws. True if the previous promise was broken: then everything that was frozen runs, or
    /// will in a moment, and the caller has to start from there.
    ///
    /// # Errors
    /// [`FreezeError::Unguarded`] if a watchdog has ended or accepts nothing.
    pub fn renew(&self, lease: Nanos) -> Result<bool, FreezeError> {
        let now = crate::clock::now();
        let lapsed = self.line.is_over(now);
        for dog in &self.dogs {
            dog.hear(now);
        }
        let until = now + lease;
        self.line.say(&format!("lease {}", until.get()))?;
        self.line.until.store(until.get(), Ordering::Relaxed);
        Ok(lapsed)
    }

    /// The line of one group.
    pub(crate) fn line(&self) -> Line {
        Line {
            lines: Arc::clone(&self.line),
            // Only uniqueness matters.
            group: self.groups.fetch_add(1, Ordering::Relaxed),
        }
    }
}

impl Dog {
    /// Reads its answers. After one, unanswered renewals are timed from `now`, the next renewal.
    fn hear(&self, now: Nanos) {
        let mut answers = [0; 512];
        let mut heard = false;
        while matches!((&self.hears).read(&mut answers), Ok(n) if n > 0) {
            heard = true;
        }
        if heard || self.asked.load(Ordering::Relaxed) == 0 {
            self.asked.store(now.get(), Ordering::Relaxed);
        }
    }

    /// Whether it has not answered for too long.
    fn is_deaf(&self, now: Nanos) -> bool {
        let asked = Nanos::from_nanos(self.asked.load(Ordering::Relaxed));
        // Its answer may be waiting unread, if the owner itself was stopped.
        asked > Nanos::ZERO
            && now > asked + DEAF
            && !can_read(&[self.hears.as_fd()], Some(Duration::ZERO))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let begin = crate::clock::now();
        let told = self.line.say("quit").is_ok();
        let end = begin + Nanos::from(EXIT_LIMIT);
        for dog in &mut self.dogs {
            // A stopped watchdog hears nothing.
            let leaves = told && !dog.is_deaf(begin);
            let mut ended = false;
            while leaves && !ended && crate::clock::now() < end {
                match dog.child.try_wait() {
                    Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                    _ => ended = true,
                }
            }
            if !ended {
                let _ = dog.child.kill();
                let _ = dog.child.wait();
            }
        }
    }
}

impl Drop for Dog {
    /// For a program started beside one that does not serve.
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn out_of(stdout: ChildStdout) -> File {
    OwnedFd::from(stdout).into()
}

/// Waits until the watchdog reports that it serves.
fn await_ready(mut stdout: &File) -> Result<(), String> {
    let end = crate::clock::now() + Nanos::from(START_LIMIT);
    let mut said = Vec::new();
    loop {
        let left = end.saturating_sub(crate::clock::now()).to_duration();
        if !can_read(&[stdout.as_fd()], Some(left)) {
            return Err(format!(
                "it does not serve within {} s",
                START_LIMIT.as_secs()
            ));
        }
        let mut buffer = [0; 512];
        match stdout.read(&mut buffer) {
            Ok(0) => return Err("it ended during its start".to_owned()),
            Ok(n) => said.extend_from_slice(buffer.get(..n).unwrap_or_default()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.to_string()),
        }
        if String::from_utf8_lossy(&said).contains(READY) {
            return Ok(());
        }
    }
}

impl Lines {
    /// Sends a line to all of them, even if one does not receive it.
    fn say(&self, line: &str) -> Result<(), FreezeError> {
        if line.len() >= LONGEST_LINE || line.contains('\n') {
            return Err(FreezeError::Watchdog(format!(
                "a path is too long or has several lines: `{}`",
                idlewave_units::foreign::cut(&idlewave_units::foreign::one_line(line))
            )));
        }
        let line = format!("{line}\n");
        // Short enough for an atomic write (pipe(7)).
        let said = self
            .pipes
            .iter()
            .map(|mut pipe| pipe.write_all(line.as_bytes()));
        let failed = said.filter(Result::is_err).count();
        match failed {
            0 => Ok(()),
            _ => Err(FreezeError::Unguarded),
        }
    }

    /// Whether one of them has ended: its pipe is broken.
    fn is_broken(&self) -> bool {
        self.pipes.iter().any(is_broken)
    }

    /// Whether there is an expired lease.
    fn is_over(&self, now: Nanos) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        until > 0 && now.get() >= until
    }
}

/// Messages of one group to the watchdog.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    lines: Arc<Lines>,
    group: u64,
}

impl Line {
    fn say(&self, what: &str, rest: impl std::fmt::Display) -> Result<(), FreezeError> {
        self.lines.say(&format!("{what} {} {rest}", self.group))
    }
    /// The group exists; its processes return to the group above.
    pub(crate) fn group(&self, kind: Kind, directory: &Path) -> Result<(), FreezeError> {
        let kind = match kind {
            Kind::V2 => "v2",
            Kind::V1 => "v1",
            Kind::Signals => "signals",
        };
        self.say("group", format_args!("{kind} {}", directory.display()))
    }
    /// Where processes created in it go.
    pub(crate) fn default_home(&self, home: &Path) -> Result<(), FreezeError> {
        self.say("default", home.display())
    }
    /// Where a process came from.
    pub(crate) fn home(&self, pid: Pid, home: &Path) -> Result<(), FreezeError> {
        self.say("home", format_args!("{pid} {}", home.display()))
    }
    /// A process is about to be stopped by a signal.
    pub(crate) fn stopping(&self, pid: Pid, start: u64) -> Result<(), FreezeError> {
        self.say("stopping", format_args!("{pid} {start}"))
    }
    /// All processes stopped by signals continue.
    pub(crate) fn going(&self) -> Result<(), FreezeError> {
        self.say("going", "")
    }
    /// The group is gone.
    pub(crate) fn forget(&self) -> Result<(), FreezeError> {
        self.say("forget", "")
    }
    /// Whether all serve, and the lease is valid; checked before and after a freeze.
    pub(crate) fn check(&self) -> Result<(), FreezeError> {
        if self.lines.is_broken() {
            return Err(FreezeError::Unguarded);
        }
        match self.lines.is_over(crate::clock::now()) {
            true => Err(FreezeError::LeaseOver),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_that_does_not_answer_for_long_is_deaf() {
        let (hears, mut says) = std::os::unix::net::UnixStream::pair().unwrap();
        hears.set_nonblocking(true).unwrap();
        let dog = Dog {
            child: Command::new("sleep").arg("60").spawn().unwrap(),
            hears: OwnedFd::from(hears).into(),
            asked: AtomicU64::new(0),
        };
        let at = |seconds: u64| Nanos::from_secs(100 + seconds);
        assert!(!dog.is_deaf(at(1000)), "nothing was asked");
        dog.hear(at(0));
        dog.hear(at(1));
        assert!(!dog.is_deaf(at(2)));
        assert!(dog.is_deaf(at(2) + Nanos::from_nanos(1)));
        // The answer came, but the asking process was itself stopped.
        says.write_all(b"..").unwrap();
        assert!(!dog.is_deaf(at(50)));
        dog.hear(at(50));
        assert!(!dog.is_deaf(at(52)) && dog.is_deaf(at(53)));
    }
}
