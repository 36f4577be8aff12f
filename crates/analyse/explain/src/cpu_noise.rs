//! Noise of every CPU, from the detour loop and the fixed work quantum.

use crate::ExplainError;
use crate::detours::Seen;
use crate::fixed_work::{Work, fixed_work};
use idlewave_run::findings::{CpuNoise, Estimate, FixedWorkFindings, SpeedLevel};
use idlewave_run::tables::Detours;
use idlewave_run::{PhaseKind, RunReader};
use idlewave_stats::blocks;
use idlewave_stats::warm_up::{self, Start};
use idlewave_units::{Cpu, Nanos};
use std::collections::BTreeMap;

/// One entry per CPU that was measured, in order of CPU.
pub fn cpu_noise(run: &RunReader) -> Result<Vec<CpuNoise>, ExplainError> {
    let mut cpus: BTreeMap<Cpu, CpuNoise> = BTreeMap::new();
    let entry = |cpu: Cpu| CpuNoise {
        cpu,
        detours: None,
        fixed_work: None,
        starts: None,
    };
    let mut work = fixed_work(run)?;
    let mut starts: BTreeMap<Cpu, Vec<Start>> = BTreeMap::new();
    for (index, phase) in (0_u32..).zip(&run.manifest().phases) {
        match &phase.kind {
            PhaseKind::Detour {
                threshold, loops, ..
            } => {
                let mut seen: BTreeMap<Cpu, Seen<'_>> =
                    loops.iter().map(|l| (l.cpu, Seen::new(l))).collect();
                run.for_each::<Detours>(|d| {
                    if let Some(seen) = seen.get_mut(&d.cpu).filter(|_| d.phase == index) {
                        seen.add(d.begin_ns, d.length.get());
                    }
                })?;
                for (cpu, seen) in seen {
                    cpus.entry(cpu).or_insert_with(|| entry(cpu)).detours =
                        Some(seen.findings(*threshold));
                }
            }
            PhaseKind::FixedWork { work_steps } => {
                let of = (index, Cpu::new(0))..=(index, Cpu::new(u32::MAX));
                let keys: Vec<_> = work.range(of).map(|(key, _)| *key).collect();
                for key in keys {
                    let (cpu, Some(work)) = (key.1, work.remove(&key)) else {
                        continue;
                    };
                    starts
                        .entry(cpu)
                        .or_default()
                        .extend(Start::of(&work.summary.windows));
                    cpus.entry(cpu).or_insert_with(|| entry(cpu)).fixed_work =
                        fixed_work_findings(*work_steps, &work);
                }
            }
            PhaseKind::Lockstep { .. }
            | PhaseKind::MolecularDynamics { .. }
            | PhaseKind::Recorded { .. } => {}
        }
    }
    for (cpu, starts) in starts {
        if let Some(noise) = cpus.get_mut(&cpu) {
            noise.starts = warm_up::repeated(&starts);
        }
    }
    Ok(cpus.into_values().collect())
}

fn fixed_work_findings(work_steps: u64, work: &Work) -> Option<FixedWorkFindings> {
    let times = &work.summary.times;
    let count = times.count();
    let (min, max) = times.extremes()?;
    let at = |q: f64| Nanos::from_nanos(times.at(((count - 1) as f64 * q) as u64));
    let found = &work.levels;
    let reference = found.fastest().unwrap_or(min).max(1);
    let interval = work.summary.sums.mean(blocks::BLOCKS);
    let mean = interval.mean / reference as f64;
    let half_width = interval.half_width / reference as f64;
    let slow: f64 = found
        .segments()
        .iter()
        .map(|s| (s.end - s.begin) as f64 * (1.0 - reference as f64 / s.duration.max(1) as f64))
        .sum();
    let covered: f64 = found
        .segments()
        .iter()
        .map(|s| (s.end - s.begin) as f64)
        .sum();
    // Time lost to slow levels over the time of the same work at the reference.
    let slowdown_by_level = if covered > slow {
        slow / (covered - slow)
    } else {
        0.0
    };
    Some(FixedWorkFindings {
        work_steps,
        count,
        reference: Nanos::from_nanos(reference),
        min: Nanos::from_nanos(min),
        median: at(0.5),
        p99: at(0.99),
        max: Nanos::from_nanos(max),
        slowdown: Estimate {
            value: mean - 1.0,
            low: (mean - half_width - 1.0).max((mean - 1.0).min(0.0)),
            high: mean + half_width - 1.0,
            n: count,
            method: "mean over reference, minus 1; 95 % interval over blocks".to_owned(),
        },
        slowdown_by_level,
        levels: found
            .levels()
            .iter()
            .map(|l| SpeedLevel {
                duration: Nanos::from_nanos(l.duration),
                share: l.share,
                dwell: Nanos::from_nanos(l.dwell),
                stays: l.stays,
            })
            .collect(),
        warm_up: warm_up::verdict_of(&work.summary.windows),
        histogram: times.coarse().non_empty(),
    })
}
