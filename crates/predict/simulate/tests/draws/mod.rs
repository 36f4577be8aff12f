//! A small counter-based generator that shares nothing with the engines.

use idlewave_stats::random::mix;

/// A number strictly between 0 and 1, determined by two numbers.
pub fn uniform(a: u64, b: u64) -> f64 {
    let z = mix(mix(
        a.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ b.wrapping_mul(0xD1B5_4A32_D192_ED03)
    ));
    ((z >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}
