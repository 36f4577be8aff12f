//! When to look: at regular times, and soon after all ranks have stopped moving.

use crate::{Look, Watch, WatchError};
use std::time::{Duration, Instant};

/// Interval of the cheap checks whether ranks still move.
const GLANCE: Duration = Duration::from_millis(10);
/// Delay of a look that is to confirm the previous one: more than [`crate::Settings::apart`]
/// requires.
const AGREE: Duration = Duration::from_millis(6);
/// The interval of regular looks is at least this many times the duration of one, which matters
/// with thousands of nodes.
const REST: u32 = 3;
/// How many extra looks are taken at ranks that do not move; after them, only regular ones. Over
/// several nodes, the first only provides what the second must agree with.
const TRIES: u8 = 3;

/// Timed looks of a [`Watch`]. If all ranks are deadlocked, this is detected within about [three
/// glances](Watch::is_still) of 10 ms, and by the regular looks in any case.
#[derive(Debug)]
pub struct Paced {
    /// The watch.
    pub watch: Watch,
    interval: Duration,
    next: Instant,
    glance: Instant,
    /// Looks since ranks stopped moving.
    tries: u8,
    /// While answers of other nodes are missing: when they were last checked, and whether a regular
    /// look was requested.
    asked: Option<(Instant, bool)>,
    /// Start of the current look.
    began: Instant,
}

impl Paced {
    /// Looks once per `interval`, the first time after one interval.
    pub fn new(watch: Watch, interval: Duration) -> Self {
        let now = Instant::now();
        Self {
            watch,
            interval,
            next: now + interval,
            glance: now + GLANCE,
            tries: 0,
            asked: None,
            began: now,
        }
    }

    /// When to call [`look`](Self::look) again, unless other nodes send something before.
    pub fn due(&self) -> Instant {
        let due = self.next.min(self.glance);
        self.asked.map_or(due, |(at, _)| at + GLANCE)
    }

    /// Looks if it is time. `None` if it is not, or if a look between the regular ones shows no
    /// deadlock. Other nodes are asked first: [take](crate::Far::take) and send the messages to
    /// them afterwards, and call this again when they answer.
    ///
    /// # Errors
    /// For a regular look: the directory or a page in it cannot be read.
    pub fn look(&mut self, now: Instant) -> Option<Result<Look, WatchError>> {
        if let Some((_, regular)) = self.asked {
            self.watch.far.ask_again(now);
            if !self.watch.far.is_complete() {
                self.asked = Some((now, regular));
                return None;
            }
            self.asked = None;
            return self.take(now, regular);
        }
        let regular = now >= self.next;
        if regular {
            // Missed looks are not made up for.
            self.next = now + self.interval;
        } else {
            if now < self.glance {
                return None;
            }
            self.glance = now + GLANCE;
            if !self.watch.is_still() {
                self.tries = 0;
                return None;
            }
            if self.tries == TRIES {
                return None;
            }
            self.tries += 1;
        }
        self.began = now;
        if self.watch.far.is_empty() {
            return self.take(now, regular);
        }
        self.watch.far.ask(now, regular);
        self.asked = Some((now, regular));
        None
    }

    fn take(&mut self, now: Instant, regular: bool) -> Option<Result<Look, WatchError>> {
        if regular {
            let look = self.watch.look();
            let end = Instant::now();
            self.next = self.next.max(end + REST * (end - self.began));
            return Some(look);
        }
        // A regular look will report failures.
        let look = self.watch.look_between().ok()?;
        if look.shown().is_some() {
            self.glance = now + AGREE;
        }
        look.deadlock().is_some().then_some(Ok(look))
    }
}
