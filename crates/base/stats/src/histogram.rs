//! Histogram on logarithmic bins with exact integer edges.
//!
//! Edges: each value below 16 has its own bin; above, every octave `2^e..2^(e+1)` is divided into
//! 16 equal bins, so a bin is at most 1/16 (6.25 %) wide relative to its lower edge. Edges do not
//! depend on the data, so histograms of ranks, nodes and runs add up bin by bin. Every `u64` has a
//! bin. The lower edge of a value's bin is at most 6.25 % below the value.
//!
//! Reference: the layout of HdrHistogram, with 4 bits of precision.

/// Bits of precision: 2^4 bins per octave.
const BITS: u32 = 4;
const PER_OCTAVE: usize = 1 << BITS;
const BINS: usize = PER_OCTAVE * (64 - BITS as usize + 1);

/// Counts on logarithmic bins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogHistogram {
    counts: Vec<u64>,
}

impl Default for LogHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl LogHistogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Self {
            counts: vec![0; BINS],
        }
    }

    /// A histogram of `values`.
    pub fn of(values: impl IntoIterator<Item = u64>) -> Self {
        let mut histogram = Self::new();
        for value in values {
            histogram.add(value);
        }
        histogram
    }

    /// Counts one value.
    pub fn add(&mut self, value: u64) {
        self.counts[bin(value)] += 1;
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Lower edge and count of every bin that holds a value, in rising order.
    pub fn non_empty(&self) -> Vec<(u64, u64)> {
        self.counts
            .iter()
            .enumerate()
            .filter(|&(_, &count)| count > 0)
            .map(|(bin, &count)| (lower_edge(bin), count))
            .collect()
    }
}

/// Lower and upper edge of the bin of `value`: `lower <= value < upper`; `None` if the upper edge
/// is 2^64.
pub fn edges(value: u64) -> (u64, Option<u64>) {
    let bin = bin(value);
    (
        lower_edge(bin),
        (bin + 1 < BINS).then(|| lower_edge(bin + 1)),
    )
}

fn bin(value: u64) -> usize {
    if value < PER_OCTAVE as u64 {
        return value as usize;
    }
    let shift = value.ilog2() - BITS;
    shift as usize * PER_OCTAVE + (value >> shift) as usize
}

fn lower_edge(bin: usize) -> u64 {
    if bin < PER_OCTAVE {
        return bin as u64;
    }
    let shift = bin / PER_OCTAVE - 1;
    ((PER_OCTAVE + bin % PER_OCTAVE) as u64) << shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_values_have_a_bin_each_and_an_octave_has_sixteen() {
        let got = LogHistogram::of([3, 3, 15, 16, 31, 32, 33, 34, 1000, u64::MAX]).non_empty();
        let want = vec![
            (3, 2),
            (15, 1),
            (16, 1),
            (31, 1),
            (32, 2),
            (34, 1),
            (992, 1),
            (31 << 59, 1),
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn the_last_bin_has_no_upper_edge() {
        assert_eq!(edges(u64::MAX), (31 << 59, None));
        assert_eq!(edges(1000), (992, Some(1024)));
        assert_eq!(edges(0), (0, Some(1)));
    }

    proptest! {
        #[test]
        fn a_value_lies_in_its_narrow_bin(value in any::<u64>(), shift in 0_u32..64) {
            let value = value >> shift;
            let (low, high) = edges(value);
            prop_assert!(low <= value && high.is_none_or(|h| value < h));
            if let Some(high) = high {
                prop_assert!(high - low == 1 || (high - low) * 16 <= low);
            }
        }

        #[test]
        fn merging_is_counting_everything_at_once(
            a in prop::collection::vec(any::<u64>(), 0..50),
            b in prop::collection::vec(0_u64..5000, 0..50),
        ) {
            let mut merged = LogHistogram::of(a.iter().copied());
            merged.merge(&LogHistogram::of(b.iter().copied()));
            let all = LogHistogram::of(a.iter().chain(&b).copied());
            prop_assert_eq!(all.count(), (a.len() + b.len()) as u64);
            prop_assert_eq!(merged, all);
        }
    }
}
