//! The watchdog of an agent, replaced if it ends or does not answer: without one nothing is frozen.

use idlewave_freeze::{FreezeError, Watchdog};
use idlewave_units::Nanos;
use std::ffi::OsString;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

/// Interval between attempts to start one.
const PAUSE: Nanos = Nanos::from_secs(1);

/// A watchdog, and how to start another.
#[derive(Debug)]
pub struct Guard {
    words: Vec<OsString>,
    watchdog: Arc<Watchdog>,
    /// One that is starting. This takes milliseconds, or seconds on a busy node, for which a switch
    /// must not wait.
    coming: Option<Receiver<Result<Watchdog, FreezeError>>>,
    again: Nanos,
}

impl Guard {
    /// Starts the program with this command line, which must call [`Watchdog::serve`].
    ///
    /// # Errors
    /// It does not serve, or the command line is empty.
    pub fn start(words: Vec<OsString>) -> Result<Guard, FreezeError> {
        let watchdog = Arc::new(begin(&words)?);
        Ok(Guard {
            words,
            watchdog,
            coming: None,
            again: Nanos::ZERO,
        })
    }

    /// The current one.
    pub fn watchdog(&self) -> &Arc<Watchdog> {
        &self.watchdog
    }

    /// Whether another one is starting.
    pub fn is_coming(&self) -> bool {
        self.coming.is_some()
    }

    /// Has the watchdog thaw everything unless this is called again within `lease`. True if this
    /// call itself came too late: then everything runs.
    pub fn promise(&self, lease: Nanos) -> bool {
        // A watchdog that has ended thawed nothing, and another one is started.
        self.watchdog.renew(lease).unwrap_or(false)
    }

    /// Ensures that a watchdog serves. True if it is a new one, which knows no groups yet.
    pub fn renew(&mut self, now: Nanos) -> bool {
        if let Some(coming) = &self.coming {
            let come = match coming.try_recv() {
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => None,
                Ok(started) => started.ok(),
            };
            self.coming = None;
            let another = come.is_some();
            if let Some(watchdog) = come {
                self.watchdog = Arc::new(watchdog);
            }
            return another;
        }
        if !self.watchdog.serves() && now >= self.again {
            self.again = now + PAUSE;
            let (words, (tell, told)) = (self.words.clone(), channel());
            let thread = std::thread::Builder::new().name("watchdog".to_owned());
            let started = thread.spawn(move || {
                // If the receiver is gone, the watchdog ends with this.
                let _ = tell.send(begin(&words));
            });
            self.coming = started.is_ok().then_some(told);
        }
        false
    }
}

fn begin(words: &[OsString]) -> Result<Watchdog, FreezeError> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(FreezeError::Watchdog("no program is named".to_owned()));
    };
    Watchdog::start(Command::new(program).args(arguments))
}
