//! Events on a comb: a period that all lines share, a phase for each, and by how much events are late.

use crate::line::Line;
use idlewave_stats::exponential_fit::{Tested, uniform};
use idlewave_stats::periodicity;

/// Fewer events on a line show no period.
const LEAST: usize = 16;
/// More teeth without event, or with several, are no comb.
const STRUCK_AT_LEAST: f64 = 0.5;
const PER_TOOTH_AT_MOST: f64 = 1.5;
/// Of the lateness, this share lies within the jitter that is stated.
const CENTRAL: f64 = 0.95;

/// A comb with the events on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Comb {
    /// Nanoseconds.
    pub period: f64,
    /// Half width of its 95 % interval.
    pub uncertainty: f64,
    /// Width of the even law of the lateness, nanoseconds.
    pub jitter: f64,
    /// Teeth in the time watched.
    pub teeth: u64,
    /// Line, tooth, and what the events on it took together; in order.
    pub struck: Vec<(usize, i64, u64)>,
    /// Whether the lateness is even within the jitter.
    pub lateness: Tested,
}

/// The comb of lines, or `None` if there is none on which at least half of the teeth are struck.
pub fn comb(lines: &[Line]) -> Option<Comb> {
    let found = lines
        .iter()
        .filter(|l| l.events.len() >= LEAST)
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
    let (period, uncertainty) = regress(&mut lanes)?;

    let mut late: Vec<f64> = lanes.iter().flat_map(|l| l.late.iter().copied()).collect();
    late.sort_by(f64::total_cmp);
    let cut = ((1.0 - CENTRAL) / 2.0 * late.len() as f64).ceil() as usize;
    let (low, high) = (
        *late.get(cut)?,
        *late.get(late.len().checked_sub(cut + 1)?)?,
    );
    let inner = (late.len() - 2 * cut).max(2) as f64;
    // Of n even values the k-th and the l-th are (l - k) / (n + 1) of the width apart on the average.
    let jitter = (high - low) * (late.len() as f64 + 1.0) / (inner - 1.0);
    if jitter >= 0.5 * period {
        return None;
    }
    let between: Vec<f64> = late[cut + 1..(late.len() - cut - 1).max(cut + 1)]
        .iter()
        .map(|&l| {
            if high > low {
                (l - low) / (high - low)
            } else {
                0.5
            }
        })
        .collect();
    let mut struck: Vec<(usize, i64, u64)> = Vec::new();
    for lane in &lanes {
        for (&tooth, &(_, length)) in lane.teeth.iter().zip(&lines[lane.line].events) {
            match struck.last_mut() {
                Some(last) if (last.0, last.1) == (lane.line, tooth) => last.2 += length,
                _ => struck.push((lane.line, tooth, length)),
            }
        }
    }
    let events: usize = lines.iter().map(|l| l.events.len()).sum();
    let time: u64 = lines.iter().map(Line::time).sum();
    let teeth = ((time as f64 / period).round() as u64).max(struck.len() as u64);
    let regular = struck.len() as f64 >= STRUCK_AT_LEAST * teeth as f64
        && events as f64 <= PER_TOOTH_AT_MOST * struck.len() as f64;
    // Equal lateness is even on a width of nothing.
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
        lateness,
    })
}

/// Events of a line against a comb.
struct Lane {
    line: usize,
    begins: Vec<f64>,
    /// Number of each event's tooth.
    teeth: Vec<i64>,
    /// By how much each event is off its tooth, nanoseconds; the middle of all is 0.
    late: Vec<f64>,
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
            begins,
            teeth,
            late: Vec::new(),
        }
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

/// The period that lies closest to all events by least squares, with the half width of its interval; fills in the lateness.
fn regress(lanes: &mut [Lane]) -> Option<(f64, f64)> {
    let (mut with, mut squares, mut n) = (0.0, 0.0, 0.0);
    let centres: Vec<(f64, f64)> = lanes
        .iter()
        .map(|lane| {
            let count = lane.begins.len() as f64;
            let tooth = lane.teeth.iter().map(|&k| k as f64).sum::<f64>() / count;
            let begin = lane.begins.iter().sum::<f64>() / count;
            (tooth, begin)
        })
        .collect();
    for (lane, (tooth, begin)) in lanes.iter().zip(&centres) {
        for (&k, b) in lane.teeth.iter().zip(&lane.begins) {
            let off = k as f64 - tooth;
            with += off * (b - begin);
            squares += off * off;
        }
        n += lane.begins.len() as f64 - 1.0;
    }
    if squares <= 0.0 {
        return None;
    }
    let period = with / squares;
    let mut rest = 0.0;
    for (lane, (tooth, begin)) in lanes.iter_mut().zip(centres) {
        let off = lane.teeth.iter().zip(&lane.begins);
        lane.late = off
            .map(|(&k, b)| b - begin - period * (k as f64 - tooth))
            .collect();
        rest += lane.late.iter().map(|l| l * l).sum::<f64>();
        // Lanes are laid over each other by their medians, which foreign events do not move.
        let mut sorted = lane.late.clone();
        sorted.sort_by(f64::total_cmp);
        let median = sorted[sorted.len() / 2];
        lane.late.iter_mut().for_each(|l| *l -= median);
    }
    (period > 0.0).then(|| (period, 1.96 * (rest / (n - 1.0).max(1.0) / squares).sqrt()))
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
            [(at, 5_000), (at + 6_000, 1_000)]
                .into_iter()
                .take(1 + usize::from(i % 4 == 1))
        });
        let found = comb(&[line(events, 1_000_000_000)]).unwrap();
        assert_eq!((found.teeth, found.struck.len()), (1_000, 750));
        let stolen: u64 = found.struck.iter().map(|s| s.2).sum();
        assert_eq!(stolen, 750 * 5_000 + 250 * 1_000);
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
