//! The same computation by every rank in every step: which rank is slowest, and what waiting for it
//! costs.
//!
//! Definitions: the *efficiency* of a program whose ranks wait for each other after every step is
//! the sum of the steps' mean durations over the sum of their maxima. If all ranks were alike, with
//! independent Gaussian durations, a step would take mean + deviation times the expected maximum of
//! N standard normals. The *share of the tail* in the loss is what is gained if values beyond the
//! outlier limit of the core are left out.
//!
//! Assumptions: the ranks wait for all others once per step. If they wait for neighbours only, the
//! loss is less. Predictions for more ranks assume that ranks are independent; disturbances that
//! strike all ranks at once (a tick at the same moment everywhere) cost less than predicted.

use crate::core_tail::Core;
use crate::distributions::expected_max_normal;
use crate::resampling::{BLOCKS, Resampler, block_range, interval, widened};

/// Durations of all ranks in all steps, step by step, in the order of the ranks.
#[derive(Clone, Copy, Debug)]
pub struct StepTimes<'a> {
    durations: &'a [u64],
    ranks: usize,
}

/// A share with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The share, 0..=1.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// How long the same rank stays the slowest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunLengths {
    /// Mean number of successive steps with the same slowest rank.
    pub mean: f64,
    /// Longest.
    pub longest: u64,
    /// Mean expected for independent steps with the same counts.
    pub by_chance: f64,
}

impl<'a> StepTimes<'a> {
    /// Durations of `ranks` >= 1 ranks; an incomplete last step is ignored.
    pub fn new(durations: &'a [u64], ranks: usize) -> Self {
        let ranks = ranks.max(1);
        let whole = durations.len() / ranks * ranks;
        Self {
            durations: &durations[..whole],
            ranks,
        }
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Number of steps.
    pub fn steps(&self) -> usize {
        self.durations.len() / self.ranks
    }

    /// All durations of a step.
    pub fn step(&self, index: usize) -> &'a [u64] {
        &self.durations[index * self.ranks..(index + 1) * self.ranks]
    }

    /// The steps in order.
    pub fn all(&self) -> impl Iterator<Item = &'a [u64]> + use<'a> {
        self.durations.chunks_exact(self.ranks)
    }

    /// The slowest rank of every step; of equal ones the lowest.
    pub fn slowest(&self) -> Vec<u32> {
        let last = |step: &[u64]| {
            let most = step
                .iter()
                .enumerate()
                .max_by_key(|&(rank, &d)| (d, std::cmp::Reverse(rank)));
            most.map_or(0, |(rank, _)| rank as u32)
        };
        self.all().map(last).collect()
    }

