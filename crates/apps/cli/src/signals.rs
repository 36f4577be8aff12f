//! SIGINT, SIGTERM and SIGHUP end the work cleanly; a second signal ends it at once. Work that
//! leaves nothing behind ends at the first.

use crate::exit::{Exit, Failure, report_failure};
use idlewave_record::Signals;
use idlewave_session::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Lets the first signal end the process at once, except during work that needs a clean end.
pub struct Ending {
    at_once: Arc<AtomicBool>,
    stop: Stop,
}

impl Ending {
    /// Runs work that would leave something behind if a signal ended it at once: during it, the
    /// first signal only requests a stop.
    ///
    /// # Errors
    /// The failure of the work; with a signal's exit code if one came.
    pub fn in_order<T>(
        &self,
        work: impl FnOnce(&Stop) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        // The handlers run on any thread; no other memory depends on this flag.
        self.at_once.store(false, Ordering::SeqCst);
        let done = work(&self.stop);
        self.at_once.store(true, Ordering::SeqCst);
        let Some(signal) = self.stop.signal() else {
            return done;
        };
        let exit = Exit::Signal(signal);
        Err(match done {
            Ok(_) => Failure::new(exit, "go on: interrupted"),
            Err(failure) => Failure { exit, ..failure },
        })
    }
}

/// Signals for a program that this process starts.
pub fn for_program() -> Result<Signals, Failure> {
    Signals::install()
        .map_err(|error| Failure::new(Exit::Other, format!("watch for signals: {error}")))
}

/// Makes the first signal end the process at once, with 128 plus its number: for work that leaves
/// nothing behind.
fn end_on_signals() -> Result<Ending, Failure> {
    let at_once = Arc::new(AtomicBool::new(true));
    for signal in SIGNALS {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, at_once.clone())
            .map_err(|e| Failure::new(Exit::Other, format!("watch for signals: {e}")))?;
    }
    let stop = stop_on_signals()?;
    Ok(Ending { at_once, stop })
}

/// Registers the handlers.
fn stop_on_signals() -> Result<Stop, Failure> {
    let stop = Stop::default();
    for signal in SIGNALS {
        let number = usize::try_from(signal).unwrap_or(0);
        // Registered first, so that it acts only on the second signal: at the first the flag is
        // still false.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, stop.flag.clone())
            .and_then(|_| signal_hook::flag::register_usize(signal, stop.signal.clone(), number))
            .and_then(|_| signal_hook::flag::register(signal, stop.flag.clone()))
            .map_err(|e| Failure::new(Exit::Other, format!("watch for signals: {e}")))?;
    }
    Ok(stop)
}

/// Runs work that ends cleanly when a signal requests it.
pub fn until_stopped(run: impl FnOnce(&Stop) -> Result<(), Failure>) -> ExitCode {
    let stop = match stop_on_signals() {
        Ok(stop) => stop,
        Err(failure) => return report_failure(&failure),
    };
    let code = run(&stop).map_or_else(|failure| report_failure(&failure), |()| Exit::Done.into());
    stop.signal()
        .map_or(code, |signal| Exit::Signal(signal).into())
}

/// Runs work that a signal may end at any moment, except while it asks for a clean end.
pub fn until_killed(run: impl FnOnce(&Ending) -> Result<(), Failure>) -> ExitCode {
    let done = end_on_signals().and_then(|ending| run(&ending));
    done.map_or_else(|failure| report_failure(&failure), |()| Exit::Done.into())
}
