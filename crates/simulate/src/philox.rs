//! Philox4x32-10: random numbers by counter instead of by state.
//!
//! Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11, and the
//! known-answer vectors of Random123 1.09. A draw depends on its key and counter alone, hence on no thread and no tiling.

const MULTIPLIER: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Blocks computed at once: two vectors of AVX2.
pub(crate) const LANES: usize = 8;

/// Four random words for each of [`LANES`] successive counters: the first word of `counter` is counted up, wrapping.
#[inline(always)]
pub(crate) fn philox4x32(counter: [u32; 4], key: [u32; 2]) -> [[u32; LANES]; 4] {
    let mut c = counter.map(|word| [word; LANES]);
    for (lane, word) in c[0].iter_mut().enumerate() {
        *word = word.wrapping_add(lane as u32);
    }
    let mut k = key;
    for _ in 0..10 {
        let mut next = [[0u32; LANES]; 4];
        for lane in 0..LANES {
            let p0 = u64::from(MULTIPLIER[0]) * u64::from(c[0][lane]);
            let p1 = u64::from(MULTIPLIER[1]) * u64::from(c[2][lane]);
            next[0][lane] = (p1 >> 32) as u32 ^ c[1][lane] ^ k[0];
            next[1][lane] = p1 as u32;
            next[2][lane] = (p0 >> 32) as u32 ^ c[3][lane] ^ k[1];
            next[3][lane] = p0 as u32;
        }
        c = next;
        k = [k[0].wrapping_add(WEYL[0]), k[1].wrapping_add(WEYL[1])];
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a lane whose counter is the given one.
    fn words(counter: [u32; 4], key: [u32; 2], lane: usize) -> [u32; 4] {
        let first = counter[0].wrapping_sub(lane as u32);
        philox4x32([first, counter[1], counter[2], counter[3]], key).map(|word| word[lane])
    }

    #[test]
    fn the_known_answers_of_random123_come_out_of_every_lane() {
        let counter = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        let key = [0xa409_3822, 0x299f_31d0];
        for lane in 0..LANES {
            assert_eq!(
                words([0; 4], [0; 2], lane),
                [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
            );
            assert_eq!(
                words([u32::MAX; 4], [u32::MAX; 2], lane),
                [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
            );
            assert_eq!(
                words(counter, key, lane),
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
            );
        }
    }
}
