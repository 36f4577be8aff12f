//! Speed levels of a duration series: the same work takes 9.07, 11.4 or 22.4 us for tens or
//! hundreds of milliseconds at a time, as the frequency, load on the core's other hardware thread,
//! or the host changes.
//!
//! Definition: the series is cut into windows of 5 ms (10 ms for a whole minute) with the median of
//! each, which detours do not move. The logarithms of the medians, cleared of lone outliers by a
//! running median of three, are segmented by PELT with penalty 3 ln(n) sigma^2, sigma from the
//! median absolute difference of successive windows. Segments whose medians are less than 3 % apart
//! are one level. A level's duration is the median of all its quanta; a switch is placed at the
//! quantum that best divides the two levels.
//!
//! Assumptions: a level holds for more than two windows; faster switching is seen as one level at
//! the more frequent speed. Bias: if most quanta are disturbed, the median lies above the
//! undisturbed duration by a fraction of the scatter; a slow drift appears as a staircase.
//!
//! Reference: Killick, Fearnhead and Eckley, J. Am. Stat. Assoc. 107 (2012) 1590.

use crate::change_points::change_points;
use crate::windows::{Window, median, windows};

/// Levels closer than this are one.
const DISTINCT: f64 = 0.03;
/// Least scatter of window medians; anything below comes from the clock.
const SIGMA_AT_LEAST: f64 = 0.002;
/// Windows in the shortest stay.
const SHORTEST: usize = 2;

/// A speed level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Median duration of the quantum on this level, nanoseconds.
    pub duration: u64,
    /// Share of the time spent on it, 0..=1.
    pub share: f64,
    /// Median length of an uninterrupted stay, nanoseconds.
    pub dwell: u64,
    /// Number of stays.
    pub stays: u64,
}

/// A stay on one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Start, nanoseconds; the end of the segment before, except in the first.
    pub begin: u64,
    /// End, nanoseconds.
    pub end: u64,
    /// Duration of the quantum on the level, nanoseconds.
    pub duration: u64,
}

/// Speed levels of a series and when each held.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Levels {
    levels: Vec<Level>,
    segments: Vec<Segment>,
}

impl Levels {
    /// Duration of the quantum on the fastest level, nanoseconds; `None` for an empty series.
    pub fn fastest(&self) -> Option<u64> {
        self.levels.first().map(|l| l.duration)
    }

    /// Duration of the quantum on the level that held at `time`; before the first quantum that of
    /// the first level, after the last that of the last. `None` for an empty series.
    pub fn at(&self, time: u64) -> Option<u64> {
        let after = self.segments.partition_point(|s| s.end < time);
        self.segments
            .get(after)
            .or(self.segments.last())
            .map(|s| s.duration)
    }

    /// The levels, fastest first.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// The stays, in order of time; successive ones are on different levels and touch.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }
}

/// Finds the levels of a series of `durations` (nanoseconds) with the times at which they ended, in
/// order of time.
///
/// If the slices differ in length, the excess of the longer one is ignored.
pub fn segment(ends: &[u64], durations: &[u64]) -> Levels {
    let windows = windows(ends, durations);
    let mut stays = stays(&windows, durations);
    let levels = group(&mut stays);
    join(&mut stays);
    for i in 1..stays.len() {
        let (low, high) = (stays[i - 1].first, stays[i].after);
        let switch = divide(
            durations,
            low,
            stays[i].first,
            high,
            stays[i - 1].typical,
            stays[i].typical,
        );
        stays[i - 1].after = switch;
        stays[i].first = switch;
    }
    describe(&stays, levels, ends, durations)
}

/// Successive quanta `first..after` on level number `level`.
struct Stay {
    first: usize,
    after: usize,
    level: usize,
    /// Median of its windows' medians, nanoseconds.
    typical: u64,
}

fn stays(windows: &[Window], durations: &[u64]) -> Vec<Stay> {
    let logs: Vec<f64> = windows.iter().map(|w| (w.median as f64).ln()).collect();
    let calm = running_median(&logs);
    let sigma = scatter(&logs).max(SIGMA_AT_LEAST);
    let penalty = 3.0 * (logs.len().max(2) as f64).ln() * sigma * sigma;
    let mut edges = vec![0];
    edges.extend(change_points(&calm, penalty, SHORTEST));
    edges.push(windows.len());
    let mut buffer = Vec::new();
    edges
        .windows(2)
        .filter(|e| e[0] < e[1])
        .map(|e| {
            let part = &windows[e[0]..e[1]];
            let (first, after) = (part[0].first, part[part.len() - 1].after);
            Stay {
                first,
                after,
                level: 0,
                typical: median(&durations[first..after], &mut buffer).max(1),
            }
        })
        .collect()
}

/// Median of each value and its two neighbours; removes lone outliers and keeps steps in place.
fn running_median(values: &[f64]) -> Vec<f64> {
    (0..values.len())
        .map(|i| {
            if i == 0 || i + 1 == values.len() {
                return values[i];
            }
            let (a, b, c) = (values[i - 1], values[i], values[i + 1]);
            a.min(b).max(a.max(b).min(c))
        })
        .collect()
}

