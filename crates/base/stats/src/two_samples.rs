//! Two samples compared without assuming their laws: whether they differ, how often a value of one
//! exceeds a value of the other, and by how much.
//!
//! Definitions: U counts the pairs of a value of each sample in which the second is larger; equal
//! ones count half (Mann and Whitney). Its probability without a difference is exact up to 50
//! different values per sample, otherwise normal with the variance corrected for ties and with
//! continuity (rough for a handful of values with ties). The *probability of superiority* is U over the number of pairs; its interval is
//! Newcombe's, whose variance is that of Hanley and McNeil. The *shift* is the median of all
//! differences between a value of the second sample and one of the first (Hodges and Lehmann); its
//! interval ends at those differences that the test just does not reject.
//!
//! Assumptions: independent values. Times that follow each other are not: compare values of blocks
//! that are longer than their correlation. The shift assumes that the samples differ by it alone;
//! if they differ in spread or shape as well, it is the median difference, and its interval may be
//! too wide or too narrow. Bias: none without a difference; values that depend on each other look
//! more different than they are.
//!
//! References: Mann and Whitney, Ann. Math. Stat. 18 (1947) 50; Hodges and Lehmann, Ann. Math.
//! Stat. 34 (1963) 598; Newcombe, Stat. Med. 25 (2006) 559, method 5; Hanley and McNeil, Radiology
//! 143 (1982) 29.

use crate::distributions::{normal_cdf, normal_quantile};
use crate::estimate::Estimate;

/// Fewest values per sample: of three, no interval of 95 % has ends.
pub const LEAST: usize = 4;
/// Up to so many values per sample the probability of U is exact.
const EXACT: usize = 50;
/// Probability beyond either end of an interval.
const BEYOND: f64 = 0.025;

/// The second of two samples against the first.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Two-sided probability of samples this different if there is no difference.
    pub p: f64,
    /// Probability that a value of the second sample exceeds one of the first, equal ones counted
    /// half, 0..=1.
    pub superiority: Estimate,
    /// By how much the second sample lies above the first, in the unit of the values.
    pub shift: Estimate,
}

/// Compares `b` with `a`; `None` if one has fewer than [`LEAST`] values or a value that is not
/// finite. Time and memory grow with the product of their numbers.
pub fn difference(a: &[f64], b: &[f64]) -> Option<Difference> {
    let finite = a.iter().chain(b).all(|value| value.is_finite());
    if a.len().min(b.len()) < LEAST || !finite {
        return None;
    }
    let pairs = a.len() * b.len();
    let mut differences = Vec::with_capacity(pairs);
    differences.extend(b.iter().flat_map(|y| a.iter().map(move |x| y - x)));
    differences.sort_unstable_by(f64::total_cmp);
    let below = differences.partition_point(|&d| d < 0.0);
    let up_to = differences.partition_point(|&d| d <= 0.0);
    let u = (pairs - up_to) as f64 + (up_to - below) as f64 / 2.0;
    let law = Law::of(a, b);
    let value = u / pairs as f64;
    let (low, high) = superiority_interval(value, a.len(), b.len());
    let n = (a.len() + b.len()) as u64;
    let ends = law.rejected().min((pairs - 1) / 2);
    Some(Difference {
        p: law.p(u),
        superiority: Estimate {
            value,
            low,
            high,
            n,
            method: "pairs in which the second is larger, 95 %, Newcombe's method 5".to_owned(),
        },
        shift: Estimate {
            value: middle(&differences),
            low: differences[ends],
            high: differences[pairs - 1 - ends],
            n,
            method: "median of all differences (Hodges and Lehmann), 95 % by the rank-sum test"
                .to_owned(),
        },
    })
}

fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => f64::midpoint(sorted[half - 1], sorted[half]),
        _ => sorted[half],
    }
}

/// How U is distributed without a difference.
enum Law {
    /// Probability of up to 0, 1, 2, ... pairs, up to half of them.
    Exact { up_to: Vec<f64>, pairs: f64 },
    /// Mean and standard deviation.
    Normal(f64, f64),
}

impl Law {
    fn of(a: &[f64], b: &[f64]) -> Self {
        let mut pooled: Vec<f64> = a.iter().chain(b).copied().collect();
        pooled.sort_unstable_by(f64::total_cmp);
        let equal = pooled
            .chunk_by(|x, y| x == y)
            .map(|group| group.len() as f64);
        let (n, m) = (a.len() as f64, b.len() as f64);
        let (pairs, all) = (n * m, n + m);
        let tied: f64 = equal.map(|t| t * (t * t - 1.0)).sum();
        if tied == 0.0 && a.len().max(b.len()) <= EXACT {
            let up_to = cumulative(a.len(), b.len());
            return Self::Exact { up_to, pairs };
        }
        let variance = pairs / 12.0 * (all + 1.0 - tied / (all * (all - 1.0)));
        Self::Normal(pairs / 2.0, variance.max(0.0).sqrt())
    }

