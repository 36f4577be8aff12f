//! Events on a comb: a period common to all lines, a phase for each, and the lateness of events.

use idlewave_stats::exponential_fit::{Tested, uniform};
use idlewave_stats::line::Line;
use idlewave_stats::periodicity;

/// Fewer events on a line show no period.
const LEAST: usize = 16;
/// Maximum number of lines on which a period is searched for.
const SEARCHED: usize = 8;
/// Least share of teeth with an event; below it there is no comb.
const STRUCK_AT_LEAST: f64 = 0.5;
/// Least share of the events on the comb, beyond chance.
const ON_AT_LEAST: f64 = 0.5;
/// This many events off the comb are a process of their own; fewer are assigned to the comb.
const APART: usize = 8;
/// The stated jitter covers this share of the lateness.
const CENTRAL: f64 = 0.95;

/// A comb with the events on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Comb {
    /// Nanoseconds.
    pub period: f64,
    /// Half width of its 95 % interval.
    pub uncertainty: f64,
    /// Width of the uniform law of the lateness, nanoseconds.
    pub jitter: f64,
    /// Teeth in the watched time.
    pub teeth: u64,
    /// Line, tooth, and the total time that its events took; in order.
    pub struck: Vec<(usize, i64, u64)>,
    /// Lines with the events off the comb; empty if these are few and assigned to it.
    pub rest: Vec<Line>,
    /// Test whether the lateness is uniform within the jitter.
    pub lateness: Tested,
}

/// The comb of lines, or `None` if there is none on which at least half of the teeth have an event.
pub fn comb(lines: &[Line]) -> Option<Comb> {
    // If there is a period, all lines share it: those with the most events show it best.
    let mut shown: Vec<&Line> = lines.iter().filter(|l| l.events.len() >= LEAST).collect();
    shown.sort_by_key(|l| std::cmp::Reverse(l.events.len()));
    let found = shown
        .into_iter()
        .take(SEARCHED)
        .filter_map(|l| Some((l, periodicity::periods(&l.begins()).into_iter().next()?)))
        .max_by(|a, b| a.1.power.total_cmp(&b.1.power));
    let (line, found) = found?;
    let period = sharpen(line, found.period.value)?;
    let mut lanes: Vec<Lane> = lines
        .iter()
        .enumerate()
        .filter(|(_, l)| !l.events.is_empty())
        .map(|(i, l)| Lane::new(i, l, period))
        .collect();
    // First with all events, then without those off the comb.
    let (period, _) = regress(&mut lanes)?;
    let near = nearness(&lanes, period)?;
    lanes.iter_mut().for_each(|l| l.keep(near));
    let (period, uncertainty) = regress(&mut lanes)?;
    lanes.iter_mut().for_each(|l| l.keep(near));

    let mut late: Vec<f64> = lanes.iter().flat_map(Lane::late_on).collect();
    late.sort_by(f64::total_cmp);
    let on = late.len();
    let cut = ((1.0 - CENTRAL) / 2.0 * on as f64).ceil() as usize;
    let (low, high) = (*late.get(cut)?, *late.get(on.checked_sub(cut + 1)?)?);
    let inner = (on - 2 * cut).max(2) as f64;
    // For n uniform values, the k-th and the l-th are (l - k) / (n + 1) of the width apart on
    // average.
    let jitter = (high - low) * (on as f64 + 1.0) / (inner - 1.0);
    if jitter >= 0.5 * period {
        return None;
    }
    let between: Vec<f64> = late[cut + 1..(on - cut - 1).max(cut + 1)]
        .iter()
        .map(|&l| {
            if high > low {
                (l - low) / (high - low)
            } else {
                0.5
            }
        })
        .collect();
    let events: usize = lines.iter().map(|l| l.events.len()).sum();
    // Few events off the comb are assigned to it, many are a process of their own.
    let apart = events - on >= APART;
    let mut struck: Vec<(usize, i64, u64)> = Vec::new();
    let mut rest: Vec<Line> = lines
        .iter()
        .map(|l| Line {
            watched: l.watched.clone(),
            events: Vec::new(),
            ..*l
        })
        .collect();
    for lane in &lanes {
        let own = lane.teeth.iter().zip(&lane.on);
        for ((&tooth, &on), &(begin, length)) in own.zip(&lines[lane.line].events) {
            match struck.last_mut() {
                _ if apart && !on => rest[lane.line].events.push((begin, length)),
                Some(last) if (last.0, last.1) == (lane.line, tooth) => last.2 += length,
                _ => struck.push((lane.line, tooth, length)),
            }
        }
    }
    let time: u64 = lines.iter().map(Line::time).sum();
    let teeth = ((time as f64 / period).round() as u64).max(struck.len() as u64);
    // Share of random events that lie this close to the teeth.
    let chance = 2.0 * near / period;
    let beyond_chance = (on as f64 / events as f64 - chance) / (1.0 - chance);
    let regular =
        struck.len() as f64 >= STRUCK_AT_LEAST * teeth as f64 && beyond_chance >= ON_AT_LEAST;
    // Equal lateness is uniform with a width of 0.
    let even = Tested {
        statistic: 0.0,
        p: 1.0,
    };
    let lateness = match high > low {
        true => uniform(&between).unwrap_or(even),
        false => even,
    };
    regular.then_some(Comb {
        period,
        uncertainty,
        jitter,
        teeth,
        struck,
        rest: if apart { rest } else { Vec::new() },
        lateness,
    })
}

