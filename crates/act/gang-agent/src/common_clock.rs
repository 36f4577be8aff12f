//! The controller's clock, as followed by a node: round trips bound the difference of the two
//! clocks to within half of the shortest one (Cristian, *Probabilistic clock synchronization*,
//! Distributed Computing 3, 1989).
//!
//! Nodes of one kernel (network namespaces) share a clock: no difference is applied unless round
//! trips prove one.

use idlewave_units::Nanos;
use std::collections::VecDeque;

/// Round trips kept; old ones are dropped, as clocks drift.
const REMEMBERED: usize = 16;

/// The difference of two clocks, with its error bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trip {
    /// Theirs minus ours, ns.
    offset: i64,
    /// Half of the round trip, ns.
    error: i64,
}

/// Follows the controller's clock.
#[derive(Clone, Debug, Default)]
pub struct CommonClock {
    trips: VecDeque<Trip>,
    shift: i64,
    last: Nanos,
}

impl CommonClock {
    /// Adds an answer: asked at `sent` and received at `heard` on our clock, with the controller's
    /// clock at `theirs` in between. Impossible answers (received before asked) are ignored.
    /// Returns the change of the shift, ns.
    pub fn answer(&mut self, sent: Nanos, heard: Nanos, theirs: Nanos) -> i64 {
        let number = |time: Nanos| i64::try_from(time.get()).unwrap_or(i64::MAX);
        let Some(trip) = heard.checked_sub(sent) else {
            return 0;
        };
        if self.trips.len() == REMEMBERED {
            self.trips.pop_front();
        }
        let half = number(trip) / 2;
        self.trips.push_back(Trip {
            offset: number(theirs)
                .saturating_sub(number(sent))
                .saturating_sub(half),
            error: half + 1,
        });
        let best = self.trips.iter().min_by_key(|trip| trip.error);
        let Some(best) = best.copied() else { return 0 };
        // The present shift may still be right.
        let off = best.offset.saturating_sub(self.shift);
        if off.abs() <= best.error {
            return 0;
        }
        self.shift = best.offset;
        off
    }

    /// From now on the controller may have another clock, which may be behind. The present estimate
    /// holds until the next answer.
    pub fn forget(&mut self) {
        self.trips.clear();
        self.last = Nanos::ZERO;
    }

    /// Whether there is an estimate of the controller's clock.
    pub fn is_known(&self) -> bool {
        !self.trips.is_empty()
    }

    /// Converts our time to the controller's. The result never decreases.
    pub fn now(&mut self, own: Nanos) -> Nanos {
        let now = Nanos::from_nanos(own.get().saturating_add_signed(self.shift));
        self.last = self.last.max(now);
        self.last
    }

    /// Converts the controller's time to ours.
    pub fn own(&self, common: Nanos) -> Nanos {
        Nanos::from_nanos(
            common
                .get()
                .saturating_add_signed(self.shift.saturating_neg()),
        )
    }

    #[cfg(test)]
    /// The difference of the clocks and its error bound, ns; `None`: not known yet.
    pub fn offset(&self) -> Option<(i64, i64)> {
        let best = self.trips.iter().map(|trip| trip.error).min()?;
        Some((self.shift, best))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn us(n: u64) -> Nanos {
        Nanos::from_micros(n)
    }

    #[test]
    fn clocks_that_may_be_one_are_taken_for_one() {
        let mut clock = CommonClock::default();
        assert!(!clock.is_known());
        // Asked at 1000, answered at 1010 by both, heard at 1100: the middle of the trip is 1050.
        assert_eq!(clock.answer(us(1_000), us(1_100), us(1_010)), 0);
        assert_eq!(
            (clock.now(us(2_000)), clock.own(us(2_000))),
            (us(2_000), us(2_000))
        );
        assert!(clock.is_known());
    }

    #[test]
    fn the_shortest_trip_counts_and_the_clock_does_not_fall() {
        let mut clock = CommonClock::default();
        // Theirs is 500 us ahead; the request takes 10 us, the answer 90.
        assert_eq!(clock.answer(us(1_000), us(1_100), us(1_510)), 460_000);
        let before = clock.now(us(1_200));
        assert_eq!(before, us(1_660));
        // 3 us each way.
        assert_eq!(clock.answer(us(2_000), us(2_006), us(2_503)), 40_000);
        assert_eq!(clock.now(us(2_010)), us(2_510));
        // Another controller: its first answer counts, however slow.
        let mut other = clock.clone();
        other.forget();
        assert!(!other.is_known());
        assert_eq!(other.answer(us(3_000), us(3_100), us(13_050)), 9_500_000);
        // A slower trip changes nothing, nor does an answer from before the request.
        assert_eq!(clock.answer(us(3_000), us(4_000), us(3_500)), 0);
        assert_eq!(clock.answer(us(4_000), us(3_000), us(9_500)), 0);
        // The time may not decrease, even for an earlier moment.
        assert_eq!(clock.now(us(1_000)), us(2_510));
        assert_eq!(clock.own(us(2_510)), us(2_010));
    }

    proptest! {
        #[test]
        fn the_shift_is_wrong_by_less_than_half_the_shortest_trip(
            ahead in -1_000_000_000_i64..1_000_000_000,
            trips in prop::collection::vec((0_u64..200_000, 0_u64..200_000), 1..30),
        ) {
            let mut clock = CommonClock::default();
            let mut own = 10_000_000_000_u64;
            for (there, back) in &trips {
                let theirs = (own + there).saturating_add_signed(ahead);
                clock.answer(Nanos::from_nanos(own), Nanos::from_nanos(own + there + back), Nanos::from_nanos(theirs));
                own += 1_000_000;
            }
            let (shift, error) = clock.offset().unwrap();
            // Twice: the old shift stays for as long as it may be right.
            prop_assert!((shift - ahead).abs() <= 2 * error + 2, "{shift} {ahead} {error}");
            let shortest = trips.iter().rev().take(16).map(|(a, b)| a + b).min().unwrap();
            prop_assert!(error as u64 <= shortest / 2 + 1);
        }
    }
}
