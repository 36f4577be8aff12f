//! The noise profile: the input that the analysis gives to the simulation.

use crate::SourceKind;
use idlewave_units::Nanos;
use serde::{Deserialize, Serialize};

/// Noise of one CPU by source, averaged over the CPUs of a run. Excludes idlewave's own recorder,
/// so it is what a program meets when nothing records.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NoiseProfile {
    /// Sources; their events are independent of each other.
    pub sources: Vec<NoiseSource>,
    /// Undisturbed computation of one iteration.
    pub work: Nanos,
    /// Undisturbed step beyond the computation with a neighbour exchange; `None` if not measured.
    pub exchange: Option<Nanos>,
    /// Undisturbed step beyond the computation with a barrier; `None` if not measured.
    pub barrier: Option<Nanos>,
}

/// One source of a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoiseSource {
    /// Class.
    pub kind: SourceKind,
    /// Name, as in the table of sources.
    pub name: String,
    /// Events per second of one CPU's time.
    pub rate_per_s: f64,
    /// Events observed.
    pub events: u64,
    /// CPU time that was watched.
    pub watched: Nanos,
    /// Distance between events, if they are periodic.
    pub period: Option<Nanos>,
    /// Lengths of events, in rising order. Their mean is exact; the last is the longest seen.
    pub lengths: Vec<LengthBin>,
}

/// Events of one length, or of nearly the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LengthBin {
    /// Mean length of the events in it, rounded down, in nanoseconds.
    pub length_ns: u64,
    /// How many events.
    pub count: u64,
}

impl NoiseSource {
    /// Bins sorted lengths: one bin each for up to `keep` events, otherwise runs of about 1.6 %
    /// relative width whose sums are kept exactly (each run is split in two bins that are one
    /// nanosecond apart). The longest event has a bin of its own.
    pub fn bin_lengths(sorted: &[u64], keep: usize) -> Vec<LengthBin> {
        let mut bins: Vec<LengthBin> = Vec::new();
        let mut put = |length_ns: u64, count: u64| match bins.last_mut() {
            _ if count == 0 => {}
            Some(last) if last.length_ns == length_ns => last.count += count,
            _ => bins.push(LengthBin { length_ns, count }),
        };
        if sorted.len() <= keep {
            for &length in sorted {
                put(length, 1);
            }
            return bins;
        }
        let (longest, rest) = sorted.split_last().map_or((0, sorted), |(&l, r)| (l, r));
        let mut begin = 0;
        while begin < rest.len() {
            let limit = rest[begin].saturating_add(rest[begin] / 64);
            let end = begin + rest[begin..].partition_point(|&l| l <= limit);
            let count = (end - begin) as u64;
            let sum: u64 = rest[begin..end].iter().sum();
            let above = sum % count;
            put(sum / count, count - above);
            put(sum / count + 1, above);
            begin = end;
        }
        put(longest, 1);
        bins
    }
    /// Mean length of an event in nanoseconds; 0 without events.
    pub fn mean_length_ns(&self) -> f64 {
        let count: u64 = self.lengths.iter().map(|b| b.count).sum();
        if count == 0 {
            return 0.0;
        }
        let sum: f64 = self
            .lengths
            .iter()
            .map(|b| b.length_ns as f64 * b.count as f64)
            .sum();
        sum / count as f64
    }
    /// Share of one CPU's time that this source takes, 0..=1 for a source that fits.
    pub fn stolen_fraction(&self) -> f64 {
        self.rate_per_s * self.mean_length_ns() / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binning_keeps_the_sum_the_count_and_the_longest_event() {
        let lengths: Vec<u64> = (0..100_000).map(|i| 1_000 + i * 7 % 3_000_000).collect();
        let mut sorted = lengths.clone();
        sorted.sort_unstable();
        let bins = NoiseSource::bin_lengths(&sorted, 100);
        assert!(bins.len() < 1_500, "{} bins", bins.len());
        assert_eq!(bins.iter().map(|b| b.count).sum::<u64>(), 100_000);
        assert_eq!(
            bins.iter().map(|b| b.count * b.length_ns).sum::<u64>(),
            lengths.iter().sum::<u64>()
        );
        assert_eq!(bins.last().map(|b| b.length_ns), sorted.last().copied());
        assert!(bins.windows(2).all(|w| w[0].length_ns < w[1].length_ns));
    }

    #[test]
    fn few_events_are_kept_as_they_are() {
        let bins = NoiseSource::bin_lengths(&[3, 3, 9], 100);
        assert_eq!(
            bins,
            [
                LengthBin {
                    length_ns: 3,
                    count: 2
                },
                LengthBin {
                    length_ns: 9,
                    count: 1
                }
            ]
        );
        assert!(NoiseSource::bin_lengths(&[], 100).is_empty());
    }
}
