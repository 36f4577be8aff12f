//! The random numbers of the NAS Parallel Benchmarks (RNR-94-007, section 2.3): x' = 5^13 x mod
//! 2^46; x / 2^46 is a number from 0 to 1.
//!
//! The specification computes exactly, with 23-bit halves in floating point. 64-bit integers are
//! exact too, and take the remainder for free: they hold 2^18 x, which is exact modulo 2^64.

const BITS: u32 = 46;
const UNUSED: u32 = u64::BITS - BITS;
/// 5^13.
const MULTIPLIER: u64 = 1_220_703_125;
/// The bits of 1.0.
const ONE: u64 = 1.0_f64.to_bits();

/// The sequence from a given position on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Randlc(u64);

impl Randlc {
    /// Starts from this seed; only its lower 46 bits matter.
    pub const fn new(seed: u64) -> Self {
        Self(seed << UNUSED)
    }

    /// The next number, times 2^46.
    pub const fn next_raw(&mut self) -> u64 {
        self.0 = MULTIPLIER.wrapping_mul(self.0);
        self.0 >> UNUSED
    }

    /// The next number, from 0 to 1.
    pub const fn next_unit(&mut self) -> f64 {
        self.next_raw();
        // Exact: its 46 bits are the upper ones of the 52 behind the point of a number from 1 to 2.
        f64::from_bits(ONE | (self.0 >> (u64::BITS - f64::MANTISSA_DIGITS + 1))) - 1.0
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
        Self(factor.wrapping_mul(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn skipping_is_taking_that_many(seed in 0_u64..1 << BITS, numbers in 0_u64..2_000) {
            let mut taken = Randlc::new(seed);
            (0..numbers).for_each(|_| { taken.next_raw(); });
            prop_assert_eq!(Randlc::new(seed).skip(numbers), taken);
        }

        #[test]
        fn numbers_are_those_of_wide_arithmetic(seed in 0_u64..1 << BITS) {
            let product = u128::from(seed) * u128::from(MULTIPLIER) % (1 << BITS);
            prop_assert_eq!(u128::from(Randlc::new(seed).next_raw()), product);
            let unit = product as f64 / (1_u64 << BITS) as f64;
            prop_assert_eq!(Randlc::new(seed).next_unit(), unit);
        }
    }
}
