//! The expected maximum of more draws than were measured: the measured distribution with a
//! generalised Pareto tail.
//!
//! Definition: up to the threshold u the distribution function F is the empirical one; above, 1 - F
//! is the share z of values there times the law of their exceedances ([`crate::pareto`]). The mean
//! of the maximum of N independent draws is that of min(maximum, u) plus the integral of 1 - F^N
//! above u, which is scale times the integral over t > 0 of exp(shape t) (1 - (1 - z exp(-t))^N).
//!
//! The interval spans the laws that are likely for the exceedances; the error of z is added in
//! quadrature. Exceedances that come together count as one: their mean number is the index of
//! dispersion of their counts in blocks of successive values, where that is above 1.
//!
//! Assumptions: the tail that was measured goes on. What is too rare for the measurement is not in
//! it: hence the limit of [`TIMES`] times the values measured. A law with a shape of 1 or more has
//! no mean; from 1/2 on it has no variance, and measured means converge slowly. Bias: see the
//! coverage in docs/method.md.
//!
//! Reference: Coles, *An Introduction to Statistical Modeling of Extreme Values*, 2001, chapter 4.

use crate::distributions::normal_quantile;
use crate::pareto::{self, Pareto, Tail};
use std::fmt;

/// Maxima are extrapolated to this many times the number of values: a longer reach rests on the law
/// alone.
pub const TIMES: u64 = 100;
/// The tail is at most one in this many values.
const PART: usize = 10;
/// Step of the integral; the integrand varies over a range of 1.
const STEP: f64 = 0.05;
/// Beyond this distance from where 1 - F = 1 / N, 1 - F^N is N (1 - F) within 1e-6.
const FAR: f64 = 14.0;

/// A measured distribution with its tail.
#[derive(Clone, Debug)]
pub struct Tailed<'a> {
    sorted: &'a [u64],
    tail: Tail,
    /// Laws on the edge of those that are likely.
    likely: Vec<Pareto>,
    /// Half width of the 95 % interval of the logarithm of the share above the threshold.
    share_error: f64,
}

/// An expected maximum with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Maximum {
    /// The expected maximum.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end; `None` if the values do not exclude a tail without a mean.
    pub high: Option<f64>,
}

/// Why there is no expected maximum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unknown {
    /// Fewer values than a tail needs.
    FewValues {
        /// Values needed.
        needed: u64,
    },
    /// The largest values come together in too few groups.
    FewGroups {
        /// Largest values.
        values: u64,
        /// Groups.
        groups: u64,
    },
    /// No generalised Pareto law fits the largest values.
    NoTail,
    /// The tail has no mean.
    NoMean {
        /// Its shape, 1 or more.
        shape: f64,
    },
    /// More draws than [`TIMES`] times the number of values.
    TooFar {
        /// Draws that are extrapolated to.
        most: u64,
    },
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FewValues { needed } => write!(f, "a tail needs {needed} values"),
            Self::FewGroups { values, groups } => {
                let needed = pareto::LEAST;
                write!(
                    f,
                    "the {values} longest values come in only {groups} groups, a tail needs {needed}"
                )
            }
            Self::NoTail => {
                write!(f, "no generalised Pareto law fits the longest values")
            }
            Self::NoMean { shape } => {
                write!(
                    f,
                    "the tail is so heavy that it has no mean (shape {shape:.2})"
                )
            }
            Self::TooFar { .. } => {
                write!(f, "that is more than {TIMES} times the number of values")
            }
        }
    }
}

impl<'a> Tailed<'a> {
    /// The distribution of `sorted` values, in rising order, with a tail fitted to the largest of
    /// them. `blocks` are the same values in the order in which they were measured; `seed` is that
    /// of the test of the fit.
    pub fn fit(sorted: &'a [u64], blocks: &[&[u64]], seed: u64) -> Result<Self, Unknown> {
        let needed = (PART * pareto::LEAST) as u64;
        if (sorted.len() as u64) < needed {
            return Err(Unknown::FewValues { needed });
        }
        let clusters = |threshold| clusters(blocks, threshold).max(1.0);
        let values = sorted.len() / PART;
        let groups = values as f64 / clusters(sorted[sorted.len() - values - 1]);
        if groups < pareto::LEAST as f64 {
            let (values, groups) = (values as u64, groups as u64);
            return Err(Unknown::FewGroups { values, groups });
        }
        let tail = pareto::tail(sorted, PART, clusters, seed).ok_or(Unknown::NoTail)?;
        if tail.law.shape >= 1.0 {
            let shape = tail.law.shape;
            return Err(Unknown::NoMean { shape });
        }
        let exceedances: Vec<f64> = sorted[sorted.len() - tail.exceedances..]
            .iter()
            .map(|&value| (value - tail.threshold) as f64)
            .collect();
        let below = 1.0 - tail.share(sorted.len());
        let variance = tail.clusters * below / exceedances.len() as f64;
        Ok(Self {
            sorted,
            likely: pareto::edge_of_likely(&exceedances, &tail.law, tail.clusters),
            share_error: normal_quantile(0.975) * variance.sqrt(),
            tail,
        })
    }

