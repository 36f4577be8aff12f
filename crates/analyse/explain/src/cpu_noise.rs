//! Noise of every CPU, from the detour loop, the fixed work quantum and the fixed time quantum.

use crate::ExplainError;
use crate::detours::Seen;
use crate::fixed_time::{fixed_time_findings, fixed_times};
use crate::fixed_work::{Work, fixed_work};
use crate::reserved::{Gaps, reserved_gaps};
use idlewave_run::findings::{
    CpuNoise, DetourFindings, Estimate, FixedTimeFindings, FixedWorkFindings, SpeedLevel,
};
use idlewave_run::tables::{Detours, Quanta};
use idlewave_run::{PhaseKind, Reserve, RunReader, WorkKernel};
use idlewave_stats::blocks;
use idlewave_stats::warm_up::{self, Start};
use idlewave_units::{Cpu, Nanos, NodeId};
use std::collections::BTreeMap;

/// CPUs with a periodogram, and with durations over time, at most.
const DRAWN: usize = 16;

/// One entry per CPU that was measured, in order of node and CPU.
///
/// # Errors
/// A table cannot be read.
pub fn cpu_noise(run: &RunReader) -> Result<Vec<CpuNoise>, ExplainError> {
    let mut cpus: BTreeMap<(NodeId, Cpu), CpuNoise> = BTreeMap::new();
    let entry = |(node, cpu): (NodeId, Cpu)| CpuNoise {
        node,
        cpu,
        detours: None,
        fixed_work: None,
        fixed_time: None,
        reserved: None,
        starts: None,
    };
    let realtime = run.manifest().conditions.realtime;
    let reserve = realtime.and_then(|realtime| realtime.reserve);
    let mut seen = seen(run, reserve)?;
    let mut work = fixed_work(run)?;
    let mut times = fixed_times(run)?;
    let mut gaps = gaps_of_quanta(run, reserve)?;
    let mut starts: BTreeMap<(NodeId, Cpu), Vec<Start>> = BTreeMap::new();
    for (index, phase) in (0_u32..).zip(&run.manifest().phases) {
        match &phase.kind {
            PhaseKind::Detour {
                node,
                threshold,
                loops,
                ..
            } => {
                for sheet in loops {
                    let Some((seen, gaps)) = seen.remove(&(index, sheet.cpu)) else {
                        continue;
                    };
                    let place = (*node, sheet.cpu);
                    let noise = cpus.entry(place).or_insert_with(|| entry(place));
                    noise.detours = Some(seen.findings(*threshold));
                    noise.reserved = gaps.and_then(|gaps| reserved_gaps(&gaps, sheet.watched()));
                }
            }
            &PhaseKind::FixedWork {
                node,
                work_steps,
                kernel,
                array,
            } => {
                for (cpu, work) in of_phase(&mut work, index) {
                    let place = (node, cpu);
                    starts
                        .entry(place)
                        .or_default()
                        .extend(Start::of(&work.summary.windows));
                    let found = fixed_work_findings(&work);
                    let noise = cpus.entry(place).or_insert_with(|| entry(place));
                    let gaps = gaps.remove(&(index, cpu));
                    noise.reserved = found.as_ref().zip(gaps).and_then(|(found, mut gaps)| {
                        gaps.shorten(found.reference);
                        reserved_gaps(&gaps, work.span())
                    });
                    // Before the first phase the CPU was idle.
                    let first = noise.fixed_work.take().map(|earlier| earlier.warm_up);
                    noise.fixed_work = found.map(|found| FixedWorkFindings {
                        work_steps,
                        kernel,
                        array,
                        warm_up: first.unwrap_or(found.warm_up),
                        ..found
                    });
                }
            }
            &PhaseKind::FixedTime {
                node,
                interval,
                work_steps,
                kernel,
                array,
            } => {
                for (cpu, quanta) in of_phase(&mut times, index) {
                    let place = (node, cpu);
                    let found = fixed_time_findings(interval, &quanta);
                    let noise = cpus.entry(place).or_insert_with(|| entry(place));
                    let span = quanta.first().zip(quanta.last());
                    let span =
                        span.map_or(0, |(a, b)| (b.begin + b.duration).saturating_sub(a.begin));
                    // Of a quantum so long, nearly all is the gap.
                    let gaps = gaps.remove(&(index, cpu));
                    noise.reserved =
                        gaps.and_then(|gaps| reserved_gaps(&gaps, Nanos::from_nanos(span)));
                    noise.fixed_time = found.map(|found| FixedTimeFindings {
                        work_steps,
                        kernel,
                        array,
                        ..found
                    });
                }
            }
            PhaseKind::Lockstep { .. }
            | PhaseKind::MolecularDynamics { .. }
            | PhaseKind::Benchmark(_)
            | PhaseKind::PingPong { .. }
            | PhaseKind::Scaling(_)
            | PhaseKind::Recorded { .. } => {}
        }
    }
    for (place, starts) in starts {
        if let Some(noise) = cpus.get_mut(&place) {
            noise.starts = warm_up::repeated(&starts);
        }
    }
    let mut cpus: Vec<CpuNoise> = cpus.into_values().collect();
    keep_worst(&mut cpus);
    Ok(cpus)
}

