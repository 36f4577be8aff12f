//! Event (Rayleigh) periodogram P(f) = |sum exp(2 pi i f t_k)|^2 / n of event times.
//!
//! All frequencies are searched on finely binned times by one fast Fourier transform, whose cost
//! does not depend on the number of events. Peaks are then computed again from the exact times, so
//! binning costs a little sensitivity at high frequencies and no accuracy.

use super::fft;
use super::rate::{self, CYCLES_NEEDED, Piece};
use crate::estimate::Spectrum;
use std::f64::consts::{LN_2, TAU};
use std::ops::RangeInclusive;

/// Probability that a call reports a period in events that have none.
pub const ALPHA: f64 = 1e-3;
/// Highest frequency searched, in mean event rates: a comb may lack this many teeth for each
/// present one.
const RATES: f64 = 32.0;
/// Most bins of time: 114 us for half a minute.
const MOST_BINS: usize = 1 << 18;
/// Share of the bin rate up to which frequencies are searched; binning takes 19 % of the power
/// there.
const BAND: f64 = 0.25;
/// Segments of the span in the exact sum; a frequency half a cycle away turns by 1.4 degrees in
/// half of one.
const SEGMENTS: usize = 64;
/// Least number of frequencies whose median power is their background; more at high frequencies.
const BACKGROUND_BINS: usize = 128;

/// The frequencies searched; the range stays the same while combs are removed one by one.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Time from the first event to the last, nanoseconds.
    pub span: f64,
    bins: usize,
    /// Indices into the transform; half a cycle per span each.
    low: usize,
    high: usize,
    /// ln(M / alpha) for M frequencies.
    pub threshold: f64,
}

impl Range {
    /// For `n` events within `span` nanoseconds; `None` if there are too few.
    pub fn of(n: usize, span: u64) -> Option<Self> {
        if n < 8 || span == 0 {
            return None;
        }
        let cycles = (RATES * n as f64).min(BAND * MOST_BINS as f64);
        let bins = ((cycles / BAND).ceil() as usize)
            .next_power_of_two()
            .min(MOST_BINS);
        let (low, high) = ((2.0 * CYCLES_NEEDED) as usize, (2.0 * cycles) as usize);
        // Frequencies half a cycle apart count fully, although they are dependent.
        let threshold = ((high - low) as f64 / ALPHA).ln();
        Some(Self {
            span: span as f64,
            bins,
            low,
            high,
            threshold,
        })
    }

    /// The powers of all frequencies searched.
    pub fn powers(&self, times: &[f64], rate: &[Piece]) -> Powers {
        let mut counts = rate::expected(rate, self.bins, self.span);
        counts.iter_mut().for_each(|c| *c = -*c);
        // Padding with zeros: frequencies half a cycle per span apart.
        counts.resize(2 * self.bins, 0.0);
        let scale = self.bins as f64 / self.span * (1.0 - 1e-12);
        for time in times {
            counts[((time * scale) as usize).min(self.bins - 1)] += 1.0;
        }
        let n = times.len().max(1) as f64;
        let mut power = fft::power(counts);
        power.truncate(self.high + 1);
        power.iter_mut().for_each(|p| *p /= n);
        let background = self.background(&power);
        Powers {
            range: *self,
            power,
            background,
        }
    }

    /// Median power of the frequencies around each, over that of an exponential distribution: 1 for
    /// independent events, more for bursts and uneven rates.
    fn background(&self, power: &[f64]) -> Vec<f64> {
        let mut background = vec![1.0; power.len()];
        let mut from = self.low;
        while from < power.len() {
            let mut to = (from + BACKGROUND_BINS.max(from / 8)).min(power.len());
            if power.len() - to < BACKGROUND_BINS {
                to = power.len();
            }
            let mut part = power[from..to].to_vec();
            let middle = part.len() / 2;
            let median = *part.select_nth_unstable_by(middle, f64::total_cmp).1;
            background[from..to].fill((median / LN_2).max(1.0));
            from = to;
        }
        background
    }

