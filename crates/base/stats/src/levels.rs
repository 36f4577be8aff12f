//! Speed levels of a duration series: the same work takes 9.07, 11.4 or 22.4 us for tens or
//! hundreds of milliseconds at a time, as the frequency, load on the core's other hardware thread,
//! or the host changes.
//!
//! Definition: the series is cut into windows of 5 ms (10 ms for a whole minute) with the median of
//! each, which detours do not move. The logarithms of the medians, cleared of lone outliers by a
//! running median of three, are segmented by PELT with penalty 3 ln(n) sigma^2, sigma from the
//! median absolute difference of successive windows. Segments whose medians are less than 3 % apart
//! are one level. A level's duration is the median of the quartiles of its windows, each counted as often
//! as its window has quanta; a switch is placed at the quantum that best divides the two levels, at
//! most half a stay and 4,096 quanta away from the window's edge.
//!
//! A series is read once for its windows, whose number is bounded, and once more if it has switches
//! to place ([`Stays`]), so that its length costs no memory.
//!
//! Assumptions: a level holds for more than two windows; faster switching is seen as one level at
//! the more frequent speed. Bias: if most quanta are disturbed, the median lies above the
//! undisturbed duration by a fraction of the scatter; a slow drift appears as a staircase.
//!
//! Reference: Killick, Fearnhead and Eckley, J. Am. Stat. Assoc. 107 (2012) 1590.

use crate::change_points::change_points;
use crate::windows::{Window, median, windows};
use std::ops::Range;

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
    let mut stays = Stays::of(&windows(ends, durations));
    for (end, duration) in ends.iter().zip(durations) {
        stays.push(*end, *duration);
    }
    stays.finish()
}

/// The levels of a series with their stays, from its windows; a second pass over the series places
/// the switches to the quantum.
#[derive(Clone, Debug)]
pub struct Stays {
    stays: Vec<Stay>,
    /// Duration of the quantum on each level, nanoseconds.
    levels: Vec<u64>,
    /// Between the stays.
    switches: Vec<Switch>,
    /// Durations so far, and the end of the last.
    seen: usize,
    last: u64,
    /// Number of the switch that is being placed.
    current: usize,
}

/// Successive quanta `first..after` on level number `level`.
#[derive(Clone, Debug)]
struct Stay {
    first: usize,
    after: usize,
    begin: u64,
    end: u64,
    level: usize,
    /// Median of its windows' medians, nanoseconds.
    typical: u64,
}

impl Stays {
    /// The stays of a series with these windows.
    pub fn of(windows: &[Window]) -> Self {
        let mut stays = stays(windows);
        let levels = group(&mut stays);
        join(&mut stays);
        let duration = |level: usize| {
            let of = stays.iter().filter(|s| s.level == level);
            pooled_median(of.flat_map(|s| within(windows, s.first..s.after)))
        };
        Self {
            levels: (0..levels).map(duration).collect(),
            switches: stays
                .windows(2)
                .map(|s| Switch::between(&s[0], &s[1]))
                .collect(),
            stays,
            seen: 0,
            last: 0,
            current: 0,
        }
    }

    /// Whether there are switches to place.
    pub fn has_switches(&self) -> bool {
        !self.switches.is_empty()
    }

    /// Shows the next duration of the series once more, with the time at which it ended.
    #[inline]
    pub fn push(&mut self, end: u64, duration: u64) {
        if let Some(switch) = self.switches.get_mut(self.current)
            && self.seen >= switch.range.start
        {
            switch.see(self.seen, self.last, end, duration);
            if self.seen + 1 >= switch.range.end {
                self.current += 1;
            }
        }
        self.seen += 1;
        self.last = end;
    }

    /// The levels; without a second pass, switches are at the edges of windows.
    pub fn finish(mut self) -> Levels {
        for (i, switch) in self.switches.iter().enumerate() {
            self.stays[i].end = switch.best().end;
        }
        describe(&self.stays, &self.levels)
    }
}

/// The windows of these quanta.
fn within(windows: &[Window], quanta: Range<usize>) -> impl Iterator<Item = &Window> {
    let from = windows.partition_point(|w| w.first < quanta.start);
    let to = windows.partition_point(|w| w.first < quanta.end);
    windows[from..to.max(from)].iter()
}

/// Upper median of the windows' quartiles, each counted as often as its window has quanta: the
/// median of all quanta, except for what lies between the quartiles; 0 without any.
fn pooled_median<'a>(windows: impl Iterator<Item = &'a Window>) -> u64 {
    let of = |w: &Window| w.quartiles.map(|quartile| (quartile, w.after - w.first));
    let mut pooled: Vec<(u64, usize)> = windows.flat_map(of).collect();
    pooled.sort_unstable();
    let half = pooled.iter().map(|p| p.1).sum::<usize>() / 2;
    let mut below = 0;
    let reached = pooled.iter().find(|p| {
        below += p.1;
        below > half
    });
    reached.map_or(0, |p| p.0)
}

