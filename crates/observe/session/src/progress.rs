//! Progress of a long operation, and how the caller stops it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Receives progress. All methods are called on the thread that requested the work.
pub trait Progress {
    /// A new part of the work starts.
    fn part(&self, what: &str);
    /// This share of the part is done, 0..=1.
    fn at(&self, share: f64);
    /// A message that the user should see at once.
    fn note(&self, text: &str);
}

/// Discards everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Progress for Quiet {
    fn part(&self, _: &str) {}
    fn at(&self, _: f64) {}
    fn note(&self, _: &str) {}
}

/// A request to stop the work cleanly; a signal handler may set it.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// Becomes true with the request.
    pub flag: Arc<AtomicBool>,
    /// Number of the signal that made the request; 0 for none.
    pub signal: Arc<AtomicUsize>,
}

impl Stop {
    /// Whether the work should stop.
    pub fn is_requested(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }
    /// The signal that made the request, if any.
    pub fn signal(&self) -> Option<i32> {
        match self.signal.load(Ordering::SeqCst) {
            0 => None,
            number => i32::try_from(number).ok(),
        }
    }
}
