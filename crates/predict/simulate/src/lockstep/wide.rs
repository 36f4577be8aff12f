//! The inner loop of a sweep in vectors of AVX2.
//!
//! AVX2 has no maximum of 64-bit integers, but one of doubles, and positive doubles are ordered
//! like their bits. All times in the columns lie between [`ORIGIN`](super::kernel::ORIGIN) and
//! [`NEVER`](super::kernel::NEVER), which are the bits of normal doubles.

use super::portable::{After, Swept};
use std::arch::x86_64::*;

/// Ranks per vector.
const LANES: usize = 4;
/// Vectors processed together, so that additions and comparisons overlap.
const VECTORS: usize = 4;

/// The latest of the ranks at the same position of several stretches, which start at `begins` and
/// are all as long as the output.
///
/// # Safety
/// The machine must have AVX2.
#[target_feature(enable = "avx2")]
// Many of the intrinsics are safe here only from Rust 1.87.
#[allow(unused_unsafe)]
pub(super) unsafe fn inner(ends: &[i64], begins: &[usize], after: After<'_>, out: Swept<'_>) {
    let count = out.ends.len();
    assert!(out.quiet.len() == count && !begins.is_empty());
    assert!(
        begins
            .iter()
            .all(|&begin| begin <= ends.len() && count <= ends.len() - begin)
    );
    let (same, work) = match after {
        After::Same(ns) => (ns, None),
        After::Each(ns, work) => {
            assert_eq!(work.len(), count);
            (ns, Some(work.as_ptr()))
        }
    };
    // SAFETY: AVX2 is available by the contract of this function. Positions below `count` lie
    // within all stretches, as just checked, and every call reads and writes only positions below
    // it.
    unsafe {
        let stretches = Stretches {
            ends: ends.as_ptr(),
            begins,
            same: _mm256_set1_epi64x(same),
            work,
            quiet: out.quiet.as_ptr(),
            out: out.ends.as_mut_ptr(),
        };
        let mut place = 0;
        while place + VECTORS * LANES <= count {
            let mask = stretches.sweep::<VECTORS>(place);
            note(mask, out.first + place as u32, out.disturbed);
            place += VECTORS * LANES;
        }
        while place + LANES <= count {
            let mask = stretches.sweep::<1>(place);
            note(mask, out.first + place as u32, out.disturbed);
            place += LANES;
        }
        if place < count && count >= LANES {
            // Repeats some of the ranks just done, with the same results. Only the others are
            // noted.
            let done = place - (count - LANES);
            let mask = stretches.sweep::<1>(count - LANES);
            note(mask >> done, out.first + place as u32, out.disturbed);
        } else {
            for place in place..count {
                let mut latest = 0;
                for &begin in begins {
                    latest = latest.max(ends[begin + place]);
                }
                let end = latest + same + work.map_or(0, |work| *work.add(place));
                out.ends[place] = end;
                note(
                    u32::from(end > out.quiet[place]),
                    out.first + place as u32,
                    out.disturbed,
                );
            }
        }
    }
}

/// Notes the ranks whose bits are set.
#[inline(always)]
fn note(mut mask: u32, first: u32, disturbed: &mut Vec<u32>) {
    while mask != 0 {
        disturbed.push(first + mask.trailing_zeros());
        mask &= mask - 1;
    }
}

struct Stretches<'a> {
    ends: *const i64,
    begins: &'a [usize],
    same: __m256i,
    work: Option<*const i64>,
    quiet: *const i64,
    out: *mut i64,
}

impl Stretches<'_> {
    /// Computes the ranks of `N` vectors from `place` on; returns a bit for each disturbed rank.
    ///
    /// # Safety
    /// The machine must have AVX2, and the positions must lie within all stretches.
    #[inline]
    #[target_feature(enable = "avx2")]
    #[allow(unused_unsafe)]
    unsafe fn sweep<const N: usize>(&self, place: usize) -> u32 {
        // SAFETY: by the contract of this function.
        unsafe {
            let load = |from: *const i64, vector: usize| {
                _mm256_loadu_pd(from.add(place + vector * LANES).cast())
            };
            let mut latest = [_mm256_setzero_pd(); N];
            for &begin in self.begins {
                let stretch = self.ends.add(begin);
                for (vector, latest) in latest.iter_mut().enumerate() {
                    *latest = _mm256_max_pd(*latest, load(stretch, vector));
                }
            }
            let mut mask = 0;
            for (vector, latest) in latest.into_iter().enumerate() {
                let mut end = _mm256_add_epi64(_mm256_castpd_si256(latest), self.same);
                if let Some(work) = self.work {
                    let own = _mm256_castpd_si256(load(work, vector));
                    end = _mm256_add_epi64(end, own);
                }
                let at = self.out.add(place + vector * LANES);
                _mm256_storeu_si256(at.cast(), end);
                let end = _mm256_castsi256_pd(end);
                let struck = _mm256_cmp_pd::<_CMP_GT_OQ>(end, load(self.quiet, vector));
                mask |= (_mm256_movemask_pd(struck) as u32) << (LANES * vector);
            }
            mask
        }
    }
}