fn stays(windows: &[Window]) -> Vec<Stay> {
    let logs: Vec<f64> = windows.iter().map(|w| (w.median as f64).ln()).collect();
    let calm = running_median(&logs);
    let sigma = scatter(&logs).max(SIGMA_AT_LEAST);
    let penalty = 3.0 * (logs.len().max(2) as f64).ln() * sigma * sigma;
    let mut edges = vec![0];
    edges.extend(change_points(&calm, penalty, SHORTEST));
    edges.push(windows.len());
    edges
        .windows(2)
        .filter(|e| e[0] < e[1])
        .map(|e| {
            let part = &windows[e[0]..e[1]];
            let (first, last) = (part[0], part[part.len() - 1]);
            Stay {
                first: first.first,
                after: last.after,
                begin: first.begin,
                end: last.end,
                level: 0,
                typical: pooled_median(part.iter()).max(1),
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
            stay.end = next.end;
        }
        same
    });
}

/// Quanta on either side of a switch within which its position is searched: two windows of fast
/// quanta.
const LOOK_AROUND: usize = 4096;

/// Where one stay ends and the next begins: the fewest quanta are on the wrong side of the geometric
/// mean of their levels.
#[derive(Clone, Debug)]
struct Switch {
    /// The quanta that are looked at.
    range: Range<usize>,
    /// First quantum of the later stay, by the windows.
    guess: usize,
    limit: u64,
    /// Longer ones are detours and tell nothing about the level.
    detour: u64,
    rises: bool,
    /// Of the quanta so far, those that look like the later level less those that look like the
    /// earlier one.
    cost: i64,
    before: Option<Place>,
    at: Place,
    after: Option<Place>,
}

/// A place for a switch.
#[derive(Clone, Copy, Debug)]
struct Place {
    cost: i64,
    /// End of the quantum before it.
    end: u64,
}

impl Switch {
    fn between(earlier: &Stay, later: &Stay) -> Self {
        let middle = |s: &Stay| s.first + (s.after - s.first) / 2;
        let guess = later.first;
        let low = (middle(earlier) + 1).max(guess.saturating_sub(LOOK_AROUND));
        let high = middle(later).min(guess + LOOK_AROUND);
        let (before, after) = (earlier.typical, later.typical);
        Self {
            range: low.min(guess)..high.max(guess),
            guess,
            limit: (before as f64 * after as f64).sqrt() as u64,
            detour: before.max(after).saturating_mul(2),
            rises: after > before,
            cost: 0,
            before: None,
            at: Place {
                cost: 0,
                end: earlier.end,
            },
            after: None,
        }
    }

    /// Looks at quantum `index`, before which another ended at `last`.
    fn see(&mut self, index: usize, last: u64, end: u64, duration: u64) {
        if index == self.range.start {
            self.offer(index, last);
        }
        if duration <= self.detour {
            self.cost += match (duration > self.limit) == self.rises {
                true => 1,
                false => -1,
            };
        }
        self.offer(index + 1, end);
    }

    /// A switch before quantum `index` would have the cost so far. Of equally good places, the one
    /// nearest to the guess is taken.
    fn offer(&mut self, index: usize, end: u64) {
        let place = Place {
            cost: self.cost,
            end,
        };
        match index.cmp(&self.guess) {
            std::cmp::Ordering::Less => {
                self.before = self.before.filter(|b| b.cost < place.cost).or(Some(place));
            }
            std::cmp::Ordering::Equal => self.at = place,
            std::cmp::Ordering::Greater => {
                self.after = self.after.filter(|a| a.cost <= place.cost).or(Some(place));
            }
        }
    }

    fn best(&self) -> Place {
        let mut best = self.at;
        for other in [self.after, self.before].into_iter().flatten() {
            if other.cost < best.cost {
                best = other;
            }
        }
        best
    }
}

fn describe(stays: &[Stay], durations: &[u64]) -> Levels {
    let segment = |stay: &Stay| Segment {
        begin: stay.begin,
        end: stay.end,
        duration: durations[stay.level],
    };
    let mut segments: Vec<Segment> = stays.iter().map(segment).collect();
    // They touch, whatever lies between two quanta.
    for i in 1..segments.len() {
        segments[i].begin = segments[i - 1].end;
    }
    let length = |s: &Segment| s.end.saturating_sub(s.begin);
    let total: u64 = segments.iter().map(length).sum();
    let mut buffer = Vec::new();
    let level = |(level, &duration): (usize, &u64)| {
        let of = stays
            .iter()
            .zip(&segments)
            .filter(|(s, _)| s.level == level);
        let lengths: Vec<u64> = of.map(|(_, s)| length(s)).collect();
        Level {
            duration,
            share: if total == 0 {
                1.0
            } else {
                lengths.iter().sum::<u64>() as f64 / total as f64
            },
            dwell: median(&lengths, &mut buffer),
            stays: lengths.len() as u64,
        }
    };
    let mut levels: Vec<Level> = durations.iter().enumerate().map(level).collect();
    levels.sort_by_key(|l| l.duration);
    Levels { levels, segments }
}

#[cfg(test)]
#[path = "levels_tests.rs"]
mod tests;
