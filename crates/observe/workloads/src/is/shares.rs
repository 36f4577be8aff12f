//! Which rank has which keys: before the sort by position in the sequence, after it by bucket. Also
//! how many keys that is, without generating any: a key is a sum of four uniform numbers, whose
//! distribution is known.

use super::class::{Class, TESTS};
use idlewave_units::Bytes;
use std::ops::Range;

/// Bytes of a key and of a count.
pub const KEY_BYTES: u64 = 4;
/// Headroom for a number of keys, in standard deviations; there are a few thousand such numbers.
const DEVIATIONS: f64 = 8.0;
/// Modified keys: two per iteration.
const MODIFIED: f64 = 20.0;

/// The part of the sequence that a rank generates.
pub fn part(class: Class, rank: u32, ranks: u32) -> Range<u64> {
    let begin = |rank: u32| class.keys() * u64::from(rank) / u64::from(ranks);
    begin(rank)..begin(rank + 1)
}

/// The end of each rank's buckets, which start where those of the previous rank end.
///
/// A rank takes buckets until it and those before it hold their share of all keys, and at least one
/// if any is left.
pub fn ends_of(sizes: &[f64], ranks: u32) -> Vec<usize> {
    let total: f64 = sizes.iter().sum();
    let mut ends = Vec::with_capacity(ranks as usize);
    let mut before = 0.0;
    for (bucket, size) in sizes.iter().enumerate() {
        before += size;
        let next = ends.len() as u32 + 1;
        // The last rank takes the remainder.
        if next < ranks && before * f64::from(ranks) >= f64::from(next) * total {
            ends.push(bucket + 1);
        }
    }
    ends.resize(ranks as usize, sizes.len());
    ends
}

/// Sums over the buckets of each rank.
pub fn sums_of(sizes: &[f64], ends: &[usize]) -> Vec<f64> {
    let mut begin = 0;
    let sum = |&end: &usize| {
        let sum = sizes[begin..end].iter().sum();
        begin = end;
        sum
    };
    ends.iter().map(sum).collect()
}

/// The fraction of sums of four uniform numbers from 0 to 1 that lie below `x` (Irwin 1927, Hall
/// 1927).
fn below(x: f64) -> f64 {
    let terms = [1.0, -4.0, 6.0, -4.0];
    let sum: f64 = terms
        .iter()
        .enumerate()
        .map(|(k, weight)| weight * (x - k as f64).max(0.0).powi(4))
        .sum();
    sum / 24.0
}

/// Values of an allreduce: the size of each bucket, the test keys, and whether to stop.
pub fn values(class: Class) -> u64 {
    u64::from(class.buckets()) + TESTS as u64 + 1
}

/// Expected keys of each bucket.
pub fn expected(class: Class) -> Vec<f64> {
    let buckets = class.buckets();
    let until =
        |bucket: u32| class.keys() as f64 * below(4.0 * f64::from(bucket) / f64::from(buckets));
    (0..buckets).map(|b| until(b + 1) - until(b)).collect()
}

/// An upper bound for a number of keys with this expectation.
fn at_most(expected: f64) -> f64 {
    expected + DEVIATIONS * expected.sqrt() + MODIFIED
}

/// Sizes of a rank's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Most keys it generates.
    pub part: usize,
    /// Most keys it gets to sort.
    pub sorted: usize,
    /// Most values from the smallest to the largest key of its buckets.
    pub values: usize,
    /// Most keys in a message; the exchange may copy two messages.
    pub block: usize,
}

impl Room {
    /// Enough for any rank.
    pub fn of(class: Class, ranks: u32) -> Self {
        let (keys, n) = (class.keys(), u64::from(ranks));
        let part = keys.div_ceil(n);
        let expected = expected(class);
        let largest = expected.iter().copied().fold(0.0, f64::max);
        // Before its last bucket, a rank holds at most its share.
        let sorted = (part as f64 + at_most(largest)).ceil() as u64;
        let sorted = sorted.min(keys);
        // The first and the last rank have the emptiest buckets, and so the most of them.
        let share = part as f64;
        let mut before = 0.0;
        let enough = expected.iter().position(|size| {
            before += size;
            before - DEVIATIONS * before.sqrt() - MODIFIED >= share
        });
        let buckets = enough.map_or(expected.len(), |last| last + 1);
        let block = at_most(part as f64 * sorted as f64 / keys as f64).ceil() as u64;
        Self {
            part: part as usize,
            sorted: sorted as usize,
            values: buckets << class.shift(),
            block: if ranks == 1 {
                0
            } else {
                block.min(part) as usize
            },
        }
    }

