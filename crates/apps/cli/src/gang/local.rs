//! The agent of the controller's own node: the controller starts it, restarts it when it dies, and
//! ends it when it ends itself.

use super::log::log;
use idlewave_record::when_ended;
use idlewave_sys::process::{Signal, send};
use idlewave_units::Pid;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The pause before the first restart; it doubles before each further one.
const PAUSE: Duration = Duration::from_millis(50);
/// This many restarts ...
const STARTS: usize = 8;
/// ... within this time are too many: restarting does not solve the problem.
const WITHIN: Duration = Duration::from_secs(60);
/// How long the agent may take to exit after SIGTERM.
const LEAVE: Duration = Duration::from_secs(5);

/// The agent; dropping this ends it.
pub struct Local {
    tell: Sender<Event>,
    keeper: Option<JoinHandle<()>>,
}

/// What wakes the keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// The agent has ended.
    Ended,
    /// The agent is to be ended.
    Stop,
}

/// How to start the agent.
struct Recipe {
    program: PathBuf,
    words: Vec<OsString>,
    within: PathBuf,
    /// Where the end of the agent is reported.
    tell: Sender<Event>,
}

impl Local {
    /// Starts this program with these arguments, in the directory `within`.
    pub fn start(mut words: Vec<OsString>, within: &Path) -> io::Result<Local> {
        words.extend(["--parent".into(), std::process::id().to_string().into()]);
        let (tell, events) = channel();
        let recipe = Recipe {
            program: std::env::current_exe()?,
            words,
            within: within.to_owned(),
            tell: tell.clone(),
        };
        let (started, told) = channel();
        // The thread that starts the agent has to outlive it: the kernel takes the thread's end for
        // that of the parent (PR_SET_PDEATHSIG of prctl(2)).
        let keeper = std::thread::Builder::new()
            .name("agent".to_owned())
            .spawn(move || match recipe.start() {
                Ok(child) => {
                    let _ = started.send(Ok(()));
                    recipe.keep(child, &events);
                }
                Err(error) => drop(started.send(Err(error))),
            })?;
        told.recv().map_err(io::Error::other)??;
        Ok(Local {
            tell,
            keeper: Some(keeper),
        })
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        // The keeper may have given up already.
        let _ = self.tell.send(Event::Stop);
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

impl Recipe {
    fn start(&self) -> io::Result<Child> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.words)
            .stdin(Stdio::null())
            .current_dir(&self.within);
        // A terminal's ^C goes to the controller, which then ends the agent.
        command.process_group(0);
        let child = command.spawn()?;
        let tell = self.tell.clone();
        // If the keeper no longer listens, it needs no event.
        let ring = move || tell.send(Event::Ended).unwrap_or_default();
        when_ended(child.id(), ring);
        Ok(child)
    }

    /// Restarts the agent when it dies, until told to stop or until it has died too often.
    fn keep(&self, mut child: Child, events: &Receiver<Event>) {
        let mut starts = Starts::default();
        while let Ok(Event::Ended) = events.recv() {
            let Ok(status) = child.wait() else { return };
            // It printed why, or the controller told it to stop.
            if status.success() {
                return;
            }
            let Some(pause) = starts.again(Instant::now()) else {
                log(&format!(
                    "the agent of this node ended {} times within {} s ({status}) and is not restarted: nothing is switched here; restart the service once the cause is fixed",
                    STARTS + 1,
                    WITHIN.as_secs()
                ));
                return;
            };
            // No agent is running that could end, so any other event means stop.
            if events.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            match self.start() {
                Ok(started) => child = started,
                Err(error) => {
                    log(&format!("failed to start the agent of this node: {error}"));
                    return;
                }
            }
            log(&format!(
                "the agent of this node ended ({status}) and was restarted (process {})",
                child.id()
            ));
        }
        leave(child, events);
    }
}

/// Ends the agent: with SIGTERM, then with SIGKILL.
fn leave(mut child: Child, events: &Receiver<Event>) {
    let _ = send(Pid::new(child.id()), Signal::TERM);
    if events.recv_timeout(LEAVE).is_err() {
        // Its watchdog thaws what it froze.
        let _ = child.kill();
    }
    let _ = child.wait();
}

/// The times of recent restarts.
#[derive(Default)]
struct Starts(VecDeque<Instant>);

impl Starts {
    /// How long to wait before the next restart; `None` after too many recent ones.
    fn again(&mut self, now: Instant) -> Option<Duration> {
        let recent = |start: &Instant| now.duration_since(*start) < WITHIN;
        self.0.retain(recent);
        if self.0.len() >= STARTS {
            return None;
        }
        let pause = PAUSE * (1 << self.0.len());
        self.0.push_back(now);
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_come_slower_and_end_unless_they_are_rare() {
        let mut starts = Starts::default();
        let begin = Instant::now();
        let pauses: Vec<_> = (0..9).map(|_| starts.again(begin)).collect();
        let wanted =
            [50, 100, 200, 400, 800, 1600, 3200, 6400].map(|ms| Some(Duration::from_millis(ms)));
        assert_eq!(pauses[..8], wanted);
        assert_eq!(pauses[8], None);
        assert_eq!(starts.again(begin + WITHIN - Duration::from_nanos(1)), None);
        // Older restarts do not count.
        assert_eq!(starts.again(begin + WITHIN), Some(PAUSE));
    }
}
