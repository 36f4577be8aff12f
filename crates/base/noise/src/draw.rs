//! Draws from distributions: exponential gaps, and lengths from weighted bins.
//!
//! Both use basic arithmetic only, so the same random words give the same draw on every machine
//! (libm's `ln` does not).

use idlewave_run::LengthBin;

/// An exponential variate with mean 1 from two words of 32 random bits; between 1.1e-16 and 36.8.
#[inline(always)]
pub fn exponential(high: u64, low: u64) -> f64 {
    let bits = (high << 20) ^ (low >> 12);
    // In (0, 1): the centres of 2^52 equal intervals, each exact in a double.
    let u = f64::from_bits(ONE | bits) - (1.0 - f64::EPSILON / 2.0);
    -ln(u)
}

/// Bits of 1.0.
const ONE: u64 = 0x3FF0_0000_0000_0000;

/// Natural logarithm of a positive normal number, to a few units in the last place. It has no
/// branches and no conversions, so it vectorises well.
#[inline(always)]
fn ln(x: f64) -> f64 {
    const SQRT_HALF: u64 = 0x3FE6_A09E_667F_3BCD;
    const TWO_TO_52: u64 = 0x4330_0000_0000_0000;
    // Mantissa in [sqrt(1/2), sqrt(2)), to avoid cancellation near 1.
    let shifted = x.to_bits().wrapping_add(ONE - SQRT_HALF);
    let exponent = f64::from_bits(TWO_TO_52 | (shifted >> 52)) - (4_503_599_627_370_496.0 + 1023.0);
    let m = f64::from_bits(
        x.to_bits()
            .wrapping_sub((shifted >> 52 << 52).wrapping_sub(ONE)),
    );
    // ln m = 2 artanh s by its series; |s| < 0.172, the first term left out is below 1e-17.
    let s = (m - 1.0) / (m + 1.0);
    let q = s * s;
    let mut sum = 1.0 / 21.0;
    for n in [19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0] {
        sum = sum * q + 1.0 / n;
    }
    exponent * std::f64::consts::LN_2 + 2.0 * (s * q * sum + s)
}

/// e^x - 1 to a few units in the last place, for |x| below 700.
pub fn exp_m1(x: f64) -> f64 {
    // x = k ln 2 + r with |r| <= ln 2 / 2; ln 2 in two parts, the first with room for k.
    const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    let k = (x * std::f64::consts::LOG2_E).round();
    let r = (x - k * LN_2_HIGH) - k * LN_2_LOW;
    // The first term left out is below 1e-17 of the sum.
    let mut sum = 1.0;
    for n in (2..=16).rev() {
        sum = 1.0 + sum * r / f64::from(n);
    }
    let power = f64::from_bits(((k as i64 + 1_023) as u64) << 52);
    power * (sum * r) + (power - 1.0)
}

/// Weighted bins, sampled in constant time (Walker's alias method in Vose's form, integer weights).
#[derive(Clone, Debug)]
pub struct LengthTable {
    columns: Vec<Column>,
}

#[derive(Clone, Copy, Debug)]
struct Column {
    /// A draw below this takes the column's own length, any other the alternative.
    threshold: u64,
    /// Its own length and the alternative, in nanoseconds.
    lengths: [u64; 2],
}

