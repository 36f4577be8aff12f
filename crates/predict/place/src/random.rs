//! Random numbers of searches.

use idlewave_stats::random::SplitMix;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(SplitMix);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(SplitMix::new(seed))
    }

    /// Uniform in 0 to `end` - 1; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        // The high half of the product, not the remainder: keeps the results of a seed stable.
        ((u128::from(self.0.bits()) * end as u128) >> 64) as usize
    }
}
