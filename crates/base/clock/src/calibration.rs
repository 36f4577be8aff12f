//! Conversion of counts to CLOCK_MONOTONIC.
//!
//! Pairs of (counts, nanoseconds) are taken at the start, repeatedly during, and at the end of a
//! run; between two pairs the conversion is linear. So it follows the kernel's slewing of
//! CLOCK_MONOTONIC, and its error is that of one pair.

use crate::{Counter, Readings, monotonic_ns};
use idlewave_run::ClockSheet;
use idlewave_units::Nanos;

/// Tries for one pair; the one with the narrowest bracket is kept.
const TRIES: u32 = 15;

/// One moment on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The counter: the middle of the readings before and after.
    pub counts: u64,
    /// CLOCK_MONOTONIC in nanoseconds.
    pub ns: u64,
    /// Counts between the readings before and after: bounds the error of the pair.
    pub bracket: u64,
}

impl Pair {
    /// Reads both clocks.
    pub fn read(counter: Counter) -> Self {
        let mut best: Option<Pair> = None;
        for _ in 0..TRIES {
            let before = counter.now_ordered();
            let ns = monotonic_ns();
            let after = counter.now_ordered();
            let bracket = after.wrapping_sub(before);
            if best.is_none_or(|b| bracket < b.bracket) {
                best = Some(Pair {
                    counts: before.wrapping_add(bracket / 2),
                    ns,
                    bracket,
                });
            }
        }
        best.unwrap_or(Pair {
            counts: 0,
            ns: 0,
            bracket: 0,
        })
    }
}

/// Pairs of a run, in order.
#[derive(Clone, Debug)]
pub struct Calibration {
    counter: Counter,
    pairs: Vec<Pair>,
}

impl Calibration {
    /// Takes the first two pairs, 20 ms apart.
    pub fn begin(counter: Counter) -> Self {
        let first = Pair::read(counter);
        std::thread::sleep(std::time::Duration::from_millis(20));
        Self::from_pairs(counter, vec![first, Pair::read(counter)])
    }

    /// From pairs taken elsewhere. A pair that is not later than the previous one, on both clocks,
    /// is dropped.
    pub fn from_pairs(counter: Counter, pairs: Vec<Pair>) -> Self {
        let mut calibration = Self {
            counter,
            pairs: Vec::new(),
        };
        for pair in pairs {
            calibration.push(pair);
        }
        calibration
    }

    fn push(&mut self, pair: Pair) {
        if self
            .pairs
            .last()
            .is_none_or(|l| pair.counts > l.counts && pair.ns > l.ns)
        {
            self.pairs.push(pair);
        }
    }

    /// Takes another pair. Readings before this call are then converted between two pairs.
    pub fn update(&mut self) -> Pair {
        let pair = Pair::read(self.counter);
        self.push(pair);
        pair
    }

    /// Its counter.
    pub fn counter(&self) -> Counter {
        self.counter
    }

    /// CLOCK_MONOTONIC nanoseconds of a reading, rounded down. Outside the pairs the nearest line
    /// is extended.
    pub fn to_ns(&self, counts: u64) -> u64 {
        let (a, b) = match self.pairs.as_slice() {
            [] => return counts,
            [one] => {
                return one
                    .ns
                    .saturating_add_signed(counts.wrapping_sub(one.counts) as i64);
            }
            // Most readings are recent.
            [.., a, b] if counts >= a.counts => (*a, *b),
            pairs => {
                let right = pairs
                    .partition_point(|p| p.counts <= counts)
                    .clamp(1, pairs.len() - 1);
                (pairs[right - 1], pairs[right])
            }
        };
        let (dc, dn) = (i128::from(b.counts - a.counts), i128::from(b.ns - a.ns));
        let offset = (i128::from(counts) - i128::from(a.counts)) * dn;
        (i128::from(a.ns) + offset.div_euclid(dc)).clamp(0, i128::from(u64::MAX)) as u64
    }

    /// A length in counts as nanoseconds, at the mean rate.
    pub fn length_ns(&self, counts: u64) -> f64 {
        counts as f64 * 1e9 / self.counts_per_second()
    }

    /// Mean rate from the first to the last pair.
    pub fn counts_per_second(&self) -> f64 {
        match (self.pairs.first(), self.pairs.last()) {
            (Some(a), Some(b)) if b.ns > a.ns => {
                (b.counts - a.counts) as f64 * 1e9 / (b.ns - a.ns) as f64
            }
            _ => 1e9,
        }
    }

