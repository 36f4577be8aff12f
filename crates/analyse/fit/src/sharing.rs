//! How a source strikes the CPUs of a node: all alike, at the same times, or one at a time.

use crate::arrivals::test;
use crate::periodic::{Comb, comb};
use idlewave_noise::GoodnessOfFit;
use idlewave_stats::counts::{dispersion, in_windows};
use idlewave_stats::exponential_fit::Tested;
use idlewave_stats::line::{Joined, Line};
use idlewave_stats::relation::{
    FULL, LEVEL, Neighbours, TOGETHER, exclusion, merged, nodes, window,
};
use idlewave_stats::special::gamma_q;
use idlewave_units::show::percent;
use std::collections::BTreeMap;

/// CPUs differ below this probability ...
const DIFFERENT: f64 = 1e-3;
/// ... if their rates also differ by this factor.
const FACTOR: f64 = 1.5;
/// Windows of time whose counts distinguish bursts from chance.
const WINDOWS: usize = 20;

/// CPUs of the node that a source strikes alike; `None` for all.
pub type Cpus = Option<Vec<u32>>;

/// Groups the lines of a source by CPUs that it strikes alike. CPUs that it never strikes are in no
/// group.
pub fn alike(lines: Vec<Line>) -> Vec<(Cpus, Vec<Line>)> {
    let mut by_cpu: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for line in &lines {
        let sums = by_cpu.entry(line.cpu).or_default();
        sums.0 += line.events.len() as u64;
        sums.1 += line.time();
    }
    let bursts = burstiness(&lines);
    let all: Vec<(u64, u64)> = by_cpu.values().copied().collect();
    if !differ(&all, bursts) {
        return vec![(None, lines)];
    }
    let struck: Vec<u32> = by_cpu
        .iter()
        .filter(|(_, s)| s.0 > 0)
        .map(|(&c, _)| c)
        .collect();
    let counts: Vec<(u64, u64)> = struck.iter().map(|c| by_cpu[c]).collect();
    let groups = match differ(&counts, bursts) {
        false => vec![struck],
        true => struck.into_iter().map(|c| vec![c]).collect(),
    };
    groups
        .into_iter()
        .map(|cpus| {
            let own = lines.iter().filter(|l| cpus.contains(&l.cpu)).cloned();
            (Some(cpus.clone()), own.collect())
        })
        .collect()
}

/// The lines of a source by CPU.
pub fn apart(lines: Vec<Line>) -> Vec<(Cpus, Vec<Line>)> {
    let mut of_cpu: BTreeMap<u32, Vec<Line>> = BTreeMap::new();
    for line in lines {
        of_cpu.entry(line.cpu).or_default().push(line);
    }
    let groups = of_cpu.into_iter();
    groups
        .map(|(cpu, lines)| (Some(vec![cpu]), lines))
        .collect()
}

/// How much more the counts of the lines vary over time than by chance; at least 1.
fn burstiness(lines: &[Line]) -> f64 {
    let indices: Vec<f64> = lines
        .iter()
        .filter(|l| l.events.len() >= WINDOWS)
        .filter_map(|l| {
            let joined = Joined::new(std::slice::from_ref(l));
            let begins = joined.events.iter().map(|e| e[0]);
            Some(dispersion(&in_windows(begins, joined.time, WINDOWS))?.statistic)
        })
        .collect();
    let mean = indices.iter().sum::<f64>() / indices.len().max(1) as f64;
    mean.max(1.0)
}

/// Whether pairs of count and time have different rates: chi-squared, corrected for bursts.
fn differ(counts: &[(u64, u64)], bursts: f64) -> bool {
    let events: u64 = counts.iter().map(|c| c.0).sum();
    let time: u64 = counts.iter().map(|c| c.1).sum();
    if counts.len() < 2 || events == 0 || time == 0 {
        return false;
    }
    let rate = events as f64 / time as f64;
    let squares: f64 = counts
        .iter()
        .filter(|c| c.1 > 0)
        .map(|&(n, t)| (n as f64 - rate * t as f64).powi(2) / (rate * t as f64))
        .sum();
    let degrees = (counts.len() - 1) as f64;
    let rates = counts.iter().map(|&(n, t)| n as f64 / t.max(1) as f64);
    let (low, high) = rates.fold((f64::INFINITY, 0.0_f64), |(l, h), r| (l.min(r), h.max(r)));
    gamma_q(0.5 * degrees, 0.5 * squares / bursts) < DIFFERENT && high > FACTOR * low
}

