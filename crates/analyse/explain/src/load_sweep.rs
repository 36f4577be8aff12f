//! How detours and speed depend on how many CPUs are busy: several detour loops, each on more CPUs
//! than the one before.
//!
//! Assumptions: the CPUs that are not busy are idle. Rates and shares are those of all busy CPUs
//! together; the interval of the share takes the CPUs as independent, and is too narrow if one
//! disturbance strikes several. The mix of detours may differ between loads; the timer tick, where
//! the kernel was traced, is the same interrupt at every load.

use crate::ExplainError;
use crate::detours::Seen;
use crate::strikes::Strike;
use idlewave_run::findings::{Estimate, LoadPoint, LoadSweep};
use idlewave_run::tables::{Detours, Quanta};
use idlewave_run::{DetourLoop, PhaseKind, RunReader};
use idlewave_stats::histogram::FineHistogram;
use idlewave_stats::{quantiles, rates};
use idlewave_units::{Cpu, CpuSet};
use std::collections::BTreeMap;

/// The sweep; `None` if the run has none. `ticks` are the strikes of timer ticks.
pub fn load_sweep(run: &RunReader, ticks: &[Strike]) -> Result<Option<LoadSweep>, ExplainError> {
    let phases = &run.manifest().phases;
    if run.manifest().measures_several_nodes() {
        return Ok(None);
    }
    let loops = (0_u32..)
        .zip(phases)
        .filter_map(|(index, phase)| match &phase.kind {
            PhaseKind::Detour { loops, .. } => Some((index, loops.as_slice())),
            _ => None,
        });
    let loops: Vec<(u32, &[DetourLoop])> = loops.collect();
    let grows = loops.windows(2).all(|w| w[0].1.len() < w[1].1.len());
    let first = loops.first().and_then(|(_, loops)| loops.first());
    let Some(first) = first.filter(|_| grows && loops.len() > 1).map(|l| l.cpu) else {
        return Ok(None);
    };
    let mut seen: BTreeMap<(u32, Cpu), Seen<'_>> = BTreeMap::new();
    for &(index, loops) in &loops {
        seen.extend(loops.iter().map(|l| ((index, l.cpu), Seen::new(l))));
    }
    run.for_each::<Detours>(|d| {
        if let Some(seen) = seen.get_mut(&(d.phase, d.cpu)) {
            seen.add(d.begin_ns, d.length.get());
        }
    })?;
    let mut work: BTreeMap<u32, FineHistogram> = BTreeMap::new();
    run.for_each::<Quanta>(|q| {
        if q.cpu == first {
            work.entry(q.phase).or_default().add(q.duration.get());
        }
    })?;
    let of = |index: u32| {
        let all = (index, Cpu::new(0))..=(index, Cpu::new(u32::MAX));
        seen.range(all).map(|((_, cpu), seen)| (*cpu, seen))
    };
    let points = loops.iter().map(|&(index, loops)| {
        let seen: Vec<&Seen<'_>> = of(index).map(|(_, seen)| seen).collect();
        // The work that follows the loops is done on the same CPUs.
        let tick = tick(ticks, loops.iter().filter(|l| l.cpu == first));
        LoadPoint {
            tick,
            ..point(loops, &seen, work.get(&(index + 1)))
        }
    });
    let points = points.collect();
    let (last, all) = loops.last().copied().unwrap_or_default();
    let lengths = |firsts: bool| {
        let chosen = of(last).filter(|(cpu, _)| (*cpu == first) == firsts);
        median_length(chosen.map(|(_, seen)| seen))
    };
    Ok(Some(LoadSweep {
        first,
        points,
        length_of_first: lengths(true),
        length_of_others: lengths(false),
        tick_of_first: tick(ticks, all.iter().filter(|l| l.cpu == first)),
        tick_of_others: tick(ticks, all.iter().filter(|l| l.cpu != first)),
    }))
}

/// Median length of the timer ticks that struck these loops.
fn tick<'a>(
    ticks: &[Strike],
    loops: impl Iterator<Item = &'a DetourLoop> + Clone,
) -> Option<Estimate> {
    let struck = |t: &&Strike| {
        let mut loops = loops.clone();
        loops.any(|l| l.cpu == t.cpu && (l.begin_ns..l.end_ns).contains(&t.begin))
    };
    let lengths: Vec<u64> = ticks.iter().filter(struck).map(|t| t.length).collect();
    Some(quantiles::median(&lengths)).filter(|median| median.n > 0)
}

fn point(loops: &[DetourLoop], seen: &[&Seen<'_>], work: Option<&FineHistogram>) -> LoadPoint {
    let shares: Vec<Estimate> = seen.iter().map(|s| s.stolen()).collect();
    let n = shares.len().max(1) as f64;
    let value = shares.iter().map(|s| s.value).sum::<f64>() / n;
    let half = |s: &Estimate| ((s.high - s.low) / 2.0).powi(2);
    let half = shares.iter().map(half).sum::<f64>().sqrt() / n;
    let count: u64 = seen.iter().map(|s| s.count()).sum();
    let seconds: f64 = loops.iter().map(|l| l.watched().as_secs_f64()).sum();
    LoadPoint {
        busy: loops.len() as u32,
        cpus: loops.iter().map(|l| l.cpu).collect::<CpuSet>(),
        stolen: Estimate {
            value,
            low: (value - half).max(0.0),
            high: (value + half).min(1.0),
            n: count,
            method: "mean over the busy CPUs; 95 % interval from theirs".to_owned(),
        },
        rate: rates::poisson(count, seconds),
        length: median_length(seen.iter().copied()),
        tick: None,
        work: work.and_then(median),
    }
}

fn median_length<'a>(seen: impl Iterator<Item = &'a Seen<'a>>) -> Option<Estimate> {
    let mut lengths = FineHistogram::default();
    seen.for_each(|s| lengths.merge(s.lengths()));
    median(&lengths)
}

fn median(times: &FineHistogram) -> Option<Estimate> {
    let median = quantiles::quantile_by_rank(times.count(), 0.5, |rank| times.at(rank));
    (median.n > 0).then_some(median)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use idlewave_run::SourceKind;
    use idlewave_units::{Nanos, NodeId};

    #[test]
    fn ticks_count_in_the_loop_that_they_struck() {
        let on = |cpu, begin_ns| DetourLoop {
            cpu: Cpu::new(cpu),
            begin_ns,
            end_ns: begin_ns + 100,
            turns: 1,
            turn_quanta: 1.0,
            recording: Nanos::ZERO,
            not_kept: 0,
            stolen: Nanos::ZERO,
            involuntary_switches: None,
            moved: false,
        };
        let source = Catalog::default().class(SourceKind::TimerTick);
        let strike = |cpu, begin, length| Strike {
            source,
            node: NodeId::new(0),
            cpu: Cpu::new(cpu),
            begin,
            length,
            continues: false,
        };
        let ticks = [
            strike(0, 1_000, 7),
            strike(0, 1_099, 9),
            strike(0, 1_100, 50),
            strike(1, 1_050, 70),
        ];
        let median = |loops: &[DetourLoop]| tick(&ticks, loops.iter()).map(|e| (e.value, e.n));
        assert_eq!(median(&[on(0, 1_000)]), Some((8.0, 2)));
        assert_eq!(median(&[on(0, 1_000), on(1, 1_000)]), Some((9.0, 3)));
        assert_eq!(median(&[on(1, 2_000)]), None);
    }
}
