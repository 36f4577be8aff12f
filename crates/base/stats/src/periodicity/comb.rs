//! The comb under a peak of the periodogram: which events lie on it, its exact period, and its
//! fundamental.

use super::thin::thinned;
use crate::distributions::student_quantile;

/// Half widths of a tooth that are tried, in periods.
const HALF_WIDTHS: [f64; 10] = [
    0.001, 0.002, 0.004, 0.007, 0.012, 0.02, 0.035, 0.06, 0.09, 0.125,
];
/// A peak may be up to this harmonic of the true comb.
const HIGHEST_HARMONIC: usize = 64;
/// Parts of a tooth's width; when a comb is removed, the same number of events stays in each.
const PARTS: usize = 16;
/// Half width of a tooth's core, in median distances from its middle: 4 standard deviations.
const CORE: f64 = 6.0;
/// Segments of time whose teeth are compared.
const SEGMENTS: usize = 6;
/// Share of the events of the widest tooth that the chosen one must hold.
const ENOUGH: f64 = 0.96;
/// How uneven the teeth of the finer comb must be for the coarser one: 1.5 if one in three is
/// empty.
const CONCENTRATION: f64 = 1.4;

/// Successive independent deviations differ by twice their variance on average, with a standard
/// deviation of 2 / sqrt(n); less by 2.33 of these is a sign of wandering at 1 %.
const WANDERS: f64 = 2.0 * 2.33;

/// A comb found in events.
#[derive(Clone, Debug)]
pub struct Comb {
    /// Distance of teeth, in the unit of the times.
    pub period: f64,
    /// Position of a tooth, in periods, 0..1.
    phase: f64,
    /// Half width of a tooth, in periods.
    half_width: f64,
    /// Half width of the 95 % interval of the period.
    pub uncertainty: f64,
    /// Mean time of the events in the core of their teeth.
    pub middle: f64,
    /// From there to the next tooth, 0 to one period.
    pub offset: f64,
    /// Half width of the 95 % interval of the offset.
    pub offset_uncertainty: f64,
    /// Whether the events drift off the teeth and back, so that the interval is too narrow.
    pub wanders: bool,
    /// Events on teeth.
    pub on: usize,
    /// Events expected on teeth without a comb.
    by_chance: f64,
}

/// The teeth of a comb by regression; as the fields of [`Comb`] of the same names.
struct Line {
    period: f64,
    uncertainty: f64,
    middle: f64,
    offset: f64,
    offset_uncertainty: f64,
    wanders: bool,
}

impl Comb {
    /// The comb in `times` (in rising order) near a frequency, corrected by regression on its
    /// events.
    pub fn near(times: &[f64], frequency: f64, cycles_needed: f64) -> Option<Self> {
        let (comb, distance) = fitted(times, 1.0 / frequency)?;
        let span = times.last()? - times.first()?;
        let teeth = comb.teeth_per_period(times, span / distance / cycles_needed);
        if teeth == 1 {
            return Some(comb);
        }
        Some(fitted(times, distance * teeth as f64)?.0)
    }

    /// Events of the comb, without those that lie on a tooth by chance.
    pub fn size(&self) -> f64 {
        (self.on as f64 - self.by_chance).max(0.0)
    }

    /// Number of the tooth nearest to `time`, and the distance from it in periods.
    fn nearest(&self, time: f64) -> (f64, f64) {
        let position = time / self.period - self.phase;
        let tooth = position.round();
        (tooth, position - tooth)
    }

    fn is_on(&self, time: f64) -> bool {
        self.nearest(time).1.abs() <= self.half_width
    }

