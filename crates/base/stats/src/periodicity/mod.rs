//! Periods in event times: which events come back, how often, and how many of all belong to them.
//!
//! Definition: two kinds of evidence, each relative to its own threshold for a false alarm in one
//! call of a thousand.
//! 1. The event periodogram (`spectrum`): peaks of |sum exp(2 pi i f t)|^2 / n over the median
//!    around them, against ln(M / alpha). Under a peak, the events are folded; those on the
//!    densest tooth are regressed on their tooth number, which gives the period with its
//!    interval. A harmonic is told from the fundamental by regularly empty teeth. The comb is
//!    taken out and the search repeated, so that several periods are found. The regression also
//!    gives the phase: the line at the mean tooth number, with the standard error of the mean.
//! 2. Regular gaps (`gaps`), which need no phase that lasts. Where both find the same period, the
//!    stronger evidence counts, and the estimate of the one that explains more events. If events
//!    wander about the teeth, it is that of the gaps.
//!
//! Assumptions: at least 8 periods in the time watched, up to 32 times the mean rate of events, and
//! above 4 time bins (0.5 ms in half a minute) where there are thousands of events. Holes, missing
//! and foreign events cost power only. Bias: the interval of a comb assumes independent deviations
//! from the teeth and is too narrow where they wander and the gaps show no period; the share counts
//! foreign events on a tooth as many as lie beside it. The phase is that of the mean event: if
//! events come late, never early, it is the tooth plus the mean lateness. Events that wander, and
//! regular gaps without a comb, have no phase.
//!
//! Reference: Mardia and Jupp, *Directional Statistics* (Rayleigh test); Buccheri et al., Astron.
//! Astrophys. 128 (1983) 245 (periodogram of event times).

mod comb;
mod fft;
mod gaps;
mod rate;
mod spectrum;
mod thin;

use crate::estimate::{CombPhase, Estimate, Periodicity, Spectrum};
use comb::Comb;
use rate::{CYCLES_NEEDED, Piece};
use spectrum::{Powers, Range};

/// Periods reported at most.
const MOST: usize = 4;
/// Combs taken out at most; some are further teeth of the same period.
const ROUNDS: usize = 6;
/// Rounds in a row that end the search if they find only more of what is known.
const IDLE: usize = 2;
/// Peaks in a row that turn out spurious before the search ends.
const TRIES: usize = 4;
/// Relative distance within which two periods are the same.
const SAME: f64 = 0.01;
/// Events closer than this (nanoseconds), and closer than this part of the median gap, are one
/// event cut in two.
const CUT_NS: u64 = 200_000;
const CUT_PART: u64 = 20;

/// Periods of events at `times` (nanoseconds, in any order), strongest evidence first; all are
/// significant.
pub fn periods(times: &[u64]) -> Vec<Periodicity> {
    search(times).0
}

/// The same, with the outline of the periodogram of all events in at most `most` points; `None` if
/// there are too few events.
pub fn periods_and_spectrum(times: &[u64], most: usize) -> (Vec<Periodicity>, Option<Spectrum>) {
    let (periods, powers) = search(times);
    (periods, powers.map(|p| p.outline(most)))
}

/// Periods, and the powers of all events.
fn search(times: &[u64]) -> (Vec<Periodicity>, Option<Powers>) {
    let times = events(times);
    let (mut found, powers) = combs(&times);
    if let Some(gap) = gaps::regular_gap(&times) {
        join_gap(&mut found, gap);
    }
    let mut found: Vec<Periodicity> = found.into_iter().map(|f| f.periodicity).collect();
    found.sort_by(|a, b| b.power.total_cmp(&a.power));
    found.truncate(MOST);
    (found, powers)
}

/// A period found.
struct Found {
    periodicity: Periodicity,
    /// Whether the events do not keep to the teeth of its comb.
    wanders: bool,
}

/// Sorted times, with the parts of split events merged.
fn events(times: &[u64]) -> Vec<u64> {
    let mut times = times.to_vec();
    times.sort_unstable();
    let mut gaps: Vec<u64> = times.windows(2).map(|w| w[1] - w[0]).collect();
    if gaps.is_empty() {
        return times;
    }
    let middle = gaps.len() / 2;
    let near = (*gaps.select_nth_unstable(middle).1 / CUT_PART).min(CUT_NS);
    times.dedup_by(|next, kept| *next - *kept <= near);
    times
}

