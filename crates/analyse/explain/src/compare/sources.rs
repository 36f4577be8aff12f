//! Which sources appeared, grew, shrank and vanished between two runs.
//!
//! Definition: for every source, strikes per second of CPU time watched and share of that time
//! stolen, from the noise profiles of both runs. The rates differ significantly if, given all
//! strikes of both runs, their division between the runs is improbable for the times watched (exact
//! conditional test of two Poisson rates). The shares differ significantly if their difference is
//! improbable for sums of independent lengths (normal approximation, variance of a share: sum of
//! the squared lengths over the squared time). Of the two tests of a source the smaller probability
//! counts, doubled.
//!
//! Assumptions: independent strikes at a constant rate. Bias: strikes in bursts look more different
//! than they are, periodic ones less.
//!
//! Reference: Przyborowski and Wilenski, Biometrika 31 (1940) 313.

use super::fairness::is_traced;
use idlewave_run::findings::{Estimate, Findings};
use idlewave_run::{Manifest, NoiseSource, SourceKind};
use idlewave_stats::distributions::{binomial_cdf, binomial_upper_tail, normal_cdf};
use idlewave_stats::rates;
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Quantile of the normal distribution for 95 %.
const Z: f64 = 1.959_964;

/// A source in two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SourceChange {
    /// Class.
    pub kind: SourceKind,
    /// Name.
    pub name: String,
    /// What happened to it from the first run to the second.
    pub verdict: SourceVerdict,
    /// In the first run.
    pub a: Measured,
    /// In the second run.
    pub b: Measured,
    /// Probability of rates this different if there is no difference.
    pub rate_p: f64,
    /// Probability of shares this different if there is no difference.
    pub share_p: f64,
    /// Probability of either, adjusted for the number of comparisons.
    pub p_adjusted: f64,
}

impl SourceChange {
    /// Probability of rates or shares this different if there is no difference.
    pub(super) fn p(&self) -> f64 {
        (2.0 * self.rate_p.min(self.share_p)).min(1.0)
    }

    /// Whether the rates differ more clearly than the shares.
    pub(super) fn decided_by_rate(&self) -> bool {
        self.rate_p < self.share_p
    }

    pub(super) fn judge(&mut self, p_adjusted: f64, error: f64) {
        self.p_adjusted = p_adjusted;
        let more = match self.decided_by_rate() {
            true => self.b.rate.value > self.a.rate.value,
            false => self.b.stolen.value > self.a.stolen.value,
        };
        self.verdict = match (p_adjusted < error, [self.a.rate.n, self.b.rate.n], more) {
            (false, ..) => SourceVerdict::NotSignificant,
            (true, [0, _], _) => SourceVerdict::Appeared,
            (true, [_, 0], _) => SourceVerdict::Vanished,
            (true, _, true) => SourceVerdict::Grew,
            (true, _, false) => SourceVerdict::Shrank,
        };
    }
}

/// A source in one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Strikes per second of CPU time, exact Poisson interval.
    pub rate: Estimate,
    /// Share of CPU time stolen, 0..=1.
    pub stolen: Estimate,
}

/// What happened to a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceVerdict {
    /// Only the second run has it, significantly.
    Appeared,
    /// It steals or strikes significantly more.
    Grew,
    /// It steals or strikes significantly less.
    Shrank,
    /// Only the first run has it, significantly.
    Vanished,
    /// The difference may be chance.
    NotSignificant,
}

impl SourceVerdict {
    /// Whether the difference is significant.
    pub fn differs(self) -> bool {
        self != SourceVerdict::NotSignificant
    }
}

/// Compares the sources of two runs by their findings. A run whose kernel was not traced on all
/// nodes names no causes, so its sources are not compared with those of a traced run: the error says
/// why.
pub fn compare(runs: [(&Manifest, &Findings); 2]) -> Result<Vec<SourceChange>, String> {
    let [(_, a), (_, b)] = runs;
    let [traced_a, traced_b] = runs.map(|(manifest, _)| is_traced(manifest));
    if traced_a != traced_b {
        let which = if traced_a { "A" } else { "B" };
        return Err(format!(
            "the sources cannot be compared: the kernel was traced in {which} only, so the other run \
             names no causes. Record both in the same way."
        ));
    }
    let of = |findings: &Findings| -> BTreeMap<(SourceKind, String), NoiseSource> {
        let sources = findings.profile.sources.iter();
        sources
            .map(|s| ((s.kind, s.name.clone()), s.clone()))
            .collect()
    };
    let (in_a, in_b) = (of(a), of(b));
    let watched = |sources: &BTreeMap<_, NoiseSource>| {
        let all = sources.values().map(|s| s.watched.as_f64() / 1e9);
        all.fold(0.0, f64::max)
    };
    let times = [watched(&in_a), watched(&in_b)];
    if let [true, false] | [false, true] = [in_a.is_empty(), in_b.is_empty()] {
        let which = if in_a.is_empty() { "A" } else { "B" };
        return Err(format!(
            "the sources cannot be compared: {which} watched no ranks or CPUs, or saw none"
        ));
    }
    let keys: BTreeSet<&(SourceKind, String)> = in_a.keys().chain(in_b.keys()).collect();
    let changes = keys
        .into_iter()
        .map(|key| change(key, [in_a.get(key), in_b.get(key)], times));
    Ok(changes.collect())
}

pub(super) fn order(a: &SourceChange, b: &SourceChange) -> Ordering {
    let chance = |c: &SourceChange| !c.verdict.differs();
    let by = |c: &SourceChange| (c.b.stolen.value - c.a.stolen.value).abs();
    chance(a)
        .cmp(&chance(b))
        .then_with(|| by(b).total_cmp(&by(a)))
        .then_with(|| (a.kind, &a.name).cmp(&(b.kind, &b.name)))
}

