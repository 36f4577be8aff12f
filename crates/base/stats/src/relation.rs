//! How the events of one source on the CPUs of a node are related in time.
//!
//! Definition, in this order:
//! 1. Events on neighbouring CPUs that start within a window, the median length of an event limited
//!    to 1..20 us, coincide. If at least 80 % do beyond chance (p < 1 %), the CPUs are struck
//!    *together*.
//! 2. If each CPU has a comb of one common period with at least nine in ten of its teeth struck, the
//!    offsets between the combs are fixed: *staggered*, or *evenly spread* if offsets at random
//!    would be as even with p < 1 %.
//! 3. If the node as a whole has a comb, and fewer of its teeth strike several CPUs than if these
//!    were independent (p < 1 %), the CPUs are struck *one at a time*.
//! 4. Combs with holes, at least half of their teeth struck, are as under 2.
//! 5. Otherwise some coincide beyond chance (p < 1 %), or the CPUs are *independent*.
//!
//! Evenness: of n phases at random on a circle, the smallest distance exceeds a share x of it with
//! probability (1 - n x)^(n - 1).
//!
//! Assumptions: one clock for all CPUs of a node; those of different nodes are never compared.
//! Bias: with combs, coincidences depend on each other, so a pair of CPUs is one trial, and a short
//! period on two CPUs cannot be told from chance. Without them, bursts make p too small.
//!
//! Reference: Feller, *An Introduction to Probability Theory* II, section I.9 (points on a circle);
//! for coincidences, [`crate::coincidences`].

use crate::coincidences::Coincidences;
use crate::distributions::binomial_cdf;
use crate::estimate::{CombPhase, Estimate, Periodicity};
use crate::exponential_fit::Tested;
use crate::line::{Line, watched_together, within};
use crate::periodicity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Share of events that must coincide beyond chance for the CPUs to be struck together.
pub const TOGETHER: f64 = 0.8;
/// Probability below which a pattern is not due to chance.
pub const LEVEL: f64 = 0.01;
/// A comb with this share of its teeth struck counts as complete.
pub const FULL: f64 = 0.9;
/// With fewer, events have no comb.
const HALF: f64 = 0.5;
/// Shortest and longest window of simultaneous events, nanoseconds: the time that an interrupt
/// takes to reach a CPU, and a bound for sources with long strikes.
const WINDOW: (u64, u64) = (1_000, 20_000);
/// Fewer events on a CPU tell nothing.
const LEAST: usize = 8;
/// Relative distance within which two periods are the same.
const SAME: f64 = 1e-3;

/// How the CPUs of a node are struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// At the same time.
    Together,
    /// With one period, at offsets that divide it evenly.
    EvenlySpread,
    /// With one period, at other fixed offsets.
    Staggered,
    /// By turns: the node has a period, each time on one of its CPUs.
    OneAtATime,
    /// Some at the same time.
    Partly,
    /// No more often at the same time than by chance.
    Independent,
}

/// How the events on the CPUs of a node are related, with the evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Relation {
    /// The pattern.
    pub pattern: Pattern,
    /// CPUs compared, of all nodes.
    pub cpus: u32,
    /// Events that start within this many nanoseconds coincide.
    pub window_ns: u64,
    /// Share of the events that coincide with one on a neighbouring CPU beyond chance, 0..=1.
    pub coincide: f64,
    /// Probability of such a pattern if the CPUs were independent: of as many coincidences
    /// (together, partly, independent), of offsets as even (evenly spread, staggered), of as few
    /// common teeth (one at a time).
    pub p: f64,
    /// How far, in nanoseconds, the combs of the other CPUs of the first node with several are
    /// behind that of its first, 0 to one period, in order of CPUs; empty unless all have a phase.
    pub offsets: Vec<Estimate>,
}

