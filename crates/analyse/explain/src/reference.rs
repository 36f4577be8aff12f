//! The undisturbed duration of a step, and how much slower a CPU was at a given time.

use idlewave_stats::levels::{Levels, segment};

/// Undisturbed duration of one rank's step.
#[derive(Debug)]
pub struct Reference {
    /// Duration on the fastest speed level, nanoseconds.
    pub fast: u64,
    /// Robust standard deviation around the level, nanoseconds.
    pub spread: f64,
    levels: Levels,
}

impl Reference {
    /// From a series of durations (nanoseconds) with the times at which they ended, in order of
    /// time.
    ///
    /// The fastest level is not the shortest duration, which may be a single lucky sample, but the
    /// median on the fastest speed level of the series.
    pub fn of(ends: &[u64], durations: &[u64]) -> Self {
        let levels = segment(ends, durations);
        let fast = levels.fastest().unwrap_or(0);
        let mut off: Vec<u64> = durations
            .iter()
            .zip(ends)
            .map(|(&d, &t)| d.abs_diff(levels.at(t).unwrap_or(fast)))
            .collect();
        let spread = if off.is_empty() {
            0.0
        } else {
            let middle = off.len() / 2;
            1.4826 * *off.select_nth_unstable(middle).1 as f64
        };
        Self {
            fast,
            spread,
            levels,
        }
    }

    /// Nanoseconds by which the level at `time` is slower than the fastest.
    pub fn slow_by(&self, time: u64) -> u64 {
        self.levels
            .at(time)
            .unwrap_or(self.fast)
            .saturating_sub(self.fast)
    }
}

/// A smaller excess cannot be distinguished from the scatter of clock and caches.
const LATE_AT_LEAST_NS: f64 = 1_000.0;
/// Nor can one below this share of the step,
const LATE_SHARE: f64 = 0.05;
/// or this many robust standard deviations.
const LATE_DEVIATIONS: f64 = 5.0;

/// The least excess of a late step, nanoseconds, the same for all ranks.
pub fn late_from(references: &[Reference]) -> u64 {
    references
        .iter()
        .map(|r| {
            LATE_AT_LEAST_NS
                .max(LATE_SHARE * r.fast as f64)
                .max(LATE_DEVIATIONS * r.spread)
        })
        .fold(LATE_AT_LEAST_NS, f64::max) as u64
}