    /// The tail.
    pub fn tail(&self) -> &Tail {
        &self.tail
    }

    /// The expected maximum of `draws` independent draws.
    pub fn expected_maximum(&self, draws: u64) -> Result<Maximum, Unknown> {
        let n = self.sorted.len();
        let most = (n as u64).saturating_mul(TIMES);
        if draws > most {
            return Err(Unknown::TooFar { most });
        }
        let share = self.tail.share(n);
        let below = self.up_to_threshold(draws);
        let above = |law: &Pareto, share: f64| beyond_threshold(law, share, draws as f64);
        let value = below + above(&self.tail.law, share);
        // The quantile at the share, and with it the maximum, is as uncertain as the share.
        let of_share = |sign: f64| {
            let other = share * (sign * self.share_error).exp();
            above(&self.tail.law, other.min(1.0)) - above(&self.tail.law, share)
        };
        let (mut low, mut high) = (value, Some(value));
        for law in &self.likely {
            let there = (law.shape < 1.0).then(|| below + above(law, share));
            low = low.min(there.unwrap_or(value));
            high = high.zip(there).map(|(high, there)| high.max(there));
        }
        Ok(Maximum {
            value,
            low: value - (value - low).hypot(of_share(-1.0)),
            high: high.map(|high| value + (high - value).hypot(of_share(1.0))),
        })
    }

    /// Mean of the smaller of the threshold and the maximum of `draws` draws.
    fn up_to_threshold(&self, draws: u64) -> f64 {
        let n = self.sorted.len();
        let power = |i: usize| (draws as f64 * (i as f64 / n as f64).ln()).exp();
        let (mut mean, mut before) = (0.0, 0.0);
        let body = &self.sorted[..n - self.tail.exceedances];
        for (i, &value) in body.iter().enumerate() {
            let up_to = power(i + 1);
            mean += value as f64 * (up_to - before);
            before = up_to;
        }
        mean + self.tail.threshold as f64 * (1.0 - before)
    }
}

/// Mean excess over the threshold of the maximum of `draws` draws, of which a `share` exceeds it by
/// this law with a shape below 1.
fn beyond_threshold(law: &Pareto, share: f64, draws: f64) -> f64 {
    let end = (draws * share).ln().max(0.0) + FAR;
    let steps = 2 * (0.5 * end / STEP).ceil() as usize;
    let width = end / steps as f64;
    let integrand = |t: f64| {
        let reached = -(draws * (-share * (-t).exp()).ln_1p()).exp_m1();
        (law.shape * t).exp() * reached
    };
    let sum: f64 = (0..=steps)
        .map(|i| {
            let weight = match i {
                0 => 1.0,
                _ if i == steps => 1.0,
                _ => 2.0 + 2.0 * (i % 2) as f64,
            };
            weight * integrand(i as f64 * width)
        })
        .sum();
    let rest = integrand(end) / (1.0 - law.shape);
    law.scale * (sum * width / 3.0 + rest)
}

