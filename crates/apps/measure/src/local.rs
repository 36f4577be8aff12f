//! Runs the detour loop and the fixed work quantum on the CPUs of this node, without a bundle.

use crate::load::{self, NodeLoad};
use crate::{MeasureError, MeasureOptions, What};
use idlewave_clock::{Calibration, Counter, with_source};
use idlewave_explain::detour_findings;
use idlewave_run::RunError;
use idlewave_run::findings::{DetourFindings, Estimate, WarmUp};
use idlewave_run::spill::{Block, RecordKind};
use idlewave_session::{Progress, SessionError, Stop};
use idlewave_stats::{quantiles, warm_up};
use idlewave_units::{Cpu, Nanos, Pid};
use idlewave_workloads::detour::Gap;
use idlewave_workloads::{Member, Sink, detour, fibonacci, fixed_work};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Gaps of at least this length are detours.
const THRESHOLD: Nanos = Nanos::from_micros(1);
/// The most records kept per CPU; further ones are only counted.
const MOST: u64 = 4 << 20;

/// The findings of one CPU. A detour is a time during which the loop stood still, a quantum a
/// repetition of the same work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CpuFindings {
    /// The CPU.
    pub cpu: Cpu,
    /// The number of detours or quanta.
    pub count: u64,
    /// Those that were not kept. None of the lengths below include them; for detours, the share of
    /// the time does.
    pub not_kept: u64,
    /// Median length, nanoseconds; `None` without any.
    pub median: Option<Estimate>,
    /// 99th percentile.
    pub p99: Option<Estimate>,
    /// Longest, nanoseconds.
    pub longest: Option<u64>,
    /// Detours: share of the time that they took. Quanta: mean over the 1st percentile, minus 1;
    /// `None` without any.
    pub noise: Option<f64>,
    /// Detours: rate, share, lengths and periods, as `study` finds them.
    pub detours: Option<DetourFindings>,
    /// Quanta: how long the CPU took to settle; earlier quanta are omitted.
    pub warm_up: Option<WarmUp>,
}

/// Detours or quanta of every CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LocalOutcome {
    /// `detour` or `fwq`.
    pub method: String,
    /// Detours: gaps of at least this length are counted.
    pub threshold: Option<Nanos>,
    /// Per CPU.
    pub cpus: Vec<CpuFindings>,
}

/// Records of one CPU: start and length in counts.
#[derive(Default)]
struct Records {
    kept: Vec<(u64, u64)>,
    not_kept: u64,
}

/// Keeps the lengths of all records, with their starts, in counts.
struct Kept<'a> {
    by_cpu: BTreeMap<Cpu, Records>,
    duration: Duration,
    halt: &'a std::sync::atomic::AtomicBool,
    stop: &'a Stop,
    progress: &'a dyn Progress,
}

