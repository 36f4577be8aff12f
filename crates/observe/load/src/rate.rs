//! From a counter that was read several times to a rate with an interval.

use idlewave_stats::distributions::student_quantile;
use serde::{Deserialize, Serialize};

/// How a counter counts, and what it does at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Counter {
    /// Bytes in 64 bits: the kernel's, and `ifHCInOctets` of IF-MIB (RFC 2863). It does not wrap in
    /// practice, so a decrease is a reset.
    Bytes64,
    /// Bytes in 32 bits that wrap: `ifInOctets` of IF-MIB.
    Bytes32,
    /// Units of 4 bytes in 64 bits: `PortXmitData` of PortCountersExtended, and of the kernel
    /// (InfiniBand Architecture Specification, volume 1, 16.1.4). Where a device has only 32 bits,
    /// tools and kernel show those: they stay at 2^32 - 1.
    Words64,
    /// Units of 4 bytes in 32 bits that stay at their largest value: `PortXmitData` of PortCounters
    /// (16.1.3).
    Words32,
}

/// The largest rate at which 32-bit counters of bytes can be trusted, if the link's is not known:
/// RFC 2863 asks for 64 bits beyond 20 Mbit/s, and devices without them have links of up to
/// 1 Gbit/s.
const MOST_32: f64 = 125e6;
/// The bytes after which a counter of 32 bits is where it was.
const TURN_32: f64 = 4_294_967_296.0;
/// A link carries no more than its capacity, save for what clocks and encodings differ.
const TOLERANCE: f64 = 1.1;
/// The fewest sub-intervals that say anything of the spread.
const LEAST: usize = 3;

/// A counter's value at a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds, from any origin.
    pub at: f64,
    /// The counter, in its own units.
    pub count: u64,
}

/// A rate in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// The mean over all usable sub-intervals.
    pub value: f64,
    /// The interval of the mean (95 %, Student's t over the sub-intervals, not below 0); `None`
    /// with fewer than three of them.
    pub range: Option<(f64, f64)>,
}

/// What a series of samples says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rated {
    /// The rate; `None` if no sub-interval could be used.
    pub rate: Option<Rate>,
    /// Sub-intervals in which the counter wrapped: they count.
    pub wraps: u32,
    /// Sub-intervals in which it was reset, or jumped by more than the link carries: left out.
    pub resets: u32,
    /// Sub-intervals in which a counter of 32 bits may have wrapped more than once: left out.
    pub unclear: u32,
    /// Whether it stayed at its largest value: then the rest is left out.
    pub stuck: bool,
}

/// The rate of a counter. `most` is what the link can carry, bytes per second, if known.
pub fn rate(samples: &[Sample], counter: Counter, most: Option<f64>) -> Rated {
    let mut rated = Rated::default();
    let unit = match counter {
        Counter::Bytes64 | Counter::Bytes32 => 1.0,
        Counter::Words64 | Counter::Words32 => 4.0,
    };
    let mut pieces: Vec<(f64, f64)> = Vec::new();
    for pair in samples.windows(2) {
        let [a, b] = [pair[0], pair[1]];
        let time = b.at - a.at;
        if !(time > 0.0 && time.is_finite()) {
            continue;
        }
        let end = u64::from(u32::MAX);
        let is_at_end = match counter {
            Counter::Words32 => b.count >= end,
            Counter::Words64 => b.count == end,
            Counter::Bytes32 | Counter::Bytes64 => false,
        };
        if is_at_end {
            rated.stuck = true;
            continue;
        }
        let most_32 = most.unwrap_or(MOST_32);
        if counter == Counter::Bytes32 && time * most_32 >= TURN_32 {
            rated.unclear += 1;
            continue;
        }
        let fits = |count: u64, most: Option<f64>| {
            most.is_none_or(|most| count as f64 * unit / time <= most * TOLERANCE)
        };
        let count = match b.count.checked_sub(a.count) {
            Some(count) if fits(count, most) => count,
            None if counter == Counter::Bytes32 => {
                let wrapped = (b.count + (1 << 32)).saturating_sub(a.count);
                if !fits(wrapped, Some(most_32)) {
                    rated.resets += 1;
                    continue;
                }
                rated.wraps += 1;
                wrapped
            }
            _ => {
                rated.resets += 1;
                continue;
            }
        };
        pieces.push((count as f64 * unit, time));
    }
    let whole = pieces
        .iter()
        .fold((0.0, 0.0), |s, p| (s.0 + p.0, s.1 + p.1));
    if whole.1 > 0.0 {
        let value = whole.0 / whole.1;
        rated.rate = Some(Rate {
            value,
            range: range(&pieces, value),
        });
    }
    rated
}