    /// The distance of teeth by least squares of time on tooth number.
    fn regression(&self, times: &[f64]) -> Option<Line> {
        let mut on: Vec<(f64, f64)> = times.iter().map(|&t| self.nearest(t)).collect();
        let mut offs: Vec<f64> = on.iter().map(|p| p.1).collect();
        offs.retain(|off| off.abs() <= self.half_width);
        if offs.is_empty() {
            return None;
        }
        // Events at the edges of a wide tooth are foreign and would tilt the line; a narrow tooth
        // lacks events of its comb, which would hide their scatter.
        let middle = offs.len() / 2;
        let centre = *offs.select_nth_unstable_by(middle, f64::total_cmp).1;
        offs.iter_mut().for_each(|off| *off = (*off - centre).abs());
        let core = CORE * *offs.select_nth_unstable_by(middle, f64::total_cmp).1;
        on.retain(|p| (p.1 - centre).abs() <= core);
        let n = on.len() as f64;
        if on.len() < 3 {
            return None;
        }
        let (x, y) = on.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0, y + p.1));
        let (x, y) = (x / n, y / n);
        let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
        for p in &on {
            xx += (p.0 - x) * (p.0 - x);
            xy += (p.0 - x) * (p.1 - y);
            yy += (p.1 - y) * (p.1 - y);
        }
        if xx <= 0.0 {
            return None;
        }
        let rest = (yy - xy * xy / xx).max(0.0) / (n - 2.0);
        let quantile = student_quantile(0.975, n - 2.0);
        let half_width = quantile * (rest / xx).sqrt();
        let period = self.period * (1.0 + xy / xx);
        // The line passes through the mean; the next tooth is the next whole number.
        let ahead = x.ceil() - x;
        let off_line = |p: &(f64, f64)| p.1 - y - xy / xx * (p.0 - x);
        let steps: f64 = on
            .windows(2)
            .map(|pair| (off_line(&pair[1]) - off_line(&pair[0])).powi(2))
            .sum();
        Some(Line {
            period,
            uncertainty: self.period * half_width,
            middle: self.period * (self.phase + x + y),
            offset: period * ahead,
            offset_uncertainty: self.period
                * quantile
                * (rest * (1.0 / n + ahead * ahead / xx)).sqrt(),
            wanders: steps < (2.0 - WANDERS / n.sqrt()) * rest * (n - 2.0),
        })
    }

    /// How many periods of this comb make one of the true comb. A comb has equal power at all its
    /// harmonics, and the periodogram may have found any of them; then teeth are empty in a regular
    /// pattern.
    fn teeth_per_period(&self, times: &[f64], most: f64) -> usize {
        let times = thinned(times);
        let teeth: Vec<i64> = times
            .iter()
            .filter(|&&t| self.is_on(t))
            .map(|&t| self.nearest(t).0 as i64)
            .collect();
        let pairs = teeth.len() as f64 * (teeth.len() as f64 - 1.0) / 2.0;
        let segment = teeth.len().div_ceil(SEGMENTS).max(1);
        let mut best = (1.0, 1);
        for k in 2..=HIGHEST_HARMONIC.min(most as usize) {
            let parts: Vec<Vec<f64>> = teeth
                .chunks(segment)
                .map(|part| on_tooth(part, k))
                .collect();
            // Pairs on the same tooth of k, against those expected by chance.
            let same: f64 = (0..k)
                .map(|tooth| parts.iter().map(|p| p[tooth]).sum::<f64>())
                .map(|count| 0.5 * count * (count - 1.0))
                .sum();
            let chance = pairs / k as f64;
            let clear = same - chance > 5.0 * chance.sqrt() + 5.0;
            let concentration = lasting(&parts).min(same / chance.max(f64::MIN_POSITIVE));
            if clear && concentration > CONCENTRATION && concentration > 1.1 * best.0 {
                best = (concentration, k);
            }
        }
        best.1
    }

    /// Removes the comb from `times`. As many events stay on its teeth as lie there by chance,
    /// evenly over a tooth's width, so that neither a comb nor its negative is left.
    pub fn peel(&self, times: &[f64]) -> Vec<f64> {
        let part = |time: f64| {
            let off = self.nearest(time).1 / self.half_width;
            (off.abs() <= 1.0).then(|| ((0.5 * (off + 1.0) * PARTS as f64) as usize).min(PARTS - 1))
        };
        let mut counts = [0_u64; PARTS];
        for part in times.iter().filter_map(|&t| part(t)) {
            counts[part] += 1;
        }
        let mut due = [0.5; PARTS];
        times
            .iter()
            .copied()
            .filter(|&t| {
                let Some(part) = part(t) else { return true };
                due[part] += self.by_chance / PARTS as f64 / counts[part] as f64;
                let stays = due[part] >= 1.0;
                if stays {
                    due[part] -= 1.0;
                }
                stays
            })
            .collect()
    }
}

