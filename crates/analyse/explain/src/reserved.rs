//! Gaps that the kernel makes in real-time threads to keep time for ordinary ones, told from noise.
//!
//! Definition: gaps of about the time that is kept, at distances that are multiples of the period. The
//! kernel looks at the time at ticks of its timer, so that a gap may be a few ticks longer or shorter.
//! If ordinary threads do not use up their time, gaps are shorter, and are not told from others: they
//! are bursts of those threads like any.
//!
//! Source: Documentation/scheduler/sched-rt-group.rst and sched-deadline.rst of the kernel.

use idlewave_run::Reserve;
use idlewave_run::findings::ReservedGaps;
use idlewave_stats::quantiles;
use idlewave_units::Nanos;

/// How many times the time that is kept a gap may last, at least and at most.
const LENGTHS: [f64; 2] = [0.85, 1.3];
/// The most by which a distance may miss a multiple of the period, as a part of the period.
const OFF: f64 = 0.15;
/// Part of the distances that are multiples, at least.
const REGULAR: f64 = 0.6;

/// Gaps that are long enough to be the kernel's.
#[derive(Clone, Debug)]
pub struct Gaps {
    reserve: Reserve,
    /// Start and length, nanoseconds, in order of time.
    long: Vec<(u64, u64)>,
}

impl Gaps {
    /// None yet.
    pub const fn new(reserve: Reserve) -> Self {
        Self {
            reserve,
            long: Vec::new(),
        }
    }

    /// The shortest and longest length of the kernel's, nanoseconds.
    fn lengths(&self) -> [u64; 2] {
        LENGTHS.map(|factor| (self.reserve.time.as_f64() * factor) as u64)
    }

    /// Adds the next one in order of time; start and length in nanoseconds.
    pub fn add(&mut self, begin: u64, length: u64) {
        if length >= self.lengths()[0] {
            self.long.push((begin, length));
        }
    }

    /// Takes off each what lasted so long in any case.
    pub fn shorten(&mut self, by: Nanos) {
        for (_, length) in &mut self.long {
            *length = length.saturating_sub(by.get());
        }
    }
}

/// The gaps that are the kernel's; `None` if there are none. `watched`: the time in which they were
/// seen.
pub fn reserved_gaps(gaps: &Gaps, watched: Nanos) -> Option<ReservedGaps> {
    let reserve = gaps.reserve;
    let [least, most] = gaps.lengths();
    let alike = gaps
        .long
        .iter()
        .filter(|(_, length)| (least..=most).contains(length));
    let (begins, lengths): (Vec<u64>, Vec<u64>) = alike.copied().unzip();
    let period = reserve.period.as_f64();
    let mut distances: Vec<u64> = begins.windows(2).map(|w| w[1] - w[0]).collect();
    let regular = distances.iter().filter(|&&distance| {
        let periods = distance as f64 / period;
        periods > 0.5 && (periods - periods.round()).abs() <= OFF
    });
    if lengths.is_empty() || (regular.count() as f64) < REGULAR * distances.len() as f64 {
        return None;
    }
    distances.sort_unstable();
    Some(ReservedGaps {
        by: reserve.by,
        count: lengths.len() as u64,
        length: quantiles::median(&lengths),
        distance: distances
            .get(distances.len() / 2)
            .map(|distance| Nanos::from_nanos(*distance)),
        share: (lengths.iter().sum::<u64>() as f64 / watched.as_f64().max(1.0)).min(1.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_run::ReservedBy;

    fn found(gaps: &[(u64, u64)]) -> Option<(u64, f64, Option<u64>)> {
        let reserve = Reserve {
            time: Nanos::from_millis(50),
            period: Nanos::from_secs(1),
            by: ReservedBy::FairServer,
        };
        let mut all = Gaps::new(reserve);
        for (begin, length) in gaps {
            all.add(begin * 1_000_000, length * 1_000_000);
        }
        let seen = reserved_gaps(&all, Nanos::from_secs(10))?;
        let distance = seen.distance.map(|d| d.get() / 1_000_000);
        Some((seen.count, (seen.share * 1e3).round(), distance))
    }

    #[test]
    fn gaps_of_the_time_that_is_kept_once_a_period_are_the_kernels() {
        let all = [(100, 54), (700, 8), (1_101, 50), (3_102, 54), (4_100, 54)];
        assert_eq!(found(&all), Some((4, 21.0, Some(1_001))));
        assert_eq!(found(&[(500, 52)]), Some((1, 5.0, None)));
    }

    #[test]
    fn other_gaps_are_noise() {
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[(100, 20), (1_100, 20)]), None, "too short");
        assert_eq!(found(&[(100, 90), (1_100, 90)]), None, "too long");
        let irregular = [(100, 50), (420, 50), (1_100, 50), (1_600, 50)];
        assert_eq!(found(&irregular), None);
    }
}
