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

/// Bits of precision of a [`FineHistogram`].
const FINE: u32 = 11;

/// Bins that are allocated together.
const BLOCK: usize = 64;

/// Counts on bins that are at most 1/2048 (0.05 %) wide, with the extremes: for quantiles in one pass
/// and bounded memory.
///
/// A value below 4,096 is known exactly, any other to a quarter of a thousandth: it is given as the
/// middle of its bin, within the extremes. The bins nest in those of [`LogHistogram`]. Blocks of 64
/// bins are allocated when a value falls into one, 512 bytes each: a few dozen for the detours of a
/// CPU.
#[derive(Clone, Debug, Default)]
pub struct FineHistogram {
    /// For each block up to that of the largest value its place in `counts` and 1; 0 if it is empty.
    places: Vec<u16>,
    counts: Vec<[u64; BLOCK]>,
    count: u64,
    extremes: Option<(u64, u64)>,
}

impl FineHistogram {
    /// Counts one value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        let bin = bin_of::<FINE>(value);
        self.block(bin / BLOCK)[bin % BLOCK] += 1;
        self.count += 1;
        let (least, most) = self.extremes.unwrap_or((value, value));
        self.extremes = Some((least.min(value), most.max(value)));
    }

    #[inline]
    fn block(&mut self, number: usize) -> &mut [u64; BLOCK] {
        let place = match self.places.get(number) {
            Some(&place) if place > 0 => place,
            _ => self.allocate(number),
        };
        &mut self.counts[usize::from(place) - 1]
    }

    #[cold]
    fn allocate(&mut self, number: usize) -> u16 {
        if number >= self.places.len() {
            self.places.resize(number + 1, 0);
        }
        self.counts.push([0; BLOCK]);
        // There are 54 * 2^11 / 64 = 1,728 blocks.
        let place = self.counts.len() as u16;
        self.places[number] = place;
        place
    }

    /// The bins that hold a value, in rising order, with their counts.
    fn bins(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let blocks = self
            .places
            .iter()
            .enumerate()
            .filter(|(_, place)| **place > 0);
        blocks
            .flat_map(|(number, &place)| {
                let counts = self.counts[usize::from(place) - 1].iter();
                counts
                    .enumerate()
                    .map(move |(i, n)| (number * BLOCK + i, *n))
            })
            .filter(|(_, count)| *count > 0)
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (bin, count) in other.bins() {
            self.block(bin / BLOCK)[bin % BLOCK] += count;
        }
        self.count += other.count;
        let all = self.extremes.into_iter().chain(other.extremes);
        self.extremes = all.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Smallest and largest value; `None` without any.
    pub fn extremes(&self) -> Option<(u64, u64)> {
        self.extremes
    }

    /// The value that `rank` others precede in rising order; the largest beyond them, 0 without any.
    pub fn at(&self, rank: u64) -> u64 {
        let Some((least, most)) = self.extremes else {
            return 0;
        };
        let mut after = 0;
        let found = self.bins().find(|(_, count)| {
            after += count;
            after > rank
        });
        found.map_or(most, |(bin, _)| {
            let low = edge_of::<FINE>(bin);
            let width = 1 << (bin >> FINE).saturating_sub(1);
            (low + width / 2).clamp(least, most)
        })
    }

    /// The same counts on the bins of [`LogHistogram`].
    pub fn coarse(&self) -> LogHistogram {
        let mut coarse = LogHistogram::new();
        for (bin, count) in self.bins() {
            coarse.counts[self::bin(edge_of::<FINE>(bin))] += count;
        }
        coarse
    }
}

/// Equal counts in all bins, and equal extremes.
impl PartialEq for FineHistogram {
    fn eq(&self, other: &Self) -> bool {
        self.extremes == other.extremes && self.bins().eq(other.bins())
    }
}

impl Eq for FineHistogram {}

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
    bin_of::<BITS>(value)
}

fn lower_edge(bin: usize) -> u64 {
    edge_of::<BITS>(bin)
}

/// The bin of `value` if an octave has `2^P`.
#[inline]
fn bin_of<const P: u32>(value: u64) -> usize {
    if value < 1 << P {
        return value as usize;
    }
    let shift = value.ilog2() - P;
    ((shift as usize) << P) + (value >> shift) as usize
}

/// The lower edge of a bin if an octave has `2^P`.
fn edge_of<const P: u32>(bin: usize) -> u64 {
    if bin < 1 << P {
        return bin as u64;
    }
    let shift = (bin >> P) - 1;
    (((1 << P) + bin % (1 << P)) as u64) << shift
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
        fn a_fine_histogram_gives_every_rank_within_a_quarter_of_a_thousandth(
            mut values in prop::collection::vec(any::<u64>(), 1..200),
            shift in 0_u32..64,
            parts in 0_usize..200,
        ) {
            values.iter_mut().for_each(|v| *v >>= shift);
            let mut fine = FineHistogram::default();
            let mut rest = FineHistogram::default();
            for (i, value) in values.iter().enumerate() {
                if i < parts { fine.add(*value) } else { rest.add(*value) }
            }
            fine.merge(&rest);
            let mut backwards = FineHistogram::default();
            values.iter().rev().for_each(|value| backwards.add(*value));
            prop_assert_eq!(&fine, &backwards);
            prop_assert_eq!(fine.coarse(), LogHistogram::of(values.iter().copied()));
            values.sort_unstable();
            prop_assert_eq!(fine.count(), values.len() as u64);
            prop_assert_eq!(fine.extremes(), Some((values[0], values[values.len() - 1])));
            for (rank, want) in (0..).zip(&values) {
                let off = fine.at(rank).abs_diff(*want);
                let allowed = want / 4_096;
                prop_assert!(off <= allowed);
            }
            prop_assert_eq!(fine.at(u64::MAX), values[values.len() - 1]);
        }

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