    /// Two-sided probability.
    fn p(&self, u: f64) -> f64 {
        let one_sided = match self {
            Self::Exact { up_to, pairs } => {
                let least = u.min(pairs - u) as usize;
                up_to[least.min(up_to.len() - 1)]
            }
            Self::Normal(_, deviation) if *deviation <= 0.0 => 1.0,
            Self::Normal(mean, deviation) => {
                normal_cdf((0.5 - (u - mean).abs()).min(0.0) / deviation)
            }
        };
        (2.0 * one_sided).min(1.0)
    }

    /// So many differences at either end lie outside an interval of 95 %.
    fn rejected(&self) -> usize {
        match self {
            Self::Exact { up_to, .. } => up_to.partition_point(|&p| p <= BEYOND).saturating_sub(1),
            Self::Normal(mean, deviation) => {
                let z = -normal_quantile(BEYOND);
                (mean - 0.5 - z * deviation).round().max(0.0) as usize
            }
        }
    }
}

/// Probabilities of U up to 0, 1, 2, ..., half of the pairs, for samples of `n` and `m` different
/// values. The numbers of arrangements are the coefficients of the Gaussian binomial.
fn cumulative(n: usize, m: usize) -> Vec<f64> {
    let half = n * m / 2;
    let mut ways = vec![0.0; half + 1];
    ways[0] = 1.0;
    for i in 1..=n {
        for u in (m + i..=half).rev() {
            ways[u] -= ways[u - m - i];
        }
        for u in i..=half {
            ways[u] += ways[u - i];
        }
    }
    let all: f64 = (1..=n).map(|i| (m + i) as f64 / i as f64).product();
    let mut sum = 0.0;
    for ways in &mut ways {
        sum += *ways / all;
        *ways = sum;
    }
    ways
}