/// Keeps what is drawn in many points only for the CPUs that lose most, so that the findings of very
/// many CPUs stay small.
pub(crate) fn keep_worst(cpus: &mut [CpuNoise]) {
    let mut detours: Vec<&mut DetourFindings> =
        cpus.iter_mut().filter_map(|c| c.detours.as_mut()).collect();
    detours.sort_by(|a, b| b.stolen.value.total_cmp(&a.stolen.value));
    let rest = detours.into_iter().skip(DRAWN);
    rest.for_each(|found| found.spectrum = None);
    let mut work: Vec<&mut FixedWorkFindings> = cpus
        .iter_mut()
        .filter_map(|c| c.fixed_work.as_mut())
        .collect();
    work.sort_by(|a, b| b.slowdown.value.total_cmp(&a.slowdown.value));
    let rest = work.into_iter().skip(DRAWN);
    rest.for_each(|found| found.times.clear());
}

/// Takes the entries of a phase, in order of CPU.
fn of_phase<T>(all: &mut BTreeMap<(u32, Cpu), T>, phase: u32) -> BTreeMap<Cpu, T> {
    let mut later = all.split_off(&(phase, Cpu::new(0)));
    let after = later.split_off(&(phase + 1, Cpu::new(0)));
    all.extend(after);
    later
        .into_iter()
        .map(|((_, cpu), one)| (cpu, one))
        .collect()
}

/// The detours of every loop, and those that the kernel may have made on purpose.
fn seen(run: &RunReader, reserve: Option<Reserve>) -> Result<AllSeen<'_>, ExplainError> {
    let mut all = AllSeen::new();
    for (index, phase) in (0_u32..).zip(&run.manifest().phases) {
        if let PhaseKind::Detour { loops, .. } = &phase.kind {
            let of_loop = |l| (Seen::new(l), reserve.map(Gaps::new));
            all.extend(loops.iter().map(|l| ((index, l.cpu), of_loop(l))));
        }
    }
    run.for_each::<Detours>(|d| {
        let of_loop = all.get_mut(&(d.phase, d.cpu));
        if let Some((seen, gaps)) = of_loop.filter(|_| d.rank.is_none()) {
            seen.add(d.begin_ns, d.length.get());
            if let Some(gaps) = gaps {
                gaps.add(d.begin_ns, d.length.get());
            }
        }
    })?;
    Ok(all)
}

/// By phase and CPU.
type AllSeen<'a> = BTreeMap<(u32, Cpu), (Seen<'a>, Option<Gaps>)>;

/// Quanta so long that the kernel may have stopped them on purpose, by phase and CPU.
fn gaps_of_quanta(
    run: &RunReader,
    reserve: Option<Reserve>,
) -> Result<BTreeMap<(u32, Cpu), Gaps>, ExplainError> {
    let mut all = BTreeMap::new();
    if let Some(reserve) = reserve {
        run.for_each::<Quanta>(|q| {
            let gaps = all.entry((q.phase, q.cpu)).or_insert(Gaps::new(reserve));
            gaps.add(q.begin_ns, q.duration.get());
        })?;
    }
    Ok(all)
}

/// What the same work shows, whatever it was.
fn fixed_work_findings(work: &Work) -> Option<FixedWorkFindings> {
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
        work_steps: 0,
        kernel: WorkKernel::default(),
        array: None,
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
        times: work.over_time(),
    })
}
