//! Lengths of events, ready to be drawn.

use crate::draw::{LengthTable, exp_m1};
use crate::model::{Lengths, Tail};
use idlewave_run::LengthBin;

/// Bits of a drawn word that hold the length or the number of its law; the source is above them.
const LENGTH_BITS: u32 = 48;
/// Set if the length follows a continuous law; the bits below hold its number.
const CONTINUOUS: u64 = 1 << (LENGTH_BITS - 1);
/// Longest event: 39 hours.
pub(crate) const LONGEST_NS: u64 = CONTINUOUS - 1;
/// Weights in a table are multiples of this fraction of the total.
const WHOLE: f64 = (1_u64 << 44) as f64;

/// A continuous law; its lengths need another random number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LengthLaw {
    /// Mean in nanoseconds.
    Exponential(f64),
    /// Generalised Pareto.
    Pareto(Tail),
}

impl LengthLaw {
    /// The length in nanoseconds for an exponential variate of mean 1.
    pub fn length(&self, e: f64) -> u64 {
        let ns = match self {
            LengthLaw::Exponential(mean) => mean * e,
            LengthLaw::Pareto(tail) => {
                // u^-shape = exp(shape e), with e = -ln u.
                let excess = match tail.shape == 0.0 {
                    true => e,
                    false => exp_m1(tail.shape * e) / tail.shape,
                };
                let ns = tail.threshold_ns as f64 + tail.scale_ns * excess;
                tail.limit_ns.map_or(ns, |limit| ns.min(limit as f64))
            }
        };
        // The cast saturates.
        ((ns + 0.5) as u64).min(LONGEST_NS)
    }
}

impl Tail {
    /// Mean in nanoseconds; `None` for a shape of 1 or more without a limit.
    pub fn mean_ns(&self) -> Option<f64> {
        let (scale, shape, begin) = (self.scale_ns, self.shape, self.threshold_ns as f64);
        let Some(limit) = self.limit_ns else {
            return (shape < 1.0).then(|| begin + scale / (1.0 - shape));
        };
        // The integral of the survival function up to the limit.
        let reach = (limit as f64 - begin).max(0.0);
        let beyond = |x: f64| {
            let base = (1.0 + shape * x / scale).max(0.0);
            match shape == 0.0 {
                true => scale * (1.0 - (-x / scale).exp()),
                false if (shape - 1.0).abs() < 1e-12 => scale * base.ln(),
                false => scale / (shape - 1.0) * (base.powf(1.0 - 1.0 / shape) - 1.0),
            }
        };
        let end = match shape < 0.0 {
            true => reach.min(-scale / shape),
            false => reach,
        };
        Some(begin + beyond(end))
    }
}

impl Lengths {
    /// Mean in nanoseconds; `None` if it has none.
    pub fn mean_ns(&self) -> Option<f64> {
        match self {
            Lengths::Fixed { ns } => Some(*ns as f64),
            Lengths::Exponential { mean_ns } => Some(*mean_ns),
            Lengths::Pareto(tail) => tail.mean_ns(),
            Lengths::Empirical { bins, tail } => {
                let mut count: f64 = bins.iter().map(|b| b[1] as f64).sum();
                let mut sum: f64 = bins.iter().map(|b| b[0] as f64 * b[1] as f64).sum();
                if let Some(tail) = tail {
                    count += tail.count as f64;
                    sum += tail.count as f64 * tail.mean_ns()?;
                }
                Some(if count > 0.0 { sum / count } else { 0.0 })
            }
        }
    }
}

/// The content of a drawn word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drawn {
    /// Nanoseconds.
    Length(u64),
    /// Number of the law.
    Law(usize),
}

/// Lengths of one or more sources, drawn in proportion to their weights.
#[derive(Clone, Debug, Default)]
pub(crate) struct LengthsBuilder {
    entries: Vec<(u64, f64)>,
    laws: Vec<LengthLaw>,
}

impl LengthsBuilder {
    /// Adds a source with its weight relative to the others. If it is not `kept`, its events have
    /// length 0.
    pub fn add(&mut self, source: usize, weight: f64, lengths: &Lengths, kept: bool) {
        let label = (source as u64) << LENGTH_BITS;
        if !kept {
            self.entries.push((label, weight));
            return;
        }
        let law = |laws: &mut Vec<LengthLaw>, law| {
            laws.push(law);
            label | CONTINUOUS | (laws.len() - 1) as u64
        };
        match lengths {
            Lengths::Fixed { ns } => self.entries.push((label | (*ns).min(LONGEST_NS), weight)),
            Lengths::Exponential { mean_ns } => {
                let word = law(&mut self.laws, LengthLaw::Exponential(*mean_ns));
                self.entries.push((word, weight));
            }
            Lengths::Pareto(tail) => {
                let word = law(&mut self.laws, LengthLaw::Pareto(*tail));
                self.entries.push((word, weight));
            }
            Lengths::Empirical { bins, tail } => {
                let beyond = tail.map_or(0, |t| t.count) as f64;
                let count: f64 = bins.iter().map(|b| b[1] as f64).sum::<f64>() + beyond;
                for &[ns, n] in bins {
                    let share = n as f64 / count;
                    self.entries
                        .push((label | ns.min(LONGEST_NS), weight * share));
                }
                if let Some(tail) = tail {
                    let word = law(&mut self.laws, LengthLaw::Pareto(*tail));
                    self.entries.push((word, weight * beyond / count));
                }
            }
        }
    }

