//! Noise of every CPU, from the detour loop and the fixed work quantum.

use crate::ExplainError;
use crate::fixed_time::{Counted, fixed_time_findings};
use crate::reserved::reserved_gaps;
use idlewave_run::findings::{
    CpuNoise, DetourFindings, Estimate, FixedTimeFindings, FixedWorkFindings, LengthClass,
    ReservedGaps, SpeedLevel,
};
use idlewave_run::tables::{Detours, Quanta};
use idlewave_run::{DetourLoop, PhaseKind, Reserve, RunReader, WorkKernel};
use idlewave_stats::warm_up::{self, Start};
use idlewave_stats::{blocks, histogram, levels, periodicity, quantiles, rates};
use idlewave_units::{Cpu, Nanos, NodeId};
use std::collections::BTreeMap;

/// Lower edges of the length classes, nanoseconds: three per decade, so that rates above round
/// lengths can be compared with those of other tools. The first class begins at the threshold of the
/// detour loop, 1 us by default.
const CLASS_EDGES: [u64; 15] = [
    0, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000,
    5_000_000, 10_000_000, 20_000_000, 50_000_000,
];

/// Start and length of detours of one phase and CPU.
type Seen = BTreeMap<(u32, Cpu), Vec<(u64, u64)>>;

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
    let mut work = fixed_work(run)?;
    let realtime = run.manifest().conditions.realtime;
    let reserve = realtime.and_then(|realtime| realtime.reserve);
    let mut starts: BTreeMap<(NodeId, Cpu), Vec<Start>> = BTreeMap::new();
    let mut seen = Seen::new();
    run.for_each::<Detours>(|d| {
        if d.rank.is_none() {
            let detours = seen.entry((d.phase, d.cpu)).or_default();
            detours.push((d.begin_ns, d.length.get()));
        }
    })?;
    for (index, phase) in run.manifest().phases.iter().enumerate() {
        let index = index as u32;
        match &phase.kind {
            PhaseKind::Detour {
                node,
                threshold,
                loops,
                ..
            } => {
                for sheet in loops {
                    let detours = seen.remove(&(index, sheet.cpu)).unwrap_or_default();
                    let place = (*node, sheet.cpu);
                    let noise = cpus.entry(place).or_insert_with(|| entry(place));
                    noise.detours = Some(detour_findings(sheet, *threshold, &detours));
                    noise.reserved = reserve
                        .and_then(|reserve| reserved_gaps(reserve, &detours, sheet.watched()));
                }
            }
            &PhaseKind::FixedWork {
                node,
                work_steps,
                kernel,
                array,
            } => {
                for (cpu, series) in work.remove(&index).unwrap_or_default() {
                    let place = (node, cpu);
                    starts.entry(place).or_default().extend(series.start());
                    let found = fixed_work_findings(&series.ends, &series.durations);
                    let noise = cpus.entry(place).or_insert_with(|| entry(place));
                    noise.reserved = found.as_ref().zip(reserve).and_then(|(found, reserve)| {
                        let lost = |duration| duration as f64 - found.reference.as_f64();
                        series.reserved(reserve, lost)
                    });
                    noise.fixed_work = found.map(|found| FixedWorkFindings {
                        work_steps,
                        kernel,
                        array,
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
                for (cpu, series) in work.remove(&index).unwrap_or_default() {
                    let place = (node, cpu);
                    let found = fixed_time_findings(interval, &series.counted());
                    let noise = cpus.entry(place).or_insert_with(|| entry(place));
                    // Of a quantum so long, nearly all is the gap.
                    noise.reserved =
                        reserve.and_then(|reserve| series.reserved(reserve, |all| all as f64));
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
            | PhaseKind::Recorded { .. } => {}
        }
    }
    for (place, starts) in starts {
        if let Some(noise) = cpus.get_mut(&place) {
            noise.starts = warm_up::repeated(&starts);
        }
    }
    Ok(cpus.into_values().collect())
}

/// Quanta of one phase on one CPU, in order of time.
#[derive(Default)]
pub(crate) struct Series {
    /// When each ended.
    pub ends: Vec<u64>,
    /// Nanoseconds.
    pub durations: Vec<u64>,
    /// Units of fixed time quanta.
    units: Vec<u64>,
}

impl Series {
    fn counted(&self) -> Vec<Counted> {
        let times = self.ends.iter().zip(&self.durations);
        let all = times
            .zip(&self.units)
            .map(|((&end, &duration), &units)| Counted {
                begin: end.saturating_sub(duration),
                duration,
                units,
            });
        all.collect()
    }

    /// The gaps among the quanta that the kernel made; `lost`: the time that a quantum of some duration
    /// lost.
    fn reserved(&self, reserve: Reserve, lost: impl Fn(u64) -> f64) -> Option<ReservedGaps> {
        let times = self.ends.iter().zip(&self.durations);
        let gaps = times.map(|(&end, &duration)| {
            (end.saturating_sub(duration), lost(duration).max(0.0) as u64)
        });
        let gaps: Vec<(u64, u64)> = gaps.collect();
        let begin = gaps.first()?.0;
        let watched = self.ends.last()?.saturating_sub(begin);
        reserved_gaps(reserve, &gaps, Nanos::from_nanos(watched))
    }

    fn start(&self) -> Option<Start> {
        Start::of(&self.ends, &self.durations)
    }
}

/// The quanta of every phase and CPU.
pub(crate) fn fixed_work(
    run: &RunReader,
) -> Result<BTreeMap<u32, BTreeMap<Cpu, Series>>, ExplainError> {
    let mut found: BTreeMap<u32, BTreeMap<Cpu, Series>> = BTreeMap::new();
    run.for_each::<Quanta>(|q| {
        let series = found.entry(q.phase).or_default().entry(q.cpu).or_default();
        series
            .ends
            .push(q.begin_ns.saturating_add(q.duration.get()));
        series.durations.push(q.duration.get());
        series.units.extend(q.units);
    })?;
    Ok(found)
}

/// What one loop shows. `detours`: start on the clock of `sheet`, and length, in nanoseconds, in
/// order of start.
fn detour_findings(sheet: &DetourLoop, threshold: Nanos, detours: &[(u64, u64)]) -> DetourFindings {
    let watched = sheet.watched();
    let count = detours.len() as u64 + sheet.not_kept;
    let begins: Vec<u64> = detours.iter().map(|d| d.0).collect();
    DetourFindings {
        watched,
        threshold,
        turn_quanta: sheet.turn_quanta,
        count,
        rate: rates::poisson(count, watched.as_secs_f64()),
        stolen: stolen(sheet, detours, watched),
        largest: detours.iter().map(|d| Nanos::from_nanos(d.1)).max(),
        classes: classes(detours, watched),
        periods: periodicity::periods(&begins),
    }
}

/// The detours by length.
fn classes(detours: &[(u64, u64)], watched: Nanos) -> Vec<LengthClass> {
    let mut sorted: Vec<(Vec<u64>, Vec<u64>)> = vec![Default::default(); CLASS_EDGES.len()];
    for &(begin, length) in detours {
        let (begins, lengths) = &mut sorted[CLASS_EDGES.partition_point(|&e| e <= length) - 1];
        begins.push(begin);
        lengths.push(length);
    }
    let kept: u64 = detours.iter().map(|d| d.1).sum();
    let edges = CLASS_EDGES.iter().enumerate();
    let classes = edges
        .zip(sorted)
        .map(|((i, &from), (begins, mut lengths))| {
            lengths.sort_unstable();
            let median = quantiles::quantile_of_sorted(&lengths, 0.5);
            LengthClass {
                from: Nanos::from_nanos(from),
                below: CLASS_EDGES.get(i + 1).map(|&b| Nanos::from_nanos(b)),
                count: lengths.len() as u64,
                per_second: lengths.len() as f64 / watched.as_secs_f64().max(1e-9),
                share: lengths.iter().sum::<u64>() as f64 / kept.max(1) as f64,
                median: (median.n > 0).then_some(median),
                period: periodicity::periods(&begins).into_iter().next(),
            }
        });
    classes.collect()
}

/// Stolen fraction over the whole time, with an interval over blocks of time.
pub(crate) fn stolen(sheet: &DetourLoop, detours: &[(u64, u64)], watched: Nanos) -> Estimate {
    let value = sheet.stolen.as_f64() / watched.as_f64().max(1.0);
    let span = sheet.end_ns.saturating_sub(sheet.begin_ns).max(1);
    let blocks_n = blocks::BLOCKS;
    let mut stolen = vec![0.0; blocks_n];
    for &(begin, length) in detours {
        let at =
            u128::from(begin.saturating_sub(sheet.begin_ns)) * blocks_n as u128 / u128::from(span);
        stolen[(at as usize).min(blocks_n - 1)] += length as f64;
    }
    for s in &mut stolen {
        *s /= span as f64 / blocks_n as f64;
    }
    let interval = blocks::mean(&stolen, blocks_n);
    Estimate {
        value,
        low: (value - interval.half_width).max(0.0),
        high: (value + interval.half_width).min(1.0),
        n: detours.len() as u64,
        method: format!("time in detours over time watched; 95 % interval over {blocks_n} blocks"),
    }
}

/// What the same work shows, whatever it was.
fn fixed_work_findings(ends: &[u64], durations: &[u64]) -> Option<FixedWorkFindings> {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    let (&min, &max) = (sorted.first()?, sorted.last()?);
    let at = |q: f64| Nanos::from_nanos(sorted[((sorted.len() - 1) as f64 * q) as usize]);
    let found = levels::segment(ends, durations);
    let reference = found.fastest().unwrap_or(min).max(1);
    let ratios: Vec<f64> = durations
        .iter()
        .map(|&d| d as f64 / reference as f64)
        .collect();
    let interval = blocks::mean(&ratios, blocks::BLOCKS);
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
        count: durations.len() as u64,
        reference: Nanos::from_nanos(reference),
        min: Nanos::from_nanos(min),
        median: at(0.5),
        p99: at(0.99),
        max: Nanos::from_nanos(max),
        slowdown: Estimate {
            value: interval.mean - 1.0,
            low: (interval.mean - interval.half_width - 1.0).max((interval.mean - 1.0).min(0.0)),
            high: interval.mean + interval.half_width - 1.0,
            n: durations.len() as u64,
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
        warm_up: warm_up::verdict(ends, durations),
        histogram: histogram::LogHistogram::of(durations.iter().copied()).non_empty(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rare_spinner_among_ticks_has_its_own_length_rate_share_and_period() {
        // Ten seconds: a tick of 15 us every 4 ms, and 50 us every 99.9 ms.
        let every = |period: u64, length: u64| {
            let times = (0..10_000_000_000 / period).map(move |k| 1_000 + k * period);
            times.map(move |time| (time, length))
        };
        let mut detours: Vec<(u64, u64)> = every(4_000_000, 15_000).collect();
        detours.extend(every(99_900_000, 50_000).map(|(begin, length)| (begin + 700_000, length)));
        detours.sort_unstable();
        let sheet = DetourLoop {
            cpu: Cpu::new(0),
            begin_ns: 0,
            end_ns: 10_000_000_000,
            turns: 1,
            turn_quanta: 1.0,
            recording: Nanos::ZERO,
            not_kept: 0,
            stolen: Nanos::from_nanos(detours.iter().map(|d| d.1).sum()),
            involuntary_switches: None,
            moved: false,
        };
        let found = detour_findings(&sheet, Nanos::from_micros(1), &detours);
        let at = |from| {
            let mut classes = found.classes.iter();
            classes
                .find(|c| c.from == Nanos::from_micros(from))
                .expect("a class")
        };
        let (ticks, spinner) = (at(10), at(50));
        assert_eq!((ticks.count, spinner.count), (2_500, 100));
        assert_eq!(spinner.per_second, 10.0);
        assert!((spinner.share - 5.0 / 42.5).abs() < 1e-9, "{spinner:?}");
        let is = |class: &LengthClass, length: f64, period: f64| {
            let median = class.median.as_ref().expect("detours");
            let comb = class.period.as_ref().expect("a period");
            median.value == length && (comb.period.value / period - 1.0).abs() < 1e-4
        };
        assert!(is(spinner, 50_000.0, 99_900_000.0), "{spinner:?}");
        assert!(is(ticks, 15_000.0, 4_000_000.0), "{ticks:?}");
        let empty = at(20);
        assert_eq!(
            (empty.count, &empty.median, &empty.period),
            (0, &None, &None)
        );
    }
}
