//! Warm-up: when did a duration series settle? The first quarter second is often 1.5 to 2 times
//! slower, because frequency, caches or the scheduler's load balance start from another state.
//!
//! Definition: windows of 5 ms with the median of each. The later spread is the range from the 5th
//! to the 95th percentile of the windows in the second half of the time, widened by 3 %. A window
//! outside it counts +1, one inside -1; the warm-up is the prefix with the largest sum, if it
//! starts with a window outside and has at least two such windows. If it lasts over 40 % of the
//! time, the series never settled.
//!
//! Assumptions: the second half is steady or switches among levels that all occur in it. A level
//! that occurs only at the start cannot be told from a warm-up. Resolution: one window; shorter
//! warm-ups are not seen.
//!
//! Reference: the same idea as removing the transient of a simulation output; see Law, *Simulation
//! Modeling and Analysis*, section 9.5.1.

use crate::windows::{Window, windows};
use idlewave_units::Nanos;
use serde::{Deserialize, Serialize};

/// Relative widening of the later spread.
const WIDER: f64 = 0.03;
/// Fewer windows allow no verdict.
const WINDOWS_NEEDED: usize = 20;

/// Verdict on the start of the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WarmUp {
    /// Time until the quantum stayed within its later spread; 0 if it was steady from the start;
    /// `None` if it never settled.
    pub settled_after: Option<Nanos>,
    /// Mean duration before that over the median after it; 1 if there was no warm-up.
    pub ratio: f64,
}

/// Verdict on the start of a series of `durations` (nanoseconds) with the times at which they
/// ended, in order of time.
///
/// A series of less than 20 windows (100 ms) is too short to have settled: `settled_after` is
/// `None`, `ratio` 1. If the series never settled, `ratio` compares its halves.
pub fn verdict(ends: &[u64], durations: &[u64]) -> WarmUp {
    let windows = windows(ends, durations);
    if windows.len() < WINDOWS_NEEDED {
        return WarmUp {
            settled_after: None,
            ratio: 1.0,
        };
    }
    let begin = windows[0].begin;
    let middle_time = begin + windows[windows.len() - 1].end.saturating_sub(begin) / 2;
    let middle = windows
        .partition_point(|w| w.end <= middle_time)
        .clamp(1, windows.len() - 1);
    let mut late: Vec<u64> = windows[middle..].iter().map(|w| w.median).collect();
    late.sort_unstable();
    let at = |q: f64| late[((late.len() - 1) as f64 * q).round() as usize] as f64;
    let (low, high) = (at(0.05) / (1.0 + WIDER), at(0.95) * (1.0 + WIDER));
    let outside = |w: &Window| (w.median as f64) < low || w.median as f64 > high;
    let warm = if outside(&windows[0]) {
        beginning(&windows, outside)
    } else {
        0
    };
    // Windows beyond the middle are inside by definition: a series that settles near it was still
    // moving.
    let never = 5 * warm >= 4 * middle;
    let warm = warm.min(middle);
    if warm == 0 {
        return WarmUp {
            settled_after: Some(Nanos::ZERO),
            ratio: 1.0,
        };
    }
    let early = &durations[..windows[warm - 1].after];
    let mean = early.iter().map(|&d| d as f64).sum::<f64>() / early.len() as f64;
    let rest = if never {
        &windows[middle..]
    } else {
        &windows[warm..]
    };
    let mut rest: Vec<u64> = rest.iter().map(|w| w.median).collect();
    let half = rest.len() / 2;
    let median = *rest.select_nth_unstable(half).1 as f64;
    let after = windows[warm - 1].end.saturating_sub(begin);
    WarmUp {
        settled_after: (!never).then(|| Nanos::from_nanos(after)),
        ratio: mean / median,
    }
}

/// Number of windows in the prefix that is most clearly outside; 0 unless it has two such windows.
fn beginning(windows: &[Window], outside: impl Fn(&Window) -> bool) -> usize {
    let (mut sum, mut best) = (0_i64, (1_i64, 0));
    for (i, window) in windows.iter().enumerate() {
        sum += if outside(window) { 1 } else { -1 };
        if sum > best.0 {
            best = (sum, i + 1);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    fn series(span_ms: u64, quantum: impl Fn(f64, &mut Random) -> f64) -> (Vec<u64>, Vec<u64>) {
        let mut random = Random::new(1);
        let (mut ends, mut durations) = (Vec::new(), Vec::new());
        let begin = 77_000_000_000;
        let mut now = begin;
        while now < begin + span_ms * 1_000_000 {
            let d = quantum((now - begin) as f64 * 1e-9, &mut random) as u64;
            now += d;
            ends.push(now);
            durations.push(d);
        }
        (ends, durations)
    }

    #[test]
    fn a_slow_quarter_second_is_found_with_its_ratio() {
        let (ends, durations) = series(5000, |t, random| {
            (if t < 0.25 { 17_000.0 } else { 10_000.0 }) * (1.0 + 0.01 * random.normal())
        });
        let got = verdict(&ends, &durations);
        let after = got.settled_after.expect("settled").as_f64() * 1e-6;
        assert!((after - 250.0).abs() <= 5.0, "{got:?}");
        assert!((got.ratio - 1.7).abs() < 0.02, "{got:?}");
    }

    #[test]
    fn a_steady_or_evenly_switching_series_has_no_warm_up() {
        let steady = WarmUp {
            settled_after: Some(Nanos::ZERO),
            ratio: 1.0,
        };
        let (ends, durations) = series(3000, |_, random| 10_000.0 + 100.0 * random.normal());
        assert_eq!(verdict(&ends, &durations), steady);
        let (ends, durations) = series(3000, |t, _| {
            if (t * 10.0) as u64 % 2 == 0 {
                16_000.0
            } else {
                10_000.0
            }
        });
        assert_eq!(verdict(&ends, &durations), steady);
    }

    #[test]
    fn a_detour_in_the_beginning_is_no_warm_up() {
        let (ends, durations) = series(2000, |t, _| if t == 0.0 { 6e6 } else { 10_000.0 });
        assert_eq!(verdict(&ends, &durations).settled_after, Some(Nanos::ZERO));
    }

    #[test]
    fn a_series_that_slows_down_or_speeds_up_throughout_never_settles() {
        let (ends, durations) = series(3000, |t, _| 20_000.0 - 3000.0 * t);
        let got = verdict(&ends, &durations);
        assert_eq!(got.settled_after, None);
        assert!(got.ratio > 1.2, "{got:?}");
        let (ends, durations) = series(3000, |t, _| 10_000.0 + 3000.0 * t);
        let got = verdict(&ends, &durations);
        assert_eq!(got.settled_after, None);
        assert!(got.ratio < 0.9, "{got:?}");
    }

    #[test]
    fn too_short_a_series_is_not_said_to_have_settled() {
        let unknown = WarmUp {
            settled_after: None,
            ratio: 1.0,
        };
        assert_eq!(verdict(&[], &[]), unknown);
        assert_eq!(verdict(&[5, 9], &[3, 4]), unknown);
    }
}
