//! The agent of the controller's own node: started by it, started again when it dies, ended with
//! it.

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

/// Before the first start again; twice as long before each further one.
const PAUSE: Duration = Duration::from_millis(50);
/// So many starts again ...
const STARTS: usize = 8;
/// ... within this time are too many: something is wrong that another start does not mend.
const WITHIN: Duration = Duration::from_secs(60);
/// How long it may take to leave in order.
const LEAVE: Duration = Duration::from_secs(5);

/// The agent, as long as this lives.
pub struct Local {
    tell: Sender<Event>,
    keeper: Option<JoinHandle<()>>,
}

/// What the keeper is woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// The agent has ended.
    Ended,
    /// It is to be ended.
    Stop,
}

/// What is started.
struct Recipe {
    program: PathBuf,
    words: Vec<OsString>,
    within: PathBuf,
    /// Where the end of an agent is told.
    tell: Sender<Event>,
}

impl Local {
    /// Starts this program with these words, in a directory.
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
        // The thread that starts it has to live as long: its end is taken for that of the parent
        // (PR_SET_PDEATHSIG of prctl(2)).
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
        // It may have given up already.
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
        // A terminal's ^C is for the controller, which then ends the agent.
        command.process_group(0);
        let child = command.spawn()?;
        let tell = self.tell.clone();
        // A keeper that listens no more needs no word.
        let ring = move || tell.send(Event::Ended).unwrap_or_default();
        when_ended(child.id(), ring);
        Ok(child)
    }

    /// Starts it again when it dies, until it is to stop or died too often.
    fn keep(&self, mut child: Child, events: &Receiver<Event>) {
        let mut starts = Starts::default();
        while let Ok(Event::Ended) = events.recv() {
            let Ok(status) = child.wait() else { return };
            // It said why, or was told to by the controller.
            if status.success() {
                return;
            }
            let Some(pause) = starts.again(Instant::now()) else {
                log(&format!(
                    "the agent of this node ended {} times within {} s ({status}) and is not started again: nothing is switched here; start the service again when it can work",
                    STARTS + 1,
                    WITHIN.as_secs()
                ));
                return;
            };
            // No agent is there that could end: something else comes only if it is to stop.
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
                "the agent of this node ended ({status}); it is started again (process {})",
                child.id()
            ));
        }
        leave(child, events);
    }
}

/// Ends it, in order if it does so.
fn leave(mut child: Child, events: &Receiver<Event>) {
    let _ = send(Pid::new(child.id()), Signal::TERM);
    if events.recv_timeout(LEAVE).is_err() {
        // Its watchdog thaws.
        let _ = child.kill();
    }
    let _ = child.wait();
}

/// When it was started again.
#[derive(Default)]
struct Starts(VecDeque<Instant>);

impl Starts {
    /// How long to wait before it is started again; `None` if that was done too often of late.
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
        // What is longer ago does not count.
        assert_eq!(starts.again(begin + WITHIN), Some(PAUSE));
    }
}