/// Combs in `times`, found one after the other, and the powers before any is taken out.
fn combs(times: &[u64]) -> (Vec<Found>, Option<Powers>) {
    let mut found: Vec<Found> = Vec::new();
    let mut of_all = None;
    let (Some(&first), Some(&last)) = (times.first(), times.last()) else {
        return (found, of_all);
    };
    let Some(range) = Range::of(times.len(), last - first) else {
        return (found, of_all);
    };
    let mut rest: Vec<f64> = times.iter().map(|&t| (t - first) as f64).collect();
    let all = rest.len() as f64;
    let mut idle = 0;
    for _ in 0..ROUNDS {
        let rate = rate::pieces(&rest, range.span);
        let powers = range.powers(&rest, &rate);
        let strongest = strongest(&range, &rest, &rate, &powers);
        of_all.get_or_insert(powers);
        let Some((comb, power)) = strongest else {
            break;
        };
        let periodicity = Periodicity {
            period: Estimate {
                value: comb.period,
                low: comb.period - comb.uncertainty,
                high: comb.period + comb.uncertainty,
                n: comb.on as u64,
                method: "event periodogram, regression on its comb, 95 %".to_owned(),
            },
            share: (comb.size() / all).min(1.0),
            power,
            phase: (!comb.wanders).then(|| phase(&comb, first)),
        };
        rest = comb.peel(&rest);
        let wanders = comb.wanders;
        let next = Found {
            periodicity,
            wanders,
        };
        idle = if join_comb(&mut found, next) {
            0
        } else {
            idle + 1
        };
        if rest.len() < 8 || idle == IDLE {
            break;
        }
    }
    (found, of_all)
}

/// Where a comb lies whose times were counted from `first`.
fn phase(comb: &Comb, first: u64) -> CombPhase {
    // The reference is a whole number of nanoseconds, not before the middle.
    let reference = comb.middle.ceil();
    let offset = (comb.offset - (reference - comb.middle)).rem_euclid(comb.period);
    CombPhase {
        reference_ns: first.saturating_add(reference as u64),
        offset: Estimate {
            value: offset,
            low: offset - comb.offset_uncertainty,
            high: offset + comb.offset_uncertainty,
            n: comb.on as u64,
            method: "regression of the events on their comb, 95 %".to_owned(),
        },
    }
}

/// The comb under the highest significant peak, with its power over the threshold.
fn strongest(range: &Range, times: &[f64], rate: &[Piece], powers: &Powers) -> Option<(Comb, f64)> {
    powers
        .candidates(TRIES)
        .into_iter()
        .find_map(|(cycles, background)| {
            let (cycles, power) = range.refine(times, rate, cycles);
            let over = power / background / range.threshold;
            if over <= 1.0 {
                return None;
            }
            let comb = Comb::near(times, cycles / range.span, CYCLES_NEEDED)?;
            (comb.size() >= 3.0).then_some((comb, over))
        })
}

/// Adds a comb; whether it is new. Further teeth of a known period add to its share; weak harmonics
/// of it are its shape, not another period.
fn join_comb(found: &mut Vec<Found>, next: Found) -> bool {
    let new = &next.periodicity;
    for known in found.iter_mut().map(|f| &mut f.periodicity) {
        let ratio = new.period.value / known.period.value;
        if same(ratio) {
            let more = new.share > 0.25 * known.share;
            known.share = (known.share + new.share).min(1.0);
            return more;
        }
        let times = ratio.max(1.0 / ratio);
        if same(times / times.round()) && new.share < 0.5 * known.share {
            return false;
        }
    }
    found.push(next);
    true
}

fn join_gap(found: &mut Vec<Found>, gap: Periodicity) {
    let near =
        |f: &&mut Found| (gap.period.value / f.periodicity.period.value - 1.0).abs() < 2.0 * SAME;
    if let Some(Found {
        periodicity: known,
        wanders,
    }) = found.iter_mut().find(near)
    {
        let power = known.power.max(gap.power);
        if *wanders || gap.share > 1.25 * known.share {
            *known = gap;
        }
        known.power = power;
        return;
    }
    let of_longer = found.iter().any(|f| {
        let known = &f.periodicity;
        known.period.value > gap.period.value && known.share >= gap.share
    });
    if of_longer || (gap.share < 0.5 && !found.is_empty()) {
        return;
    }
    // Timers that fire on clock ticks show the tick as their comb, but recur more slowly.
    found.retain(|f| {
        let ticks = gap.period.value / f.periodicity.period.value;
        ticks < 1.5 || !same(ticks / ticks.round())
    });
    found.push(Found {
        periodicity: gap,
        wanders: false,
    });
}

fn same(ratio: f64) -> bool {
    (ratio - 1.0).abs() < SAME
}

#[cfg(test)]
mod tests;
