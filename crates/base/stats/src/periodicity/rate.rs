//! The slowly varying rate of events, so that holes and changes of rate do not look like periods.
//!
//! Time without events that is far longer than usual gaps is a hole: its events were not recorded,
//! and the rate is 0. The rest is cut where the rate changes for long, by change points in the
//! counts of 256 bins (square roots, which have variance 1/4 for Poisson counts). A piece between
//! changes is at least an eighth of the watched time, as long as the longest period searched for,
//! so that no period is taken for a change.

use crate::change_points::change_points;
use std::f64::consts::PI;

/// With fewer cycles than this in the watched time, nothing counts as a period.
pub const CYCLES_NEEDED: f64 = 8.0;
const BINS: usize = 256;
/// With fewer events, an uneven rate shows no power.
const EVENTS_NEEDED: usize = 128;
/// A hole is longer than this many 99th percentiles of the gaps.
const HOLE: f64 = 5.0;

/// A stretch of time with a constant rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// Start, in the unit of the times.
    pub begin: f64,
    /// End.
    pub end: f64,
    /// Events per unit of time.
    pub rate: f64,
}

/// Rate of events at `times`, in rising order, within `0..span`: pieces in order of time, none in a
/// hole.
pub fn pieces(times: &[f64], span: f64) -> Vec<Piece> {
    let holes = holes(times, span);
    let hidden: f64 = holes.iter().map(|h| h.1 - h.0).sum();
    let watched = span - hidden;
    // Time without the holes.
    let bin = watched / BINS as f64;
    let mut counts = vec![0.0_f64; BINS];
    let mut next = holes.iter().peekable();
    let mut before = 0.0;
    for &time in times {
        while let Some(hole) = next.next_if(|h| h.1 <= time) {
            before += hole.1 - hole.0;
        }
        counts[(((time - before) / bin) as usize).min(BINS - 1)] += 1.0;
    }
    let mut cuts = vec![0];
    if times.len() >= EVENTS_NEEDED {
        let roots: Vec<f64> = counts.iter().map(|c| (c + 0.375).sqrt()).collect();
        let variance = variance(&roots).max(0.25);
        let penalty = 3.0 * (BINS as f64).ln() * variance;
        cuts.extend(change_points(
            &roots,
            penalty,
            BINS / CYCLES_NEEDED as usize,
        ));
    }
    cuts.push(BINS);
    let mut pieces = Vec::new();
    for cut in cuts.windows(2) {
        let count: f64 = counts[cut[0]..cut[1]].iter().sum();
        let rate = count / ((cut[1] - cut[0]) as f64 * bin);
        push(
            &mut pieces,
            &holes,
            cut[0] as f64 * bin,
            cut[1] as f64 * bin,
            rate,
        );
    }
    pieces
}

/// Adds a piece given in time without holes, split at the holes in it.
fn push(pieces: &mut Vec<Piece>, holes: &[(f64, f64)], begin: f64, end: f64, rate: f64) {
    let mut before = 0.0;
    let mut begin = begin;
    for hole in holes {
        let at = hole.0 - before;
        if at > begin && at < end {
            pieces.push(Piece {
                begin: begin + before,
                end: hole.0,
                rate,
            });
            begin = at;
        }
        if at >= end {
            break;
        }
        before += hole.1 - hole.0;
    }
    pieces.push(Piece {
        begin: begin + before,
        end: end + before,
        rate,
    });
}

fn holes(times: &[f64], span: f64) -> Vec<(f64, f64)> {
    if times.len() < EVENTS_NEEDED {
        return Vec::new();
    }
    let mut gaps: Vec<f64> = times.windows(2).map(|w| w[1] - w[0]).collect();
    let rank = gaps.len() * 99 / 100;
    let usual = *gaps.select_nth_unstable_by(rank, f64::total_cmp).1;
    let long = (HOLE * usual).max(span / BINS as f64);
    times
        .windows(2)
        .filter(|w| w[1] - w[0] > long)
        .map(|w| (w[0], w[1]))
        .collect()
}