    /// `None` if there is nothing to draw.
    pub fn build(self) -> Option<LengthSet> {
        let total: f64 = self.entries.iter().map(|e| e.1).sum();
        let bins: Vec<LengthBin> = self
            .entries
            .iter()
            .map(|&(word, weight)| LengthBin {
                length_ns: word,
                count: (weight / total * WHOLE).round() as u64,
            })
            .collect();
        Some(LengthSet {
            table: LengthTable::new(&bins)?,
            laws: self.laws,
        })
    }
}

/// A table of lengths with the continuous laws in it.
#[derive(Clone, Debug)]
pub(crate) struct LengthSet {
    table: LengthTable,
    laws: Vec<LengthLaw>,
}

impl LengthSet {
    /// Source and length from two words of 32 random bits.
    #[inline(always)]
    pub fn draw(&self, high: u64, low: u64) -> (u32, Drawn) {
        let word = self.table.draw(high, low);
        let rest = word & (CONTINUOUS - 1);
        let drawn = match word & CONTINUOUS == 0 {
            true => Drawn::Length(rest),
            false => Drawn::Law(rest as usize),
        };
        ((word >> LENGTH_BITS) as u32, drawn)
    }

    /// A continuous law.
    pub fn law(&self, number: usize) -> &LengthLaw {
        &self.laws[number]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(shape: f64, limit_ns: Option<u64>) -> Tail {
        Tail {
            count: 1,
            threshold_ns: 1_000,
            scale_ns: 500.0,
            shape,
            limit_ns,
        }
    }

    #[test]
    fn quantiles_of_the_generalised_pareto_are_those_of_its_survival_function() {
        for shape in [-0.4, 0.0, 0.3, 1.2] {
            let law = LengthLaw::Pareto(tail(shape, None));
            for p in [0.5_f64, 0.1, 1e-3] {
                let t = law.length(-p.ln()) as f64;
                let x = (t - 1_000.0) / 500.0;
                let survival = match shape == 0.0 {
                    true => (-x).exp(),
                    false => (1.0 + shape * x).powf(-1.0 / shape),
                };
                // The length is rounded to a nanosecond.
                assert!((survival / p - 1.0).abs() < 1e-2, "{shape} {p}: {survival}");
            }
        }
    }

    #[test]
    fn means_are_those_of_the_draws() {
        let laws = [
            LengthLaw::Exponential(700.0),
            LengthLaw::Pareto(tail(0.2, None)),
            LengthLaw::Pareto(tail(1.0, Some(9_000))),
            LengthLaw::Pareto(tail(1.5, Some(9_000))),
            LengthLaw::Pareto(tail(0.0, Some(1_800))),
            LengthLaw::Pareto(tail(-0.5, Some(1_600))),
            LengthLaw::Pareto(tail(-0.5, None)),
        ];
        for law in laws {
            let n = 400_000;
            // Quantiles at the centres of equal shares.
            let sum: f64 = (0..n)
                .map(|i| law.length(-((f64::from(i) + 0.5) / f64::from(n)).ln()) as f64)
                .sum();
            let mean = match &law {
                LengthLaw::Exponential(mean) => *mean,
                LengthLaw::Pareto(tail) => tail.mean_ns().unwrap(),
            };
            assert!((sum / f64::from(n) / mean - 1.0).abs() < 2e-3, "{law:?}");
        }
        assert_eq!(tail(1.0, None).mean_ns(), None);
    }

    #[test]
    fn a_set_draws_every_source_in_proportion_and_removed_ones_without_length() {
        let mut builder = LengthsBuilder::default();
        builder.add(3, 1.0, &Lengths::Fixed { ns: 70 }, true);
        builder.add(4, 2.0, &Lengths::Fixed { ns: 90 }, false);
        let heavy = Lengths::Empirical {
            bins: vec![[10, 3]],
            tail: Some(tail(0.1, None)),
        };
        builder.add(5, 1.0, &heavy, true);
        let set = builder.build().unwrap();
        let mut seen = std::collections::BTreeMap::new();
        let n = 1_u64 << 16;
        for i in 0..n {
            // High words spread evenly, low words too.
            let (source, drawn) = set.draw(i << 16, (i * 40_503 % n) << 16);
            let key = match drawn {
                Drawn::Length(ns) => (source, ns),
                Drawn::Law(_) => (source, u64::MAX),
            };
            *seen.entry(key).or_insert(0_u64) += 1;
        }
        let share = |key| seen[&key] as f64 / n as f64;
        assert!((share((3, 70)) - 0.25).abs() < 0.01);
        assert!((share((4, 0)) - 0.5).abs() < 0.01);
        assert!((share((5, 10)) - 0.1875).abs() < 0.01);
        assert!((share((5, u64::MAX)) - 0.0625).abs() < 0.01);
        assert_eq!(seen.len(), 4);
    }
}
