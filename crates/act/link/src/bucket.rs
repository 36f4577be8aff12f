//! Rate limiting: a token bucket whose clock is passed in.

use idlewave_units::Nanos;

/// Allows a burst, then one more per interval.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// Capacity.
    most: u64,
    /// Time after which one token is added.
    interval: Nanos,
    left: u64,
    /// End of the last interval counted; `None` before the first take.
    counted: Option<Nanos>,
}

impl Bucket {
    /// A full bucket. `interval` must not be zero.
    pub(crate) const fn new(most: u64, interval: Nanos) -> Self {
        Bucket {
            most,
            interval,
            left: most,
            counted: None,
        }
    }

    /// Takes a token, if one is left.
    pub(crate) fn take(&mut self, now: Nanos) -> bool {
        let counted = *self.counted.get_or_insert(now);
        let passed = now.saturating_sub(counted).get() / self.interval.get().max(1);
        self.counted =
            Some(counted + Nanos::from_nanos(passed.saturating_mul(self.interval.get())));
        self.left = self.left.saturating_add(passed).min(self.most);
        let taken = self.left > 0;
        self.left -= u64::from(taken);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_followed_by_one_per_interval() {
        let ms = Nanos::from_millis;
        let mut bucket = Bucket::new(3, ms(10));
        let mut taken = |at| bucket.take(ms(at));
        assert_eq!(
            [0, 1, 2, 3, 9].map(&mut taken),
            [true, true, true, false, false]
        );
        assert_eq!([10, 19, 20, 21].map(&mut taken), [true, false, true, false]);
        assert_eq!(
            [500, 500, 500, 500].map(&mut taken),
            [true, true, true, false]
        );
        // A clock that goes backwards neither adds nor removes anything.
        assert_eq!([0, 510].map(&mut taken), [false, true]);
    }
}