/// How the CPUs of each node are related. Lines are in order of nodes and CPUs, one for each CPU,
/// and `periods` has the strongest period on each. `None` unless a node has two CPUs with at least 8
/// events each.
pub fn relation(lines: &[Line], periods: &[Option<Periodicity>]) -> Option<Relation> {
    let (lines, periods): (Vec<&Line>, Vec<&Option<Periodicity>>) = lines
        .iter()
        .zip(periods)
        .filter(|(l, _)| l.events.len() >= LEAST)
        .unzip();
    let nodes = nodes(lines.iter().copied());
    let first = nodes.first()?;
    let combs = combs(&lines, &periods);
    let close = Neighbours::of(&nodes, window(lines.iter().copied()));
    let regular = combs.as_ref().is_some_and(|c| c.struck >= HALF);
    let coincide = close.seen.beyond_chance().max(0.0);
    let found = |pattern, p, offsets| {
        Some(Relation {
            pattern,
            cpus: nodes.iter().map(|n| n.len() as u32).sum(),
            window_ns: close.window,
            coincide,
            p,
            offsets,
        })
    };
    let by_chance = close.p(regular);
    let combs = combs.filter(|_| regular);
    let offsets = combs.as_ref().and_then(|c| c.offsets(first[0].node));
    let behind = || offsets.clone().unwrap_or_default();
    if coincide >= TOGETHER && by_chance < LEVEL {
        return found(Pattern::Together, by_chance, behind());
    }
    let full = combs.as_ref().is_some_and(|c| c.struck >= FULL);
    if !full {
        if let Some(p) = by_turns(&nodes).filter(|p| *p < LEVEL) {
            return found(Pattern::OneAtATime, p, Vec::new());
        }
    }
    if let (Some(combs), Some(_)) = (&combs, &offsets) {
        // Every node has its own offsets: all must be even.
        let p = nodes.iter().filter_map(|n| combs.evenness(n[0].node));
        let p = p.fold(0.0, f64::max);
        let pattern = match p < LEVEL {
            true => Pattern::EvenlySpread,
            false => Pattern::Staggered,
        };
        return found(pattern, p, behind());
    }
    let pattern = match by_chance < LEVEL {
        true => Pattern::Partly,
        false => Pattern::Independent,
    };
    found(pattern, by_chance, Vec::new())
}

/// The lines of each node that has at least two.
pub fn nodes<'a>(lines: impl Iterator<Item = &'a Line>) -> Vec<Vec<&'a Line>> {
    let mut by_node: BTreeMap<u32, Vec<&Line>> = BTreeMap::new();
    for line in lines {
        by_node.entry(line.node).or_default().push(line);
    }
    by_node.into_values().filter(|l| l.len() > 1).collect()
}

/// Window in nanoseconds within which events of these lines count as simultaneous.
pub fn window<'a>(lines: impl Iterator<Item = &'a Line>) -> u64 {
    let mut lengths: Vec<u64> = lines.flat_map(|l| &l.events).map(|e| e.1).collect();
    if lengths.is_empty() {
        return WINDOW.0;
    }
    let middle = lengths.len() / 2;
    let median = *lengths.select_nth_unstable(middle).1;
    median.clamp(WINDOW.0, WINDOW.1)
}

/// Coincidences between neighbouring CPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbours {
    /// Those of all pairs, counted from both sides.
    pub seen: Coincidences,
    /// Pairs of neighbours.
    pub pairs: i32,
    /// Window in nanoseconds.
    pub window: u64,
}

impl Neighbours {
    /// Counts those of the CPUs of each node, while both were watched.
    pub fn of(nodes: &[Vec<&Line>], window: u64) -> Self {
        let mut seen = Coincidences::default();
        let mut pairs = 0;
        for pair in nodes.iter().flat_map(|lines| lines.windows(2)) {
            let spans = watched_together(pair);
            let begins =
                |l: &Line| -> Vec<u64> { within(&l.events, &spans).map(|e| e.0).collect() };
            let time = spans.iter().map(|s| s.1 - s.0).sum();
            let (a, b) = (begins(pair[0]), begins(pair[1]));
            // From both sides: the line with few events may be contained in the one with many.
            seen = seen
                .and(Coincidences::count(&a, &b, window, time))
                .and(Coincidences::count(&b, &a, window, time));
            pairs += 1;
        }
        Neighbours {
            seen,
            pairs,
            window,
        }
    }

    /// Probability of as many by chance. Two regular streams coincide at all events or at none: a
    /// pair is one trial, not one per event.
    pub fn p(&self, regular: bool) -> f64 {
        match regular {
            _ if self.seen.beyond_chance() <= 0.0 => 1.0,
            true => self.seen.chance.powi(self.pairs),
            false => self.seen.p_more(),
        }
    }
}

/// The line of a node with the events of all its CPUs, for the time during which all were watched.
pub fn merged(lines: &[&Line]) -> Line {
    let watched = watched_together(lines);
    let mut events: Vec<(u64, u64)> = lines
        .iter()
        .flat_map(|l| within(&l.events, &watched))
        .collect();
    events.sort_unstable();
    Line {
        node: lines[0].node,
        cpu: 0,
        watched,
        events,
    }
}

