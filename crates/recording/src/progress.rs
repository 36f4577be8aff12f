//! What a long piece of work tells its caller, and how the caller ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Told how far the work has come. All methods are called on the thread that asked for the work.
pub trait Progress {
    /// A new part of the work begins.
    fn part(&self, what: &str);
    /// This share of the part is done, 0..=1.
    fn at(&self, share: f64);
    /// Something that the user should know at once.
    fn note(&self, text: &str);
}

/// Tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Progress for Quiet {
    fn part(&self, _: &str) {}
    fn at(&self, _: f64) {}
    fn note(&self, _: &str) {}
}

/// A request to end the work in order; a signal handler may set it.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// Becomes true with the request.
    pub flag: Arc<AtomicBool>,
    /// Number of the signal that asked; 0 while none did.
    pub signal: Arc<AtomicUsize>,
}

impl Stop {
    /// Whether the work is to end.
    pub fn is_requested(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }
    /// The signal that asked, if one did.
    pub fn signal(&self) -> Option<i32> {
        match self.signal.load(Ordering::SeqCst) {
            0 => None,
            number => i32::try_from(number).ok(),
        }
    }
}
