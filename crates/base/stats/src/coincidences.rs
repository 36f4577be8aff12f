//! Do two streams of events coincide?
//!
//! Definition: an event of one stream coincides if an event of the other starts within a window on
//! either side of its own start. If the streams are independent, the probability of this is the
//! share of the watched time covered by such windows; the number of coincidences is then binomial.
//!
//! Assumptions: the events of the first stream are independent of each other. Bias: if events come
//! in bursts, or both streams are periodic, they coincide all together or not at all, and the
//! test's probability is far too small.

use crate::distributions::{binomial_cdf, ln_binomial_upper_tail};

/// Coincidences counted and expected.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Coincidences {
    /// Events of the first stream.
    pub events: u64,
    /// Those that coincide.
    pub matched: u64,
    /// Probability of each to coincide by chance, 0..=1.
    pub chance: f64,
}

impl Coincidences {
    /// Counts events of `a` that have an event of `b` within `window`; both sorted, within a time
    /// `watched`, all in nanoseconds.
    pub fn count(a: &[u64], b: &[u64], window: u64, watched: u64) -> Self {
        let mut next = 0;
        let mut matched = 0;
        for &t in a {
            while next < b.len() && b[next].saturating_add(window) < t {
                next += 1;
            }
            matched += u64::from(next < b.len() && b[next] <= t.saturating_add(window));
        }
        let mut covered = 0;
        let mut until = 0;
        for &t in b {
            let (from, to) = (
                t.saturating_sub(window).max(until),
                t.saturating_add(window),
            );
            covered += to.saturating_sub(from);
            until = until.max(to);
        }
        Coincidences {
            events: a.len() as u64,
            matched,
            chance: (covered as f64 / watched.max(1) as f64).min(1.0),
        }
    }

    /// Both counts together, with the mean of the chances.
    pub fn and(self, other: Self) -> Self {
        let events = self.events + other.events;
        let chances = self.chance * self.events as f64 + other.chance * other.events as f64;
        Coincidences {
            events,
            matched: self.matched + other.matched,
            chance: chances / events.max(1) as f64,
        }
    }

    /// Share of the events that coincide beyond chance, -infinity to 1; 0 without events or if all
    /// coincide by chance.
    pub fn beyond_chance(&self) -> f64 {
        if self.events == 0 || self.chance >= 1.0 {
            return 0.0;
        }
        let share = self.matched as f64 / self.events as f64;
        (share - self.chance) / (1.0 - self.chance)
    }

    /// Probability of at least as many coincidences by chance.
    pub fn p_more(&self) -> f64 {
        ln_binomial_upper_tail(self.matched, self.events, self.chance.min(1.0 - 1e-12)).exp()
    }

    /// Probability of at most as many coincidences by chance.
    pub fn p_fewer(&self) -> f64 {
        binomial_cdf(
            self.matched,
            self.events,
            self.chance.clamp(1e-12, 1.0 - 1e-12),
        )
    }
}

#[cfg(test)]
mod cases {
    use super::*;
    use crate::testing::Random;

    #[test]
    fn coincidences_by_hand() {
        let seen = Coincidences::count(&[10, 100, 200, 300], &[12, 95, 96, 250], 5, 1_000);
        // 10 and 100 match. Windows 7..17, 90..100 and 100..101, 245..255.
        assert_eq!((seen.events, seen.matched), (4, 2));
        assert!((seen.chance - 0.031).abs() < 1e-12, "{seen:?}");
        let p = 0.031_f64;
        let expected = 1.0 - (1.0 - p).powi(4) - 4.0 * p * (1.0 - p).powi(3);
        assert!((seen.p_more() - expected).abs() < 1e-9);
        assert!((seen.beyond_chance() - (0.5 - p) / (1.0 - p)).abs() < 1e-12);
        // An event that starts at the edge of the window still matches.
        assert_eq!(Coincidences::count(&[10], &[15], 5, 100).matched, 1);
        assert_eq!(Coincidences::count(&[10], &[16], 5, 100).matched, 0);
        assert_eq!(Coincidences::count(&[15], &[10], 5, 100).matched, 1);
    }

    #[test]
    fn sums_weigh_chances_by_events() {
        let part = |events, matched, chance| Coincidences {
            events,
            matched,
            chance,
        };
        let sum = part(30, 3, 0.1).and(part(10, 5, 0.5));
        assert_eq!(sum, part(40, 8, 0.2));
        assert!((part(10, 0, 0.5).p_fewer() - 1.0 / 1024.0).abs() < 1e-12);
        assert_eq!(Coincidences::default().beyond_chance(), 0.0);
    }

    #[test]
    fn independent_streams_coincide_by_chance() {
        let mut random = Random::new(1);
        let mut small = 0;
        for _ in 0..400 {
            let (a, b) = (
                random.events(300, 10_000_000),
                random.events(200, 10_000_000),
            );
            let seen = Coincidences::count(&a, &b, 1_000, 10_000_000);
            small += u32::from(seen.p_more() < 0.05);
        }
        assert!((4..=34).contains(&small), "{small} of 400");
    }
}