/// How the events of the CPUs of a node are related.
#[derive(Clone, Debug, PartialEq)]
pub enum Sharing {
    /// Each CPU has its own.
    Alone,
    /// All CPUs have them at the same times; a line per node with the mean of what they took.
    Together(Vec<Line>),
    /// The node has them, each on one of its CPUs; a line per node.
    OneAtATime(Vec<Line>),
}

/// The finding, with its evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Shared {
    /// The finding.
    pub sharing: Sharing,
    /// Comb of the lines that have a process of their own.
    pub comb: Option<Comb>,
    /// Tests.
    pub tests: Vec<GoodnessOfFit>,
    /// The reason, as a sentence without the full stop; empty if there is nothing to say.
    pub why: String,
}

/// The finding if nothing is shared, or nothing can be known because the CPUs' clocks differ.
pub fn alone(lines: &[Line]) -> Shared {
    Shared {
        sharing: Sharing::Alone,
        comb: comb(lines),
        tests: Vec::new(),
        why: String::new(),
    }
}

/// Determines what the CPUs of a node share. `exclusive` allows "one at a time", which requires
/// that all CPUs are struck alike.
pub fn sharing(lines: &[Line], exclusive: bool) -> Shared {
    let nodes = nodes(lines.iter());
    if nodes.is_empty() || lines.iter().all(|l| l.events.is_empty()) {
        return alone(lines);
    }
    let window = window(lines.iter());
    let close = Neighbours::of(&nodes, window);
    let seen = close.seen;
    let own_comb = comb(lines);
    let p = close.p(own_comb.is_some());
    let share = seen.beyond_chance();
    let mut tests = vec![test(
        format!("CPUs of a node are struck at the same moments ({window} ns) by chance"),
        "coincidences, binomial",
        Tested {
            statistic: seen.matched as f64 / seen.events.max(1) as f64,
            p,
        },
    )];
    if share >= TOGETHER && p < LEVEL {
        let why = format!(
            "{} of the events strike the CPUs of a node together",
            percent(share)
        );
        let lines: Vec<Line> = nodes.iter().map(|l| together(l, window)).collect();
        return Shared {
            comb: comb(&lines),
            sharing: Sharing::Together(lines),
            tests,
            why,
        };
    }
    // A complete comb on each CPU leaves nothing for the node; one with holes may be the node's.
    let holes = |c: &Comb| (c.struck.len() as f64) < FULL * c.teeth as f64;
    if exclusive && own_comb.as_ref().is_none_or(holes) {
        let merged: Vec<Line> = nodes.iter().map(|l| merged(l)).collect();
        if let Some((comb, test)) = one_at_a_time(&merged, &nodes) {
            let p = test.p;
            tests.push(test);
            if p < LEVEL {
                return Shared {
                    sharing: Sharing::OneAtATime(merged),
                    comb: Some(comb),
                    tests,
                    why: "the node as a whole is struck regularly, its CPUs one at a time"
                        .to_owned(),
                };
            }
        }
    }
    let why = match share > 0.1 && p < LEVEL {
        true => format!(
            "{} of the events strike CPUs of a node together, which the model leaves out",
            percent(share)
        ),
        false => String::new(),
    };
    Shared {
        sharing: Sharing::Alone,
        comb: own_comb,
        tests,
        why,
    }
}

/// The line of a node: events that start within a window of the first are one event, with the mean
/// of what the CPUs lost.
fn together(lines: &[&Line], window: u64) -> Line {
    let all = merged(lines);
    let mut events: Vec<(u64, u64)> = Vec::new();
    for (begin, length) in all.events {
        match events.last_mut() {
            Some(last) if begin - last.0 <= window => last.1 += length,
            _ => events.push((begin, length)),
        }
    }
    let cpus = lines.len() as u64;
    for event in &mut events {
        event.1 = (event.1 + cpus / 2) / cpus;
    }
    Line { events, ..all }
}