impl Sink for Kept<'_> {
    fn ready(&mut self, _: &[Member], _: &[Pid]) -> Result<(), RunError> {
        Ok(())
    }
    fn records(&mut self, block: &Block, words: &[u64]) -> Result<(), RunError> {
        let records = self.by_cpu.entry(block.cpu).or_default();
        for pair in words.chunks_exact(block.kind.words()) {
            let (begin, second) = (pair[0], pair[1]);
            let length = match block.kind {
                RecordKind::Quantum => second.saturating_sub(begin),
                _ => second,
            };
            if (records.kept.len() as u64) < MOST {
                records.kept.push((begin, length));
            } else {
                records.not_kept += 1;
            }
        }
        Ok(())
    }
    fn tick(&mut self, elapsed: Duration) {
        self.progress
            .at(elapsed.as_secs_f64() / self.duration.as_secs_f64());
        if self.stop.is_requested() {
            self.halt.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

/// Measures on all these CPUs at once; also returns how busy other processes kept this node.
pub fn measure(
    options: &MeasureOptions,
    cpus: &[Cpu],
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<(LocalOutcome, NodeLoad), MeasureError> {
    let counter = Counter::choose(Path::new("/"));
    let readings = counter.measure().map_err(SessionError::from)?;
    let mut calibration = Calibration::begin(counter);
    let halt = std::sync::atomic::AtomicBool::new(false);
    let duration = options.duration.to_duration();
    let meter = load::alone(&[]);
    let mut kept = Kept {
        by_cpu: cpus.iter().map(|&cpu| (cpu, Records::default())).collect(),
        duration,
        halt: &halt,
        stop,
        progress,
    };
    let detours = options.what == What::Detour;
    let mut loops = BTreeMap::new();
    let mut threshold = None;
    if detours {
        progress.part("watching for detours on all CPUs");
        let params = detour::Params {
            cpus: cpus.to_vec(),
            duration,
            threshold: THRESHOLD,
            phase: 0,
        };
        let outcome = detour::run(&params, readings, &mut calibration, &halt, &mut kept)?;
        threshold = Some(outcome.threshold);
        for mut seen in outcome.loops {
            let records = kept.by_cpu.entry(seen.cpu).or_default();
            records.not_kept += seen.not_kept;
            seen.not_kept = records.not_kept;
            loops.insert(seen.cpu, (seen, outcome.threshold));
        }
    } else {
        progress.part("timing the fixed work quantum on all CPUs");
        let counts = (0..5)
            .map(|_| with_source!(counter, s => fibonacci::counts_per_thousand_steps(s)))
            .fold(f64::INFINITY, f64::min);
        let ns = counts * 1e9 / calibration.counts_per_second();
        let params = fixed_work::Params {
            cpus: cpus.to_vec(),
            duration,
            work_steps: ((options.work.as_f64() * 1_000.0 / ns).round() as u64).max(1),
            expected: options.work.to_duration(),
            phase: 0,
        };
        let not_kept = fixed_work::run(&params, &mut calibration, &halt, &mut kept)?;
        if not_kept > 0 {
            progress.note(&format!("{not_kept} quanta of all CPUs were not kept"));
        }
    }
    let contamination = meter.finish();
    let findings = kept.by_cpu.iter().map(|(&cpu, records)| {
        let detours = loops.get(&cpu).map(|(seen, threshold)| {
            let ns = |&(begin, length): &(u64, u64)| {
                let length = calibration.length_ns(length).round();
                (calibration.to_ns(begin), length as u64)
            };
            let found: Vec<(u64, u64)> = records.kept.iter().map(ns).collect();
            detour_findings(seen, *threshold, &found)
        });
        of_cpu(cpu, records, detours, &calibration)
    });
    let found = LocalOutcome {
        method: if detours { "detour" } else { "fwq" }.to_owned(),
        threshold,
        cpus: findings.collect(),
    };
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let load = NodeLoad {
        node: host.trim().to_owned(),
        contamination,
    };
    Ok((found, load))
}

fn of_cpu(
    cpu: Cpu,
    records: &Records,
    detours: Option<DetourFindings>,
    calibration: &Calibration,
) -> CpuFindings {
    // For detours, the length is that of a gap in counts, too: see `Gap`.
    debug_assert_eq!(size_of::<Gap>(), 16);
    let ns = |counts: u64| calibration.length_ns(counts).round() as u64;
    let mut lengths: Vec<u64> = records.kept.iter().map(|r| ns(r.1)).collect();
    let warm_up = detours.is_none().then(|| {
        let end = |r: &(u64, u64)| calibration.to_ns(r.0.saturating_add(r.1));
        let ends: Vec<u64> = records.kept.iter().map(end).collect();
        let verdict = warm_up::verdict(&ends, &lengths);
        if let (Some(after), Some(&(first, _))) = (verdict.settled_after, records.kept.first()) {
            let settled = calibration.to_ns(first) + after.get();
            lengths.drain(..ends.partition_point(|e| *e < settled));
        }
        verdict
    });
    lengths.sort_unstable();
    let mean = lengths.iter().sum::<u64>() as f64 / lengths.len().max(1) as f64;
    let quantile = |q| {
        let of_all = quantiles::quantile_of_sorted(&lengths, q);
        (of_all.n > 0).then_some(of_all)
    };
    let slow_down = || {
        let reference = quantile(0.01).filter(|r| r.value > 0.0)?;
        Some(mean / reference.value - 1.0)
    };
    CpuFindings {
        cpu,
        count: lengths.len() as u64,
        not_kept: records.not_kept,
        median: quantile(0.5),
        p99: quantile(0.99),
        longest: lengths.last().copied(),
        noise: match &detours {
            Some(found) => Some(found.stolen.value),
            None => slow_down(),
        },
        detours,
        warm_up,
    }
}
