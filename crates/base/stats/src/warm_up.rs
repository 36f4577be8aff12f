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
//!
//! One start tells little. Of several, each after idleness, the effect is the median over the
//! starts of the first window over the median window of the same start's second half, minus 1, with
//! the 95 % interval of order statistics (paired: whatever slows a whole start down cancels).

use crate::estimate::Estimate;
use crate::quantiles;
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
    verdict_of(&windows(ends, durations))
}

/// The same from the windows of the series.
pub fn verdict_of(windows: &[Window]) -> WarmUp {
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
        beginning(windows, outside)
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
    let sum: f64 = windows[..warm].iter().map(|w| w.sum as f64).sum();
    let mean = sum / windows[warm - 1].after as f64;
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

/// Fewer starts allow no verdict.
pub const STARTS_NEEDED: usize = quantiles::MEDIAN_NEEDS;

/// One start after idleness.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Start {
    /// First window over the median window of the second half.
    early: f64,
    /// Time until it settled; 0 if it was steady from the start; `None` if it never did.
    settled_after: Option<Nanos>,
}

impl Start {
    /// A start from its windows; `None` if it is too short for a verdict (100 ms).
    pub fn of(windows: &[Window]) -> Option<Self> {
        if windows.len() < WINDOWS_NEEDED {
            return None;
        }
        let late = windows[windows.len() / 2..].iter();
        let late: Vec<u64> = late.map(|w| w.median).collect();
        Some(Self {
            early: windows[0].median as f64 / quantiles::median(&late).value,
            settled_after: verdict_of(windows).settled_after,
        })
    }
}

/// What several starts have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repeated {
    /// Starts.
    pub starts: u64,
    /// By how much the first window is slower than the second half, minus 1.
    pub slower: Estimate,
    /// Starts with a warm-up that ended.
    pub settled: u64,
    /// Time until a start settled, nanoseconds; a start that never did counts as the longest.
    pub settled_after: Estimate,
}

impl Repeated {
    /// Whether the beginning is slower by more than chance allows, and by so much that most starts
    /// have a warm-up of their own.
    pub fn is_warm_up(&self) -> bool {
        self.slower.low > 0.0 && self.settled_after.value > 0.0
    }
}

/// What these starts have in common; `None` for fewer than [`STARTS_NEEDED`].
pub fn repeated(starts: &[Start]) -> Option<Repeated> {
    if starts.len() < STARTS_NEEDED {
        return None;
    }
    let slower: Vec<f64> = starts.iter().map(|s| s.early - 1.0).collect();
    let longest = starts.iter().filter_map(|s| s.settled_after).max();
    let after = |s: &Start| s.settled_after.or(longest).unwrap_or(Nanos::ZERO).get();
    let after: Vec<u64> = starts.iter().map(after).collect();
    let settled = |s: &&Start| s.settled_after.is_some_and(|t| t > Nanos::ZERO);
    Some(Repeated {
        starts: starts.len() as u64,
        slower: quantiles::median_of_floats(&slower),
        settled: starts.iter().filter(settled).count() as u64,
        settled_after: quantiles::median(&after),
    })
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
        seeded(1, span_ms, quantum)
    }

    fn seeded(
        seed: u64,
        span_ms: u64,
        quantum: impl Fn(f64, &mut Random) -> f64,
    ) -> (Vec<u64>, Vec<u64>) {
        let mut random = Random::new(seed);
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

    /// Ten starts of 300 ms, each at a speed of its own, slower by `slower` for `ms`.
    fn ten_starts(seed: u64, slower: f64, ms: f64) -> Repeated {
        let starts: Vec<Start> = (0..10)
            .map(|start| {
                let speed = 10_000.0 * (1.0 + 0.1 * f64::from(start % 4));
                let seed = seed * 10 + start as u64;
                let (ends, durations) = seeded(seed, 300, |t, noise| {
                    let factor = if t < 1e-3 * ms { 1.0 + slower } else { 1.0 };
                    speed * factor * (1.0 + 0.02 * noise.normal())
                });
                Start::of(&windows(&ends, &durations)).expect("long enough")
            })
            .collect();
        repeated(&starts).expect("enough starts")
    }

    #[test]
    fn a_slow_beginning_of_every_start_is_found_with_its_length() {
        let found = ten_starts(1, 0.2, 40.0);
        assert!(found.is_warm_up() && found.settled == 10, "{found:?}");
        assert!((found.slower.value - 0.2).abs() < 0.005, "{found:?}");
        let after = found.settled_after.value * 1e-6;
        assert!((after - 40.0).abs() <= 5.0, "{found:?}");
        let short = vec![
            Start {
                early: 2.0,
                settled_after: None
            };
            STARTS_NEEDED - 1
        ];
        assert_eq!(repeated(&short), None);
    }

    /// The interval of a median of ten excludes its value in 2.1 % of the cases, half of them above.
    #[test]
    fn steady_starts_are_hardly_ever_called_warm_ups() {
        let wrong = (0..200).filter(|seed| ten_starts(*seed, 0.0, 0.0).is_warm_up());
        assert!(wrong.count() <= 7);
    }

    #[test]
    fn one_slow_start_of_ten_is_no_warm_up() {
        let start = |early| Start {
            early,
            settled_after: Some(Nanos::from_millis(50)),
        };
        let mut starts = vec![
            start(0.999),
            start(1.001),
            start(0.998),
            start(1.002),
            start(1.0),
        ];
        starts.extend([
            start(1.7),
            start(0.997),
            start(1.001),
            start(0.999),
            start(1.0),
        ]);
        assert!(!repeated(&starts).expect("enough").is_warm_up());
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
