//! A small counter-based generator that shares nothing with the engines.

/// A number between 0 and 1, neither of which it is, for two numbers.
pub fn uniform(a: u64, b: u64) -> f64 {
    let mut z = a.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ b.wrapping_mul(0xD1B5_4A32_D192_ED03);
    for _ in 0..2 {
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
    }
    ((z >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}
