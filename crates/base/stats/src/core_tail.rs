//! Durations that should be equal, as a Gaussian core and a tail of much longer ones.
//!
//! Definition: the distribution function is F(t) = (1 - e) Phi((t - m) / s) below a limit, with
//! mean m and standard deviation s of the core and the share e of values outside it. The three are
//! fitted by least squares to the empirical distribution function at up to 400 of its own points,
//! from the smallest value to the limit: median + 3 times 1.4826 times the median absolute
//! deviation. Nothing is assumed about the tail above the limit.
//!
//! Assumptions: the core is one Gaussian. [`Core::misfit`] measures the deviation from that; above
//! a few per cent, m and s are descriptive only. Values of several ranks with different work, or on
//! several speed levels, are not a single Gaussian. Bias: s is correct to 1 % with a tail of up to
//! 5 %, where that of the moments is 35 times too large and that of the median absolute deviation 6
//! % too large. Tail values within 3 s of the core count as core.
//!
//! Intervals come from resampling blocks of successive steps, since steps depend on those before.
//!
//! Reference: the fit of an error function to the times of a force computation is that of H.
//! Watanabe (ISSP, hyper-threading and parallel efficiency); the share e is added so that the tail
//! does not widen the core. Bootstrap by blocks: Künsch, Ann. Stat. 17 (1989) 1217, with
//! non-overlapping blocks.

use crate::distributions::{normal_cdf, normal_quantile};
use crate::resampling::{Resampler, interval, widened};
use std::f64::consts::TAU;

/// Points of the distribution function that are fitted.
const POINTS: usize = 400;
/// Fewer values do not show the shape of their distribution.
const LEAST_VALUES: usize = 100;
/// Fewer blocks do not show the spread of a fit.
const LEAST_BLOCKS: usize = 5;

/// A Gaussian core with a tail above it, in the unit of the values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Core {
    /// Mean m of the core.
    pub mean: f64,
    /// Its standard deviation s, above 0.
    pub deviation: f64,
    /// Share e of the values outside the core, 0..1.
    pub tail: f64,
}

impl Core {
    /// The fitted distribution function.
    pub fn cdf(&self, t: f64) -> f64 {
        (1.0 - self.tail) * normal_cdf((t - self.mean) / self.deviation)
    }

    /// Distance from the mean in standard deviations.
    pub fn z(&self, t: f64) -> f64 {
        (t - self.mean) / self.deviation
    }
}

/// A fit with its 95 % intervals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// The fit.
    pub core: Core,
    /// Interval of the mean.
    pub mean: (f64, f64),
    /// Interval of the standard deviation.
    pub deviation: (f64, f64),
    /// Interval of the tail's share.
    pub tail: (f64, f64),
    /// Upper end of what was fitted.
    pub limit: f64,
    /// Largest distance between the empirical and the fitted distribution function up to there,
    /// 0..=1.
    pub misfit: f64,
}

/// The distance from the mean, in standard deviations, that the largest of `n` standard normals
/// exceeds with a probability of 5 %: values beyond are not part of the core. `n` >= 1.
pub fn outlier_limit(n: u64) -> f64 {
    const LEVEL: f64 = 0.05;
    // By symmetry, as 1 - p / n is not exact.
    -normal_quantile(LEVEL / n.max(1) as f64)
}

