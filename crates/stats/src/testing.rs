//! Random numbers for tests: SplitMix64, so that a test's input is the same everywhere.

/// Generator with its state.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// In 0..1, never 0.
    pub fn uniform(&mut self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.uniform().ln()
    }

    /// `n` event times at random in `0..span`, sorted: a Poisson process given its count.
    pub fn events(&mut self, n: usize, span: u64) -> Vec<u64> {
        let mut times: Vec<u64> = (0..n)
            .map(|_| (self.uniform() * span as f64) as u64)
            .collect();
        times.sort_unstable();
        times
    }
}