fn change(
    (kind, name): &(SourceKind, String),
    found: [Option<&NoiseSource>; 2],
    watched: [f64; 2],
) -> SourceChange {
    let times = [0, 1].map(|i| found[i].map_or(watched[i], |s| s.watched.as_f64() / 1e9));
    let counts = found.map(|s| s.map_or(0, |s| s.events));
    let sums = found.map(moments);
    let stolen = [0, 1].map(|i| stolen(counts[i], sums[i], times[i]));
    let rate_p = rates_differ(counts, times);
    let share_p = shares_differ(sums, times);
    let [stolen_a, stolen_b] = stolen;
    SourceChange {
        kind: *kind,
        name: name.clone(),
        verdict: SourceVerdict::NotSignificant,
        a: Measured {
            rate: rates::poisson(counts[0], times[0]),
            stolen: stolen_a,
        },
        b: Measured {
            rate: rates::poisson(counts[1], times[1]),
            stolen: stolen_b,
        },
        rate_p,
        share_p,
        p_adjusted: 1.0,
    }
}

/// Sum of the lengths and of their squares, in nanoseconds.
fn moments(source: Option<&NoiseSource>) -> (f64, f64) {
    let lengths = source.into_iter().flat_map(|s| &s.lengths);
    lengths.fold((0.0, 0.0), |(sum, squares), bin| {
        let (length, count) = (bin.length_ns as f64, bin.count as f64);
        (sum + length * count, squares + length * length * count)
    })
}

fn stolen(count: u64, (sum, squares): (f64, f64), seconds: f64) -> Estimate {
    let time = (seconds * 1e9).max(1.0);
    let half = Z * squares.sqrt() / time;
    let value = sum / time;
    Estimate {
        value,
        low: (value - half).max(0.0),
        high: (value + half).min(1.0),
        n: count,
        method: "stolen over watched time, compound Poisson, normal approximation, 95 %".to_owned(),
    }
}

/// Two-sided probability of counts this unevenly divided between two times watched.
fn rates_differ(counts: [u64; 2], times: [f64; 2]) -> f64 {
    let n = counts[0] + counts[1];
    if n == 0 || times.iter().any(|t| *t <= 0.0) {
        return 1.0;
    }
    let share = times[0] / (times[0] + times[1]);
    let below = binomial_cdf(counts[0], n, share);
    let above = binomial_upper_tail(counts[0], n, share);
    (2.0 * below.min(above)).min(1.0)
}

/// Two-sided probability of shares this different.
fn shares_differ(sums: [(f64, f64); 2], times: [f64; 2]) -> f64 {
    if times.iter().any(|t| *t <= 0.0) {
        return 1.0;
    }
    let share = |i: usize| sums[i].0 / (times[i] * 1e9);
    let variance = |i: usize| sums[i].1 / (times[i] * 1e9).powi(2);
    let deviation = (variance(0) + variance(1)).sqrt();
    if deviation <= 0.0 {
        return 1.0;
    }
    2.0 * normal_cdf(-((share(0) - share(1)) / deviation).abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_run::LengthBin;
    use idlewave_units::Nanos;

    fn source(events: u64, length_ns: u64) -> NoiseSource {
        NoiseSource {
            kind: SourceKind::Task,
            name: "daemon".to_owned(),
            rate_per_s: events as f64 / 10.0,
            events,
            watched: Nanos::from_secs(10),
            period: None,
            lengths: vec![LengthBin {
                length_ns,
                count: events,
            }],
        }
    }

    fn verdict(a: Option<NoiseSource>, b: Option<NoiseSource>) -> SourceVerdict {
        let key = (SourceKind::Task, "daemon".to_owned());
        let mut change = change(&key, [a.as_ref(), b.as_ref()], [10.0, 10.0]);
        change.judge(change.p(), 0.05);
        change.verdict
    }

    #[test]
    fn rates_are_compared_exactly() {
        // Five tosses of a fair coin: 1/32 each way.
        assert!((rates_differ([0, 5], [10.0, 10.0]) - 2.0 / 32.0).abs() < 1e-12);
        // All three in the run with a third of the time: (1/3)^3, twice.
        assert!((rates_differ([0, 3], [20.0, 10.0]) - 2.0 / 27.0).abs() < 1e-12);
        assert_eq!(rates_differ([4, 4], [1.0, 1.0]), 1.0);
        assert_eq!(rates_differ([0, 0], [1.0, 1.0]), 1.0);
    }

    #[test]
    fn every_verdict_has_its_case() {
        let at = |events, length| Some(source(events, length));
        assert_eq!(verdict(None, at(3, 10)), SourceVerdict::NotSignificant);
        assert_eq!(verdict(None, at(30, 10)), SourceVerdict::Appeared);
        assert_eq!(verdict(at(30, 10), None), SourceVerdict::Vanished);
        assert_eq!(
            verdict(at(100, 1000), at(110, 1000)),
            SourceVerdict::NotSignificant
        );
        assert_eq!(verdict(at(100, 1000), at(300, 1000)), SourceVerdict::Grew);
        // As often, but ten times as long.
        assert_eq!(verdict(at(100, 1000), at(100, 10_000)), SourceVerdict::Grew);
        assert_eq!(
            verdict(at(100, 10_000), at(100, 1000)),
            SourceVerdict::Shrank
        );
    }

    #[test]
    fn the_share_stolen_is_known_to_its_interval() {
        // 100 strikes of 1 ms in 10 s: 1 %, and a standard deviation of a tenth of that.
        let found = stolen(100, moments(Some(&source(100, 1_000_000))), 10.0);
        assert!((found.value - 0.01).abs() < 1e-12);
        assert!((found.high - 0.01 - Z * 0.001).abs() < 1e-9);
    }
}
