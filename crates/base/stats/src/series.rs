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
