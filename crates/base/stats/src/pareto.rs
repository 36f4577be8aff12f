//! The generalised Pareto law of values above a threshold: fit, intervals, goodness of fit, choice
//! of the threshold.
//!
//! Definition: exceedances x > 0 have P(X > x) = (1 + shape x / scale)^(-1 / shape). Maximum
//! likelihood in one dimension: with t = shape / scale the likelihood is largest at shape = mean of
//! ln(1 + t x), so only t is searched (Grimshaw). The shape is held at -1/2 or above, where the
//! estimator is regular. Intervals are those of the profile likelihood: they span all laws whose
//! log-likelihood is at most 1.92 (1 + 9 / n) below the largest. The goodness of fit is the Anderson-Darling
//! statistic; its probability comes from samples that are simulated from the fit and fitted again.
//! Where exceedances come together in clusters, log-likelihood and statistic are divided by the mean
//! size of a cluster.
//!
//! Assumptions: independent exceedances of a threshold high enough for the limit law. Bias: with 50
//! exceedances the shape is about 0.05 too low. Its interval is not symmetric and allows for that.
//!
//! Reference: Coles, *An Introduction to Statistical Modeling of Extreme Values*, 2001, chapter 4;
//! Grimshaw, Technometrics 35 (1993) 185; Bader, Yan and Zhang, Ann. Appl. Stat. 12 (2018) 310
//! (thresholds by the Anderson-Darling test).

use crate::distributions::chi2_quantile;
use crate::exponential_fit::Tested;
use crate::random::SplitMix;
use std::f64::consts::TAU;

/// Fewer exceedances do not determine a shape.
pub const LEAST: usize = 50;
/// More add nothing, and their law is farther from the limit.
const MOST: usize = 1_000;
/// Simulated samples per probability.
const SIMULATED: usize = 199;
/// A threshold is high enough if its fit is not rejected at this level.
const GOOD: f64 = 0.1;
/// Below this shape the estimator is not regular.
const LEAST_SHAPE: f64 = -0.5;
/// For few exceedances the likelihood ratio is 1 + 9 / n times its limit: from 4,000 samples of 50
/// exceedances each with shape 0 (11) and 0.4 (7).
const FEW: f64 = 9.0;
/// Laws on the edge of a region of likely laws.
const EDGE: u32 = 64;

/// A fitted law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pareto {
    /// Shape.
    pub shape: f64,
    /// Scale, in the unit of the exceedances, above 0.
    pub scale: f64,
}

impl Pareto {
    /// Probability that an exceedance is larger than `x` >= 0.
    pub fn exceeds(&self, x: f64) -> f64 {
        self.ln_exceeds(x).exp()
    }

    fn ln_exceeds(&self, x: f64) -> f64 {
        if self.shape.abs() < 1e-9 {
            return -x / self.scale;
        }
        let grown = self.shape * x / self.scale;
        if grown <= -1.0 {
            return f64::NEG_INFINITY;
        }
        -grown.ln_1p() / self.shape
    }

    /// The value exceeded with probability `p`, above 0 to 1.
    pub fn quantile(&self, p: f64) -> f64 {
        let e = -p.ln();
        if self.shape.abs() < 1e-9 {
            self.scale * e
        } else {
            self.scale * (self.shape * e).exp_m1() / self.shape
        }
    }
}

