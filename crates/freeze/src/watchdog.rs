//! A process that thaws what its owner froze when the owner dies, by whatever signal.
//!
//! It is a program of its own, started by the owner, in a session of its own, with a pipe from the owner: what is registered
//! comes through the pipe, and its end (or that of the owner, should another process have inherited the pipe) is the sign.
//! What was said before the owner died is read before anything is done.

mod serve;

use crate::error::FreezeError;
use crate::freezer::Kind;
use idlewave_units::{Nanos, Pid};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What the watchdog says when it listens.
const READY: &str = "idlewave-watchdog-ready";
/// How long it may take until then, and to leave: a program is started, on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(10);
/// What a pipe takes as a whole: a longer line could be cut.
const LONGEST_LINE: usize = libc::PIPE_BUF;

/// The watchdog of this process. Groups are put under its guard with [`crate::Group::guard`]. When this is dropped the
/// watchdog leaves without touching anything: drop the groups first.
#[derive(Debug)]
pub struct Watchdog {
    child: Child,
    /// Without a lock: a line is written as a whole, and a thread of real-time priority must not wait for one that has none.
    pipe: Arc<ChildStdin>,
    groups: AtomicU64,
}

impl Watchdog {
    /// Starts a program that calls [`Watchdog::serve`], such as the own one with a hidden argument. Its input and output are
    /// taken; what it prints before it serves is ignored. Its errors go where the command says: an inherited standard error
    /// stays open as long as it lives.
    ///
    /// # Errors
    /// [`FreezeError::Watchdog`] if it cannot be started or does not serve within 10 s.
    pub fn start(command: &mut Command) -> Result<Self, FreezeError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // SAFETY: between fork and exec only setsid is called, which is async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                // A terminal's ^C, or a kill of the owner's process group, is not for it.
                libc::setsid();
                Ok(())
            });
        }
        let failed = |e: io::Error| FreezeError::Watchdog(e.to_string());
        let mut child = command.spawn().map_err(failed)?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(FreezeError::Watchdog("it has no pipes".to_owned()));
        };
        // From here on dropping it ends the program.
        let watchdog = Watchdog {
            child,
            pipe: Arc::new(stdin),
            groups: AtomicU64::new(0),
        };
        await_ready(stdout).map_err(FreezeError::Watchdog)?;
        never_wait(&*watchdog.pipe).map_err(failed)?;
        let owner = Pid::new(std::process::id());
        let start = crate::process::stat(owner).map_or(0, |stat| stat.start);
        say(&watchdog.pipe, &format!("owner {owner} {start}"))?;
        Ok(watchdog)
    }

    /// What the watchdog's program does: it waits for the end of its owner, thaws and removes what was registered, and
    /// returns. It takes real-time priority if it is given one, so that ranks of such a priority do not keep it waiting;
    /// where that is refused it serves without.
    ///
    /// # Errors
    /// The first group that could not be thawed, after all others were; a broken standard input.
    pub fn serve(priority: Option<u8>) -> Result<(), FreezeError> {
        serve::serve(priority)
    }

    /// The process that watches.
    pub fn pid(&self) -> Pid {
        Pid::new(self.child.id())
    }

    /// Whether it still watches: what guards no more cannot be frozen.
    pub fn serves(&self) -> bool {
        !poll(&[self.pipe.as_raw_fd()], 0, 0)
    }

    /// A line for one group.
    pub(crate) fn line(&self) -> Line {
        Line {
            pipe: Arc::clone(&self.pipe),
            // Only that no two are equal matters.
            group: self.groups.fetch_add(1, Ordering::Relaxed),
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let told = say(&self.pipe, "quit").is_ok();
        let end = crate::clock::now() + Nanos::from(START_LIMIT);
        while told && crate::clock::now() < end {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                _ => return,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads until the watchdog says that it serves.
fn await_ready(mut stdout: ChildStdout) -> Result<(), String> {
    let end = crate::clock::now() + Nanos::from(START_LIMIT);
    let mut said = Vec::new();
    loop {
        let left = end.saturating_sub(crate::clock::now()).to_duration();
        let milliseconds = libc::c_int::try_from(left.as_millis()).unwrap_or(libc::c_int::MAX);
        if !poll(&[stdout.as_raw_fd()], libc::POLLIN, milliseconds) {
            return Err(format!(
                "it does not serve within {} s",
                START_LIMIT.as_secs()
            ));
        }
        let mut buffer = [0; 512];
        match stdout.read(&mut buffer) {
            Ok(0) => return Err("it ended before it served".to_owned()),
            Ok(n) => said.extend_from_slice(buffer.get(..n).unwrap_or_default()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.to_string()),
        }
        if String::from_utf8_lossy(&said).contains(READY) {
            return Ok(());
        }
    }
}

/// Whether one of the descriptors has one of these events, or has failed, within that time; of a negative time there is no end.
fn poll(fds: &[RawFd], events: libc::c_short, milliseconds: libc::c_int) -> bool {
    let entry = |fd: &RawFd| libc::pollfd {
        fd: *fd,
        events,
        revents: 0,
    };
    let mut entries: Vec<_> = fds.iter().map(entry).collect();
    // SAFETY: the entries outlive the call, and their number is the list's.
    unsafe {
        libc::poll(
            entries.as_mut_ptr(),
            entries.len() as libc::nfds_t,
            milliseconds,
        ) > 0
    }
}

/// A full pipe is an error instead of a wait: the writer may be of real-time priority.
fn never_wait(pipe: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: the descriptor is open, as the pipe is borrowed; flags are numbers.
    let done = unsafe {
        let flags = libc::fcntl(pipe.as_raw_fd(), libc::F_GETFL);
        flags >= 0 && libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) == 0
    };
    match done {
        true => Ok(()),
        false => Err(io::Error::last_os_error()),
    }
}

fn say(mut pipe: &ChildStdin, line: &str) -> Result<(), FreezeError> {
    if line.len() >= LONGEST_LINE || line.contains('\n') {
        return Err(FreezeError::Watchdog(format!(
            "a path is too long or has several lines: `{}`",
            idlewave_units::foreign::cut(&idlewave_units::foreign::one_line(line))
        )));
    }
    // Short enough to be written as a whole or not at all (pipe(7)).
    match pipe.write_all(format!("{line}\n").as_bytes()) {
        Ok(()) => Ok(()),
        Err(_) => Err(FreezeError::Unguarded),
    }
}

/// What one group says to the watchdog.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pipe: Arc<ChildStdin>,
    group: u64,
}

impl Line {
    fn say(&self, what: &str, rest: impl std::fmt::Display) -> Result<(), FreezeError> {
        say(&self.pipe, &format!("{what} {} {rest}", self.group))
    }
    /// The group exists; what is in it goes to the group above.
    pub(crate) fn group(&self, kind: Kind, directory: &Path) -> Result<(), FreezeError> {
        let kind = match kind {
            Kind::V2 => "v2",
            Kind::V1 => "v1",
            Kind::Signals => "signals",
        };
        self.say("group", format_args!("{kind} {}", directory.display()))
    }
    /// Where processes go that were born in it.
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
    /// All that were stopped by signals go on.
    pub(crate) fn going(&self) -> Result<(), FreezeError> {
        self.say("going", "")
    }
    /// The group is gone.
    pub(crate) fn forget(&self) -> Result<(), FreezeError> {
        self.say("forget", "")
    }
    /// Whether somebody listens: the pipe of one that has ended is broken.
    pub(crate) fn check(&self) -> Result<(), FreezeError> {
        match poll(&[self.pipe.as_raw_fd()], 0, 0) {
            false => Ok(()),
            true => Err(FreezeError::Unguarded),
        }
    }
}