/// How uneven the teeth are, by pairs of events from different segments of time: a comb that keeps
/// its phase uses the same teeth throughout. The smallest of the values for segments one, two and
/// three apart; 1 for chance.
fn lasting(parts: &[Vec<f64>]) -> f64 {
    (1..=SEGMENTS / 2)
        .map(|apart| {
            let (mut same, mut pairs) = (0.0, 0.0);
            for (early, late) in parts.iter().zip(parts.iter().skip(apart)) {
                same +=
                    early.iter().zip(late).map(|(a, b)| a * b).sum::<f64>() * early.len() as f64;
                pairs += early.iter().sum::<f64>() * late.iter().sum::<f64>();
            }
            if pairs > 0.0 { same / pairs } else { 0.0 }
        })
        .fold(f64::INFINITY, f64::min)
}

/// `times` folded at `distance`, corrected by regression: the comb and its exact distance.
fn fitted(times: &[f64], distance: f64) -> Option<(Comb, f64)> {
    let line = tooth(times, distance)?.regression(times)?;
    let line = tooth(times, line.period)?.regression(times)?;
    let comb = Comb {
        uncertainty: line.uncertainty,
        middle: line.middle,
        offset: line.offset,
        offset_uncertainty: line.offset_uncertainty,
        wanders: line.wanders,
        ..tooth(times, line.period)?
    };
    Some((comb, line.period))
}

/// Events on each of `k` successive teeth.
fn on_tooth(teeth: &[i64], k: usize) -> Vec<f64> {
    let mut counts = vec![0.0; k];
    for tooth in teeth {
        counts[tooth.rem_euclid(k as i64) as usize] += 1.0;
    }
    counts
}

/// The tooth that stands out most when `times` are folded at `distance`.
fn tooth(times: &[f64], distance: f64) -> Option<Comb> {
    let mut phases: Vec<f64> = times
        .iter()
        .map(|t| (t / distance).rem_euclid(1.0))
        .collect();
    phases.sort_unstable_by(f64::total_cmp);
    let n = phases.len();
    let at = |i: usize| {
        if i < n {
            phases[i]
        } else {
            phases[i - n] + 1.0
        }
    };
    let mut combs: Vec<Comb> = Vec::new();
    for half_width in HALF_WIDTHS {
        let width = 2.0 * half_width;
        let (mut to, mut most, mut from) = (0, 0, 0);
        for i in 0..n {
            to = to.max(i);
            while to + 1 < i + n && at(to + 1) - at(i) <= width {
                to += 1;
            }
            if to + 1 - i > most {
                (most, from) = (to + 1 - i, i);
            }
        }
        if most == 0 {
            continue;
        }
        // The middle of the tooth is where its events are, not the middle of the window.
        let phase = (0..most).map(|i| at(from + i)).sum::<f64>() / most as f64;
        let by_chance = (n - most) as f64 / (1.0 - width) * width;
        combs.push(Comb {
            period: distance,
            phase: phase.rem_euclid(1.0),
            half_width,
            uncertainty: 0.0,
            middle: 0.0,
            offset: 0.0,
            offset_uncertainty: 0.0,
            wanders: false,
            on: most,
            by_chance,
        });
    }
    // The narrowest tooth that holds nearly the largest excess over chance.
    let most = combs
        .iter()
        .map(|c| c.size() - c.by_chance.sqrt())
        .fold(0.0, f64::max);
    let mut comb = combs.into_iter().find(|c| c.size() >= ENOUGH * most)?;
    let width = 2.0 * comb.half_width;
    comb.on = times.iter().filter(|&&t| comb.is_on(t)).count();
    comb.by_chance = (times.len() - comb.on) as f64 / (1.0 - width) * width;
    Some(comb)
}
