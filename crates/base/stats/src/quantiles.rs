//! Quantiles with distribution-free intervals from order statistics.
//!
//! Definition: the q-quantile is interpolated between the two nearest order statistics (type 7 of
//! Hyndman and Fan; for the median, the mean of the two middle values). The interval runs from the
//! l-th to the u-th smallest value, where l is the largest rank with P(B < l) <= 2.5 % and u the
//! smallest with P(B < u) >= 97.5 % for B binomial with n trials of probability q. It holds for any
//! distribution.
//!
//! Assumptions: independent values; autocorrelated series give intervals that are too narrow. Bias:
//! coverage is 95 % or a little more, never less, except where n is too small for a two-sided 95 %
//! interval at all (n < 6 for the median): then the extremes are given, and `method` says what they
//! cover.
//!
//! Reference: David and Nagaraja, *Order Statistics*, section 7.1; Hyndman and Fan, Am. Stat. 50
//! (1996) 361.

use crate::distributions::binomial_cdf;
use crate::estimate::Estimate;

/// Fewer values allow no 95 % interval of a median.
pub const MEDIAN_NEEDS: usize = 6;

impl Estimate {
    /// The 95 % interval, if this is a median; `None` with too few values for one.
    pub fn median_interval(&self) -> Option<(f64, f64)> {
        (self.n >= MEDIAN_NEEDS as u64).then_some((self.low, self.high))
    }
}

/// Median of `values`, in any order, with its 95 % interval; all zero, with `n` = 0, if there are
/// none.
pub fn median(values: &[u64]) -> Estimate {
    quantile(values, 0.5)
}

/// The median alone; for an even number of values, the mean of the two middle ones. `None` without
/// values.
pub fn median_of(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    let upper = *sorted.get(half)?;
    Some(match sorted.len() % 2 {
        0 => (sorted.get(half - 1)? + upper) / 2.0,
        _ => upper,
    })
}

/// Quantile `q`, clamped to `0..=1`, of `values`, in any order, with its 95 % interval; all zero,
/// with `n` = 0, if there are none.
pub fn quantile(values: &[u64], q: f64) -> Estimate {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    quantile_of_sorted(&sorted, q)
}

/// Like [`quantile`], for values in rising order.
pub fn quantile_of_sorted(sorted: &[u64], q: f64) -> Estimate {
    quantile_by_rank(sorted.len() as u64, q, |rank| sorted[rank as usize])
}

/// Like [`quantile`], for `n` values of which `at` gives the one that so many others precede in
/// rising order.
pub fn quantile_by_rank(n: u64, q: f64, at: impl Fn(u64) -> u64) -> Estimate {
    of_sorted(n, |rank| at(rank) as f64, q)
}

/// Like [`median`], for numbers that are not whole.
pub fn median_of_floats(values: &[f64]) -> Estimate {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    of_sorted(sorted.len() as u64, |rank| sorted[rank as usize], 0.5)
}

/// Quantile `q` of `n` values, of which `at` gives the one that so many others precede.
fn of_sorted(n: u64, at: impl Fn(u64) -> f64, q: f64) -> Estimate {
    let q = q.clamp(0.0, 1.0);
    let name = if q == 0.5 {
        "median".to_owned()
    } else {
        format!("quantile {q}")
    };
    if n == 0 {
        let method = format!("{name} of no values");
        return Estimate {
            value: 0.0,
            low: 0.0,
            high: 0.0,
            n: 0,
            method,
        };
    }
    let Ranks {
        low,
        high,
        coverage,
    } = ranks(n, q);
    let method = if coverage >= 0.95 {
        format!("{name}, order statistics, 95 %")
    } else {
        format!("{name}, order statistics, {:.1} %", 100.0 * coverage)
    };
    let position = q * (n - 1) as f64;
    let (below, above) = (at(position.floor() as u64), at(position.ceil() as u64));
    Estimate {
        value: below + (above - below) * position.fract(),
        low: at(low - 1),
        high: at(high - 1),
        n,
        method,
    }
}

/// Ranks, counted from 1, of the order statistics that bound a quantile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranks {
    /// Rank of the lower bound.
    pub low: u64,
    /// Rank of the upper bound.
    pub high: u64,
    /// Probability that the quantile lies between the two.
    pub coverage: f64,
}

