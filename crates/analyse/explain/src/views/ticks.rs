//! The clock interrupt: its frequency on every CPU, and its skew between CPUs.
//!
//! Every CPU has its own clock interrupt. If those of all CPUs come at the same time, a step that
//! waits for all ranks is delayed once per period, by one length. If they come one after the other,
//! the step can be delayed by each of them: up to as many lengths as there are groups of CPUs whose
//! interrupts do not overlap.
//!
//! Estimate: the times of a CPU are folded at the period, and the phase is the median of those
//! within a sixteenth of the period around the densest place: the same interrupt also serves other
//! timers, which come at any phase. The spread is the distance of the quartiles of these. The period
//! is 1 / HZ where the run knows HZ and the interrupts keep to it, and otherwise the period that
//! `idlewave_stats::periodicity` finds.
//!
//! Assumption: one period for all CPUs of a node. Bias: none known; a CPU that is idle skips clock
//! interrupts, so its frequency is lower than 1 / period.

use idlewave_run::Manifest;
use idlewave_run::findings::Estimate;
use idlewave_stats::periodicity;
use idlewave_stats::quantiles::quantile_of_sorted;
use idlewave_stats::rates;
use idlewave_units::{Cpu, Nanos, NodeId};
use serde::Serialize;
use std::collections::BTreeMap;

use super::lengths::{LengthSummary, Lengths};

/// Times kept per CPU: 128 KiB, a minute at 250 Hz.
const TIMES: usize = 1 << 14;
/// Fewer clock interrupts have no phase.
const TIMES_NEEDED: usize = 20;
/// Places on the circle of the period.
const PLACES: usize = 64;
/// The interrupts of a CPU have a phase if this share of them lies around the densest place; by
/// chance it would be an eighth.
const SHARE_NEEDED: f64 = 0.4;
/// A period this close to that of HZ counts as that of HZ.
const SAME: f64 = 1e-3;

/// The clock interrupt of one node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Clock {
    /// Node.
    pub node: NodeId,
    /// Period, in nanoseconds; `None` if the interrupts have none.
    pub period_ns: Option<f64>,
    /// Whether the period is that of the kernel's HZ, and not estimated.
    pub is_hz: bool,
    /// The CPUs, in order.
    pub cpus: Vec<ClockCpu>,
    /// How the interrupts of the CPUs are offset from each other; `None` if fewer than two CPUs
    /// have a phase.
    pub skew: Option<Skew>,
}

/// The clock interrupt of one CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClockCpu {
    /// The CPU.
    pub cpu: Cpu,
    /// Clock interrupts.
    pub count: u64,
    /// Per second, over the time watched.
    pub frequency: Estimate,
    /// Their whole length, nested ones included.
    pub length: LengthSummary,
    /// Phase behind the first CPU that has one, in nanoseconds, in -period/2..=period/2; `None`
    /// without a stable phase.
    pub offset_ns: Option<i64>,
    /// Distance of the quartiles of the phase.
    pub spread: Option<Nanos>,
    /// Share of the clock interrupts at this phase, 0..=1.
    pub share: Option<f64>,
}

/// How the clock interrupts of several CPUs are offset from each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Skew {
    /// CPUs with a phase.
    pub cpus: u32,
    /// Groups of CPUs whose clock interrupts overlap; 1 if they are aligned.
    pub groups: u32,
    /// Median length of a clock interrupt.
    pub length: Nanos,
    /// Most that a period can cost a step that waits for all: one length per group.
    pub cost: Nanos,
    /// The same as a share of the period.
    pub share: f64,
}

#[derive(Debug, Default)]
struct Times {
    count: u64,
    times: Vec<u64>,
    length: Lengths,
}

/// Clock interrupts being collected.
#[derive(Debug, Default)]
pub(super) struct Ticks(BTreeMap<NodeId, BTreeMap<Cpu, Times>>);

impl Ticks {
    /// Adds a clock interrupt; `length` is `None` if it is not known.
    pub(super) fn add(&mut self, node: NodeId, cpu: Cpu, begin: u64, length: Option<u64>) {
        let all = self.0.entry(node).or_default().entry(cpu).or_default();
        all.count += 1;
        if all.times.len() < TIMES {
            all.times.push(begin);
        }
        if let Some(length) = length {
            all.length.add(length);
        }
    }