impl LengthTable {
    /// `None` if no bin has events.
    pub fn new(bins: &[LengthBin]) -> Option<Self> {
        let bins: Vec<LengthBin> = bins.iter().copied().filter(|b| b.count > 0).collect();
        let n = bins.len() as u128;
        let total: u128 = bins.iter().map(|b| u128::from(b.count)).sum();
        // A column holds `total`, a bin weighs `count * n`: with integers no remainder is left.
        let mut weight: Vec<u128> = bins.iter().map(|b| u128::from(b.count) * n).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..bins.len()).partition(|&i| weight[i] < total);
        let mut columns: Vec<Column> = bins
            .iter()
            .map(|b| Column {
                threshold: 1 << 32,
                lengths: [b.length_ns; 2],
            })
            .collect();
        while let (Some(s), Some(&l)) = (small.pop(), large.last()) {
            columns[s].threshold = ((weight[s] << 32) / total) as u64;
            columns[s].lengths[1] = bins[l].length_ns;
            weight[l] -= total - weight[s];
            if weight[l] < total {
                large.pop();
                small.push(l);
            }
        }
        (!columns.is_empty()).then_some(LengthTable { columns })
    }

    /// A length in nanoseconds from two words of 32 random bits.
    #[inline(always)]
    pub fn draw(&self, high: u64, low: u64) -> u64 {
        let index = (high * self.columns.len() as u64) >> 32;
        let column = self.columns[index as usize];
        // An index, because a branch would be unpredictable.
        column.lengths[usize::from(low >= column.threshold)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::philox::{LANES, philox4x32};
    use proptest::prelude::*;

    #[test]
    fn the_logarithm_is_right_to_a_few_units_in_the_last_place() {
        for i in 1..200_000u32 {
            let x = f64::from(i) / 200_000.0;
            assert!(
                (ln(x) - x.ln()).abs() <= 4e-16 * x.ln().abs().max(1e-3),
                "{x}"
            );
        }
        assert_eq!(ln(1.0), 0.0);
    }

    #[test]
    fn the_exponential_function_is_right_to_a_few_units_in_the_last_place() {
        for i in -20_000..20_000_i32 {
            let x = f64::from(i) / 1_000.0;
            let scale = x.exp_m1().abs().max(1e-300);
            assert!((exp_m1(x) - x.exp_m1()).abs() <= 8e-16 * scale, "{x}");
        }
        for x in [1e-9, -1e-9, 0.346_57, -0.346_58, 600.0] {
            assert!((exp_m1(x) / x.exp_m1() - 1.0).abs() < 1e-13, "{x}");
        }
    }

    #[test]
    fn exponential_gaps_have_mean_and_variance_one() {
        let n = 1_000_000;
        let (mut sum, mut squares) = (0.0, 0.0);
        for i in (0..n).step_by(LANES) {
            let w = philox4x32([i, 1, 2, 3], [4, 5]);
            for (&high, &low) in w[0].iter().zip(&w[1]) {
                let x = exponential(high, low);
                sum += x;
                squares += x * x;
            }
        }
        // Standard errors: 0.001 and 0.0045.
        assert!((sum / f64::from(n) - 1.0).abs() < 0.004, "{sum}");
        assert!((squares / f64::from(n) - 2.0).abs() < 0.018, "{squares}");
        assert!(exponential(u64::from(u32::MAX), u64::from(u32::MAX)) > 0.0);
        assert!(exponential(0, 0) < 38.0);
    }

    #[test]
    fn a_table_without_events_does_not_exist() {
        assert!(LengthTable::new(&[]).is_none());
        assert!(
            LengthTable::new(&[LengthBin {
                length_ns: 5,
                count: 0
            }])
            .is_none()
        );
    }

    proptest! {
        /// The columns' areas reproduce the weights exactly; nothing is sampled.
        #[test]
        fn the_columns_hold_exactly_the_weights(counts in proptest::collection::vec(0u64..5_000, 1..40)) {
            let bins: Vec<LengthBin> = counts
                .iter()
                .zip(100u64..)
                .map(|(&count, length_ns)| LengthBin { length_ns, count })
                .collect();
            let total: u64 = counts.iter().sum();
            let Some(table) = LengthTable::new(&bins) else {
                prop_assert_eq!(total, 0);
                return Ok(());
            };
            for bin in &bins {
                let area: f64 = table.columns.iter().map(|c| {
                    let own = if c.lengths[0] == c.lengths[1] { 1.0 } else { c.threshold as f64 / 4_294_967_296.0 };
                    f64::from(u8::from(c.lengths[0] == bin.length_ns)) * own
                        + f64::from(u8::from(c.lengths[0] != c.lengths[1] && c.lengths[1] == bin.length_ns)) * (1.0 - own)
                }).sum();
                let share = area / table.columns.len() as f64;
                prop_assert!((share - bin.count as f64 / total as f64).abs() < 1e-8);
            }
        }
    }
}