/// Ranks for a two-sided 95 % interval of quantile `q` of `n` >= 1 values.
pub fn ranks(n: u64, q: f64) -> Ranks {
    // P(B < rank), rising in rank.
    let below = |rank: u64| {
        if rank == 0 {
            0.0
        } else {
            binomial_cdf(rank - 1, n, q)
        }
    };
    let first = |from: u64, holds: &dyn Fn(u64) -> bool| {
        let (mut low, mut high) = (from, n);
        while low < high {
            let middle = low + (high - low) / 2;
            if holds(middle) {
                high = middle
            } else {
                low = middle + 1
            }
        }
        low
    };
    let over = first(1, &|rank| below(rank) > 0.025);
    let low = if below(over) > 0.025 {
        (over - 1).max(1)
    } else {
        over
    };
    let high = first(low, &|rank| below(rank) >= 0.975);
    Ranks {
        low,
        high,
        coverage: below(high) - below(low),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn median_ranks_are_the_published_ones() {
        for (n, low, high, coverage) in [
            (6, 1, 6, 0.969),
            (10, 2, 9, 0.979),
            (20, 6, 15, 0.959),
            (50, 18, 33, 0.967),
            (100, 40, 61, 0.965),
            (1000, 469, 532, 0.954),
            (10_000, 4902, 5099, 0.951),
        ] {
            let got = ranks(n, 0.5);
            assert_eq!((got.low, got.high), (low, high), "n = {n}");
            assert!(
                (got.coverage - coverage).abs() < 6e-4,
                "n = {n}: {}",
                got.coverage
            );
        }
    }

    #[test]
    fn the_median_alone_is_that_of_the_estimate() {
        assert_eq!(median_of(&[]), None);
        assert_eq!(median_of(&[7.0]), Some(7.0));
        assert_eq!(median_of(&[10.0, 9.0, -1.0]), Some(9.0));
        for values in [&[3, 1, 40, 8][..], &[5, 5], &[9, 2, 7, 4, 1]] {
            let same: Vec<f64> = values.iter().map(|v| *v as f64).collect();
            assert_eq!(median_of(&same), Some(median(values).value));
        }
    }

    #[test]
    fn median_of_an_even_number_is_between_the_middle_two() {
        let got = median(&[9, 1, 4, 6, 2, 100]);
        assert_eq!((got.value, got.low, got.high, got.n), (5.0, 1.0, 100.0, 6));
        assert_eq!(got.method, "median, order statistics, 95 %");
    }

    #[test]
    fn too_few_values_say_what_their_range_covers() {
        let got = median(&[3, 1, 2, 5, 4]);
        assert_eq!((got.value, got.low, got.high), (3.0, 1.0, 5.0));
        assert_eq!(got.method, "median, order statistics, 93.8 %");
        assert_eq!(median(&[7]).method, "median, order statistics, 0.0 %");
        assert_eq!(median(&[]).n, 0);
    }

    #[test]
    fn upper_quantile_is_interpolated_and_bounded() {
        let values: Vec<u64> = (0..=1000).collect();
        let got = quantile(&values, 0.99);
        assert_eq!(got.value, 990.0);
        assert!(
            got.low >= 982.0 && got.low < 986.0 && got.high > 994.0 && got.high <= 998.0,
            "{got:?}"
        );
        assert_eq!(quantile(&values, 1.0).high, 1000.0);
        assert_eq!(quantile(&values, 0.0).low, 0.0);
    }

    proptest! {
        #[test]
        fn estimate_lies_in_its_interval(values in prop::collection::vec(0_u64..1_000_000, 1..300), q in 0.0_f64..1.0) {
            let got = quantile(&values, q);
            prop_assert!(got.low <= got.high);
            let ranks = ranks(values.len() as u64, q);
            prop_assert!(ranks.low >= 1 && ranks.high <= values.len() as u64);
            if ranks.coverage >= 0.95 {
                prop_assert!(got.low <= got.value && got.value <= got.high);
            }
        }

        #[test]
        fn order_of_the_values_does_not_matter(mut values in prop::collection::vec(any::<u32>(), 1..100)) {
            let wide: Vec<u64> = values.iter().map(|&v| u64::from(v)).collect();
            values.reverse();
            let reversed: Vec<u64> = values.iter().map(|&v| u64::from(v)).collect();
            prop_assert_eq!(median(&wide), median(&reversed));
        }
    }
}
