//! When to look: at regular times, and soon where no rank moves any more.

use crate::{Look, Watch, WatchError};
use std::time::{Duration, Instant};

/// Between two glances at whether ranks still move, which cost next to nothing.
const GLANCE: Duration = Duration::from_millis(10);
/// Until a look that is to agree with the one before: more than [`crate::Settings::apart`] demands by itself.
const AGREE: Duration = Duration::from_millis(6);
/// Between two regular looks there is at least so many times what one takes: with thousands of nodes that is more than their interval.
const REST: u32 = 3;
/// Looks at ranks that do not move before it is left to the regular ones. Over several nodes the first one only tells what the second is to agree with.
const TRIES: u8 = 3;

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
    /// When it was last seen that other nodes have not all answered, and whether they were asked for a regular look.
    asked: Option<(Instant, bool)>,
    /// When the look under way began.
    began: Instant,
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
            asked: None,
            began: now,
        }
    }

    /// When [`look`](Self::look) is to be called again, if other nodes say nothing before.
    pub fn due(&self) -> Instant {
        let due = self.next.min(self.glance);
        self.asked.map_or(due, |(at, _)| at + GLANCE)
    }

    /// Looks if it is time. `None`: it is not, or the ranks do not wait for each other as far as a look between the regular ones tells. Other nodes
    /// are asked first: what is to be said to them is to be [taken](crate::Far::take) afterwards, and this called again when they have spoken.
    ///
    /// # Errors
    /// Of a regular look: the directory or a page in it cannot be read.
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
            // Looks that were missed are not made up for.
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
        // What fails is told of by a regular look.
        let look = self.watch.look_between().ok()?;
        if look.suspected().is_some() {
            self.glance = now + AGREE;
        }
        look.deadlock().is_some().then_some(Ok(look))
    }
}