/// The interval of the mean over pieces of (bytes, seconds).
fn range(pieces: &[(f64, f64)], mean: f64) -> Option<(f64, f64)> {
    let n = pieces.len();
    if n < LEAST {
        return None;
    }
    let degrees = (n - 1) as f64;
    let squares = pieces
        .iter()
        .map(|(bytes, time)| (bytes / time - mean).powi(2));
    let error = (squares.sum::<f64>() / degrees / n as f64).sqrt();
    let half = student_quantile(0.975, degrees) * error;
    Some(((mean - half).max(0.0), mean + half))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn samples(counts: &[u64]) -> Vec<Sample> {
        let of = |(at, &count): (usize, &u64)| Sample {
            at: at as f64,
            count,
        };
        counts.iter().enumerate().map(of).collect()
    }

    fn value(rated: Rated) -> f64 {
        rated.rate.unwrap().value
    }

    #[test]
    fn a_rate_is_the_difference_over_the_time_with_students_interval() {
        let rated = rate(&samples(&[10, 110, 310]), Counter::Bytes64, None);
        let expected = Rate {
            value: 150.0,
            range: None,
        };
        assert_eq!(rated.rate, Some(expected));
        // 90, 100 and 110: standard deviation 10, t(0.975, 2) = 4.3027.
        let rate_ = rate(&samples(&[0, 90, 190, 300]), Counter::Bytes64, None);
        let (low, high) = rate_.rate.unwrap().range.unwrap();
        let half = 4.302_652_73 * 10.0 / 3.0_f64.sqrt();
        assert!((low - (100.0 - half)).abs() < 1e-6 && (high - (100.0 + half)).abs() < 1e-6);
        // Words are four bytes.
        assert_eq!(
            value(rate(&samples(&[0, 90, 190]), Counter::Words64, None)),
            380.0
        );
        assert_eq!(
            rate(&samples(&[5]), Counter::Bytes64, None),
            Rated::default()
        );
        assert_eq!(rate(&[], Counter::Bytes64, None), Rated::default());
    }

    #[test]
    fn a_reset_is_left_out_and_told() {
        let rated = rate(&samples(&[900, 1000, 3, 103]), Counter::Bytes64, None);
        assert_eq!((value(rated), rated.resets, rated.wraps), (100.0, 1, 0));
        // 64-bit counters do not wrap.
        let rated = rate(&samples(&[u64::MAX - 9, 90]), Counter::Bytes64, None);
        assert_eq!((rated.rate, rated.resets), (None, 1));
        // A jump beyond what the link carries.
        let rated = rate(&samples(&[0, 100, 1 << 40]), Counter::Bytes64, Some(1e9));
        assert_eq!((value(rated), rated.resets), (100.0, 1));
    }

    #[test]
    fn a_32_bit_counter_wraps_if_the_link_could_have_carried_it() {
        let end = u64::from(u32::MAX);
        let rated = rate(&samples(&[end - 99, 100]), Counter::Bytes32, None);
        assert_eq!((value(rated), rated.wraps, rated.resets), (200.0, 1, 0));
        // 3.3 GB in a second: a reset on a link of 1 Gbit/s, a wrap on one of 30 Gbit/s.
        let late = samples(&[1_000_000_000, 0]);
        let rated = rate(&late, Counter::Bytes32, None);
        assert_eq!((rated.rate, rated.wraps, rated.resets), (None, 0, 1));
        let rated = rate(&late, Counter::Bytes32, Some(3.75e9));
        assert_eq!((rated.wraps, rated.resets), (1, 0));
    }

    #[test]
    fn a_32_bit_counter_says_nothing_where_it_may_have_wrapped_more_than_once() {
        let after = |seconds: f64| {
            [(0.0, 0), (seconds, 100), (seconds + 1.0, 200)].map(|(at, count)| Sample { at, count })
        };
        // 1 Gbit/s brings it around in 34.36 s.
        let rated = rate(&after(34.3), Counter::Bytes32, None);
        assert_eq!((value(rated), rated.unclear), (200.0 / 35.3, 0));
        let rated = rate(&after(34.4), Counter::Bytes32, None);
        assert_eq!((value(rated), rated.unclear), (100.0, 1));
        // 100 Gbit/s brings it around within each of them.
        let rated = rate(&after(34.3), Counter::Bytes32, Some(12.5e9));
        assert_eq!((rated.rate, rated.unclear), (None, 2));
        for counter in [Counter::Bytes64, Counter::Words64, Counter::Words32] {
            assert_eq!(rate(&after(1e6), counter, Some(12.5e9)).unclear, 0);
        }
    }

    #[test]
    fn a_counter_at_its_end_says_nothing() {
        let end = u64::from(u32::MAX);
        let rated = rate(&samples(&[0, 100, end, end]), Counter::Words32, None);
        assert_eq!((value(rated), rated.stuck), (400.0, true));
        // Some devices have 32 bits where 64 are asked for; with 64 it goes on.
        let rated = rate(&samples(&[end, end]), Counter::Words64, None);
        assert_eq!((rated.rate, rated.stuck), (None, true));
        let rated = rate(&samples(&[end - 1, end + 1]), Counter::Words64, None);
        assert_eq!((value(rated), rated.stuck), (8.0, false));
    }

    proptest! {
        #[test]
        fn any_samples_give_a_rate_that_is_possible(
            counts in prop::collection::vec(any::<u64>(), 0..8),
            kind in 0..4_usize,
        ) {
            let kind = [Counter::Bytes64, Counter::Bytes32, Counter::Words64, Counter::Words32][kind];
            let rated = rate(&samples(&counts), kind, Some(1e9));
            if let Some(rate) = rated.rate {
                prop_assert!(rate.value >= 0.0 && rate.value <= 1.1e9);
                if let Some((low, high)) = rate.range {
                    prop_assert!(0.0 <= low && low <= rate.value && rate.value <= high);
                }
            }
        }
    }
}