/// The probabilities of superiority from which `value` is no farther than chance allows.
fn superiority_interval(value: f64, n: usize, m: usize) -> (f64, f64) {
    let pairs = n as f64 * m as f64;
    let more = (n + m) as f64 / 2.0 - 1.0;
    let z = -normal_quantile(BEYOND);
    let is_far = |truth: f64| {
        let spread = 1.0 + more * ((1.0 - truth) / (2.0 - truth) + truth / (1.0 + truth));
        (truth - value).abs() > z * (truth * (1.0 - truth) * spread / pairs).sqrt()
    };
    let edge = |far: f64| {
        let (mut near, mut far) = (value, far);
        if !is_far(far) {
            return far;
        }
        for _ in 0..60 {
            let between = f64::midpoint(near, far);
            match is_far(between) {
                true => far = between,
                false => near = between,
            }
        }
        near
    };
    (edge(0.0), edge(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;
    use proptest::prelude::*;

    /// Counts all ways to choose `a.len()` of the pooled values whose U is as far from its mean.
    fn by_counting(a: &[f64], b: &[f64]) -> f64 {
        let pooled: Vec<f64> = a.iter().chain(b).copied().collect();
        let u = |chosen: u32| {
            let of = |bit| {
                let all = pooled.iter().enumerate();
                all.filter(move |(i, _)| chosen >> i & 1 == bit)
                    .map(|x| *x.1)
            };
            let wins =
                |x: f64, y: f64| f64::from(u8::from(y > x)) + f64::from(u8::from(y == x)) / 2.0;
            of(1)
                .map(|x| of(0).map(|y| wins(x, y)).sum::<f64>())
                .sum::<f64>()
        };
        let mean = (a.len() * b.len()) as f64 / 2.0;
        let seen = (u((1 << a.len()) - 1) - mean).abs();
        let (mut far, mut all) = (0, 0);
        for chosen in 0_u32..1 << pooled.len() {
            if chosen.count_ones() as usize == a.len() {
                all += 1;
                far += u32::from((u(chosen) - mean).abs() >= seen - 1e-9);
            }
        }
        f64::from(far) / f64::from(all)
    }

    #[test]
    fn the_permeability_example_of_hollander_and_wolfe_comes_out() {
        // Hollander and Wolfe, Nonparametric Statistical Methods, table 4.1: W = 35, one-sided
        // p = 0.1272 (R's example of wilcox.test), which is 382 of the 3,003 arrangements.
        let x = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let y = [1.15, 0.88, 0.90, 0.74, 1.21];
        let got = difference(&y, &x).unwrap();
        assert!((got.p - 2.0 * 382.0 / 3_003.0).abs() < 1e-12, "{got:?}");
        assert_eq!(got.superiority.value, 35.0 / 50.0);
    }

    #[test]
    fn small_samples_agree_with_all_permutations() {
        let mut random = Random::new(3);
        for (n, m) in [(4, 4), (5, 7), (8, 6)] {
            let mut draw = |n, shift| (0..n).map(|_| random.normal() + shift).collect::<Vec<_>>();
            let (a, b) = (draw(n, 0.0), draw(m, 0.7));
            let got = difference(&a, &b).unwrap();
            assert!((got.p - by_counting(&a, &b)).abs() < 1e-12, "{got:?}");
        }
    }

    #[test]
    fn ties_are_corrected_for() {
        // Groups of 6, 4 and 2: sigma^2 = 36 / 12 (13 - 276 / 132); U = 26, 8 above the mean.
        let a = [0.0, 0.0, 0.0, 0.0, 1.0, 1.0];
        let b = [0.0, 0.0, 1.0, 1.0, 2.0, 2.0];
        let got = difference(&a, &b).unwrap();
        let want = 2.0 * normal_cdf(-7.5 / (3.0 * (13.0 - 276.0 / 132.0_f64)).sqrt());
        assert!((got.p - want).abs() < 1e-12, "{got:?}, {want}");
        let same = difference(&[5.0; 6], &[5.0; 9]).unwrap();
        assert_eq!(
            (same.p, same.superiority.value, same.shift.value),
            (1.0, 0.5, 0.0)
        );
        assert_eq!((same.shift.low, same.shift.high), (0.0, 0.0));
    }

    #[test]
    fn the_shift_is_the_median_difference_and_its_ends_are_those_of_the_test() {
        let a = [1.0, 2.0, 4.0, 8.0];
        let b = [16.5, 32.5, 64.5, 128.5];
        let got = difference(&a, &b).unwrap();
        // Differences: 8.5 .. 127.5; with four and four only U = 0 is improbable enough (1/70).
        assert_eq!((got.shift.low, got.shift.high), (8.5, 127.5));
        assert!((got.p - 2.0 / 70.0).abs() < 1e-12);
        assert_eq!(got.shift.value, f64::midpoint(31.5, 56.5));
        assert_eq!((got.superiority.value, got.superiority.high), (1.0, 1.0));
        assert!(got.superiority.low > 0.5 && got.superiority.low < 1.0);
        assert_eq!(difference(&a[1..], &b), None);
        assert_eq!(difference(&[f64::NAN; 5], &b), None);
    }

    #[test]
    fn exact_and_normal_law_meet() {
        let exact = cumulative(50, 50);
        let deviation = (2_500.0 / 12.0 * 101.0_f64).sqrt();
        for u in [800, 968, 1_100, 1_249] {
            let normal = normal_cdf((u as f64 + 0.5 - 1_250.0) / deviation);
            assert!(
                (exact[u] - normal).abs() < 1e-3,
                "{u}: {}, {normal}",
                exact[u]
            );
        }
        // One arrangement of 252 has U = 0, one U = 1, two U = 2.
        let few: Vec<f64> = cumulative(5, 5)[..3].iter().map(|p| p * 252.0).collect();
        assert!(
            few.iter()
                .zip([1.0, 2.0, 4.0])
                .all(|(a, b)| (a - b).abs() < 1e-9)
        );
    }

    #[test]
    fn equal_laws_differ_in_one_comparison_of_twenty() {
        let mut random = Random::new(5);
        // Whole numbers from 0 to 4: many ties.
        let mut draw = || {
            (0..20)
                .map(|_| (random.bits() % 5) as f64)
                .collect::<Vec<_>>()
        };
        let alarms = (0..1_000).filter(|_| difference(&draw(), &draw()).unwrap().p < 0.05);
        let alarms = alarms.count();
        // 50 expected, standard deviation 6.9.
        assert!((30..=70).contains(&alarms), "{alarms}");
    }

    proptest! {
        #[test]
        fn to_swap_the_samples_turns_the_difference_round(
            a in prop::collection::vec(-100_i32..100, 4..30),
            b in prop::collection::vec(-100_i32..100, 4..30),
            by in -50_i32..50,
        ) {
            let real = |values: &[i32], by| values.iter().map(|&v| f64::from(v + by)).collect::<Vec<_>>();
            let (a, moved, b) = (real(&a, 0), real(&b, by), real(&b, 0));
            let (there, back) = (difference(&a, &b).unwrap(), difference(&b, &a).unwrap());
            prop_assert!((there.p - back.p).abs() < 1e-12);
            prop_assert_eq!(there.shift.low, -back.shift.high);
            prop_assert_eq!(there.shift.value, -back.shift.value);
            prop_assert!((there.superiority.low - (1.0 - back.superiority.high)).abs() < 1e-9);
            let moved = difference(&a, &moved).unwrap();
            let moves = (moved.shift.high - there.shift.high - f64::from(by)).abs();
            // Ties change the variance, and with it which difference is the end.
            prop_assert!(moves < 1e-9 || moved.p != there.p);
            for e in [&there.shift, &there.superiority] {
                prop_assert!(e.low <= e.value && e.value <= e.high, "{:?}", e);
            }
        }
    }
}