/// Fits core and tail to values in blocks: those of successive steps, all ranks together; `sorted`
/// are the values of all blocks in rising order. `None` with fewer than 100 values, or if more than
/// half of them are equal, so that nothing varies.
///
/// With fewer than 5 blocks the intervals span from minus to plus infinity (0 to 1 for the share).
pub fn fit(blocks: &[&[u64]], sorted: &[u64]) -> Option<Fit> {
    if sorted.len() < LEAST_VALUES {
        return None;
    }
    let median = sorted[sorted.len() / 2] as f64;
    let spread = 1.4826 * median_distance(sorted) as f64;
    if spread <= 0.0 {
        return None;
    }
    let limit = median + 3.0 * spread;
    let below = sorted.partition_point(|&v| (v as f64) < limit);
    let points = POINTS.min(below);
    let mut edges: Vec<u64> = (0..points)
        .map(|k| sorted[(2 * k + 1) * below / (2 * points)])
        .collect();
    edges.dedup();
    let counts: Vec<Vec<u64>> = blocks.iter().map(|b| twice_below(&edges, b)).collect();
    let edges: Vec<f64> = edges.into_iter().map(|e| e as f64).collect();
    let start = Core {
        mean: median,
        deviation: spread,
        tail: 0.0,
    };
    let cdf_of = |taken: &mut dyn Iterator<Item = usize>| -> Vec<f64> {
        let mut sums = vec![0_u64; edges.len()];
        let mut n = 0;
        for b in taken {
            n += blocks[b].len();
            for (sum, count) in sums.iter_mut().zip(&counts[b]) {
                *sum += count;
            }
        }
        let twice = 2.0 * n.max(1) as f64;
        sums.iter().map(|&c| c as f64 / twice).collect()
    };
    let cdf = cdf_of(&mut (0..blocks.len()));
    let core = least_squares(&edges, &cdf, start);
    let misfit = edges
        .iter()
        .zip(&cdf)
        .map(|(&t, f)| (core.cdf(t) - f).abs());
    let misfit = misfit.fold(0.0, f64::max);

    let filled = blocks.iter().filter(|b| !b.is_empty()).count();
    let (mut means, mut deviations, mut tails) = (Vec::new(), Vec::new(), Vec::new());
    if filled >= LEAST_BLOCKS {
        // A draw differs little from the whole, so one step with the slopes of the whole's fit
        // suffices.
        let slopes: Vec<[f64; 3]> = edges.iter().map(|&t| slopes_at(&core, t).0).collect();
        let square = normal_matrix(&slopes);
        let fitted: Vec<f64> = edges.iter().map(|&t| core.cdf(t)).collect();
        let mut resampler = Resampler::new(blocks.len());
        for _ in 0..Resampler::TIMES {
            let drawn = cdf_of(&mut resampler.draw().iter().copied());
            let mut right = [0.0; 3];
            for ((slope, f), fit) in slopes.iter().zip(&drawn).zip(&fitted) {
                for i in 0..3 {
                    right[i] += slope[i] * (f - fit);
                }
            }
            if let Some(step) = solve(square, right) {
                means.push(core.mean + step[0] * core.deviation);
                deviations.push((core.deviation * (1.0 + step[1])).max(0.0));
                tails.push((core.tail + step[2]).clamp(0.0, 1.0));
            }
        }
    }
    let around = |draws: &mut Vec<f64>, value: f64| {
        let ends = interval(draws, value)?;
        Some(widened(ends, value, filled))
    };
    let unknown = (f64::NEG_INFINITY, f64::INFINITY);
    Some(Fit {
        core,
        mean: around(&mut means, core.mean).unwrap_or(unknown),
        deviation: around(&mut deviations, core.deviation)
            .map_or(unknown, |(low, high)| (low.max(0.0), high)),
        tail: around(&mut tails, core.tail)
            .map_or((0.0, 1.0), |(low, high)| (low.max(0.0), high.min(1.0))),
        limit,
        misfit,
    })
}

/// Median distance of at least one value, in rising order, from their median.
fn median_distance(sorted: &[u64]) -> u64 {
    let middle = sorted.len() / 2;
    let (below, above) = sorted.split_at(middle);
    let distance = |v: &u64| v.abs_diff(sorted[middle]);
    let mut below = below.iter().rev().map(distance).peekable();
    let mut above = above.iter().map(distance).peekable();
    let mut last = 0;
    for _ in 0..=middle {
        let nearest = match (below.peek(), above.peek()) {
            (Some(b), Some(a)) if b <= a => below.next(),
            (_, Some(_)) => above.next(),
            (_, None) => below.next(),
        };
        last = nearest.unwrap_or(last);
    }
    last
}

/// Twice the number of values below each edge, those on it counting half. Edges rise.
fn twice_below(edges: &[u64], values: &[u64]) -> Vec<u64> {
    let mut counts = vec![0; edges.len() + 1];
    for &value in values {
        counts[edges.partition_point(|&e| e < value)] += 1;
        counts[edges.partition_point(|&e| e <= value)] += 1;
    }
    // What is beyond the last edge.
    counts.pop();
    let below = |sum: &mut u64, count| {
        *sum += count;
        Some(*sum)
    };
    counts.into_iter().scan(0, below).collect()
}

/// Derivatives of the fitted distribution function at `t` by the three parameters, mean and
/// deviation in units of the deviation; and the function itself.
fn slopes_at(core: &Core, t: f64) -> ([f64; 3], f64) {
    let z = core.z(t);
    let density = (-0.5 * z * z).exp() / TAU.sqrt();
    let cumulated = normal_cdf(z);
    let kept = 1.0 - core.tail;
    (
        [-kept * density, -kept * density * z, -cumulated],
        kept * cumulated,
    )
}

/// Sum of the products of slopes with each other.
fn normal_matrix(slopes: &[[f64; 3]]) -> [[f64; 3]; 3] {
    let mut square = [[0.0; 3]; 3];
    for slope in slopes {
        for i in 0..3 {
            for j in 0..3 {
                square[i][j] += slope[i] * slope[j];
            }
        }
    }
    square
}

