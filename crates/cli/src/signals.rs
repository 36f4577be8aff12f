//! SIGINT, SIGTERM and SIGHUP end the work in order; the second one ends it at once.

use crate::exit::{Exit, Failure};
use idlewave_recording::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Registers the handlers.
pub fn stop_on_signals() -> Result<Stop, Failure> {
    let stop = Stop::default();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let number = usize::try_from(signal).unwrap_or(0);
        // Registered first, so that it acts on the second signal only: the flag is still false at the first.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, stop.flag.clone())
            .and_then(|_| signal_hook::flag::register_usize(signal, stop.signal.clone(), number))
            .and_then(|_| signal_hook::flag::register(signal, stop.flag.clone()))
            .map_err(|e| Failure::new(Exit::Other, format!("watch for signals: {e}")))?;
    }
    Ok(stop)
}
