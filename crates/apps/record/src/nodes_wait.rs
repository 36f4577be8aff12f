//! How long to wait for a launcher that was started again to ask for bundles: whatever it does or
//! leaves behind, the recording ends.

use crate::tree::{descendants, send};
use idlewave_sys::process::Signal;
use std::io::{self, BufRead, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

/// How long a launcher may take to end after it was told to.
pub(crate) const GRACE: Duration = Duration::from_secs(3);
/// Interval between checks whether it has ended or must be ended.
pub(crate) const STEP: Duration = Duration::from_millis(20);
/// Most lines queued for the reader.
const WAITING: usize = 256;

/// What a launcher writes, line by line.
pub(crate) type Lines = Receiver<io::Result<Vec<u8>>>;

/// Reads lines to the end, as long as somebody listens.
pub(crate) fn lines(mut output: impl BufRead + Send + 'static) -> Lines {
    let (tell, told) = sync_channel(WAITING);
    let read = move || loop {
        let mut text = Vec::new();
        let line = match output.read_until(b'\n', &mut text) {
            Ok(0) => return,
            Ok(_) => Ok(text),
            Err(error) => Err(error),
        };
        let failed = line.is_err();
        if tell.send(line).is_err() || failed {
            return;
        }
    };
    std::thread::spawn(read);
    told
}

/// Reads to the end and sends the last line that is not blank.
pub(crate) fn last_word(words: impl Read + Send + 'static) -> Receiver<String> {
    let (tell, told) = sync_channel(1);
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = words.take(1 << 16).read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text);
        if let Some(last) = text.lines().rfind(|line| !line.trim().is_empty()) {
            let _ = tell.send(last.to_owned());
        }
    });
    told
}

/// How long to wait for a launcher that was started again.
#[derive(Clone, Copy, Debug)]
pub struct Patience<'a> {
    /// Becomes true when nobody wants to wait any longer.
    pub stop: &'a AtomicBool,
    /// How long it may be silent.
    pub quiet: Duration,
}

/// The wait for one launcher.
pub(crate) struct Waiting<'a> {
    patience: Patience<'a>,
    launcher: u32,
    /// When it last said something.
    heard: Instant,
    /// When it was told to end, and why.
    told: Option<Instant>,
    why: Option<String>,
}

impl<'a> Waiting<'a> {
    pub fn new(patience: Patience<'a>, launcher: u32) -> Self {
        Self {
            patience,
            launcher,
            heard: Instant::now(),
            told: None,
            why: None,
        }
    }

    /// Notes that it said something.
    pub fn heard(&mut self) {
        self.heard = Instant::now();
    }

    /// Its process.
    pub fn launcher(&self) -> u32 {
        self.launcher
    }

    /// Why it was told to end, if it was.
    pub fn why(self) -> Option<String> {
        self.why
    }

    /// Whether to stop waiting: the launcher was told to end but did not in time, and was killed
    /// with everything that it started. Tells it to end when patience runs out.
    pub fn is_over(&mut self) -> bool {
        if let Some(told) = self.told {
            let over = told.elapsed() >= GRACE;
            if over {
                for pid in descendants(self.launcher) {
                    send(pid, Signal::KILL);
                }
            }
            return over;
        }
        let why = match self.patience {
            Patience { stop, .. } if stop.load(Ordering::Relaxed) => "a signal came".to_owned(),
            Patience { quiet, .. } if self.heard.elapsed() >= quiet => {
                format!("the launcher said nothing for {} s", quiet.as_secs())
            }
            _ => return false,
        };
        (self.told, self.why) = (Some(Instant::now()), Some(why));
        send(self.launcher, Signal::TERM);
        false
    }
}