    /// The peak of the exact periodogram near `cycles` per span: its position and power.
    ///
    /// The sum is computed once, at `cycles`, in segments of the span; rotated against each other,
    /// they give it at frequencies less than a cycle away, too.
    pub fn refine(&self, times: &[f64], rate: &[Piece], cycles: f64) -> (f64, f64) {
        let length = self.span / SEGMENTS as f64;
        let f = cycles / self.span;
        let mut sums = [(0.0, 0.0); SEGMENTS];
        for time in times {
            let segment = &mut sums[((time / length) as usize).min(SEGMENTS - 1)];
            let (sin, cos) = (TAU * (time * f).fract()).sin_cos();
            segment.0 += cos;
            segment.1 += sin;
        }
        for (i, segment) in sums.iter_mut().enumerate() {
            let (begin, end) = (i as f64 * length, (i + 1) as f64 * length);
            let smooth = rate::transform(rate, begin, end, f);
            segment.0 -= smooth.0;
            segment.1 -= smooth.1;
        }
        let power_at = |off: f64| {
            let (re, im) = sums
                .iter()
                .enumerate()
                .fold((0.0, 0.0), |(re, im), (i, s)| {
                    let (sin, cos) = (TAU * off * (i as f64 + 0.5) / SEGMENTS as f64).sin_cos();
                    (re + s.0 * cos - s.1 * sin, im + s.0 * sin + s.1 * cos)
                });
            (re * re + im * im) / times.len().max(1) as f64
        };
        let (mut best, mut power) = (0.0, power_at(0.0));
        let mut reach = 0.5;
        while reach > 1e-3 {
            let centre = best;
            for side in [-1.0, -0.5, 0.5, 1.0] {
                let p = power_at(centre + side * reach);
                if p > power {
                    (best, power) = (centre + side * reach, p);
                }
            }
            reach *= 0.5;
        }
        (cycles + best, power)
    }
}

/// Powers of the frequencies of a range, half a cycle per span apart.
#[derive(Clone, Debug)]
pub struct Powers {
    range: Range,
    power: Vec<f64>,
    background: Vec<f64>,
}

