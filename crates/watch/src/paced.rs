//! When to look: at regular times, and soon where no rank moves any more.

use crate::{Look, Watch, WatchError};
use std::time::{Duration, Instant};

/// Between two glances at whether ranks still move, which cost next to nothing.
const GLANCE: Duration = Duration::from_millis(10);
/// Until a look that is to agree with the one before: more than [`crate::Settings::apart`] demands by itself.
const AGREE: Duration = Duration::from_millis(6);
/// Looks at ranks that do not move before it is left to the regular ones.
const TRIES: u8 = 2;

/// Looks of a [`Watch`] in time. Ranks that wait for each other are found within about [three glances](Watch::is_still) of 10 ms where all ranks
/// are among them, and by the regular looks in any case.
#[derive(Debug)]
pub struct Paced {
    /// What looks.
    pub watch: Watch,
    interval: Duration,
    next: Instant,
    glance: Instant,
    /// Looks since ranks were seen not to move.
    tries: u8,
}

impl Paced {
    /// Looks after each `interval`, the first time when one is over.
    pub fn new(watch: Watch, interval: Duration) -> Self {
        let now = Instant::now();
        Self {
            watch,
            interval,
            next: now + interval,
            glance: now + GLANCE,
            tries: 0,
        }
    }

    /// When [`look`](Self::look) is to be called again.
    pub fn due(&self) -> Instant {
        self.next.min(self.glance)
    }

    /// Looks if it is time. `None`: it is not, or the ranks do not wait for each other as far as a look between the regular ones tells.
    ///
    /// # Errors
    /// Of a regular look: the directory or a page in it cannot be read.
    pub fn look(&mut self, now: Instant) -> Option<Result<Look, WatchError>> {
        if now >= self.next {
            // Looks that were missed are not made up for.
            self.next = now + self.interval;
            return Some(self.watch.look());
        }
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
        // What fails is told of by a regular look.
        let look = self.watch.look_between().ok()?;
        if look.suspected().is_some() {
            self.glance = now + AGREE;
        }
        look.deadlock().is_some().then_some(Ok(look))
    }
}