/// Variance from the differences of successive values, robust against steps.
fn variance(values: &[f64]) -> f64 {
    let mut steps: Vec<f64> = values.windows(2).map(|w| (w[1] - w[0]).abs()).collect();
    let middle = steps.len() / 2;
    let mad = 1.4826 * *steps.select_nth_unstable_by(middle, f64::total_cmp).1;
    0.5 * mad * mad
}

/// Expected events in each of `bins` bins of `0..span`.
pub fn expected(pieces: &[Piece], bins: usize, span: f64) -> Vec<f64> {
    let width = span / bins as f64;
    let mut counts = vec![0.0; bins];
    for piece in pieces {
        let (from, to) = (piece.begin / width, piece.end / width);
        let (first, last) = (from as usize, (to as usize).min(bins - 1));
        for (i, count) in counts.iter_mut().enumerate().take(last + 1).skip(first) {
            let overlap = to.min((i + 1) as f64) - from.max(i as f64);
            *count += piece.rate * width * overlap.max(0.0);
        }
    }
    counts
}

/// Fourier transform of the rate within `from..to` at frequency `f`: real and imaginary part of its
/// integral with exp(2 pi i f t).
pub fn transform(pieces: &[Piece], from: f64, to: f64, f: f64) -> (f64, f64) {
    pieces.iter().fold((0.0, 0.0), |(re, im), p| {
        let (begin, end) = (p.begin.max(from), p.end.min(to));
        if begin >= end {
            return (re, im);
        }
        let (half, middle) = (PI * f * (end - begin), PI * f * (end + begin));
        let size = p.rate * half.sin() / (PI * f);
        (re + size * middle.cos(), im + size * middle.sin())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    #[test]
    fn a_hole_and_a_change_of_rate_are_found() {
        let mut random = Random::new(1);
        let mut times: Vec<f64> = (0..4000).map(|_| random.uniform()).collect();
        times.retain(|&t| !(0.3..0.4).contains(&t) && (t < 0.7 || random.uniform() < 0.5));
        times.sort_unstable_by(f64::total_cmp);
        let got = pieces(&times, 1.0);
        assert_eq!(got.len(), 3, "{got:?}");
        assert!(
            (got[0].end - 0.3).abs() < 0.005 && (got[1].begin - 0.4).abs() < 0.005,
            "{got:?}"
        );
        assert!(
            (got[1].end - 0.7).abs() < 0.02 && got[1].end == got[2].begin,
            "{got:?}"
        );
        assert!((got[0].rate - 4000.0).abs() < 200.0 && (got[2].rate - 2000.0).abs() < 250.0);
        let events: f64 = got.iter().map(|p| p.rate * (p.end - p.begin)).sum();
        assert!((events - times.len() as f64).abs() < 1.0, "{events}");
        let binned: f64 = expected(&got, 1000, 1.0).iter().sum();
        assert!((binned - events).abs() < 1e-6 * events);
    }

    #[test]
    fn the_transform_of_a_rate_is_its_integral() {
        let got = [
            Piece {
                begin: 0.1,
                end: 0.35,
                rate: 7.0,
            },
            Piece {
                begin: 0.35,
                end: 0.9,
                rate: 2.0,
            },
        ];
        let f = 3.3;
        let steps = 100_000;
        let (mut re, mut im) = (0.0, 0.0);
        for (i, count) in expected(&got, steps, 1.0).iter().enumerate() {
            let (sin, cos) = (2.0 * PI * f * (i as f64 + 0.5) / steps as f64).sin_cos();
            re += count * cos;
            im += count * sin;
        }
        let halves = [transform(&got, 0.0, 0.5, f), transform(&got, 0.5, 1.0, f)];
        let closed = (halves[0].0 + halves[1].0, halves[0].1 + halves[1].1);
        assert!(
            (closed.0 - re).abs() < 1e-6 && (closed.1 - im).abs() < 1e-6,
            "{closed:?}"
        );
    }

    #[test]
    fn a_comb_of_slow_bursts_has_one_rate() {
        let times: Vec<f64> = (0..200)
            .map(|i| f64::from(i / 10) * 0.05 + f64::from(i % 10) * 1e-4)
            .collect();
        assert_eq!(pieces(&times, 0.951).len(), 1);
    }
}
