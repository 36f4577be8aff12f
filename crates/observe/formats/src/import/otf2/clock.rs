//! Converts times of a location to nanoseconds.
//!
//! The recorder measures the offset of each location's clock now and then. Between two measurements
//! the offset changes linearly; before the first and after the last it goes on as in the nearest
//! interval. A single measurement corrects nothing. OTF2 3.0 does the same.

/// Later times count as this one: 292 years.
pub(super) const LAST_NS: u64 = i64::MAX as u64;

/// One measurement, and how the offset changes from it to the next one.
#[derive(Clone, Copy, Debug)]
struct Interval {
    begin: u64,
    end: u64,
    offset: i64,
    /// Ticks of offset per tick of time.
    slope: f64,
}

/// The measured offsets of a location's clock, in ticks.
#[derive(Debug, Default)]
pub(super) struct Offsets {
    intervals: Vec<Interval>,
    last: Option<(u64, i64)>,
    /// The interval of the last time.
    at: usize,
}

impl Offsets {
    /// Adds a measurement; one that is not later than the previous one is ignored.
    pub(super) fn add(&mut self, time: u64, offset: i64) {
        if let Some((begin, from)) = self.last {
            if time <= begin {
                return;
            }
            self.intervals.push(Interval {
                begin,
                end: time,
                offset: from,
                slope: offset.wrapping_sub(from) as f64 / (time - begin) as f64,
            });
        }
        self.last = Some((time, offset));
    }

    /// Whether there is anything to correct.
    pub(super) fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// Converts a time of the location to the clock of all locations. Times should rise from call
    /// to call.
    pub(super) fn correct(&mut self, time: u64) -> u64 {
        let Some(last) = self.intervals.len().checked_sub(1) else {
            return time;
        };
        while self.at < last && time > self.intervals[self.at].end {
            self.at += 1;
        }
        let Interval {
            begin,
            offset,
            slope,
            ..
        } = self.intervals[self.at];
        let since = match time >= begin {
            true => (time - begin) as f64,
            false => -((begin - time) as f64),
        };
        // The conversion saturates, and so does the sum: a time before the clock's start becomes
        // its start.
        let offset = offset.saturating_add((slope * since).round_ties_even() as i64);
        time.saturating_add_signed(offset)
    }
}

/// Converts ticks to nanoseconds, rounded down.
pub(super) fn nanoseconds(ticks: u64, per_second: u64) -> u64 {
    if per_second == 1_000_000_000 {
        return ticks.min(LAST_NS);
    }
    let ns = u128::from(ticks) * 1_000_000_000 / u128::from(per_second.max(1));
    u64::try_from(ns).unwrap_or(LAST_NS).min(LAST_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_change_linearly_between_measurements_and_go_on_outside() {
        let mut offsets = Offsets::default();
        offsets.add(1_000, 100);
        assert_eq!(offsets.correct(1_500), 1_500);
        offsets.add(2_000, 200);
        offsets.add(4_000, 200);
        let corrected = [0, 1_000, 1_500, 2_000, 3_000, 9_000].map(|time| offsets.correct(time));
        assert_eq!(corrected, [0, 1_100, 1_650, 2_200, 3_200, 9_200]);
    }

    #[test]
    fn a_measurement_that_is_not_later_is_left_out() {
        let mut offsets = Offsets::default();
        offsets.add(1_000, 0);
        offsets.add(1_000, 50);
        assert!(offsets.is_empty());
        offsets.add(2_000, -1_000_000);
        assert_eq!(offsets.correct(2_000), 0);
    }

    #[test]
    fn ticks_become_nanoseconds_without_overflow() {
        assert_eq!(nanoseconds(7, 1_000_000_000), 7);
        assert_eq!(nanoseconds(3_000_000_000, 3_000_000_000), 1_000_000_000);
        assert_eq!(nanoseconds(u64::MAX, 1), LAST_NS);
        assert_eq!(nanoseconds(5, 0), 5_000_000_000);
    }
}