/// Levenberg-Marquardt for the three parameters; the tail is held at 0 where it would be negative.
fn least_squares(edges: &[f64], cdf: &[f64], start: Core) -> Core {
    let error = |core: &Core| -> f64 {
        let off = edges.iter().zip(cdf).map(|(&t, f)| core.cdf(t) - f);
        off.map(|o| o * o).sum()
    };
    let mut core = start;
    let mut best = error(&core);
    let mut damping = 1e-3;
    for _ in 0..100 {
        let mut slopes = Vec::with_capacity(edges.len());
        let mut right = [0.0; 3];
        for (&t, &f) in edges.iter().zip(cdf) {
            let (slope, fitted) = slopes_at(&core, t);
            for i in 0..3 {
                right[i] += slope[i] * (f - fitted);
            }
            slopes.push(slope);
        }
        let square = normal_matrix(&slopes);
        let mut damped = square;
        for (i, row) in damped.iter_mut().enumerate() {
            row[i] *= 1.0 + damping;
        }
        let Some(step) = solve(damped, right) else {
            break;
        };
        let next = Core {
            mean: core.mean + step[0] * core.deviation,
            deviation: core.deviation * (1.0 + step[1]).max(0.1),
            tail: (core.tail + step[2]).clamp(0.0, 0.999),
        };
        let now = error(&next);
        if now < best {
            let gained = best - now;
            core = next;
            best = now;
            damping = (damping * 0.2).max(1e-12);
            if gained <= 1e-12 * best {
                break;
            }
        } else {
            damping *= 8.0;
            if damping > 1e8 {
                break;
            }
        }
    }
    core
}