/// Fits the law to exceedances above 0, at least 2 of them different.
pub fn maximum_likelihood(exceedances: &[f64]) -> Option<Pareto> {
    let n = exceedances.len() as f64;
    let mut sorted = exceedances.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (&least, &largest) = (sorted.first()?, sorted.last()?);
    if least <= 0.0 || least == largest || !largest.is_finite() {
        return None;
    }
    let median = sorted[sorted.len() / 2];
    // With the median m of the law, 1 + t m = 2^shape: the search runs over a guess of the shape.
    let t_of = |guess: f64| (guess.exp2() - 1.0) / median;
    let shape_of = |t: f64| sorted.iter().map(|x| (t * x).ln_1p()).sum::<f64>() / n;
    let mean = sorted.iter().sum::<f64>() / n;
    let likelihood = |guess: f64| -> (f64, Pareto) {
        let t = t_of(guess);
        if t.abs() * largest < 1e-7 {
            return (
                -mean.ln(),
                Pareto {
                    shape: 0.0,
                    scale: mean,
                },
            );
        }
        if t * largest <= -1.0 {
            return (
                f64::NEG_INFINITY,
                Pareto {
                    shape: -1.0,
                    scale: largest,
                },
            );
        }
        let shape = shape_of(t);
        let law = Pareto {
            shape,
            scale: shape / t,
        };
        match shape < LEAST_SHAPE {
            true => (f64::NEG_INFINITY, law),
            false => (-law.scale.ln() - shape, law),
        }
    };
    const GRID: usize = 20;
    let (low, high) = (-1.0, 4.0);
    let at = |i: usize| low + (high - low) * i as f64 / GRID as f64;
    let grid: Vec<f64> = (0..=GRID).map(|i| likelihood(at(i)).0).collect();
    let best = (0..=GRID).max_by(|&a, &b| grid[a].total_cmp(&grid[b]))?;
    let (mut a, mut b) = (at(best.saturating_sub(1)), at((best + 1).min(GRID)));
    let golden = 0.5 * (5.0_f64.sqrt() - 1.0);
    let (mut c, mut d) = (b - golden * (b - a), a + golden * (b - a));
    let (mut at_c, mut at_d) = (likelihood(c), likelihood(d));
    for _ in 0..25 {
        if at_c.0 > at_d.0 {
            (b, d, at_d) = (d, c, at_c);
            c = b - golden * (b - a);
            at_c = likelihood(c);
        } else {
            (a, c, at_c) = (c, d, at_d);
            d = a + golden * (b - a);
            at_d = likelihood(d);
        }
    }
    let found = if at_c.0 > at_d.0 { at_c } else { at_d };
    found.0.is_finite().then_some(found.1)
}

/// The edge of the region of laws over which any function of the law spans its 95 % interval.
/// `best` is the law most likely for `exceedances`; `clusters` is the mean number of exceedances
/// that come together, 1 for independent ones.
pub fn edge_of_likely(exceedances: &[f64], best: &Pareto, clusters: f64) -> Vec<Pareto> {
    let n = exceedances.len() as f64;
    let ln_likelihood = |law: &Pareto| -> f64 {
        let excess: f64 = exceedances.iter().map(|&x| law.ln_exceeds(x)).sum();
        // The density is exceeds^(1 + shape) / scale.
        (1.0 + law.shape) * excess - n * law.scale.ln()
    };
    let independent = n / clusters;
    let below = 0.5 * chi2_quantile(0.95, 1.0) * (1.0 + FEW / independent);
    let lowest = ln_likelihood(best) - clusters * below;
    // In these directions, scaled by the standard errors and freed of their correlation, the region
    // is nearly a circle of radius 1.96.
    let regular = 1.0 + best.shape.max(LEAST_SHAPE);
    let of_shape = regular / n.sqrt();
    let of_scale = (2.0 * regular / n).sqrt();
    let correlation = -(0.5 / regular).sqrt();
    let rest = (1.0 - correlation * correlation).max(0.1).sqrt();
    let at = |angle: f64, radius: f64| {
        let (sin, cos) = angle.sin_cos();
        Pareto {
            shape: best.shape + radius * of_shape * cos,
            scale: best.scale * (radius * of_scale * (correlation * cos + rest * sin)).exp(),
        }
    };
    // Below -1 the likelihood has no bound.
    let is_likely = |law: &Pareto| law.shape > -1.0 && ln_likelihood(law) >= lowest;
    (0..EDGE)
        .map(|k| {
            let angle = TAU * f64::from(k) / f64::from(EDGE);
            let (mut inside, mut outside) = (0.0, 2.0);
            while is_likely(&at(angle, outside)) && outside < 64.0 {
                (inside, outside) = (outside, 2.0 * outside);
            }
            for _ in 0..12 {
                let middle = 0.5 * (inside + outside);
                match is_likely(&at(angle, middle)) {
                    true => inside = middle,
                    false => outside = middle,
                }
            }
            at(angle, 0.5 * (inside + outside))
        })
        .collect()
}

/// The smallest and the largest of `values` and `value`.
fn span(values: impl Iterator<Item = f64>, value: f64) -> (f64, f64) {
    values.fold((value, value), |(low, high), v| (low.min(v), high.max(v)))
}

/// Anderson-Darling distance between exceedances in rising order and a law.
pub fn anderson_darling(sorted: &[f64], law: &Pareto) -> f64 {
    let n = sorted.len();
    let sum: f64 = (0..n)
        .map(|i| {
            let upper = law.ln_exceeds(sorted[n - 1 - i]).max(-700.0);
            let lower = (-law.ln_exceeds(sorted[i]).exp_m1()).max(1e-300).ln();
            (2 * i + 1) as f64 * (lower + upper)
        })
        .sum();
    -(n as f64) - sum / n as f64
}