    /// The durations in blocks of successive steps, for fits and intervals.
    pub fn blocks(&self) -> Vec<&'a [u64]> {
        let blocks = BLOCKS.min(self.steps());
        (0..blocks)
            .map(|b| {
                let steps = block_range(b, blocks, self.steps());
                &self.durations[steps.start * self.ranks..steps.end * self.ranks]
            })
            .collect()
    }

    /// Sum of means over sum of maxima; `None` without steps or if all durations are 0.
    pub fn efficiency(&self) -> Option<Share> {
        self.efficiency_below(u64::MAX)
    }

    /// The same without values above `limit`; a step in which no value is left is skipped.
    pub fn efficiency_below(&self, limit: u64) -> Option<Share> {
        let blocks = BLOCKS.min(self.steps());
        let sums: Vec<(f64, f64)> = (0..blocks)
            .map(|b| {
                let (mut means, mut maxima) = (0.0, 0.0);
                for s in block_range(b, blocks, self.steps()) {
                    let (mut sum, mut n, mut most) = (0_u64, 0_u64, 0_u64);
                    for &d in self.step(s).iter().filter(|&&d| d <= limit) {
                        sum += d;
                        n += 1;
                        most = most.max(d);
                    }
                    if n > 0 {
                        means += sum as f64 / n as f64;
                        maxima += most as f64;
                    }
                }
                (means, maxima)
            })
            .collect();
        let ratio = |taken: &mut dyn Iterator<Item = usize>| {
            let (mut means, mut maxima) = (0.0, 0.0);
            for b in taken {
                means += sums[b].0;
                maxima += sums[b].1;
            }
            (maxima > 0.0).then(|| means / maxima)
        };
        let value = ratio(&mut (0..blocks))?;
        let mut resampler = Resampler::new(blocks);
        let mut draws: Vec<f64> = (0..Resampler::TIMES)
            .filter_map(|_| ratio(&mut resampler.draw().iter().copied()))
            .collect();
        // A single step shows no spread, so its efficiency could be anything.
        let (low, high) = interval(&mut draws, value)
            .filter(|_| blocks > 1)
            .map_or((0.0, 1.0), |ends| widened(ends, value, blocks));
        Some(Share {
            value,
            low: low.max(0.0),
            high: high.min(1.0),
        })
    }

    /// Efficiency of `ranks` ranks that vary like those measured: the mean of all durations over
    /// the expected maximum of `ranks` independent draws from them. `None` if `ranks` is more than
    /// a tenth of the number of durations, as the maximum would then be that of the measurement.
    /// `sorted` are all durations in rising order.
    pub fn efficiency_at(sorted: &[u64], ranks: u64) -> Option<f64> {
        let n = sorted.len() as u64;
        if ranks == 0 || ranks > n / 10 {
            return None;
        }
        let power = |i: usize| (ranks as f64 * (i as f64 / n as f64).ln()).exp();
        let mut below = 0.0;
        let (mut maximum, mut mean) = (0.0, 0.0);
        for (i, &d) in sorted.iter().enumerate() {
            let up_to = power(i + 1);
            maximum += d as f64 * (up_to - below);
            mean += d as f64 / n as f64;
            below = up_to;
        }
        (maximum > 0.0).then(|| mean / maximum)
    }
}

/// Efficiency of `ranks` equal ranks with the Gaussian core only: what is left without the tail.
pub fn gaussian_efficiency(core: &Core, ranks: u64) -> f64 {
    core.mean / (core.mean + core.deviation * expected_max_normal(ranks))
}

/// Share of the loss 1 - `measured` that the tail causes, 0..=1; `None` if nothing is lost.
pub fn tail_share(measured: f64, without_tail: f64) -> Option<f64> {
    let loss = 1.0 - measured;
    (loss > 0.0).then(|| ((without_tail - measured) / loss).clamp(0.0, 1.0))
}