/// Share of the teeth of the nodes' combs, `period` nanoseconds apart, that strike several CPUs, and
/// the probability of so few if the CPUs were independent. `merged` has the line of each node.
pub fn exclusion(period: f64, merged: &[Line], nodes: &[Vec<&Line>]) -> Tested {
    let (mut teeth, mut several, mut expected) = (0_u64, 0_u64, 0.0);
    for (line, cpus) in merged.iter().zip(nodes) {
        let number = (line.time() as f64 / period).round().max(1.0);
        // The CPUs that each tooth strikes. An event's tooth is its distance from the first event,
        // rounded to whole periods.
        let Some(origin) = line.events.first().map(|e| e.0) else {
            continue;
        };
        let mut struck: BTreeMap<i64, u64> = BTreeMap::new();
        let (mut none, mut one) = (1.0, 0.0);
        for cpu in cpus {
            let mut own: Vec<i64> = within(&cpu.events, &line.watched)
                .map(|e| ((e.0 as f64 - origin as f64) / period).round() as i64)
                .collect();
            own.dedup();
            let p = (own.len() as f64 / number).min(1.0);
            (none, one) = (none * (1.0 - p), one * (1.0 - p) + none * p);
            for tooth in own {
                *struck.entry(tooth).or_default() += 1;
            }
        }
        teeth += number as u64;
        several += struck.values().filter(|&&n| n > 1).count() as u64;
        expected += number * (1.0 - none - one);
    }
    let chance = (expected / teeth.max(1) as f64).clamp(1e-12, 1.0 - 1e-12);
    Tested {
        statistic: several as f64 / teeth.max(1) as f64,
        p: binomial_cdf(several, teeth, chance),
    }
}

/// Probability that so few teeth strike several CPUs, if the nodes have combs with half of the teeth
/// struck.
fn by_turns(nodes: &[Vec<&Line>]) -> Option<f64> {
    let merged: Vec<Line> = nodes.iter().map(|lines| merged(lines)).collect();
    let most = merged.iter().max_by_key(|l| l.events.len())?;
    let found = periodicity::periods(&most.begins()).into_iter().next()?;
    let period = found.period.value;
    let on = found.share * most.events.len() as f64;
    let regular = found.share >= HALF && on >= HALF * most.time() as f64 / period;
    (regular && found.phase.is_some()).then(|| exclusion(period, &merged, nodes).p)
}

/// Combs on CPUs, all of one period.
struct Combs {
    /// Nanoseconds, with half the width of its interval.
    period: (f64, f64),
    /// Least share of the teeth of a CPU that are struck.
    struck: f64,
    /// Node and phase of each CPU, in order.
    phases: Vec<(u32, CombPhase)>,
}

/// The combs of all lines; `None` if one has none, or another period.
fn combs(lines: &[&Line], periods: &[&Option<Periodicity>]) -> Option<Combs> {
    let first = periods.first()?.as_ref()?;
    let period = first.period.value;
    let half = 0.5 * (first.period.high - first.period.low);
    let mut all = Combs {
        period: (period, half),
        struck: 1.0,
        phases: Vec::new(),
    };
    for (line, found) in lines.iter().zip(periods) {
        let found = found.as_ref()?;
        if (found.period.value / period - 1.0).abs() > SAME || found.share < HALF {
            return None;
        }
        let on = found.share * line.events.len() as f64;
        all.struck = all.struck.min(on * period / line.time().max(1) as f64);
        all.phases.push((line.node, found.phase.clone()?));
    }
    Some(all)
}

impl Combs {
    /// How far the combs of a node's other CPUs are behind its first, 0 to one period; `None` if
    /// the period is not known well enough to compare phases at different times.
    fn offsets(&self, node: u32) -> Option<Vec<Estimate>> {
        let mut own = self.phases.iter().filter(|p| p.0 == node).map(|p| &p.1);
        let first = own.next()?;
        own.map(|other| self.offset(first, other)).collect()
    }

    fn offset(&self, first: &CombPhase, other: &CombPhase) -> Option<Estimate> {
        let (period, uncertainty) = self.period;
        let between = other.reference_ns as f64 - first.reference_ns as f64;
        let value = (between + other.offset.value - first.offset.value).rem_euclid(period);
        let half = |e: &Estimate| 0.5 * (e.high - e.low);
        let width = half(&first.offset)
            .hypot(half(&other.offset))
            .hypot(between / period * uncertainty);
        (width < 0.25 * period).then(|| Estimate {
            value,
            low: value - width,
            high: value + width,
            n: first.offset.n.min(other.offset.n),
            method: "difference of the phases, errors added in quadrature, 95 %".to_owned(),
        })
    }

