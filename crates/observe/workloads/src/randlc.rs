//! The random numbers of the NAS Parallel Benchmarks (RNR-94-007, section 2.3): x' = 5^13 x mod
//! 2^46; x / 2^46 is a number from 0 to 1.
//!
//! The specification computes exactly, with 23-bit halves in floating point. 64-bit integers are
//! exact too: 2^46 divides 2^64, so their products may overflow.

const MASK: u64 = (1 << 46) - 1;
/// 5^13.
const MULTIPLIER: u64 = 1_220_703_125;

/// The sequence from a given position on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Randlc(u64);

impl Randlc {
    /// Starts from this seed; only its lower 46 bits matter.
    pub const fn new(seed: u64) -> Self {
        Self(seed & MASK)
    }

    /// The next number, times 2^46.
    pub const fn next_raw(&mut self) -> u64 {
        self.0 = MULTIPLIER.wrapping_mul(self.0) & MASK;
        self.0
    }

    /// The next number, from 0 to 1.
    pub const fn next_unit(&mut self) -> f64 {
        // Exact: the raw number has 46 bits, and the divisor is a power of two.
        self.next_raw() as f64 / (MASK + 1) as f64
    }

    /// The sequence after its next `numbers`, in time that grows with their logarithm.
    #[must_use]
    pub const fn skip(self, mut numbers: u64) -> Self {
        let (mut power, mut factor) = (MULTIPLIER, 1_u64);
        while numbers > 0 {
            if numbers & 1 == 1 {
                factor = factor.wrapping_mul(power);
            }
            power = power.wrapping_mul(power);
            numbers >>= 1;
        }
        Self(factor.wrapping_mul(self.0) & MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn skipping_is_taking_that_many(seed in 0_u64..1 << 46, numbers in 0_u64..2_000) {
            let mut taken = Randlc::new(seed);
            (0..numbers).for_each(|_| { taken.next_raw(); });
            prop_assert_eq!(Randlc::new(seed).skip(numbers), taken);
        }
    }
}