impl Powers {
    /// Candidate frequencies, in cycles per span, with their background; most promising first.
    pub fn candidates(&self, most: usize) -> Vec<(f64, f64)> {
        let Self {
            range,
            power,
            background,
        } = self;
        let mut found: Vec<(f64, f64, f64)> = self
            .searched()
            .filter(|&i| {
                let after = power.get(i + 1).copied().unwrap_or(0.0);
                power[i] >= power[i - 1] && power[i] > after
            })
            .map(|i| (i as f64 / 2.0, power[i] / background[i], background[i]))
            // A peak between two frequencies of the grid loses up to 19 %.
            .filter(|&(_, over, _)| over > 0.7 * range.threshold)
            .collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.total_cmp(&b.0)));
        found.truncate(most);
        found
            .into_iter()
            .map(|(f, _, background)| (f, background))
            .collect()
    }

    fn searched(&self) -> RangeInclusive<usize> {
        self.range.low..=self.range.high.min(self.power.len() - 1)
    }

    /// At most `most` points over logarithmic frequency, each the highest of its bin.
    pub fn outline(&self, most: usize) -> Spectrum {
        let all = self.searched();
        let decades = ((all.end() + 1) as f64 / *all.start() as f64).ln();
        let mut points: Vec<(f64, f64)> = Vec::new();
        let mut open = None;
        for i in all.clone() {
            let bin = ((i as f64 / *all.start() as f64).ln() / decades * most as f64) as usize;
            let bin = bin.min(most.saturating_sub(1));
            let hertz = i as f64 / 2.0 / self.range.span * 1e9;
            let point = (hertz, self.power[i] / self.background[i]);
            match points.last_mut() {
                Some(last) if open == Some(bin) => {
                    if point.1 > last.1 {
                        *last = point;
                    }
                }
                _ => points.push(point),
            }
            open = Some(bin);
        }
        Spectrum {
            threshold: self.range.threshold,
            points,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    /// By the definition.
    fn rayleigh(times: &[f64], f: f64) -> f64 {
        let (re, im) = times.iter().fold((0.0, 0.0), |(re, im), t| {
            let (sin, cos) = (TAU * t * f).sin_cos();
            (re + cos, im + sin)
        });
        (re * re + im * im) / times.len() as f64
    }

    #[test]
    fn the_refined_peak_is_the_maximum_by_the_definition() {
        let mut random = Random::new(6);
        let mut times: Vec<f64> = (0..300).map(|_| random.uniform()).collect();
        times.extend((0..73).map(|i| (f64::from(i) + 0.4) / 73.3 + 1e-4 * random.normal()));
        let Some(range) = Range::of(times.len(), 1) else {
            panic!("enough events")
        };
        let (at, power) = range.refine(&times, &[], 73.0);
        assert!((power / rayleigh(&times, at) - 1.0).abs() < 0.01);
        for i in -100..=100 {
            assert!(rayleigh(&times, 73.0 + f64::from(i) * 0.005) < 1.01 * power);
        }
        assert!((at - 73.3).abs() < 0.1, "{at}");
    }

    #[test]
    fn a_comb_has_all_its_power_at_its_frequency_and_none_at_half_of_it() {
        let times: Vec<f64> = (0..100).map(|i| f64::from(i) * 0.01).collect();
        assert!((rayleigh(&times, 100.0) - 100.0).abs() < 1e-6);
        assert!((rayleigh(&times, 300.0) - 100.0).abs() < 1e-6);
        assert!(rayleigh(&times, 50.0) < 1e-6);
    }

    #[test]
    fn a_250_hz_comb_in_poisson_events_has_the_published_power() {
        // 2500 events of the comb with 20 us of jitter among 3000 others in 10 s: n R^2 is about
        // 1136.
        let mut random = Random::new(2);
        let mut times: Vec<f64> = (0..3000).map(|_| 10.0 * random.uniform()).collect();
        times.extend((0..2500).map(|i| f64::from(i) * 0.004 + 20e-6 * random.normal()));
        let got = rayleigh(&times, 250.0);
        assert!(
            (got - 1136.0).abs() < 3.0 * 2.0 * 1136.0_f64.sqrt(),
            "{got}"
        );
    }

    #[test]
    fn poisson_events_stay_below_the_threshold_of_their_frequencies() {
        // 40,000 frequencies and one false alarm in a thousand: ln(M / alpha) = 17.5.
        let range = Range::of(625, 1).unwrap();
        assert_eq!(range.high - range.low, 39_984);
        assert!((range.threshold - 17.5).abs() < 0.01, "{range:?}");
        // The largest of M exponential powers is ln M + 0.577 = 11.17 on average, with a standard
        // deviation of 1.28; 10.98 is published.
        let mut random = Random::new(1);
        let times: Vec<f64> = (0..625).map(|_| random.uniform()).collect();
        let power = (1..=40_000).map(|f| rayleigh(&times, f64::from(f)));
        let most = power.fold(0.0, f64::max);
        assert!((most - 10.98).abs() < 3.0, "{most}");
    }

    #[test]
    fn power_of_poisson_events_is_exponential_with_mean_one() {
        let mut random = Random::new(4);
        let times: Vec<f64> = (0..500).map(|_| random.uniform()).collect();
        let powers: Vec<f64> = (1..=2000).map(|i| rayleigh(&times, f64::from(i))).collect();
        let mean = powers.iter().sum::<f64>() / 2000.0;
        let above = powers.iter().filter(|&&p| p > 3.0).count() as f64 / 2000.0;
        assert!((mean - 1.0).abs() < 0.08, "{mean}");
        assert!((above - (-3.0_f64).exp()).abs() < 0.015, "{above}");
    }

    #[test]
    fn an_outline_keeps_the_highest_power_of_every_bin_and_no_more_points_than_asked_for() {
        let mut random = Random::new(9);
        let mut times: Vec<f64> = (0..1_000).map(|_| 1e9 * random.uniform()).collect();
        times.extend((0..250).map(|i| f64::from(i) * 4e6));
        let range = Range::of(times.len(), 1_000_000_000).unwrap();
        let powers = range.powers(&times, &[]);
        let found = powers.outline(400);
        assert!((350..=400).contains(&found.points.len()));
        assert_eq!(found.threshold, range.threshold);
        assert!(found.points.windows(2).all(|w| w[0].0 < w[1].0));
        let highest = |all: &mut dyn Iterator<Item = f64>| all.fold(0.0, f64::max);
        let all = highest(
            &mut powers
                .searched()
                .map(|i| powers.power[i] / powers.background[i]),
        );
        let kept = |a: f64, b: f64| {
            let mut near = found.points.iter().filter(|p| a < p.0 && p.0 < b);
            highest(&mut near.by_ref().map(|p| p.1))
        };
        assert_eq!(kept(0.0, f64::INFINITY), all);
        // The comb of 250 Hz is one of thousands of frequencies in its bin.
        assert!(kept(240.0, 260.0) > range.threshold, "{found:?}");
        // Powers in a bin are not smaller than those left out.
        let edge = |k: f64| (k / 400.0 * ((range.high + 1) as f64 / range.low as f64).ln()).exp();
        for k in 390..399 {
            let (from, to) = (edge(f64::from(k)), edge(f64::from(k + 1)));
            let inside = powers.searched().filter(|&i| {
                let at = i as f64 / range.low as f64;
                from * 1.000_001 < at && at < to * 0.999_999
            });
            let most = highest(&mut inside.map(|i| powers.power[i] / powers.background[i]));
            assert!(found.points.iter().any(|p| p.1 >= most && {
                let at = p.0 * 2.0 / range.low as f64;
                from * 0.999 < at && at < to * 1.001
            }));
        }
    }
}
