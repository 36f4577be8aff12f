//! Random numbers for tests, the same everywhere.

use crate::random::SplitMix;

/// Generator with its state.
pub struct Random(SplitMix);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    pub fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// In 0..1, never 0.
    pub fn uniform(&mut self) -> f64 {
        self.0.uniform()
    }

    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.uniform().ln()
    }

    /// `n` uniform event times in `0..span`, sorted: a Poisson process given its count.
    pub fn events(&mut self, n: usize, span: u64) -> Vec<u64> {
        let mut times: Vec<u64> = (0..n)
            .map(|_| (self.uniform() * span as f64) as u64)
            .collect();
        times.sort_unstable();
        times
    }
}