    /// Total memory.
    ///
    /// Keys, keys by bucket (which become the sorted ones), received keys, counts of values, and
    /// two messages; per bucket a sum, its copy and two numbers; per rank the lengths and offsets
    /// of blocks.
    pub fn bytes(&self, class: Class, ranks: u32) -> Bytes {
        let keys = self.part + 2 * self.sorted + self.values + 2 * self.block;
        let small = 32 * values(class) + 64 * u64::from(ranks);
        Bytes::new(KEY_BYTES * keys as u64 + small)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_share_of_uniform_sums_is_that_of_irwin_and_hall() {
        // 1/4! at 1, one half in the middle, symmetric.
        for (x, share) in [
            (0.0, 0.0),
            (1.0, 1.0 / 24.0),
            (2.0, 0.5),
            (3.0, 23.0 / 24.0),
            (4.0, 1.0),
        ] {
            assert!((below(x) - share).abs() < 1e-15, "{x}");
        }
        for class in Class::ALL {
            let sum: f64 = expected(class).iter().sum();
            assert!((sum / class.keys() as f64 - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn buckets_go_to_ranks_by_hand_arithmetic() {
        // Thirds of 12: after 4 and after 8.
        assert_eq!(ends_of(&[3.0, 1.0, 3.0, 2.0, 3.0], 3), [2, 4, 5]);
        // One bucket holds two shares: the next rank has its share at once, and takes one bucket.
        assert_eq!(ends_of(&[8.0, 1.0, 3.0], 3), [1, 2, 3]);
        // The last rank gets nothing.
        assert_eq!(ends_of(&[0.0, 4.0], 3), [2, 2, 2]);
        assert_eq!(sums_of(&[3.0, 1.0, 3.0], &[2, 2, 3]), [4.0, 0.0, 3.0]);
    }

    proptest! {
        #[test]
        fn every_bucket_has_a_rank_and_no_rank_more_than_its_share_and_a_bucket(
            sizes in prop::collection::vec(0_u32..50, 1..40),
            ranks in 1_u32..40,
        ) {
            let sizes: Vec<f64> = sizes.into_iter().map(f64::from).collect();
            let ends = ends_of(&sizes, ranks);
            prop_assert_eq!(ends.len(), ranks as usize);
            prop_assert_eq!(ends.last(), Some(&sizes.len()));
            prop_assert!(ends.windows(2).all(|w| w[0] <= w[1]));
            let share = sizes.iter().sum::<f64>() / f64::from(ranks);
            let largest = sizes.iter().copied().fold(0.0, f64::max);
            for sum in sums_of(&sizes, &ends) {
                prop_assert!(sum <= share + largest + 1e-9, "{} of {}", sum, share);
            }
        }

        #[test]
        fn parts_cover_the_sequence(ranks in 1_u32..600) {
            let mut end = 0;
            for rank in 0..ranks {
                let part = part(Class::S, rank, ranks);
                prop_assert_eq!(part.start, end);
                prop_assert!((part.end - part.start) as usize <= Room::of(Class::S, ranks).part);
                end = part.end;
            }
            prop_assert_eq!(end, Class::S.keys());
        }
    }

    #[test]
    fn memory_is_that_of_the_arrays() {
        // One rank: all keys three times, all values, 512 buckets.
        let alone = 4 * (3 * 65_536 + 2_048) + 32 * 518 + 64;
        assert_eq!(Room::of(Class::S, 1).bytes(Class::S, 1), Bytes::new(alone));
        let c = |ranks| Room::of(Class::C, ranks).bytes(Class::C, ranks).get();
        assert_eq!(c(1), 4 * (3 * (1 << 27) + (1 << 23)) + 32 * 1_030 + 64);
        assert!(c(64) < c(1) / 25);
    }
}