/// Mean number of values above `threshold` that come together: the index of dispersion of their
/// counts in blocks, each against its own length. 1 for independent values.
fn clusters(blocks: &[&[u64]], threshold: u64) -> f64 {
    let counts: Vec<f64> = blocks
        .iter()
        .map(|block| block.iter().filter(|&&v| v > threshold).count() as f64)
        .collect();
    let values: usize = blocks.iter().map(|block| block.len()).sum();
    let rate = counts.iter().sum::<f64>() / values as f64;
    let squares: f64 = counts
        .iter()
        .zip(blocks)
        .filter(|(_, block)| rate > 0.0 && !block.is_empty())
        .map(|(count, block)| {
            let expected = rate * block.len() as f64;
            (count - expected).powi(2) / expected
        })
        .sum();
    squares / (blocks.len().max(2) - 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::ln_gamma;
    use crate::testing::Random;

    /// `n` values of a law, in one block.
    fn drawn(n: usize, seed: u64, law: impl Fn(&mut Random) -> f64) -> Vec<u64> {
        let mut random = Random::new(seed);
        let mut values: Vec<u64> = (0..n).map(|_| law(&mut random).round() as u64).collect();
        values.sort_unstable();
        values
    }

    #[test]
    fn the_integral_agrees_with_closed_forms() {
        // All values exceed the threshold: scale times the harmonic number.
        let exponential = Pareto {
            shape: 0.0,
            scale: 3.0,
        };
        for draws in [1_u32, 2, 100, 8_192] {
            let harmonic: f64 = (1..=draws).map(|i| 1.0 / f64::from(i)).sum();
            let got = beyond_threshold(&exponential, 1.0, f64::from(draws));
            assert!(
                (got / (3.0 * harmonic) - 1.0).abs() < 1e-6,
                "{draws}: {got}"
            );
        }
        // With shape x: E = (N B(1 - x, N) - 1) scale / x.
        for (shape, draws) in [(0.4, 8_192.0), (0.9, 50.0), (-0.4, 1e6), (0.4, 1.0)] {
            let law = Pareto { shape, scale: 1.0 };
            let beta = ln_gamma(1.0 - shape) + ln_gamma(draws) - ln_gamma(draws + 1.0 - shape);
            let closed = (draws * f64::exp(beta) - 1.0) / shape;
            let got = beyond_threshold(&law, 1.0, draws);
            assert!((got / closed - 1.0).abs() < 1e-5, "{shape}: {got} {closed}");
        }
    }

    #[test]
    fn the_measured_part_agrees_with_the_measured_maximum() {
        // So few draws that the tail hardly matters.
        let values = drawn(20_000, 1, |random| 1e6 + 1e5 * random.exponential(1.0));
        let tailed = Tailed::fit(&values, &[&values], 1).unwrap();
        let found = tailed.expected_maximum(4).unwrap();
        let measured = crate::maximum::expected(&vec![values; 4]).unwrap();
        assert!((found.value / measured - 1.0).abs() < 1e-3, "{found:?}");
        assert!(found.low < found.value && found.value < found.high.unwrap());
    }

    #[test]
    fn the_maximum_of_ten_thousand_draws_follows_from_two_thousand_values() {
        let harmonic: f64 = (1..=10_000).map(|i| 1.0 / f64::from(i)).sum();
        let values = drawn(2_000, 5, |random| 1e6 * random.exponential(1.0));
        let tailed = Tailed::fit(&values, &[&values], 1).unwrap();
        let found = tailed.expected_maximum(10_000).unwrap();
        let high = found.high.unwrap();
        assert!(
            found.low < 1e6 * harmonic && 1e6 * harmonic < high,
            "{found:?}"
        );
        assert!(high < 2.5 * found.low, "{found:?}");
        // It is beyond all that was measured.
        assert!(found.value > values[1_999] as f64);
    }

    #[test]
    fn values_that_come_together_widen_the_interval() {
        let sorted = drawn(4_000, 5, |random| 1e6 * random.exponential(1.0));
        // The values in random order, but those of like size in groups.
        let in_groups = |of: usize| {
            let mut random = Random::new(2);
            let mut groups: Vec<(u64, &[u64])> =
                sorted.chunks(of).map(|g| (random.bits(), g)).collect();
            groups.sort_unstable();
            let series: Vec<u64> = groups.iter().flat_map(|g| g.1).copied().collect();
            let blocks: Vec<&[u64]> = series.chunks(80).collect();
            Tailed::fit(&sorted, &blocks, 1).map(|tailed| {
                let found = tailed.expected_maximum(40_000).unwrap();
                (tailed.tail().clusters, found)
            })
        };
        let (one, apart) = in_groups(1).unwrap();
        let (four, together) = in_groups(4).unwrap();
        assert!(one < 1.5 && (3.0..6.0).contains(&four), "{one} {four}");
        assert_eq!(apart.value, together.value);
        let width = |m: &Maximum| m.high.unwrap() - m.low;
        let wider = width(&together) / width(&apart);
        assert!(
            wider > 1.6 && together.low < apart.low,
            "{apart:?} {together:?}"
        );
        let why = in_groups(40).unwrap_err();
        assert!(
            matches!(why, Unknown::FewGroups { values: 400, groups } if groups < 20),
            "{why:?}"
        );
        assert!(
            why.to_string()
                .starts_with("the 400 longest values come in only")
        );
    }

    #[test]
    fn clusters_by_hand() {
        // 3 of 6 values, one block twice as long: 2 and 1 expected, 3 and 0 found.
        let got = clusters(&[&[9, 9, 9, 1], &[1, 1]], 5);
        assert!((got - (1.0 / 2.0 + 1.0)).abs() < 1e-12, "{got}");
        assert!((clusters(&[&[9, 1], &[1, 9, 9, 1]], 5)).abs() < 1e-12);
    }

    #[test]
    fn what_cannot_be_extrapolated_says_why() {
        let few: Vec<u64> = (0..499).collect();
        let why = Tailed::fit(&few, &[&few], 1).unwrap_err();
        assert_eq!(why.to_string(), "a tail needs 500 values");
        let equal = [5; 600];
        let why = Tailed::fit(&equal, &[&equal], 1).unwrap_err();
        assert_eq!(why, Unknown::NoTail);
        let law = Pareto {
            shape: 1.5,
            scale: 1e3,
        };
        let heavy = drawn(4_000, 1, |random| law.quantile(random.uniform()));
        let why = Tailed::fit(&heavy, &[&heavy], 1).unwrap_err();
        assert!(
            matches!(why, Unknown::NoMean { shape } if shape > 1.0),
            "{why:?}"
        );
        // A lighter one has a mean, but its upper end is open.
        let law = Pareto {
            shape: 0.8,
            scale: 1e3,
        };
        let open = drawn(1_000, 1, |random| law.quantile(random.uniform()));
        let tailed = Tailed::fit(&open, &[&open], 1).unwrap();
        assert_eq!(tailed.expected_maximum(10_000).unwrap().high, None);
        let why = tailed.expected_maximum(100_001).unwrap_err();
        assert_eq!(why, Unknown::TooFar { most: 100_000 });
    }
}