    /// Largest distance of a pair from the line between its neighbours: the error without that
    /// pair.
    pub fn error(&self) -> Nanos {
        let off = |w: &[Pair]| {
            let without = Self {
                counter: self.counter,
                pairs: vec![w[0], w[2]],
            };
            without.to_ns(w[1].counts).abs_diff(w[1].ns)
        };
        Nanos::from_nanos(self.pairs.windows(3).map(off).max().unwrap_or(0))
    }

    /// Relative change of the rate between the first and the second half of the run.
    pub fn rate_change(&self) -> f64 {
        let (Some(first), Some(last)) = (self.pairs.first(), self.pairs.last()) else {
            return 0.0;
        };
        let middle = self.pairs[self.pairs.len() / 2];
        let rate = |a: &Pair, b: &Pair| (b.counts - a.counts) as f64 / (b.ns - a.ns) as f64;
        if middle.ns == first.ns || middle.ns == last.ns {
            return 0.0;
        }
        rate(&middle, last) / rate(first, &middle) - 1.0
    }

    /// Pairs taken.
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// The clock's sheet for the manifest.
    pub fn sheet(&self, readings: Readings) -> ClockSheet {
        let counter = self.counter();
        ClockSheet {
            counter: counter.name().to_owned(),
            counts_per_second: self.counts_per_second(),
            quantum_counts: readings.quantum_counts,
            quantum_ns: self.length_ns(readings.quantum_counts),
            read_ns: readings.read_counts * 1e9 / self.counts_per_second(),
            error: self.error(),
            rate_change: self.rate_change(),
            invariant: counter.is_invariant(),
            method: format!(
                "straight lines between {} pairs of counter and CLOCK_MONOTONIC, each the narrowest of 15 readings",
                self.pairs().len()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(points: &[(u64, u64)]) -> Calibration {
        let pairs = points
            .iter()
            .map(|&(counts, ns)| Pair {
                counts,
                ns,
                bracket: 0,
            })
            .collect();
        Calibration::from_pairs(Counter::Monotonic, pairs)
    }

    #[test]
    fn conversion_goes_through_every_pair_and_is_straight_between_them() {
        let c = pairs(&[(1_000, 10_000), (3_000, 11_000), (7_000, 15_000)]);
        assert_eq!(c.to_ns(1_000), 10_000);
        assert_eq!(c.to_ns(2_000), 10_500);
        assert_eq!(c.to_ns(3_000), 11_000);
        assert_eq!(c.to_ns(5_000), 13_000);
        assert_eq!(
            c.to_ns(8_000),
            16_000,
            "beyond the last pair its line goes on"
        );
        assert_eq!(c.to_ns(0), 9_500, "before the first likewise");
    }

    #[test]
    fn a_slewed_clock_is_followed_and_its_error_reported() {
        // The rate changes by 100 ppm half way: one straight line would be 50 us off in the middle.
        let bent = pairs(&[
            (0, 0),
            (1_000_000_000, 1_000_000_000),
            (2_000_000_000, 2_000_100_000),
        ]);
        assert_eq!(bent.error(), Nanos::from_nanos(50_000));
        assert!(
            (bent.rate_change() + 1e-4).abs() < 1e-7,
            "{}",
            bent.rate_change()
        );
        assert_eq!(bent.to_ns(1_500_000_000), 1_500_050_000);
    }

    #[test]
    fn a_pair_that_goes_backwards_is_left_out() {
        assert_eq!(
            pairs(&[(10, 10), (5, 20), (20, 5), (30, 30)]).pairs().len(),
            2
        );
    }

    proptest::proptest! {
        #[test]
        fn conversion_is_monotone(mut counts in proptest::collection::vec(0_u64..1 << 40, 2..50)) {
            let c = pairs(&[(1 << 10, 1 << 12), (1 << 30, 1 << 29), (1 << 35, 1 << 36), (1 << 39, 1 << 38)]);
            counts.sort_unstable();
            proptest::prop_assert!(counts.windows(2).all(|w| c.to_ns(w[0]) <= c.to_ns(w[1])));
        }
    }

    #[test]
    fn the_real_counter_agrees_with_the_kernel_clock() {
        let counter = Counter::choose(std::path::Path::new("/"));
        let mut calibration = Calibration::begin(counter);
        std::thread::sleep(std::time::Duration::from_millis(50));
        calibration.update();
        let before = monotonic_ns();
        let converted = calibration.to_ns(counter.now_ordered());
        let after = monotonic_ns();
        // A wide margin: this checks that the conversion is right, not that it is precise.
        assert!(
            converted + 200_000 > before && converted < after + 200_000,
            "{before} {converted} {after}"
        );
    }
}