/// A fit with its 95 % intervals and its goodness.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tail {
    /// The threshold.
    pub threshold: u64,
    /// Values above the threshold.
    pub exceedances: usize,
    /// Mean number of exceedances that come together, 1 if they are independent.
    pub clusters: f64,
    /// The law of the exceedances.
    pub law: Pareto,
    /// Interval of the shape.
    pub shape: (f64, f64),
    /// Interval of the scale.
    pub scale: (f64, f64),
    /// The Anderson-Darling test.
    pub goodness: Tested,
}

impl Tail {
    /// Share of `values` values that is above the threshold.
    pub fn share(&self, values: usize) -> f64 {
        self.exceedances as f64 / values as f64
    }

    /// The level that one in `draws` draws exceeds on average, if the tail was fitted to `values`
    /// values; the threshold, if more do so.
    pub fn level(&self, draws: f64, values: usize) -> f64 {
        let of_exceedances = 1.0 / (draws * self.share(values));
        self.threshold as f64 + self.law.quantile(of_exceedances.min(1.0))
    }
}

/// Fits exceedances above `threshold`; `clusters` is the mean number of them that come together, 1
/// for independent ones, and `seed` that of the simulated probability. `None` with fewer than 50
/// independent ones, or if all are equal.
pub fn fit_above(sorted: &[u64], threshold: u64, clusters: f64, seed: u64) -> Option<Tail> {
    let first = sorted.partition_point(|&v| v <= threshold);
    let exceedances: Vec<f64> = sorted[first..]
        .iter()
        .map(|&v| (v - threshold) as f64)
        .collect();
    let n = exceedances.len();
    if (n as f64) < LEAST as f64 * clusters {
        return None;
    }
    let law = maximum_likelihood(&exceedances)?;
    let statistic = anderson_darling(&exceedances, &law);
    let mut random = SplitMix::new(seed);
    let mut larger = 0;
    let mut sample = vec![0.0; n];
    for _ in 0..SIMULATED {
        for x in &mut sample {
            *x = law.quantile(random.uniform());
        }
        sample.sort_by(f64::total_cmp);
        let again = maximum_likelihood(&sample).map(|l| anderson_darling(&sample, &l));
        larger += usize::from(again.is_none_or(|a| a >= statistic / clusters));
    }
    let likely = edge_of_likely(&exceedances, &law, clusters);
    Some(Tail {
        threshold,
        exceedances: n,
        clusters,
        law,
        shape: span(likely.iter().map(|l| l.shape), law.shape),
        scale: span(likely.iter().map(|l| l.scale), law.scale),
        goodness: Tested {
            statistic,
            p: (larger + 1) as f64 / (SIMULATED + 1) as f64,
        },
    })
}

/// The tail of `sorted` values, in rising order: at most one in `part` of them. Thresholds tried
/// leave that many values (1,000 at most), then a half, a quarter, ... of that; the lowest one whose
/// fit is not rejected at 10 % is taken. `clusters` of a threshold is the mean number of values
/// above it that come together. `None` if no threshold has 50 independent exceedances.
pub fn tail(sorted: &[u64], part: usize, clusters: impl Fn(u64) -> f64, seed: u64) -> Option<Tail> {
    let mut wanted = (sorted.len() / part).min(MOST);
    while wanted >= LEAST {
        let threshold = sorted[sorted.len() - wanted - 1];
        if let Some(tail) = fit_above(sorted, threshold, clusters(threshold), seed) {
            if tail.goodness.p >= GOOD {
                return Some(tail);
            }
        }
        wanted /= 2;
    }
    None
}

#[cfg(test)]
mod cases {
    use super::*;
    use crate::testing::Random;

    fn quantiles(law: Pareto, n: usize) -> Vec<f64> {
        (0..n)
            .map(|i| law.quantile(1.0 - (i as f64 + 0.5) / n as f64))
            .collect()
    }

    #[test]
    fn quantile_and_survival_function_are_inverse() {
        for shape in [-0.4, 0.0, 0.3, 1.2] {
            let law = Pareto { shape, scale: 50.0 };
            for p in [0.9, 0.5, 1e-3] {
                assert!(
                    (law.exceeds(law.quantile(p)) / p - 1.0).abs() < 1e-9,
                    "{shape}"
                );
            }
        }
        assert_eq!(
            Pareto {
                shape: -0.5,
                scale: 1.0
            }
            .exceeds(3.0),
            0.0
        );
    }