    /// The clocks of all nodes, over this many nanoseconds watched.
    pub(super) fn finish(mut self, manifest: &Manifest, watched: u64) -> Vec<Clock> {
        // Nested interrupts are added before those around them, which start earlier.
        for times in self.0.values_mut().flat_map(|cpus| cpus.values_mut()) {
            times.times.sort_unstable();
        }
        let hz = |node: NodeId| {
            let mut nodes = manifest.nodes.iter();
            nodes.find(|n| n.node == node).and_then(|n| n.host.hz)
        };
        let clocks = self.0.into_iter();
        clocks
            .map(|(node, cpus)| clock(node, &cpus, hz(node), watched))
            .collect()
    }
}

fn clock(node: NodeId, cpus: &BTreeMap<Cpu, Times>, hz: Option<u32>, watched: u64) -> Clock {
    let found = period(cpus, hz);
    let folded: Vec<Option<Folded>> = cpus
        .values()
        .map(|times| found.and_then(|(period, _)| fold(&times.times, period)))
        .collect();
    let reference = folded.iter().flatten().next().map(|f| f.phase);
    let offset = |f: &Folded| {
        let (period, _) = found?;
        let apart = (f.phase - reference?).rem_euclid(period);
        let signed = if apart > 0.5 * period {
            apart - period
        } else {
            apart
        };
        Some(signed.round() as i64)
    };
    let rows: Vec<ClockCpu> = cpus
        .iter()
        .zip(&folded)
        .map(|((&cpu, times), folded)| ClockCpu {
            cpu,
            count: times.count,
            frequency: rates::poisson(times.count, watched as f64 / 1e9),
            length: times.length.summary(),
            offset_ns: folded.as_ref().and_then(offset),
            spread: folded.as_ref().map(|f| f.spread),
            share: folded.as_ref().map(|f| f.share),
        })
        .collect();
    Clock {
        node,
        period_ns: found.map(|f| f.0),
        is_hz: found.is_some_and(|f| f.1),
        skew: found.and_then(|(period, _)| skew(&rows, period)),
        cpus: rows,
    }
}

/// Period in nanoseconds, and whether it is that of HZ.
fn period(cpus: &BTreeMap<Cpu, Times>, hz: Option<u32>) -> Option<(f64, bool)> {
    let all = cpus.values().filter(|t| t.times.len() >= TIMES_NEEDED);
    let nominal = hz.filter(|hz| *hz > 0).map(|hz| 1e9 / f64::from(hz));
    if let Some(nominal) = nominal {
        if all.clone().any(|t| fold(&t.times, nominal).is_some()) {
            return Some((nominal, true));
        }
    }
    let found = all.filter_map(|t| periodicity::periods(&t.times).into_iter().next());
    let best = found.max_by(|a, b| a.power.total_cmp(&b.power))?;
    let value = best.period.value;
    let same = nominal.filter(|n| (value / n - 1.0).abs() < SAME);
    Some((same.unwrap_or(value), same.is_some()))
}

/// Times folded at a period.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Folded {
    phase: f64,
    spread: Nanos,
    share: f64,
}

fn fold(times: &[u64], period: f64) -> Option<Folded> {
    if times.len() < TIMES_NEEDED {
        return None;
    }
    let phases: Vec<f64> = times
        .iter()
        .map(|&t| (t as f64).rem_euclid(period))
        .collect();
    let mut places = [0_usize; PLACES];
    for phase in &phases {
        places[((phase / period * PLACES as f64) as usize).min(PLACES - 1)] += 1;
    }
    // Two neighbours, so that a phase on an edge is not split.
    let two = |at: usize| places[at] + places[(at + 1) % PLACES];
    let densest = (0..PLACES).max_by_key(|&at| (two(at), PLACES - at))?;
    let centre = (densest + 1) as f64 / PLACES as f64 * period;
    let width = period / 16.0;
    let apart = |phase: f64| (phase - centre + 0.5 * period).rem_euclid(period) - 0.5 * period;
    let near = phases
        .iter()
        .map(|&p| apart(p))
        .filter(|a| a.abs() <= width);
    // Shifted by the width, so that they are not negative.
    let mut near: Vec<u64> = near.map(|a| (a + width).max(0.0).round() as u64).collect();
    near.sort_unstable();
    let share = near.len() as f64 / times.len() as f64;
    if share < SHARE_NEEDED {
        return None;
    }
    let at = |q: f64| quantile_of_sorted(&near, q).value;
    Some(Folded {
        phase: (centre - width + at(0.5)).rem_euclid(period),
        spread: Nanos::from_nanos((at(0.75) - at(0.25)).round() as u64),
        share,
    })
}