/// Solves a linear system of three equations by elimination with pivoting; `None` if it is
/// singular.
#[allow(clippy::needless_range_loop)] // Rows and columns are indices of the elimination.
fn solve(mut a: [[f64; 3]; 3], mut b: [f64; 3]) -> Option<[f64; 3]> {
    for column in 0..3 {
        let pivot =
            (column..3).max_by(|&i, &j| a[i][column].abs().total_cmp(&a[j][column].abs()))?;
        if a[pivot][column].abs() < f64::MIN_POSITIVE {
            return None;
        }
        a.swap(column, pivot);
        b.swap(column, pivot);
        for row in column + 1..3 {
            let factor = a[row][column] / a[column][column];
            for k in column..3 {
                a[row][k] -= factor * a[column][k];
            }
            b[row] -= factor * b[column];
        }
    }
    let mut x = [0.0; 3];
    for row in (0..3).rev() {
        let known: f64 = (row + 1..3).map(|k| a[row][k] * x[k]).sum();
        x[row] = (b[row] - known) / a[row][row];
    }
    Some(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;
    use proptest::prelude::*;

    /// The fit to these blocks.
    fn fitted(blocks: &[Vec<u64>]) -> Option<Fit> {
        let mut sorted = blocks.concat();
        sorted.sort_unstable();
        let blocks: Vec<&[u64]> = blocks.iter().map(Vec::as_slice).collect();
        fit(&blocks, &sorted)
    }

    /// `n` times of a core N(mean, deviation) with a share of outliers between `from` and `to`, in
    /// 50 blocks.
    fn times(n: usize, core: Core, from: f64, to: f64, seed: u64) -> Vec<Vec<u64>> {
        let mut random = Random::new(seed);
        (0..50)
            .map(|_| {
                (0..n / 50)
                    .map(|_| {
                        let time = if random.uniform() < core.tail {
                            from + (to - from) * random.uniform()
                        } else {
                            core.mean + core.deviation * random.normal()
                        };
                        time.round() as u64
                    })
                    .collect()
            })
            .collect()
    }

    proptest! {
        #[test]
        fn distances_and_counts_are_those_of_sorted_lists(
            mut values in proptest::collection::vec(1_u64..19, 1..60),
            edges in proptest::collection::btree_set(0_u64..20, 0..8),
        ) {
            let edges: Vec<u64> = edges.into_iter().collect();
            let count = |wanted: &dyn Fn(u64) -> bool| {
                values.iter().filter(|&&v| wanted(v)).count() as u64
            };
            let twice = edges.iter().map(|&e| count(&|v| v < e) + count(&|v| v <= e));
            prop_assert_eq!(twice_below(&edges, &values), twice.collect::<Vec<_>>());

            values.sort_unstable();
            let median = values[values.len() / 2];
            let mut off: Vec<u64> = values.iter().map(|v| v.abs_diff(median)).collect();
            off.sort_unstable();
            prop_assert_eq!(median_distance(&values), off[off.len() / 2]);
        }
    }

    #[test]
    fn the_studys_core_is_found_under_tails_of_up_to_five_per_cent() {
        for (tail, seed) in [(0.0, 1), (1e-4, 2), (1e-3, 3), (1e-2, 4), (5e-2, 5)] {
            let truth = Core {
                mean: 143_785_000.0,
                deviation: 290_000.0,
                tail,
            };
            let fit = fitted(&times(819_200, truth, 150e6, 221.5e6, seed)).unwrap();
            let Core {
                mean,
                deviation,
                tail: found,
            } = fit.core;
            assert!((deviation / 290e3 - 1.0).abs() < 0.01, "{tail}: {fit:?}");
            assert!((mean - 143_785e3).abs() < 2e3, "{tail}: {fit:?}");
            assert!((found - tail).abs() < 1e-3, "{tail}: {fit:?}");
            assert!(fit.misfit < 2e-3, "{tail}: {fit:?}");
            assert!(
                fit.mean.0 <= 143_786e3 && fit.mean.1 >= 143_784e3,
                "{fit:?}"
            );
            assert!(fit.mean.1 - fit.mean.0 < 4e3, "{fit:?}");
        }
    }

    #[test]
    fn exact_quantiles_of_a_gaussian_are_fitted_exactly() {
        let n = 1_000;
        let quantile = |i| normal_quantile((f64::from(i) + 0.5) / f64::from(n));
        let values = (0..n).map(|i| (50e9 + 2e9 * quantile(i)).round() as u64);
        let fit = fitted(&[values.collect()]).unwrap();
        assert!((fit.core.mean - 50e9).abs() < 1e3, "{fit:?}");
        assert!((fit.core.deviation - 2e9).abs() < 1e4, "{fit:?}");
        assert!(fit.core.tail < 1e-6 && fit.misfit < 1e-6, "{fit:?}");
        assert_eq!(fit.mean, (f64::NEG_INFINITY, f64::INFINITY));
    }

    #[test]
    fn two_speeds_are_no_gaussian_and_the_misfit_says_so() {
        let mut random = Random::new(3);
        let blocks: Vec<Vec<u64>> = (0..20)
            .map(|_| {
                (0..100)
                    .map(|i| (1e3 * (f64::from(i % 2 * 30 + 100) + random.normal())) as u64)
                    .collect()
            })
            .collect();
        assert!(fitted(&blocks).unwrap().misfit > 0.1);
    }

    #[test]
    fn nineteen_intervals_of_twenty_hold_the_truth() {
        let truth = Core {
            mean: 10e6,
            deviation: 0.5e6,
            tail: 0.02,
        };
        let (mut means, mut deviations) = (0, 0);
        for seed in 0..100 {
            let fit = fitted(&times(5_000, truth, 14e6, 20e6, 100 + seed)).unwrap();
            let holds = |(low, high): (f64, f64), truth| low <= truth && truth <= high;
            means += u32::from(holds(fit.mean, truth.mean));
            deviations += u32::from(holds(fit.deviation, truth.deviation));
        }
        assert!(means >= 88 && deviations >= 88, "{means}, {deviations}");
    }

    #[test]
    fn nothing_is_said_of_few_or_equal_values() {
        assert_eq!(fitted(&[]), None);
        assert_eq!(fitted(&[(0..99).collect()]), None);
        assert!(fitted(&[(0..100).collect()]).is_some());
        assert_eq!(fitted(&vec![vec![7; 100]; 10]), None);
    }

    #[test]
    fn the_limit_of_outliers_grows_with_their_number() {
        // Phi^-1(0.95) and Phi^-1(1 - 0.05 / 819,200) = 5.3.
        assert!((outlier_limit(1) - 1.644_854).abs() < 1e-5);
        assert!((outlier_limit(819_200) - 5.3).abs() < 0.05);
        assert_eq!(outlier_limit(0), outlier_limit(1));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn shifting_and_stretching_the_values_shifts_and_stretches_the_fit(
            seed in 0_u64..1_000, shift in 0_u64..1_000_000_000, factor in 1_u64..100,
        ) {
            let truth = Core { mean: 20e6, deviation: 1e6, tail: 0.01 };
            let blocks = times(1_000, truth, 30e6, 60e6, seed);
            let moved: Vec<Vec<u64>> = blocks
                .iter()
                .map(|b| b.iter().map(|v| shift + factor * v).collect())
                .collect();
            let (one, two) = (fitted(&blocks).unwrap().core, fitted(&moved).unwrap().core);
            let (shift, factor) = (shift as f64, factor as f64);
            prop_assert!((two.mean - shift - factor * one.mean).abs() < 1e2 * factor);
            prop_assert!((two.deviation / factor / one.deviation - 1.0).abs() < 1e-3);
            prop_assert!((two.tail - one.tail).abs() < 1e-3);
        }
    }
}