    #[test]
    fn evenly_spaced_quantiles_give_their_law_back() {
        for shape in [-0.3, 0.0, 0.3, 0.9] {
            let law = Pareto {
                shape,
                scale: 700.0,
            };
            let found = maximum_likelihood(&quantiles(law, 4_000)).unwrap();
            assert!((found.shape - shape).abs() < 0.012, "{shape}: {found:?}");
            assert!(
                (found.scale / 700.0 - 1.0).abs() < 0.012,
                "{shape}: {found:?}"
            );
            assert!(anderson_darling(&quantiles(law, 4_000), &law) < 0.02);
        }
    }

    #[test]
    fn the_likelihood_has_its_largest_value_there() {
        let mut random = Random::new(3);
        let law = Pareto {
            shape: 0.4,
            scale: 10.0,
        };
        let sample: Vec<f64> = (0..200).map(|_| law.quantile(random.uniform())).collect();
        let value = |l: &Pareto| -> f64 {
            let power = 1.0 + 1.0 / l.shape;
            let each = |x: &f64| -l.scale.ln() - power * (l.shape * x / l.scale).ln_1p();
            sample.iter().map(each).sum()
        };
        let found = maximum_likelihood(&sample).unwrap();
        for (a, b) in [(0.01, 0.0), (-0.01, 0.0), (0.0, 0.1), (0.0, -0.1)] {
            let near = Pareto {
                shape: found.shape + a,
                scale: found.scale + b,
            };
            assert!(value(&near) < value(&found), "{found:?} {near:?}");
        }
    }

    #[test]
    fn anderson_and_darling_by_hand() {
        // Exponential, n = 1 at the median: -1 - (ln 1/2 + ln 1/2).
        let law = Pareto {
            shape: 0.0,
            scale: 1.0,
        };
        let median = [2.0_f64.ln()];
        let expected = -1.0 + 2.0 * 2.0_f64.ln();
        assert!((anderson_darling(&median, &law) - expected).abs() < 1e-12);
        // n = 2 at survival 3/4 and 1/4.
        let two = [(4.0_f64 / 3.0).ln(), 4.0_f64.ln()];
        let sum = 0.25_f64.ln() + 0.25_f64.ln() + 3.0 * (0.75_f64.ln() + 0.75_f64.ln());
        assert!((anderson_darling(&two, &law) - (-2.0 - sum / 2.0)).abs() < 1e-12);
    }

    #[test]
    fn intervals_hold_the_shape_nine_times_of_ten_or_more_and_good_fits_are_kept() {
        let law = Pareto {
            shape: 0.3,
            scale: 5_000.0,
        };
        let (mut held, mut refused) = (0, 0);
        for seed in 0..40 {
            let mut random = Random::new(100 + seed);
            let mut sample: Vec<u64> = (0..150)
                .map(|_| 1_000 + law.quantile(random.uniform()).ceil() as u64)
                .collect();
            sample.sort_unstable();
            let tail = fit_above(&sample, 1_000, 1.0, seed).unwrap();
            held += u32::from(tail.shape.0 <= 0.3 && 0.3 <= tail.shape.1);
            refused += u32::from(tail.goodness.p < 0.1);
        }
        assert!(held >= 35, "{held} of 40");
        assert!(refused <= 9, "{refused} of 40");
    }

    #[test]
    fn what_is_no_tail_is_refused() {
        // Two lengths and none in between.
        let mut values = vec![1_000_u64; 2_000];
        values.extend((0..200).map(|i| 50_000 + i % 7));
        values.sort_unstable();
        assert!(fit_above(&values, 1_000, 1.0, 1).unwrap().goodness.p < 0.01);
        assert_eq!(tail(&[5; 400], 4, |_| 1.0, 1), None);
        assert_eq!(tail(&(0..199).collect::<Vec<u64>>(), 4, |_| 1.0, 1), None);
        assert_eq!(maximum_likelihood(&[0.0, 1.0]), None);
        assert_eq!(maximum_likelihood(&[]), None);
    }

    #[test]
    fn a_tail_above_other_values_is_found_above_them() {
        let law = Pareto {
            shape: 0.3,
            scale: 2_000.0,
        };
        let mut random = Random::new(8);
        let mut values: Vec<u64> = (0..4_600).map(|_| 900 + random.bits() % 100).collect();
        values.extend((0..400).map(|_| 10_000 + law.quantile(random.uniform()) as u64));
        values.sort_unstable();
        let tail = tail(&values, 4, |_| 1.0, 1).unwrap();
        assert!(
            tail.threshold >= 10_000 && tail.exceedances >= 200,
            "{tail:?}"
        );
        assert!(tail.shape.0 < 0.3 && 0.3 < tail.shape.1, "{tail:?}");
    }
}
