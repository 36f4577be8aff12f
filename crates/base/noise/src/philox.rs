//! Philox4x32-10: counter-based random numbers.
//!
//! Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11, and
//! the known-answer vectors of Random123 1.09. A draw depends only on its key and counter, so it is
//! independent of threads and tiling.

const MULTIPLIER: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

const LOWER: u64 = 0xFFFF_FFFF;

/// Blocks computed at once: two AVX2 vectors.
pub const LANES: usize = 8;

/// Four random words (32 bits each) for each of [`LANES`] successive counters; the first word of
/// `counter` counts up from a multiple of [`LANES`].
#[inline(always)]
pub fn philox4x32(counter: [u32; 4], key: [u32; 2]) -> [[u64; LANES]; 4] {
    let mut out = [[0; LANES]; 4];
    for lane in 0..LANES {
        let mut c = counter.map(u64::from);
        c[0] += lane as u64;
        let mut k = key;
        for _ in 0..10 {
            let p0 = u64::from(MULTIPLIER[0]) * c[0];
            let p1 = u64::from(MULTIPLIER[1]) * c[2];
            c = [
                (p1 >> 32) ^ c[1] ^ u64::from(k[0]),
                p1 & LOWER,
                (p0 >> 32) ^ c[3] ^ u64::from(k[1]),
                p0 & LOWER,
            ];
            k = [k[0].wrapping_add(WEYL[0]), k[1].wrapping_add(WEYL[1])];
        }
        for (word, value) in out.iter_mut().zip(c) {
            word[lane] = value;
        }
    }
    out
}

/// Four random words (32 bits each) of one counter.
#[inline]
pub fn philox4x32_one(counter: [u32; 4], key: [u32; 2]) -> [u64; 4] {
    let (mut c, mut k) = (counter, key);
    for _ in 0..10 {
        let p0 = u64::from(MULTIPLIER[0]) * u64::from(c[0]);
        let p1 = u64::from(MULTIPLIER[1]) * u64::from(c[2]);
        c = [
            (p1 >> 32) as u32 ^ c[1] ^ k[0],
            p1 as u32,
            (p0 >> 32) as u32 ^ c[3] ^ k[1],
            p0 as u32,
        ];
        k = [k[0].wrapping_add(WEYL[0]), k[1].wrapping_add(WEYL[1])];
    }
    c.map(u64::from)
}

/// [`philox4x32_one`] for [`LANES`] unrelated counters: `counters[word][lane]`, each less than
/// 2^32.
#[inline(always)]
pub fn philox4x32_each(counters: &[[u64; LANES]; 4], key: [u32; 2]) -> [[u64; LANES]; 4] {
    let mut out = [[0; LANES]; 4];
    for lane in 0..LANES {
        let words = philox4x32_one(counters.map(|word| word[lane] as u32), key);
        for (word, value) in out.iter_mut().zip(words) {
            word[lane] = value;
        }
    }
    out
}

/// [`philox4x32`] with AVX2: compilers do not vectorise it, and this is three times as fast.
///
/// # Safety
/// The machine must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
pub unsafe fn philox4x32_avx2(counter: [u32; 4], key: [u32; 2]) -> [[u64; LANES]; 4] {
    let mut counters = counter.map(|word| [u64::from(word); LANES]);
    for (lane, word) in counters[0].iter_mut().enumerate() {
        *word += lane as u64;
    }
    // SAFETY: the caller guarantees AVX2.
    unsafe { philox4x32_each_avx2(&counters, key) }
}

/// [`philox4x32_each`] with AVX2.
///
/// # Safety
/// The machine must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
// The intrinsics are safe to call here only since Rust 1.87.
#[allow(unused_unsafe)]
pub unsafe fn philox4x32_each_avx2(
    counters: &[[u64; LANES]; 4],
    key: [u32; 2],
) -> [[u64; LANES]; 4] {
    use std::arch::x86_64::*;
    let mut out = [[0u64; LANES]; 4];
    // SAFETY: the caller guarantees AVX2; every load and store covers 4 x 8 bytes within a row of 8
    // words.
    unsafe {
        let all = |word: u32| _mm256_set1_epi64x(i64::from(word));
        let (m0, m1) = (all(MULTIPLIER[0]), all(MULTIPLIER[1]));
        let load = |half: usize| {
            [0, 1, 2, 3].map(|w: usize| _mm256_loadu_si256(counters[w][4 * half..].as_ptr().cast()))
        };
        // Words are in the lower halves of 64 bits. The product ignores the upper halves, so they
        // may hold garbage. Both halves go through each round together to overlap their
        // multiplications.
        let mut halves = [load(0), load(1)];
        let mut k = key;
        for _ in 0..10 {
            let (k0, k1) = (all(k[0]), all(k[1]));
            for c in &mut halves {
                let p0 = _mm256_mul_epu32(c[0], m0);
                let p1 = _mm256_mul_epu32(c[2], m1);
                let high = |p| _mm256_srli_epi64::<32>(p);
                let c0 = _mm256_xor_si256(_mm256_xor_si256(high(p1), c[1]), k0);
                let c2 = _mm256_xor_si256(_mm256_xor_si256(high(p0), c[3]), k1);
                *c = [c0, p1, c2, p0];
            }
            k = [k[0].wrapping_add(WEYL[0]), k[1].wrapping_add(WEYL[1])];
        }
        for (half, c) in halves.into_iter().enumerate() {
            for (words, word) in out.iter_mut().zip(c) {
                let clean = _mm256_and_si256(word, _mm256_set1_epi64x(LOWER as i64));
                _mm256_storeu_si256(words[4 * half..].as_mut_ptr().cast(), clean);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counter, key and words of Random123's `kat_vectors`.
    const KNOWN: [([u32; 4], [u32; 2], [u64; 4]); 3] = [
        (
            [0; 4],
            [0; 2],
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
        ),
        (
            [u32::MAX; 4],
            [u32::MAX; 2],
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
        ),
        (
            [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
            [0xa409_3822, 0x299f_31d0],
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
        ),
    ];

    #[test]
    fn the_known_answers_of_random123_come_out() {
        for (counter, key, words) in KNOWN {
            let lane = counter[0] as usize % LANES;
            let first = [counter[0] - lane as u32, counter[1], counter[2], counter[3]];
            assert_eq!(philox4x32(first, key).map(|word| word[lane]), words);
            assert_eq!(philox4x32_one(counter, key), words);
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn vectors_give_the_same_words() {
        if !std::arch::is_x86_feature_detected!("avx2") {
            println!("skipped: this machine has no AVX2");
            return;
        }
        for i in 0..2_000u32 {
            let counter = [i.wrapping_mul(0x9E37_79B8) & !7, i, !i, i << 20];
            let key = [i ^ 77, i.rotate_left(9)];
            // SAFETY: AVX2 was detected above.
            let vectors = unsafe { philox4x32_avx2(counter, key) };
            assert_eq!(vectors, philox4x32(counter, key));
            let mix = |word: u32, lane: usize| word.wrapping_mul(2 * lane as u32 + 0x85EB_CA6B);
            let counters =
                counter.map(|word| std::array::from_fn(|lane| u64::from(mix(word, lane))));
            // SAFETY: AVX2 was detected above.
            let vectors = unsafe { philox4x32_each_avx2(&counters, key) };
            assert_eq!(vectors, philox4x32_each(&counters, key));
        }
    }
}
