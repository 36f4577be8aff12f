//! Small random numbers from a seed.

use idlewave_stats::random::SplitMix;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(SplitMix);

impl Random {
    /// From a seed.
    pub const fn new(seed: u64) -> Random {
        Random(SplitMix::new(seed))
    }

    /// One of `0 .. below`; 0 for `below` = 0.
    pub fn below(&mut self, below: usize) -> usize {
        self.0.below(below as u64) as usize
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}
