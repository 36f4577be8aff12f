//! Lengths in bounded memory: exact while there are few, on logarithmic bins beyond.
//!
//! Count, sum and longest are always exact. Quantiles of up to [`EXACT`] lengths are those of the
//! lengths; of more, those of the bins of [`LogHistogram`], at most 6.25 % wide: the estimate is
//! the middle of its bin, and the interval reaches to the outer edges of its bins.

use idlewave_stats::estimate::Estimate;
use idlewave_stats::histogram::{LogHistogram, edges};
use idlewave_stats::quantiles::{quantile, ranks};
use idlewave_units::Nanos;
use serde::Serialize;

/// Lengths kept one by one: as much memory as the bins.
const EXACT: usize = 1024;

/// Lengths being collected.
#[derive(Clone, Debug, Default)]
pub struct Lengths {
    exact: Vec<u64>,
    bins: Option<LogHistogram>,
    count: u64,
    total: u64,
    longest: u64,
}

/// What is known about a set of lengths.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LengthSummary {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub total: Nanos,
    /// Median, in nanoseconds, with interval; `None` if there are none.
    pub median: Option<Estimate>,
    /// 99th percentile, in nanoseconds, with interval; `None` if there are none.
    pub p99: Option<Estimate>,
    /// The longest; `None` if there are none.
    pub longest: Option<Nanos>,
    /// Lower edge in nanoseconds and count of every logarithmic bin that is not empty.
    pub histogram: Vec<(u64, u64)>,
}

impl LengthSummary {
    /// Mean; `None` if there are none.
    pub fn mean(&self) -> Option<Nanos> {
        let mean = self.total.get().checked_div(self.count)?;
        Some(Nanos::from_nanos(mean))
    }
}

impl Lengths {
    /// Adds a length in nanoseconds.
    pub fn add(&mut self, length: u64) {
        self.count += 1;
        self.total = self.total.saturating_add(length);
        self.longest = self.longest.max(length);
        if let Some(bins) = &mut self.bins {
            bins.add(length);
        } else if self.exact.len() < EXACT {
            self.exact.push(length);
        } else {
            let mut bins = LogHistogram::of(self.exact.drain(..));
            self.exact.shrink_to_fit();
            bins.add(length);
            self.bins = Some(bins);
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum in nanoseconds.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// What is known about them.
    pub fn summary(&self) -> LengthSummary {
        let known = self.count > 0;
        let exact;
        let histogram = match &self.bins {
            Some(bins) => bins.non_empty(),
            None => {
                exact = LogHistogram::of(self.exact.iter().copied());
                exact.non_empty()
            }
        };
        let at = |q: f64| match self.bins {
            None => quantile(&self.exact, q),
            Some(_) => binned(&histogram, self.count, self.longest, q),
        };
        LengthSummary {
            count: self.count,
            total: Nanos::from_nanos(self.total),
            median: known.then(|| at(0.5)),
            p99: known.then(|| at(0.99)),
            longest: known.then(|| Nanos::from_nanos(self.longest)),
            histogram,
        }
    }
}

/// A quantile of `n` binned lengths.
fn binned(bins: &[(u64, u64)], n: u64, longest: u64, q: f64) -> Estimate {
    // Edges of the bin of the length with this rank, counted from 1.
    let bin = |rank: u64| {
        let mut before = 0;
        let found = bins.iter().find(|(_, count)| {
            before += count;
            before >= rank
        });
        let low = found.map_or(longest, |b| b.0);
        let high = edges(low).1.map_or(longest, |high| high - 1);
        (low, high.min(longest))
    };
    let between = ranks(n, q);
    let middle = bin(((n - 1) as f64 * q).round() as u64 + 1);
    let name = if q == 0.5 {
        "median".to_owned()
    } else {
        format!("quantile {q}")
    };
    Estimate {
        value: 0.5 * (middle.0 as f64 + middle.1 as f64),
        low: bin(between.low).0 as f64,
        high: bin(between.high).1 as f64,
        n,
        method: format!("{name} on logarithmic bins of 6.25 %, order statistics, 95 %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn few_lengths_are_exact() {
        let mut lengths = Lengths::default();
        for length in [9, 1, 4, 6, 2, 100] {
            lengths.add(length);
        }
        let found = lengths.summary();
        assert_eq!((found.count, found.total.get()), (6, 122));
        assert_eq!(found.median.as_ref().map(|m| m.value), Some(5.0));
        assert_eq!(found.longest, Some(Nanos::from_nanos(100)));
        assert_eq!(found.mean(), Some(Nanos::from_nanos(20)));
        let none = Lengths::default().summary();
        assert_eq!((none.median, none.longest), (None, None));
    }

    #[test]
    fn the_last_length_of_a_bin_is_in_it() {
        // Three of 10 and three of 992..1024: the third smallest is 10, the fourth is not.
        let at = |q| binned(&[(10, 3), (992, 3)], 6, 1_000, q).value;
        assert_eq!((at(0.4), at(0.6)), (10.0, 996.0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]
        #[test]
        fn many_lengths_are_known_to_a_bin(
            values in prop::collection::vec(1_u64..10_000_000, 1025..3000), q in 0.0_f64..1.0,
        ) {
            let mut lengths = Lengths::default();
            for &value in &values {
                lengths.add(value);
            }
            let found = lengths.summary();
            prop_assert_eq!(found.total.get(), values.iter().sum::<u64>());
            prop_assert_eq!(found.longest.map(Nanos::get), values.iter().max().copied());
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let seen = binned(&found.histogram, found.count, sorted[sorted.len() - 1], q);
            let exact = sorted[((sorted.len() - 1) as f64 * q).round() as usize] as f64;
            prop_assert!((seen.value / exact - 1.0).abs() <= 0.0625, "{} {}", seen.value, exact);
            prop_assert!(seen.low <= exact && exact <= seen.high);
        }
    }
}
