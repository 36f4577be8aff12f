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
    let blocks = blocks.min(n);
    let edge = |i: usize| (i as u128 * n as u128 / blocks as u128) as usize;
    let sums: Vec<Sum> = (0..blocks)
        .map(|i| {
            let block = &values[edge(i)..edge(i + 1)];
            Sum {
                count: block.len() as u64,
                sum: block.iter().sum(),
            }
        })
        .collect();
    of_sums(&sums)
}

/// Number and sum of the values of a block.
struct Sum {
    count: u64,
    sum: f64,
}

fn of_sums(blocks: &[Sum]) -> BlockMean {
    let n = blocks.iter().map(|b| b.count).sum::<u64>();
    if n == 0 {
        return BlockMean {
            mean: 0.0,
            half_width: 0.0,
        };
    }
    let mean = blocks.iter().map(|b| b.sum).sum::<f64>() / n as f64;
    if blocks.len() < 2 {
        return BlockMean {
            mean,
            half_width: mean.abs(),
        };
    }
    let of = blocks.len() as f64;
    let squares: f64 = blocks
        .iter()
        .map(|block| {
            let weight = block.count as f64 * of / n as f64;
            let off = block.sum / block.count as f64 - mean;
            weight * off * off
        })
        .sum();
    let degrees = of - 1.0;
    let standard_error = (squares / degrees / of).sqrt();
    BlockMean {
        mean,
        half_width: student_quantile(0.975, degrees) * standard_error,
    }
}

/// Pieces of a series that are held at most.
const PIECES: usize = 4_096;

/// Sums over successive pieces of a series, in one pass and bounded memory. All pieces but the last
/// have the same number of values, which doubles when there are too many of them.
///
/// Blocks are made of whole pieces: of up to 4,096 values they are those of [`mean`], of more, their
/// sizes differ by 1 % at most.
#[derive(Clone, Debug)]
pub struct Sums {
    /// Values of a whole piece.
    size: u64,
    whole: Vec<u64>,
    open: u64,
    /// Values in the open piece.
    count: u64,
}

impl Default for Sums {
    fn default() -> Self {
        Self {
            size: 1,
            whole: Vec::new(),
            open: 0,
            count: 0,
        }
    }
}

impl Sums {
    /// Adds the next value. Sums saturate.
    #[inline]
    pub fn push(&mut self, value: u64) {
        self.open = self.open.saturating_add(value);
        self.count += 1;
        if self.count == self.size {
            self.close();
        }
    }

    fn close(&mut self) {
        self.whole.push(self.open);
        (self.open, self.count) = (0, 0);
        if self.whole.len() == PIECES {
            let pairs = self.whole.chunks(2);
            self.whole = pairs.map(|p| p[0].saturating_add(p[1])).collect();
            self.size *= 2;
        }
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.whole.len() as u64 * self.size + self.count
    }

    /// Mean of all values with a 95 % interval over `blocks` blocks (fewer if there are fewer
    /// values).
    pub fn mean(&self, blocks: usize) -> BlockMean {
        let pieces = self.whole.len() + usize::from(self.count > 0);
        let blocks = blocks.min(pieces);
        let edge = |i: usize| i * pieces / blocks;
        let piece = |i: usize| self.whole.get(i).copied().unwrap_or(self.open);
        let sums: Vec<Sum> = (0..blocks)
            .map(|i| {
                let of = edge(i)..edge(i + 1);
                let open = of.end > self.whole.len();
                let whole = of.len() as u64 - u64::from(open);
                Sum {
                    count: whole * self.size + u64::from(open) * self.count,
                    sum: of.map(|i| piece(i) as f64).sum(),
                }
            })
            .collect();
        of_sums(&sums)
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

    #[test]
    fn one_pass_gives_the_same_mean_and_with_few_values_the_same_interval() {
        let mut random = Random::new(3);
        for (n, apart) in [
            (1, 0.0),
            (19, 0.0),
            (4_095, 0.0),
            (4_097, 0.1),
            (100_001, 0.1),
        ] {
            let values: Vec<u64> = (0..n).map(|_| 20_000 + random.bits() % 977).collect();
            let mut sums = Sums::default();
            values.iter().for_each(|v| sums.push(*v));
            let (got, whole) = (sums.mean(BLOCKS), values.iter().map(|v| *v as f64));
            let want = mean(&whole.collect::<Vec<_>>(), BLOCKS);
            assert_eq!(sums.count(), n);
            assert!(
                (got.mean / want.mean - 1.0).abs() < 1e-12,
                "{n}: {got:?} {want:?}"
            );
            let off = (got.half_width - want.half_width).abs();
            assert!(
                off <= apart * want.half_width + 1e-6,
                "{n}: {got:?} {want:?}"
            );
        }
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