/// Largest distance from its tooth at which an event is on the comb: five standard deviations,
/// estimated from the median and limited so that teeth stay distinct. `None` if most events are so
/// far off that there is no comb.
fn nearness(lanes: &[Lane], period: f64) -> Option<f64> {
    let mut off: Vec<f64> = lanes
        .iter()
        .flat_map(|l| l.late.iter().map(|late| late.abs()))
        .collect();
    off.sort_by(f64::total_cmp);
    let middle = off.get(off.len() / 2).copied().unwrap_or(0.0);
    let near = (5.0 * 1.4826 * middle).max(period / 1_000.0);
    (near < 0.5 * period).then_some(near.min(0.25 * period))
}

/// Events of a line against a comb.
struct Lane {
    line: usize,
    begins: Vec<f64>,
    /// Number of each event's tooth.
    teeth: Vec<i64>,
    /// Distance of each event from its tooth, nanoseconds; centred at 0.
    late: Vec<f64>,
    /// Which events are on the comb.
    on: Vec<bool>,
}

impl Lane {
    fn new(number: usize, line: &Line, period: f64) -> Self {
        let origin = line.events[0].0;
        let begins: Vec<f64> = line.events.iter().map(|e| (e.0 - origin) as f64).collect();
        let (power, angle) = resultant(&begins, period);
        let phase = match power > 0.0 {
            true => angle / std::f64::consts::TAU * period,
            false => 0.0,
        };
        let teeth = begins
            .iter()
            .map(|b| ((b - phase) / period).round() as i64)
            .collect();
        Lane {
            line: number,
            on: vec![true; line.events.len()],
            begins,
            teeth,
            late: Vec::new(),
        }
    }

    /// Keeps the events at most this far from their teeth.
    fn keep(&mut self, near: f64) {
        self.on = self.late.iter().map(|l| l.abs() <= near).collect();
    }

    /// Tooth and start of the events on the comb.
    fn points(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let all = self.teeth.iter().zip(&self.begins).zip(&self.on);
        all.filter(|(_, on)| **on)
            .map(|((&k, &b), _)| (k as f64, b))
    }

    /// Lateness of the events on the comb.
    fn late_on(&self) -> impl Iterator<Item = f64> + '_ {
        let all = self.late.iter().zip(&self.on);
        all.filter(|(_, on)| **on).map(|(&l, _)| l)
    }
}

/// Length and angle of the sum of the events' directions on the circle of a period.
fn resultant(begins: &[f64], period: f64) -> (f64, f64) {
    let (mut x, mut y) = (0.0, 0.0);
    for b in begins {
        let angle = std::f64::consts::TAU * (b / period).fract();
        x += angle.cos();
        y += angle.sin();
    }
    (x.hypot(y), y.atan2(x))
}

/// The period near `first` at which the events of a line agree most.
fn sharpen(line: &Line, first: f64) -> Option<f64> {
    const STEPS: i32 = 24;
    let origin = line.events.first()?.0;
    let begins: Vec<f64> = line.events.iter().map(|e| (e.0 - origin) as f64).collect();
    let cycles = begins.last()? / first;
    // One step moves the last event by an eighth of a period.
    let step = first / (8.0 * cycles.max(1.0));
    let best = (-STEPS..=STEPS)
        .map(|i| first + step * f64::from(i))
        .map(|period| (resultant(&begins, period).0, period))
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(best.1)
}