    /// Probability that the smallest distance between phases at random is as large as on this node.
    fn evenness(&self, node: u32) -> Option<f64> {
        let mut phases: Vec<f64> = self.offsets(node)?.iter().map(|o| o.value).collect();
        phases.push(0.0);
        phases.push(self.period.0);
        phases.sort_by(f64::total_cmp);
        let gaps = phases.windows(2).map(|w| w[1] - w[0]);
        let least = gaps.fold(f64::INFINITY, f64::min) / self.period.0;
        let n = (phases.len() - 1) as f64;
        Some((1.0 - n * least).max(0.0).powf(n - 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    const SPAN: u64 = 10_000_000_000;

    fn line(cpu: u32, begins: Vec<u64>) -> Line {
        Line {
            node: 0,
            cpu,
            watched: vec![(0, SPAN)],
            events: begins.into_iter().map(|b| (b, 5_000)).collect(),
        }
    }

    fn found(lines: &[Line]) -> Relation {
        let periods: Vec<Option<Periodicity>> = lines
            .iter()
            .map(|l| periodicity::periods(&l.begins()).into_iter().next())
            .collect();
        relation(lines, &periods).expect("two CPUs with events")
    }

    /// Ticks at 250 Hz with a jitter of 2 us.
    fn ticks(cpu: u32, offset: f64) -> Line {
        let mut random = Random::new(u64::from(cpu) + 1);
        let at = |k| 1e6 + offset + f64::from(k) * 4e6 + 500.0 * random.normal();
        line(cpu, (0..2_499).map(at).map(|t| t as u64).collect())
    }

    #[test]
    fn ticks_are_together_evenly_spread_or_staggered() {
        let same = found(&[ticks(0, 0.0), ticks(1, 300.0)]);
        assert_eq!(same.pattern, Pattern::Together, "{same:?}");
        // Two windows of 5 us in 4 ms, one pair.
        assert!((same.p / 0.0025 - 1.0).abs() < 0.01, "{same:?}");
        let even = found(&[ticks(0, 0.0), ticks(1, 1e6), ticks(2, 3e6), ticks(3, 2e6)]);
        assert_eq!(even.pattern, Pattern::EvenlySpread, "{even:?}");
        for (offset, want) in even.offsets.iter().zip([1e6, 3e6, 2e6]) {
            assert!((offset.value - want).abs() < 60.0, "{offset:?}");
            assert!(offset.high - offset.low < 200.0, "{offset:?}");
        }
        // The smaller of the two distances is 1 ms: 1 - 2 / 4.
        let uneven = found(&[ticks(0, 0.0), ticks(1, 1e6)]);
        assert_eq!(uneven.pattern, Pattern::Staggered, "{uneven:?}");
        assert!((uneven.p - 0.5).abs() < 1e-3, "{uneven:?}");
        assert_eq!(uneven.coincide, 0.0);
    }

    #[test]
    fn a_regular_source_that_wanders_strikes_one_cpu_at_a_time() {
        let mut random = Random::new(9);
        let mut on = [Vec::new(), Vec::new()];
        for k in 0..400 {
            on[(random.bits() % 2) as usize].push(k * 25_000_000 + 1_000);
        }
        let [a, b] = on;
        let found = found(&[line(0, a), line(1, b)]);
        assert_eq!(found.pattern, Pattern::OneAtATime, "{found:?}");
    }

    #[test]
    fn events_at_random_are_together_partly_or_independent() {
        let random = |seed, n| Random::new(seed).events(n, SPAN);
        let pattern = |a: &[u64], b: &[u64]| found(&[line(0, a.to_vec()), line(1, b.to_vec())]);
        let a = random(1, 300);
        let later: Vec<u64> = a.iter().map(|t| t + 900).collect();
        assert_eq!(pattern(&a, &later).pattern, Pattern::Together);
        let apart = pattern(&a, &random(2, 300));
        assert_eq!(apart.pattern, Pattern::Independent);
        assert!(apart.p > LEVEL, "{apart:?}");
        let mut some = later[..150].to_vec();
        some.extend(random(3, 150));
        some.sort_unstable();
        let some = pattern(&a, &some);
        assert_eq!(some.pattern, Pattern::Partly);
        assert!((some.coincide - 0.5).abs() < 0.05, "{some:?}");
    }

    #[test]
    fn nodes_are_not_compared_and_few_events_tell_nothing() {
        let elsewhere = Line {
            node: 1,
            ..ticks(1, 0.0)
        };
        assert_eq!(relation(&[ticks(0, 0.0), elsewhere], &[None, None]), None);
        let few = line(1, vec![1_000_000; 7]);
        assert_eq!(relation(&[ticks(0, 0.0), few], &[None, None]), None);
    }
}
