//! Bootstrap over blocks: intervals of any function of a series that is cut into blocks.
//!
//! Blocks are drawn with replacement, as many as there are; the 2.5 % and 97.5 % quantiles of the
//! results are the ends of the interval. The same seed gives the same draws. With n blocks the ends
//! are too close to the value by the factor sqrt((n - 1) / n) z / t, with the 97.5 % quantiles z of
//! the normal distribution and t of Student's with n - 1 degrees of freedom; [`widened`] makes up
//! for that. Assumption: blocks are longer than the correlation of the series. Bias: with few blocks
//! of skewed values even widened intervals are too narrow.
//!
//! Reference: Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993, chapters 8 and 13;
//! Hesterberg, Am. Stat. 69 (2015) 371 (few values).

use crate::distributions::{normal_quantile, student_quantile};
use crate::random::SplitMix;

/// Blocks per series of steps: enough for quantiles, few enough to outlast correlations between
/// steps.
pub const BLOCKS: usize = 50;

/// Draws blocks.
#[derive(Clone, Debug)]
pub struct Resampler {
    random: SplitMix,
    drawn: Vec<usize>,
}

impl Resampler {
    /// Number of draws.
    pub const TIMES: usize = 500;

    /// Draws from blocks 0 to `blocks` - 1.
    pub fn new(blocks: usize) -> Self {
        Self::with_seed(blocks, 0x0001_D1E3_A7E0)
    }

    /// The same with another seed.
    pub fn with_seed(blocks: usize, seed: u64) -> Self {
        Self {
            random: SplitMix::new(seed),
            drawn: vec![0; blocks],
        }
    }

    /// The next draw.
    pub fn draw(&mut self) -> &[usize] {
        let blocks = self.drawn.len() as u64;
        for place in &mut self.drawn {
            *place = self.random.below(blocks) as usize;
        }
        &self.drawn
    }
}

/// The middle 95 % of `draws`, widened to contain `value`; `None` without draws.
pub fn interval(draws: &mut [f64], value: f64) -> Option<(f64, f64)> {
    draws.sort_by(f64::total_cmp);
    let at = |q: f64| draws.get((q * (draws.len().checked_sub(1)? as f64)).round() as usize);
    Some((at(0.025)?.min(value), at(0.975)?.max(value)))
}

/// The ends of an [`interval`] of `value` from draws of `blocks` >= 2 blocks, moved out by what
/// resampling so few blocks lacks. For means and what varies like them.
pub fn widened((low, high): (f64, f64), value: f64, blocks: usize) -> (f64, f64) {
    let degrees = (blocks - 1) as f64;
    let student = student_quantile(0.975, degrees) / normal_quantile(0.975);
    let factor = student * (blocks as f64 / degrees).sqrt();
    (
        value - factor * (value - low),
        value + factor * (high - value),
    )
}

/// Steps `from..to` of block `block` if `steps` steps are cut into `blocks` blocks that differ by
/// one step at most.
pub fn block_range(block: usize, blocks: usize, steps: usize) -> std::ops::Range<usize> {
    let edge = |i: usize| (i as u128 * steps as u128 / blocks.max(1) as u128) as usize;
    edge(block)..edge(block + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_drawn_as_often_as_any_other() {
        let mut counts = [0_u32; 20];
        let mut resampler = Resampler::new(20);
        for _ in 0..Resampler::TIMES {
            for &b in resampler.draw() {
                counts[b] += 1;
            }
        }
        // 10,000 draws, 500 expected each, standard deviation 21.8.
        assert!(counts.iter().all(|c| (400..600).contains(c)), "{counts:?}");
    }

    #[test]
    fn an_interval_is_the_middle_and_holds_its_value() {
        let mut draws: Vec<f64> = (0..=1_000).rev().map(f64::from).collect();
        assert_eq!(interval(&mut draws, 500.0), Some((25.0, 975.0)));
        assert_eq!(interval(&mut draws, 990.0), Some((25.0, 990.0)));
        assert_eq!(interval(&mut [], 1.0), None);
    }

    #[test]
    fn few_blocks_have_the_quantile_of_student() {
        // t(9) = 2.26216, sqrt(10 / 9).
        let factor = 2.262_157 / 1.959_964 * (10.0_f64 / 9.0).sqrt();
        let (low, high) = widened((25.0, 600.0), 500.0, 10);
        assert!((low - (500.0 - 475.0 * factor)).abs() < 1e-3, "{low}");
        assert!((high - (500.0 + 100.0 * factor)).abs() < 1e-3, "{high}");
    }

    #[test]
    fn blocks_cover_all_steps_once() {
        for (blocks, steps) in [(50, 1_003), (7, 7), (3, 2)] {
            let covered: Vec<usize> = (0..blocks)
                .flat_map(|b| block_range(b, blocks, steps))
                .collect();
            assert!(covered.into_iter().eq(0..steps));
        }
    }
}