/// The period that fits the events on the comb by least squares, with the half width of its
/// interval; fills in the lateness of all events.
fn regress(lanes: &mut [Lane]) -> Option<(f64, f64)> {
    let (mut with, mut squares, mut n) = (0.0, 0.0, 0.0);
    let centres: Vec<(f64, f64)> = lanes
        .iter()
        .map(|lane| {
            let count = lane.points().count().max(1) as f64;
            let (tooth, begin) = lane
                .points()
                .fold((0.0, 0.0), |(k, b), point| (k + point.0, b + point.1));
            (tooth / count, begin / count)
        })
        .collect();
    for (lane, (tooth, begin)) in lanes.iter().zip(&centres) {
        for (k, b) in lane.points() {
            let off = k - tooth;
            with += off * (b - begin);
            squares += off * off;
            n += 1.0;
        }
    }
    if squares <= 0.0 {
        return None;
    }
    let period = with / squares;
    let mut rest = 0.0;
    for (lane, (tooth, begin)) in lanes.iter_mut().zip(centres) {
        let all = lane.teeth.iter().zip(&lane.begins);
        lane.late = all
            .map(|(&k, b)| b - begin - period * (k as f64 - tooth))
            .collect();
        rest += lane.late_on().map(|l| l * l).sum::<f64>();
        // Lanes are aligned by their medians, which foreign events do not move.
        let mut sorted: Vec<f64> = lane.late_on().collect();
        sorted.sort_by(f64::total_cmp);
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);
        lane.late.iter_mut().for_each(|l| *l -= median);
    }
    let degrees = (n - lanes.len() as f64 - 1.0).max(1.0);
    (period > 0.0).then(|| (period, 1.96 * (rest / degrees / squares).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(events: impl IntoIterator<Item = (u64, u64)>, end: u64) -> Line {
        Line {
            watched: vec![(0, end)],
            events: events.into_iter().collect(),
            ..Line::default()
        }
    }

    #[test]
    fn an_exact_comb_is_found_exactly() {
        let ticks = |phase: u64| {
            line(
                (0..1_000).map(|i| (phase + i * 4_000_000, 2_000)),
                4_000_000_000,
            )
        };
        let found = comb(&[ticks(17), ticks(1_234_567)]).unwrap();
        assert!((found.period - 4e6).abs() < 1e-3, "{found:?}");
        assert_eq!((found.teeth, found.struck.len()), (2_000, 2_000));
        assert!(found.jitter < 1.0 && found.lateness.p == 1.0);
    }

    #[test]
    fn an_event_cut_in_two_is_one_tooth_and_missing_ones_leave_theirs_empty() {
        let events = (0..1_000_u64).filter(|i| i % 4 != 0).flat_map(|i| {
            let at = i * 1_000_000;
            [(at, 5_000), (at + 600, 1_000)]
                .into_iter()
                .take(1 + usize::from(i % 4 == 1))
        });
        let found = comb(&[line(events, 1_000_000_000)]).unwrap();
        assert_eq!((found.teeth, found.struck.len()), (1_000, 750));
        let stolen: u64 = found.struck.iter().map(|s| s.2).sum();
        assert_eq!(stolen, 750 * 5_000 + 250 * 1_000);
    }

    #[test]
    fn random_events_between_the_teeth_are_told_apart() {
        let mut random = idlewave_stats::random::SplitMix::new(3);
        let mut events: Vec<(u64, u64)> = (0..2_000_u64)
            .map(|i| (i * 4_000_000 + (random.uniform() * 20_000.0) as u64, 2_000))
            .collect();
        events.extend((0..500).map(|_| ((random.uniform() * 8e9) as u64, 9_000)));
        events.sort_unstable();
        let found = comb(&[line(events, 8_000_000_000)]).unwrap();
        assert!((found.period - 4e6).abs() < 10.0, "{}", found.period);
        assert!(
            (found.jitter / 20_000.0 - 1.0).abs() < 0.1,
            "{}",
            found.jitter
        );
        let rest = &found.rest[0].events;
        assert!(
            rest.len() > 450 && rest.iter().all(|e| e.1 == 9_000),
            "{}",
            rest.len()
        );
        let all: u64 = found
            .struck
            .iter()
            .map(|s| s.2)
            .chain(rest.iter().map(|e| e.1))
            .sum();
        assert_eq!(all, 2_000 * 2_000 + 500 * 9_000);
    }

    #[test]
    fn even_gaps_whose_phase_wanders_are_no_comb() {
        let mut random = idlewave_stats::random::SplitMix::new(4);
        let mut at = 0;
        let events: Vec<_> = (0..400)
            .map(|_| {
                at += 900_000 + (random.uniform() * 200_000.0) as u64;
                (at, 1_000)
            })
            .collect();
        assert_eq!(comb(&[line(events, at + 1)]), None);
        assert_eq!(comb(&[]), None);
        assert_eq!(comb(&[line((0..10).map(|i| (i * 100, 1)), 1_000)]), None);
    }
}
