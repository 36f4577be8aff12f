//! What becomes of a single delay: an idle wave, its speed, height and decay.

use super::answer::Question;
use super::error::QuestionError;
use super::runner::advance;
use crate::bulk::{Engine, OneOff};
use idlewave_noise::Noise;
use std::sync::atomic::AtomicBool;

/// How far a delay has travelled after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaveStep {
    /// Steps after that of the delay; 0 is the end of that step itself.
    pub after: u64,
    /// Ranks that are late by at least half of the delay.
    pub late_ranks: u64,
    /// Distance to the farthest of them below the delayed rank, in ranks; `None` if there is none.
    pub down: Option<u32>,
    /// Distance to the farthest of them above it.
    pub up: Option<u32>,
    /// Lateness of the latest rank, in nanoseconds.
    pub peak_ns: u64,
    /// Total lateness of all ranks, in nanoseconds.
    pub lost_ns: u128,
}

/// An idle wave in one replication: a run with the delay compared with one without it, under the
/// same noise.
#[derive(Clone, Debug, PartialEq)]
pub struct Wave {
    /// One entry per step.
    pub steps: Vec<WaveStep>,
    /// Ranks per step by which the front moves up while it moves, by least squares; `None` if it
    /// never moved.
    pub speed: Option<f64>,
    /// Its height at each distance from the delayed rank, from 1, in nanoseconds: the largest
    /// lateness of the rank there, averaged over both sides.
    pub heights_ns: Vec<f64>,
    /// Height that the wave loses per rank, in nanoseconds, by least squares over the distances
    /// that it reached; `None` for fewer than 2.
    pub decay_ns: Option<f64>,
}

/// Follows a delay for this many steps.
///
/// # Errors
/// As [`answer`](super::answer()).
pub fn wave(
    question: &Question<'_>,
    delay: OneOff,
    steps: u64,
    seed: u64,
    stop: &AtomicBool,
) -> Result<Wave, QuestionError> {
    let noise = Noise::new(question.model, seed, 0, |_| true)?;
    let mut without = Engine::new(question.program, &noise, &[])?;
    let mut with = Engine::new(question.program, &noise, &[delay])?;
    advance(&mut without, delay.step, stop)?;
    advance(&mut with, delay.step, stop)?;
    let mut seen = Vec::new();
    let mut most = vec![0_u64; question.program.ranks as usize];
    for after in 0..steps {
        advance(&mut without, 1, stop)?;
        advance(&mut with, 1, stop)?;
        let late = with.times().iter().zip(without.times());
        // More noise never shortens a run, so the delayed run is nowhere earlier.
        let late: Vec<u64> = late.map(|(w, o)| w.saturating_sub(*o)).collect();
        for (most, &late) in most.iter_mut().zip(&late) {
            *most = late.max(*most);
        }
        seen.push(wave_step(after, delay, &late));
    }
    let above = question.program.ranks.saturating_sub(delay.rank + 1);
    let fronts: Vec<(f64, f64)> = moving(&seen, above);
    let heights_ns = heights(&most, delay.rank);
    let reached: Vec<(f64, f64)> = (1..)
        .map(f64::from)
        .zip(heights_ns.iter().copied())
        .collect();
    let reached = reached
        .iter()
        .position(|h| h.1 < REACHED * delay.ns as f64)
        .map_or(&reached[..], |end| &reached[..end]);
    Ok(Wave {
        speed: slope(&fronts),
        decay_ns: slope(reached).map(|s| -s),
        heights_ns,
        steps: seen,
    })
}

/// Where less than this share of the delay has arrived, the wave has not arrived.
const REACHED: f64 = 0.1;

/// Mean of both sides at each distance, as far as there are ranks, and at most to half of their
/// number, where a ring closes.
fn heights(most: &[u64], rank: u32) -> Vec<f64> {
    let rank = rank as usize;
    (1..most.len().div_ceil(2))
        .map_while(|distance| {
            let below = rank.checked_sub(distance).map(|r| most[r]);
            let sides = below.into_iter().chain(most.get(rank + distance).copied());
            let (n, sum) = sides.fold((0, 0.0), |(n, sum), ns| (n + 1, sum + ns as f64));
            (n > 0).then(|| sum / f64::from(n))
        })
        .collect()
}

fn wave_step(after: u64, delay: OneOff, late: &[u64]) -> WaveStep {
    let mut step = WaveStep {
        after,
        late_ranks: 0,
        down: None,
        up: None,
        peak_ns: 0,
        lost_ns: 0,
    };
    for (rank, &ns) in (0_u32..).zip(late) {
        step.peak_ns = step.peak_ns.max(ns);
        step.lost_ns += u128::from(ns);
        if ns >= delay.ns.div_ceil(2) {
            step.late_ranks += 1;
            if rank < delay.rank {
                step.down = step.down.max(Some(delay.rank - rank));
            }
            if rank > delay.rank {
                step.up = step.up.max(Some(rank - delay.rank));
            }
        }
    }
    step
}

/// Positions of the upper front while it moves and has not reached the last rank above.
fn moving(steps: &[WaveStep], above: u32) -> Vec<(f64, f64)> {
    let mut fronts: Vec<(f64, f64)> = Vec::new();
    for step in steps {
        let Some(up) = step.up else { continue };
        if up >= above {
            break;
        }
        let up = f64::from(up);
        if fronts.last().is_some_and(|last| up <= last.1) {
            break;
        }
        fronts.push((step.after as f64, up));
    }
    fronts
}

/// Slope of the least-squares line; `None` for fewer than 2 points.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let n = points.len() as f64;
    if points.len() < 2 {
        return None;
    }
    let x = points.iter().map(|p| p.0).sum::<f64>() / n;
    let y = points.iter().map(|p| p.1).sum::<f64>() / n;
    let up: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let down: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    Some(up / down)
}