/// Groups of clock interrupts that do not overlap.
fn skew(cpus: &[ClockCpu], period: f64) -> Option<Skew> {
    let mut offsets: Vec<i64> = cpus.iter().filter_map(|c| c.offset_ns).collect();
    if offsets.len() < 2 {
        return None;
    }
    let medians = cpus.iter().filter_map(|c| c.length.median.as_ref());
    let longest = medians.map(|m| m.value).fold(0.0, f64::max);
    offsets.sort_unstable();
    let gaps = offsets
        .windows(2)
        .filter(|w| (w[1] - w[0]) as f64 > longest);
    let mut groups = gaps.count() + 1;
    // The period is a circle: the last group may reach the first.
    let around = period - (offsets[offsets.len() - 1] - offsets[0]) as f64;
    if groups > 1 && around <= longest {
        groups -= 1;
    }
    let cost = longest * groups as f64;
    Some(Skew {
        cpus: offsets.len() as u32,
        groups: groups as u32,
        length: Nanos::from_nanos(longest.round() as u64),
        cost: Nanos::from_nanos(cost.round() as u64),
        share: cost / period,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks at 250 Hz, 4 us long, with these offsets; every tenth is missing, and as many others
    /// come in between.
    fn ticks(offsets: &[u64]) -> Clock {
        let mut all = BTreeMap::new();
        for (cpu, offset) in offsets.iter().enumerate() {
            let mut times = Times::default();
            for i in 0..500_u64 {
                let other = if i % 10 == 3 { 1_234_567 + i * 777 } else { 0 };
                // A jitter of 0, 100 or 200 ns.
                times
                    .times
                    .push(7_000_000 + offset + i * 4_000_000 + other + i % 3 * 100);
                times.length.add(4_000);
                times.count += 1;
            }
            all.insert(Cpu::new(cpu as u32), times);
        }
        clock(NodeId::new(0), &all, Some(250), 2_000_000_000)
    }

    #[test]
    fn aligned_clocks_cost_one_length_and_staggered_ones_one_each() {
        let aligned = ticks(&[0, 300, 900]);
        assert_eq!(aligned.period_ns, Some(4e6));
        assert!(aligned.is_hz);
        let offsets: Vec<_> = aligned.cpus.iter().map(|c| c.offset_ns).collect();
        assert_eq!(offsets, [Some(0), Some(300), Some(900)]);
        let skew = aligned.skew.unwrap();
        assert_eq!((skew.groups, skew.cost.get()), (1, 4_000));

        let staggered = ticks(&[0, 1_000_000, 3_000_000]);
        let offsets: Vec<_> = staggered.cpus.iter().map(|c| c.offset_ns).collect();
        // Three quarters of a period later is a quarter earlier.
        assert_eq!(offsets, [Some(0), Some(1_000_000), Some(-1_000_000)]);
        let skew = staggered.skew.unwrap();
        assert_eq!((skew.groups, skew.cost.get()), (3, 12_000));
        assert!((skew.share - 0.003).abs() < 1e-12);
        let spread = staggered.cpus[0].spread.unwrap().get();
        assert!((100..=200).contains(&spread), "{spread}");
    }

    #[test]
    fn clocks_that_meet_across_the_end_of_the_period_are_one_group() {
        let skew = ticks(&[0, 3_999_000]).skew.unwrap();
        assert_eq!(skew.groups, 1);
        // Offsets of half a period either way are the two ends of the circle.
        let skew = ticks(&[0, 1_999_000, 2_001_000]).skew.unwrap();
        assert_eq!(skew.groups, 2);
    }

    #[test]
    fn timers_at_random_have_no_phase() {
        let mut times = Times::default();
        let mut state = 1_u64;
        for i in 0..1000_u64 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            times.times.push(i * 4_000_000 + (state >> 33) % 4_000_000);
        }
        assert_eq!(fold(&times.times, 4e6), None);
    }
}
