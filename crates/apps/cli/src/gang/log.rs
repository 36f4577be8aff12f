//! The log that a service writes to standard error.

use idlewave_sys::terminal::say;
use idlewave_units::counted;
use idlewave_units::foreign::one_line;
use std::time::{Duration, Instant};

pub fn log(text: &str) {
    say(&format!("idlewave: {}\n", one_line(text)));
}

/// A log that suppresses repetitions of a line and later prints their number.
#[derive(Default)]
pub struct Log {
    last: String,
    since: Option<Instant>,
    again: u64,
}

/// How long repetitions of a line are suppressed.
const SAME: Duration = Duration::from_secs(10);

impl Log {
    pub fn line(&mut self, text: String) {
        let recent = self.since.is_some_and(|since| since.elapsed() < SAME);
        if text == self.last && recent {
            self.again += 1;
            return;
        }
        if self.again > 0 {
            log(&format!(
                "{} (another {})",
                self.last,
                counted(self.again, "time")
            ));
        }
        log(&text);
        (self.last, self.since, self.again) = (text, Some(Instant::now()), 0);
    }
}