/// The comb of nodes, with a test whether so few of its teeth would strike several CPUs if the CPUs
/// were independent.
fn one_at_a_time(merged: &[Line], nodes: &[Vec<&Line>]) -> Option<(Comb, GoodnessOfFit)> {
    let comb = comb(merged)?;
    let found = exclusion(comb.period, merged, nodes);
    let what = "so few teeth of the node's comb strike several CPUs by chance";
    Some((comb, test(what, "exclusion, binomial", found)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_stats::random::SplitMix;

    fn line(cpu: u32, events: Vec<(u64, u64)>) -> Line {
        Line {
            node: 0,
            cpu,
            watched: vec![(0, 10_000_000_000)],
            events,
        }
    }

    fn random(n: u64, seed: u64) -> Vec<(u64, u64)> {
        let mut random = SplitMix::new(seed);
        let mut events: Vec<(u64, u64)> = (0..n)
            .map(|_| ((random.uniform() * 1e10) as u64, 2_000))
            .collect();
        events.sort_unstable();
        events
    }

    #[test]
    fn cpus_that_are_not_struck_or_more_often_are_told_apart() {
        let of = |counts: &[u64]| -> Vec<Cpus> {
            let lines = counts.iter().enumerate();
            let lines = lines.map(|(c, &n)| line(c as u32, random(n, c as u64)));
            alike(lines.collect()).into_iter().map(|g| g.0).collect()
        };
        assert_eq!(of(&[200, 210, 190]), [None]);
        assert_eq!(of(&[200, 0, 190]), [Some(vec![0, 2])]);
        assert_eq!(of(&[200, 0, 900]), [Some(vec![0]), Some(vec![2])]);
        // Too few to tell.
        assert_eq!(of(&[3, 0]), [None]);
        // Different beyond chance, but not by much.
        assert_eq!(of(&[20_000, 24_000]), [None]);
    }

    #[test]
    fn the_same_moments_are_together_with_the_mean_length() {
        let first = random(100, 1);
        let second = first.iter().map(|&(b, _)| (b + 300, 4_000)).collect();
        let found = sharing(&[line(0, first.clone()), line(1, second)], true);
        let Sharing::Together(lines) = found.sharing else {
            panic!("{found:?}");
        };
        assert_eq!(lines.len(), 1);
        assert!(lines[0].events.iter().all(|e| e.1 == 3_000));
        assert_eq!(lines[0].events.len(), first.len());
        let found = sharing(&[line(0, random(100, 1)), line(1, random(100, 2))], true);
        assert_eq!(found.sharing, Sharing::Alone);
    }

    #[test]
    fn ticks_at_the_same_moments_need_a_narrow_window_to_be_more_than_chance() {
        let ticks = |phase: u64| (0..2_500).map(|i| (phase + i * 4_000_000, 2_000)).collect();
        let of = |phase| sharing(&[line(0, ticks(0)), line(1, ticks(phase))], true).sharing;
        assert!(matches!(of(500), Sharing::Together(_)));
        assert_eq!(of(1_000_000), Sharing::Alone);
        // Every 50 us: two such streams agree to 2 us with a probability of 8 %.
        let ticks = |phase: u64| (0..200_000).map(|i| (phase + i * 50_000, 2_000)).collect();
        let found = sharing(&[line(0, ticks(0)), line(1, ticks(500))], true);
        assert_eq!(found.sharing, Sharing::Alone);
    }

    #[test]
    fn a_regular_source_that_wanders_strikes_one_cpu_at_a_time() {
        let mut random = SplitMix::new(9);
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for i in 0..400 {
            let list = if random.bits() % 2 == 0 {
                &mut a
            } else {
                &mut b
            };
            list.push((i * 25_000_000 + 1_000, 50_000));
        }
        let lines = [line(0, a), line(1, b)];
        let found = sharing(&lines, true);
        assert!(
            matches!(found.sharing, Sharing::OneAtATime(..)),
            "{found:?}"
        );
        assert_eq!(sharing(&lines, false).sharing, Sharing::Alone);
    }
}
