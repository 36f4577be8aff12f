//! The comb under a peak of the periodogram: which events lie on it, its exact period, and its fundamental.

use crate::distributions::student_quantile;

/// Half widths of a tooth that are tried, in periods.
const HALF_WIDTHS: [f64; 7] = [0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.125];
/// A peak is looked at as up to this harmonic of the true comb.
const HIGHEST_HARMONIC: usize = 64;
/// Teeth of the finer comb that must be empty for the coarser one: at least about half.
const CONCENTRATION: f64 = 1.8;

/// A comb found in events.
#[derive(Clone, Debug)]
pub struct Comb {
    /// Distance of the finest teeth, in the unit of the times.
    pub tooth_distance: f64,
    /// Position of a tooth, in tooth distances, 0..1.
    phase: f64,
    /// Half width of a tooth, in tooth distances.
    half_width: f64,
    /// Tooth distances per period.
    pub teeth: usize,
    /// Half width of the 95 % interval of the period.
    pub uncertainty: f64,
    /// Events on teeth.
    pub on: usize,
    /// Of these, those to be expected there without a comb.
    by_chance: f64,
}

impl Comb {
    /// The comb in `times`, which are in rising order, near a frequency; the regression on the events of the
    /// comb corrects it.
    pub fn near(times: &[f64], frequency: f64, cycles_needed: f64) -> Option<Self> {
        let mut distance = 1.0 / frequency;
        let mut found = None;
        for _ in 0..2 {
            let mut comb = tooth(times, distance)?;
            let (slope, uncertainty) = comb.regression(times)?;
            comb.uncertainty = uncertainty;
            distance = slope;
            found = Some(comb);
        }
        let mut comb = tooth(times, distance)?;
        comb.uncertainty = found?.uncertainty;
        let span = times.last()? - times.first()?;
        comb.teeth = comb.fundamental(times, span / distance / cycles_needed);
        comb.uncertainty *= comb.teeth as f64;
        Some(comb)
    }

    /// Period, in the unit of the times.
    pub fn period(&self) -> f64 {
        self.tooth_distance * self.teeth as f64
    }

    /// Events of the comb, without those that lie on a tooth by chance.
    pub fn size(&self) -> f64 {
        (self.on as f64 - self.by_chance).max(0.0)
    }

    /// Number of the tooth nearest to `time`, and the distance from it in tooth distances.
    fn nearest(&self, time: f64) -> (f64, f64) {
        let position = time / self.tooth_distance - self.phase;
        let tooth = position.round();
        (tooth, position - tooth)
    }

    fn is_on(&self, time: f64) -> bool {
        self.nearest(time).1.abs() <= self.half_width
    }

    /// Distance of teeth by least squares of time on tooth number, with the half width of its 95 % interval.
    fn regression(&self, times: &[f64]) -> Option<(f64, f64)> {
        let on: Vec<(f64, f64)> = times
            .iter()
            .filter(|&&t| self.is_on(t))
            .map(|&t| self.nearest(t))
            .collect();
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
        let half_width = student_quantile(0.975, n - 2.0) * (rest / xx).sqrt();
        Some((
            self.tooth_distance * (1.0 + xy / xx),
            self.tooth_distance * half_width,
        ))
    }

    /// How many tooth distances make a period. A comb has equal power at all its harmonics, and the periodogram
    /// may have shown any of them: then teeth are empty in a regular way.
    fn fundamental(&self, times: &[f64], most: f64) -> usize {
        let teeth: Vec<i64> = times
            .iter()
            .filter(|&&t| self.is_on(t))
            .map(|&t| self.nearest(t).0 as i64)
            .collect();
        let pairs = teeth.len() as f64 * (teeth.len() as f64 - 1.0) / 2.0;
        let mut counts = Vec::new();
        let mut best = (1.0, 1);
        for k in 2..=HIGHEST_HARMONIC.min(most as usize) {
            counts.clear();
            counts.resize(k, 0_u64);
            for tooth in &teeth {
                counts[tooth.rem_euclid(k as i64) as usize] += 1;
            }
            // Pairs on the same tooth of k, against those by chance.
            let same: f64 = counts
                .iter()
                .map(|&c| c as f64 * (c as f64 - 1.0) / 2.0)
                .sum();
            let chance = pairs / k as f64;
            let concentration = same / chance.max(f64::MIN_POSITIVE);
            let clear = same - chance > 5.0 * chance.sqrt() + 5.0;
            if clear && concentration > CONCENTRATION && concentration > 1.1 * best.0 {
                best = (concentration, k);
            }
        }
        best.1
    }

    /// Takes the comb out of `times`; as many events stay on its teeth as lie there by chance.
    pub fn peel(&self, times: &[f64]) -> Vec<f64> {
        let keep = self.by_chance / self.on.max(1) as f64;
        let mut due = 0.5;
        times
            .iter()
            .copied()
            .filter(|&t| {
                if !self.is_on(t) {
                    return true;
                }
                due += keep;
                if due >= 1.0 {
                    due -= 1.0;
                    return true;
                }
                false
            })
            .collect()
    }
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
    let mut best: Option<(f64, Comb)> = None;
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
        // Where the events of the tooth are, rather than the window, is its middle.
        let phase = (0..most).map(|i| at(from + i)).sum::<f64>() / most as f64;
        let by_chance = (n - most) as f64 / (1.0 - width) * width;
        let clear = (most as f64 - n as f64 * width) / (n as f64 * width * (1.0 - width)).sqrt();
        let comb = Comb {
            tooth_distance: distance,
            phase: phase.rem_euclid(1.0),
            half_width,
            teeth: 1,
            uncertainty: 0.0,
            on: most,
            by_chance,
        };
        // A wider tooth must be worth it: the same events in a wider one are less clear.
        if best.as_ref().is_none_or(|(c, _)| clear > *c) {
            best = Some((clear, comb));
        }
    }
    let (_, mut comb) = best?;
    comb.on = times.iter().filter(|&&t| comb.is_on(t)).count();
    Some(comb)
}
