//! Random numbers for simulated probabilities, resampling, searches and synthetic data: SplitMix64,
//! so that the same seed gives the same numbers everywhere.
//!
//! Reference: Steele, Lea and Flood, *Fast splittable pseudorandom number generators*, OOPSLA 2014.

/// Increment of the state: 2^64 over the golden ratio.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Generator with its state.
#[derive(Clone, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// From a seed; all seeds are equally good.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// Uniform in 0..1, never 0 and never 1.
    pub fn uniform(&mut self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Uniform in 0 to `end` - 1; 0 if `end` is 0. The bias of any number is at most `end` / 2^64.
    pub fn below(&mut self, end: u64) -> u64 {
        self.bits() % end.max(1)
    }
}

/// Value number `index`, from 0, that [`SplitMix::bits`] returns for `seed`.
#[inline]
pub const fn bits_at(seed: u64, index: u64) -> u64 {
    mix(seed.wrapping_add(index.wrapping_add(1).wrapping_mul(STEP)))
}

/// Spreads bits over the word; a bijection: the finaliser of SplitMix64.
#[inline]
pub const fn mix(mut word: u64) -> u64 {
    word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ word >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_reference_implementation() {
        // First outputs for seed 1234567, from the reference implementation in C.
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        let mut random = SplitMix::new(1_234_567);
        assert_eq!([random.bits(), random.bits()], expected);
        assert_eq!([0, 1].map(|index| bits_at(1_234_567, index)), expected);
    }
}
