//! What is told of a duration series of any length: exact count, extremes and mean, quantiles, speed
//! levels and warm-up, in bounded memory.
//!
//! Definition: one pass counts every duration in a [`FineHistogram`], adds it to the sums of its
//! block ([`blocks`](crate::blocks)) and cuts the series into [`windows`](crate::windows); a second one places the switches
//! between speed levels, if there are any ([`levels`](crate::levels)).
//!
//! Bias: quantiles of durations of 4,096 ns or more are off by up to 0.025 %. Everything else is as
//! it would be with all durations at hand, except the sizes of blocks (1 %).

use crate::blocks::Sums;
use crate::histogram::FineHistogram;
use crate::windows::{Window, Windows};

/// One pass over a series.
#[derive(Clone, Debug)]
pub struct Series {
    times: FineHistogram,
    sums: Sums,
    windows: Windows,
}

/// What one pass found.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The durations.
    pub times: FineHistogram,
    /// Their sums by blocks.
    pub sums: Sums,
    /// The series in windows.
    pub windows: Vec<Window>,
}

impl Series {
    /// For a series that lasts about `span` nanoseconds.
    pub fn new(span: u64) -> Self {
        Self {
            times: FineHistogram::default(),
            sums: Sums::default(),
            windows: Windows::new(span),
        }
    }

    /// Adds the next duration, with the time at which it ended.
    #[inline]
    pub fn push(&mut self, end: u64, duration: u64) {
        self.times.add(duration);
        self.sums.push(duration);
        self.windows.push(end, duration);
    }

    /// What was found.
    pub fn finish(self) -> Summary {
        Summary {
            times: self.times,
            sums: self.sums,
            windows: self.windows.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::{Stays, segment};
    use crate::testing::Random;
    use crate::windows::windows;

    #[test]
    fn two_passes_tell_what_all_durations_at_hand_tell() {
        let mut random = Random::new(5);
        let mut now = 0;
        let (mut ends, mut durations) = (Vec::new(), Vec::new());
        for i in 0..40_000 {
            let level = if i / 9_000 % 2 == 0 { 20_000 } else { 27_000 };
            durations.push(level + random.bits() % 50);
            now += durations[i];
            ends.push(now);
        }
        let mut series = Series::new(now);
        ends.iter()
            .zip(&durations)
            .for_each(|(e, d)| series.push(*e, *d));
        let found = series.finish();
        assert_eq!(found.windows, windows(&ends, &durations));
        let mut stays = Stays::of(&found.windows);
        assert!(stays.has_switches());
        ends.iter()
            .zip(&durations)
            .for_each(|(e, d)| stays.push(*e, *d));
        let levels = stays.finish();
        assert_eq!(levels, segment(&ends, &durations));
        let switches: Vec<u64> = levels.segments().iter().map(|s| s.end).collect();
        let at = |i: usize| ends[i - 1];
        assert_eq!(switches, [9_000, 18_000, 27_000, 36_000, 40_000].map(at));
        durations.sort_unstable();
        let p99 = (durations.len() - 1) * 99 / 100;
        let off = found.times.at(p99 as u64).abs_diff(durations[p99]);
        assert!(off <= durations[p99] / 4_096, "{off}");
    }
}