/// Run lengths of `slowest`, the slowest rank of every step, of `ranks` ranks. `None` without
/// steps.
pub fn run_lengths(slowest: &[u32], ranks: usize) -> Option<RunLengths> {
    let mut counts = vec![0_u64; ranks];
    let (mut runs, mut longest, mut length) = (0_u64, 0_u64, 0_u64);
    for (i, &rank) in slowest.iter().enumerate() {
        *counts.get_mut(rank as usize)? += 1;
        if i == 0 || slowest[i - 1] != rank {
            runs += 1;
            length = 0;
        }
        length += 1;
        longest = longest.max(length);
    }
    if runs == 0 {
        return None;
    }
    let n = slowest.len() as f64;
    // Independent steps: n - 1 times, the next rank differs with probability 1 - sum of squares.
    let same: f64 = counts.iter().map(|&c| (c as f64 / n).powi(2)).sum();
    Some(RunLengths {
        mean: n / runs as f64,
        longest,
        by_chance: n / (1.0 + (n - 1.0) * (1.0 - same)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    #[test]
    fn the_studys_numbers_come_out() {
        let mut without = Core {
            mean: 143.785,
            deviation: 0.29,
            tail: 0.0,
        };
        assert!((without.z(221.5) - 268.0).abs() < 0.05);
        // mean / slowest.
        assert!((without.mean / 221.5 - 0.649).abs() < 5e-4);
        // A pure Gaussian at 8192 ranks: 144.888 ms.
        assert!((without.mean / gaussian_efficiency(&without, 8_192) - 144.888).abs() < 1e-3);
        assert!((gaussian_efficiency(&without, 8_192) - 0.9924).abs() < 5e-5);
        assert_eq!(gaussian_efficiency(&without, 1), 1.0);
        let share = tail_share(0.649, gaussian_efficiency(&without, 8_192)).unwrap();
        assert!((share - 0.978).abs() < 1e-3, "{share}");
        without.deviation = 0.0;
        assert_eq!(gaussian_efficiency(&without, 8_192), 1.0);
    }

    #[test]
    fn efficiency_is_the_mean_over_the_slowest() {
        // Means 10 and 14, maxima 12 and 20; the last value belongs to an incomplete step.
        let times = StepTimes::new(&[8, 10, 12, 12, 10, 20, 99], 3);
        assert_eq!((times.steps(), times.slowest()), (2, vec![2, 2]));
        let got = times.efficiency().unwrap();
        assert_eq!(got.value, 24.0 / 32.0);
        assert!(got.low <= got.value && got.value <= got.high);
        // Without the 20: means 10 and 11, maxima 12 and 12.
        let below = times.efficiency_below(15).unwrap().value;
        assert_eq!(below, 21.0 / 24.0);
        assert_eq!(tail_share(0.75, below), Some(0.5));
        assert_eq!(tail_share(1.0, 1.0), None);
        assert!(StepTimes::new(&[], 3).efficiency().is_none());
        assert!(StepTimes::new(&[0, 0], 1).efficiency().is_none());
        assert_eq!(StepTimes::new(&[4, 4, 4, 4], 2).slowest(), [0, 0]);
    }

    #[test]
    fn efficiency_by_measured_values_agrees_with_closed_forms() {
        // Two ranks with 1 or 2, equally often: E[max] = 1.75, mean 1.5.
        let mut coins: Vec<u64> = vec![1; 500];
        coins.extend(vec![2; 500]);
        let got = StepTimes::efficiency_at(&coins, 2).unwrap();
        assert!((got - 1.5 / 1.75).abs() < 1e-12, "{got}");
        // Uniform on 1..=n: E[max of N] = n N / (N + 1).
        let uniform: Vec<u64> = (1..=100_000).collect();
        let got = StepTimes::efficiency_at(&uniform, 9).unwrap();
        assert!((got - 0.5 / 0.9).abs() < 1e-4, "{got}");
        assert!((StepTimes::efficiency_at(&uniform, 1).unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(StepTimes::efficiency_at(&uniform, 10_001), None);
        assert_eq!(StepTimes::efficiency_at(&[], 1), None);
    }

    #[test]
    fn like_ranks_have_the_efficiency_of_a_gaussian() {
        let mut random = Random::new(5);
        for ranks in [2_usize, 16] {
            let values: Vec<u64> = (0..ranks * 20_000)
                .map(|_| (1e6 + 2e4 * random.normal()) as u64)
                .collect();
            let got = StepTimes::new(&values, ranks).efficiency().unwrap();
            let core = Core {
                mean: 1e6,
                deviation: 2e4,
                tail: 0.0,
            };
            let want = gaussian_efficiency(&core, ranks as u64);
            assert!((got.value - want).abs() < 3e-4, "{got:?}, {want}");
            assert!(got.high - got.low < 1e-3, "{got:?}");
            let mut sorted = values;
            sorted.sort_unstable();
            let measured = StepTimes::efficiency_at(&sorted, ranks as u64).unwrap();
            assert!((measured - want).abs() < 3e-4, "{measured}, {want}");
        }
    }

    #[test]
    fn run_lengths_are_counted_and_compared_with_chance() {
        let got = run_lengths(&[0, 0, 1, 1, 1, 0], 2).unwrap();
        assert_eq!((got.mean, got.longest), (2.0, 3));
        // Shares of one half: 5 changes expected 2.5 times, 6 / 3.5.
        assert!((got.by_chance - 6.0 / 3.5).abs() < 1e-12);
        assert_eq!(run_lengths(&[], 4), None);
        assert_eq!(run_lengths(&[4], 4), None);
        let mut random = Random::new(6);
        let chance: Vec<u32> = (0..20_000).map(|_| (random.bits() % 8) as u32).collect();
        let got = run_lengths(&chance, 8).unwrap();
        assert!((got.mean / got.by_chance - 1.0).abs() < 0.02, "{got:?}");
    }
}