/// Standard deviation from the median absolute difference of successive values.
fn scatter(values: &[f64]) -> f64 {
    let mut steps: Vec<f64> = values.windows(2).map(|w| (w[1] - w[0]).abs()).collect();
    if steps.is_empty() {
        return 0.0;
    }
    let middle = steps.len() / 2;
    let mad = *steps.select_nth_unstable_by(middle, f64::total_cmp).1;
    1.4826 * mad / std::f64::consts::SQRT_2
}

/// Numbers the levels of the stays, fastest first, and returns their number: the two closest are
/// joined until all are 3 % apart.
fn group(stays: &mut [Stay]) -> usize {
    let mut order: Vec<usize> = (0..stays.len()).collect();
    order.sort_by_key(|&i| stays[i].typical);
    // Mean logarithm, number of quanta, number of stays.
    let mut groups: Vec<(f64, f64, usize)> = order
        .iter()
        .map(|&i| {
            let stay = &stays[i];
            (
                (stay.typical as f64).ln(),
                (stay.after - stay.first) as f64,
                1,
            )
        })
        .collect();
    loop {
        let closest = (1..groups.len())
            .map(|i| (groups[i].0 - groups[i - 1].0, i))
            .min_by(|a, b| a.0.total_cmp(&b.0));
        match closest {
            Some((distance, i)) if distance < DISTINCT => {
                let (log, weight, count) = groups.remove(i);
                let into = &mut groups[i - 1];
                into.0 = (into.0 * into.1 + log * weight) / (into.1 + weight);
                into.1 += weight;
                into.2 += count;
            }
            _ => break,
        }
    }
    let mut order = order.into_iter();
    for (level, group) in groups.iter().enumerate() {
        for i in order.by_ref().take(group.2) {
            stays[i].level = level;
        }
    }
    groups.len()
}

/// Joins successive stays on the same level.
fn join(stays: &mut Vec<Stay>) {
    stays.dedup_by(|next, stay| {
        let same = next.level == stay.level;
        if same {
            stay.after = next.after;
        }
        same
    });
}

/// Quanta on either side of a switch within which its position is searched: two windows of fast
/// quanta.
const LOOK_AROUND: usize = 4096;

/// Index in `low..high` of the first quantum of the later level, so that the fewest quanta are on
/// the wrong side of the geometric mean of the levels; `guess` if it divides equally well.
fn divide(
    durations: &[u64],
    low: usize,
    guess: usize,
    high: usize,
    before: u64,
    after: u64,
) -> usize {
    let low = (low + 1).max(guess.saturating_sub(LOOK_AROUND));
    let high = (high - 1).min(guess + LOOK_AROUND);
    let limit = (before as f64 * after as f64).sqrt() as u64;
    // Longer ones are detours and tell nothing about the level.
    let detour = before.max(after).saturating_mul(2);
    // For a quantum that moves from the later to the earlier side: +1 if it looks like the later
    // level.
    let cost = |d: u64| match d {
        d if d > detour => 0,
        d if (d > limit) == (after > before) => 1_i64,
        _ => -1,
    };
    let mut best = (0, guess);
    let mut sum = 0;
    for (i, &d) in (guess..high).zip(&durations[guess..high]) {
        sum += cost(d);
        if sum < best.0 {
            best = (sum, i + 1);
        }
    }
    sum = 0;
    for (i, &d) in (low..guess).zip(&durations[low..guess]).rev() {
        sum -= cost(d);
        if sum < best.0 {
            best = (sum, i);
        }
    }
    best.1
}

fn describe(stays: &[Stay], levels: usize, ends: &[u64], durations: &[u64]) -> Levels {
    let mut quanta = Vec::new();
    let mut buffer = Vec::new();
    let medians: Vec<u64> = (0..levels)
        .map(|level| {
            quanta.clear();
            for stay in stays.iter().filter(|s| s.level == level) {
                quanta.extend_from_slice(&durations[stay.first..stay.after]);
            }
            median(&quanta, &mut buffer)
        })
        .collect();
    let mut segments: Vec<Segment> = Vec::with_capacity(stays.len());
    for stay in stays {
        let begin = segments.last().map_or(
            ends[stay.first].saturating_sub(durations[stay.first]),
            |s| s.end,
        );
        segments.push(Segment {
            begin,
            end: ends[stay.after - 1],
            duration: medians[stay.level],
        });
    }
    let length = |s: &Segment| s.end.saturating_sub(s.begin);
    let total: u64 = segments.iter().map(length).sum();
    let mut found: Vec<Level> = (0..levels)
        .map(|level| {
            let lengths: Vec<u64> = stays
                .iter()
                .zip(&segments)
                .filter(|(stay, _)| stay.level == level)
                .map(|(_, s)| length(s))
                .collect();
            Level {
                duration: medians[level],
                share: if total == 0 {
                    1.0
                } else {
                    lengths.iter().sum::<u64>() as f64 / total as f64
                },
                dwell: median(&lengths, &mut buffer),
                stays: lengths.len() as u64,
            }
        })
        .collect();
    found.sort_by_key(|l| l.duration);
    Levels {
        levels: found,
        segments,
    }
}

#[cfg(test)]
#[path = "levels_tests.rs"]
mod tests;
