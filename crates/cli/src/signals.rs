//! SIGINT, SIGTERM and SIGHUP end the work in order; the second one ends it at once. Work that leaves nothing behind ends
//! at the first.

use crate::exit::{Exit, Failure};
use idlewave_recording::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// The first signal ends the process at once, with 128 and its number: for work that leaves nothing behind.
pub fn end_on_signals() -> Result<(), Failure> {
    let always = Arc::new(AtomicBool::new(true));
    for signal in SIGNALS {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, always.clone())
            .map_err(|e| Failure::new(Exit::Other, format!("watch for signals: {e}")))?;
    }
    Ok(())
}

/// Registers the handlers.
pub fn stop_on_signals() -> Result<Stop, Failure> {
    let stop = Stop::default();
    for signal in SIGNALS {
        let number = usize::try_from(signal).unwrap_or(0);
        // Registered first, so that it acts on the second signal only: the flag is still false at the first.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, stop.flag.clone())
            .and_then(|_| signal_hook::flag::register_usize(signal, stop.signal.clone(), number))
            .and_then(|_| signal_hook::flag::register(signal, stop.flag.clone()))
            .map_err(|e| Failure::new(Exit::Other, format!("watch for signals: {e}")))?;
    }
    Ok(stop)
}
