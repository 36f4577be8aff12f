//! Mean of an autocorrelated series with an interval from block means.
//!
//! Definition: the series is cut into blocks of successive values; the block means are treated as
//! independent and normal, and Student's t on them gives the 95 % interval. Blocks differ in size
//! by one value at most, and each is weighted by its size, so that `mean` is the plain mean of all
//! values.
//!
//! Assumptions: blocks are longer than the correlation of the series (a speed level that lasts
//! longer than a block breaks this, and the interval is then too narrow), and no trend runs through
//! the whole series. Bias: none in the mean; the interval is too narrow if successive blocks depend
//! on each other positively.
//!
//! Reference: Law, *Simulation Modeling and Analysis*, batch means.

use crate::distributions::student_quantile;

/// Blocks for a series of a study: enough for a t quantile of 2.09, yet each long enough to outlast
/// ticks and bursts of daemons (half a second of a ten-second phase).
pub const BLOCKS: usize = 20;

/// A mean with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockMean {
    /// Mean of all values, in their unit; 0 if there was none.
    pub mean: f64,
    /// Half width of the 95 % interval. A single block gives no spread: the half width is then the
    /// magnitude of the mean, that is, 100 %.
    pub half_width: f64,
}

/// Mean of `values`, in order of time, with a 95 % interval over `blocks` blocks (fewer if there
/// are fewer values).
pub fn mean(values: &[f64], blocks: usize) -> BlockMean {
    let n = values.len();
    if n == 0 {
        return BlockMean {
            mean: 0.0,
            half_width: 0.0,
        };
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    let blocks = blocks.min(n);
    if blocks < 2 {
        return BlockMean {
            mean,
            half_width: mean.abs(),
        };
    }
    let edge = |i: usize| (i as u128 * n as u128 / blocks as u128) as usize;
    let squares: f64 = (0..blocks)
        .map(|i| {
            let block = &values[edge(i)..edge(i + 1)];
            let weight = block.len() as f64 * blocks as f64 / n as f64;
            let off = block.iter().sum::<f64>() / block.len() as f64 - mean;
            weight * off * off
        })
        .sum();
    let degrees = (blocks - 1) as f64;
    let standard_error = (squares / degrees / blocks as f64).sqrt();
    BlockMean {
        mean,
        half_width: student_quantile(0.975, degrees) * standard_error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;
    use proptest::prelude::*;

    #[test]
    fn one_value_per_block_is_the_t_interval_of_a_textbook() {
        // 1..=10: mean 5.5, s = 3.02765, t(9) = 2.26216.
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        let got = mean(&values, 10);
        assert!((got.mean - 5.5).abs() < 1e-12);
        assert!((got.half_width - 2.262_157_163 * 3.027_650_354 / 10.0_f64.sqrt()).abs() < 1e-8);
    }

    #[test]
    fn nothing_and_one_value_are_answered() {
        assert_eq!(
            mean(&[], BLOCKS),
            BlockMean {
                mean: 0.0,
                half_width: 0.0
            }
        );
        assert_eq!(
            mean(&[-3.0], BLOCKS),
            BlockMean {
                mean: -3.0,
                half_width: 3.0
            }
        );
    }

    #[test]
    fn nineteen_intervals_of_twenty_hold_the_truth() {
        let mut random = Random::new(7);
        let held = (0..400)
            .filter(|_| {
                let values: Vec<f64> = (0..203).map(|_| 10.0 + random.normal()).collect();
                let got = mean(&values, BLOCKS);
                (got.mean - 10.0).abs() <= got.half_width
            })
            .count();
        assert!((366..=394).contains(&held), "{held} of 400");
    }

    proptest! {
        #[test]
        fn a_constant_has_no_interval(value in -1e6_f64..1e6, n in 2_usize..500, blocks in 2_usize..40) {
            let got = mean(&vec![value; n], blocks);
            prop_assert!((got.mean - value).abs() <= 1e-9 * value.abs());
            prop_assert!(got.half_width <= 1e-8 * value.abs());
        }
    }
}
