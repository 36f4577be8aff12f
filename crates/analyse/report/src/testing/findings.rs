//! The findings of the synthetic machine, from what it knows about itself.

use super::machine::{CULPRIT, Machine, Step, TALK_NS, WORK_NS, What};
use idlewave_run::findings::{
    Advice, ChargedFinding, CombPhase, CpuNoise, Curve, CurvePoint, DetourFindings, Estimate,
    Findings, FixedWorkFindings, Gain, GainOf, GranularityCurve, LateFinding, LatePartFinding,
    LengthClass, LoadPoint, LoadSweep, LockstepFindings, Pattern, Periodicity, Prediction,
    PredictionCheck, Relation, Repeated, SourceFinding, Spectrum, SpeedLevel, TimeStretch,
    Topology, WarmUp, WhatIf,
};
use idlewave_run::{
    Contamination, Ledger, Manifest, NoiseProfile, SourceKind, TraceCost, TraceMode, TraceSheet,
    WorkKernel,
};
use idlewave_units::{Cpu, Nanos, NodeId, Rank};
use std::collections::BTreeMap;

/// Steps are late if their excess is at least this, in nanoseconds.
const LATE_FROM: u64 = 1_500;
const STEP: u64 = WORK_NS + TALK_NS;

/// Findings of a run that measured nothing: no trace, no CPU, no lockstep run, no prediction.
pub fn bare_findings() -> Findings {
    Findings {
        header: None,
        trace: TraceSheet {
            mode: TraceMode::Off,
            unavailable: Vec::new(),
            cost: TraceCost::default(),
        },
        program: None,
        jitter: Vec::new(),
        benchmarks: Vec::new(),
        contamination: Contamination::default(),
        conditions: Default::default(),
        cpus: Vec::new(),
        nodes: None,
        load_sweep: None,
        ways: None,
        lockstep: Vec::new(),
        sources: Vec::new(),
        latest: Vec::new(),
        lateness: Nanos::ZERO,
        named: Nanos::ZERO,
        profile: NoiseProfile::default(),
        prediction: None,
        not_predicted: None,
        advice: Vec::new(),
        losses: Ledger::default(),
    }
}

fn estimate(value: f64, n: u64) -> Estimate {
    Estimate {
        value,
        low: value * 0.94,
        high: value * 1.07,
        n,
        method: "mean, 95 % over blocks".to_owned(),
    }
}

pub(super) fn find(machine: &Machine, manifest: &Manifest) -> Findings {
    let late: Vec<(&Step, u64)> = machine
        .steps
        .iter()
        .map(|s| (s, excess(s)))
        .filter(|(_, x)| *x >= LATE_FROM)
        .collect();
    let ranks = machine.events.len() as u64;
    let lateness: u64 = late.iter().map(|(_, x)| x).sum();
    let sources = sources(machine, manifest, &late);
    let named = lateness
        - sources
            .iter()
            .find(|s| s.kind == SourceKind::Unexplained)
            .map_or(0, |s| s.lateness.get());
    let mut latest: Vec<LateFinding> = late
        .iter()
        .map(|(s, x)| late_finding(machine, s, *x))
        .collect();
    latest.sort_by_key(|l| (std::cmp::Reverse(l.lateness), l.phase, l.iteration));
    latest.truncate(100);
    let culprit = &manifest.nodes[0].contamination.top_tasks[0].0;
    Findings {
        header: Some(manifest.header()),
        trace: manifest.nodes[0].trace.clone(),
        program: None,
        jitter: Vec::new(),
        benchmarks: Vec::new(),
        contamination: manifest.nodes[0].contamination.clone(),
        conditions: Default::default(),
        cpus: machine
            .events
            .iter()
            .enumerate()
            .map(|(c, _)| cpu_noise(machine, c))
            .collect(),
        nodes: None,
        ways: None,
        load_sweep: Some(LoadSweep {
            first: Cpu::new(0),
            points: [1, 2].map(load_point).into(),
            length_of_first: Some(estimate(1_600.0, 900)),
            length_of_others: Some(estimate(1_600.0, 700)),
            tick_of_first: Some(estimate(2_400.0, 900)),
            tick_of_others: Some(estimate(1_600.0, 700)),
        }),
        lockstep: (0..2).map(|p| lockstep(machine, p)).collect(),
        sources,
        latest,
        lateness: Nanos::from_nanos(lateness),
        named: Nanos::from_nanos(named),
        profile: NoiseProfile::default(),
        not_predicted: None,
        prediction: Some(prediction(culprit)),
        advice: advice(culprit, ranks),
        losses: manifest.losses.clone(),
    }
}

fn load_point(busy: u32) -> LoadPoint {
    let more = f64::from(busy - 1);
    LoadPoint {
        busy,
        cpus: (0..busy).map(Cpu::new).collect(),
        stolen: estimate(0.01 + 0.002 * more, 1_000),
        rate: estimate(800.0 + 40.0 * more, 1_000),
        length: Some(estimate(1_500.0 + 600.0 * more, 1_000)),
        tick: Some(estimate(3_000.0 + 100.0 * more, 1_000)),
        work: Some(estimate(20_000.0 + 10.0 * more, 4_000)),
    }
}

fn excess(step: &Step) -> u64 {
    (step.end - step.begin).saturating_sub(STEP)
}

/// Parts of one late step; what the events do not cover is unexplained.
fn parts(step: &Step, lateness: u64) -> [u64; 5] {
    let mut left = lateness;
    let mut parts = [0; 5];
    for (part, taken) in parts.iter_mut().zip(step.taken) {
        *part = taken.min(left);
        left -= *part;
    }
    parts[4] = left;
    parts
}

fn late_finding(machine: &Machine, step: &Step, lateness: u64) -> LateFinding {
    let mut list: Vec<LatePartFinding> = parts(step, lateness)
        .iter()
        .enumerate()
        .filter(|(_, t)| **t > 0)
        .map(|(i, t)| LatePartFinding {
            source: i as u32,
            time: Nanos::from_nanos(*t),
        })
        .collect();
    list.sort_by_key(|p| std::cmp::Reverse(p.time));
    LateFinding {
        phase: step.phase,
        iteration: step.iteration,
        last_rank: Rank::new(step.last),
        cpu: Some(Cpu::new(step.last)),
        begin_ns: step.begin,
        end_ns: step.end,
        lateness: Nanos::from_nanos(lateness),
        parts: list,
        charged: machine.events[step.last as usize]
            .iter()
            .filter(|e| e.begin < step.end && e.begin + e.length > step.begin)
            .take(12)
            .map(|e| ChargedFinding {
                source: e.what as u32,
                rank: Rank::new(step.last),
                begin_ns: e.begin.max(step.begin),
                end_ns: (e.begin + e.length).min(step.end),
            })
            .collect(),
    }
}

fn sources(machine: &Machine, manifest: &Manifest, late: &[(&Step, u64)]) -> Vec<SourceFinding> {
    let culprit = &manifest.nodes[0].contamination.top_tasks[0].0;
    let kinds = [
        (SourceKind::Task, culprit.as_str(), Some(What::Culprit)),
        (SourceKind::Hypervisor, "hypervisor gap", Some(What::Gap)),
        (SourceKind::KernelThread, "kworker/1:2", Some(What::Kworker)),
        (SourceKind::TimerTick, "timer tick", Some(What::Tick)),
        (SourceKind::Unexplained, "unexplained", None),
    ];
    let ranks = machine.events.len() as u64;
    let span = machine.phases[0].0..machine.phases[1].1;
    kinds
        .iter()
        .enumerate()
        .map(|(i, (kind, name, what))| {
            let hits: Vec<(u32, u64)> = machine
                .events
                .iter()
                .enumerate()
                .flat_map(|(c, list)| list.iter().map(move |e| (c as u32, e)))
                .filter(|(_, e)| Some(e.what) == *what && span.contains(&e.begin))
                .map(|(c, e)| (c, e.length))
                .collect();
            let stolen: u64 = hits.iter().map(|h| h.1).sum();
            let split: Vec<[u64; 5]> = late.iter().map(|(s, x)| parts(s, *x)).collect();
            let lateness: u64 = split.iter().map(|p| p[i]).sum();
            let most = split
                .iter()
                .filter(|p| p[i] > 0 && p.iter().all(|x| *x <= p[i]))
                .count();
            let events = hits.len() as u64;
            let mean = stolen as f64 / events.max(1) as f64;
            SourceFinding {
                kind: *kind,
                name: (*name).to_owned(),
                events: what.is_some().then_some(events),
                stolen: Nanos::from_nanos(stolen),
                late_steps: most as u64,
                lateness: Nanos::from_nanos(lateness),
                lost: Nanos::from_nanos(lateness * ranks),
                amplification: (stolen > 0).then(|| (lateness * ranks) as f64 / stolen as f64),
                absorbed: (stolen > 0).then(|| 1.0 - (lateness as f64 / stolen as f64).min(1.0)),
                length: (events > 0).then(|| estimate(mean, events)),
                period: (i == 0).then(|| Periodicity {
                    period: estimate(CULPRIT.0 as f64, events),
                    share: 1.0,
                    power: 3.2,
                    phase: None,
                }),
                relation: (i == 0).then(|| Relation {
                    pattern: Pattern::Partly,
                    cpus: 2,
                    window_ns: 20_000,
                    coincide: 0.25,
                    p: 1e-6,
                    offsets: vec![estimate(1_000_000.0, events)],
                }),
                cpus: hits.iter().map(|h| Cpu::new(h.0)).collect(),
                detail: (*kind == SourceKind::Hypervisor).then(|| {
                    "inferred: the clock went on while no record of the kernel did".to_owned()
                }),
            }
        })
        .collect()
}

/// Logarithmic bins, eight per doubling.
fn histogram(values: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut bins = BTreeMap::new();
    for v in values {
        let bin = ((v.max(1) as f64).log2() * 8.0).floor() / 8.0;
        *bins.entry(bin.exp2() as u64).or_insert(0) += 1;
    }
    bins.into_iter().collect()
}

fn lockstep(machine: &Machine, phase: u32) -> LockstepFindings {
    let steps: Vec<&Step> = machine.steps.iter().filter(|s| s.phase == phase).collect();
    let ranks = machine.events.len();
    let (begin, end) = machine.phases[phase as usize];
    let total = end - begin;
    let mut last_counts = vec![0; ranks];
    steps.iter().for_each(|s| last_counts[s.last as usize] += 1);
    let late: Vec<u64> = steps
        .iter()
        .map(|s| excess(s))
        .filter(|x| *x >= LATE_FROM)
        .collect();
    let n = steps.len() as u64;
    LockstepFindings {
        phase,
        name: ["neighbour exchange", "barrier"][phase as usize].to_owned(),
        ranks: ranks as u32,
        iterations: n,
        compute: vec![Nanos::from_nanos(WORK_NS); ranks],
        step: Nanos::from_nanos(STEP),
        total: Nanos::from_nanos(total),
        slowdown: estimate(total as f64 / (n.max(1) * STEP) as f64 - 1.0, n),
        slowdown_not_known: None,
        late_steps: late.len() as u64,
        lateness: Nanos::from_nanos(late.iter().sum()),
        small_variation_ns: 12_345,
        slow_messages: Some(Nanos::ZERO),
        by_rate: None,
        late_from: Nanos::from_nanos(LATE_FROM),
        last_counts,
        slow_ranks: Vec::new(),
        last_run_length: 1.0,
        histogram: histogram(steps.iter().map(|s| s.end - s.begin)),
    }
}

fn cpu_noise(machine: &Machine, cpu: usize) -> CpuNoise {
    let watched = 500_000_000;
    let begin = machine.phases[0].0;
    let lengths: Vec<u64> = machine.events[cpu]
        .iter()
        .filter(|e| (begin..begin + watched).contains(&e.begin))
        .map(|e| e.length)
        .collect();
    let stolen: u64 = lengths.iter().sum();
    let n = lengths.len() as u64;
    let tick = || Periodicity {
        period: estimate(4_000_000.0, n),
        share: 0.9,
        power: 7.5,
        phase: Some(CombPhase {
            reference_ns: begin + watched / 2,
            offset: estimate(1_500_000.0, n),
        }),
    };
    let edges = [300, 1_000, 10_000, 100_000, 1_000_000];
    let classes = edges.iter().enumerate().map(|(i, &from)| {
        let below = edges.get(i + 1).copied();
        let inside = lengths
            .iter()
            .filter(|l| **l >= from && below.is_none_or(|b| **l < b));
        let (count, time) = inside.fold((0, 0), |(c, t), l| (c + 1, t + l));
        LengthClass {
            from: Nanos::from_nanos(from),
            below: below.map(Nanos::from_nanos),
            count,
            per_second: count as f64 * 1e9 / watched as f64,
            share: time as f64 / stolen.max(1) as f64,
            median: (count > 0).then(|| estimate(time as f64 / count as f64, count)),
            period: (count > 8).then(&tick),
        }
    });
    let quanta =
        (0..4_000u64).map(|i| WORK_NS + i * 7919 % 400 + if i % 203 == 0 { 3_000 } else { 0 });
    CpuNoise {
        node: NodeId::new(0),
        cpu: Cpu::new(cpu as u32),
        detours: Some(DetourFindings {
            watched: Nanos::from_nanos(watched),
            threshold: Nanos::from_nanos(100),
            turn_quanta: 1.0,
            count: n,
            rate: estimate(n as f64 * 1e9 / watched as f64, n),
            stolen: estimate(stolen as f64 / watched as f64, n),
            largest: lengths.iter().max().map(|l| Nanos::from_nanos(*l)),
            classes: classes.collect(),
            periods: vec![tick()],
            spectrum: (cpu < 16).then(|| Spectrum {
                threshold: 15.0,
                points: (1_u8..60)
                    .map(|i| (10.0 * f64::from(i), if i == 25 { 60.0 } else { 2.0 }))
                    .collect(),
            }),
            histogram: histogram(lengths.iter().copied()),
        }),
        fixed_time: None,
        reserved: None,
        starts: (cpu == 1).then(|| Repeated {
            starts: 10,
            slower: estimate(0.4, 10),
            settled: 9,
            settled_after: estimate(31e6, 10),
        }),
        fixed_work: Some(FixedWorkFindings {
            work_steps: 12_345,
            kernel: WorkKernel::Fibonacci,
            array: None,
            count: 4_000,
            reference: Nanos::from_nanos(WORK_NS),
            min: Nanos::from_nanos(WORK_NS - 40),
            median: Nanos::from_nanos(WORK_NS + 60),
            p99: Nanos::from_nanos(WORK_NS + 3_200),
            max: Nanos::from_nanos(WORK_NS + 500_000),
            slowdown: estimate(0.021 + cpu as f64 * 0.004, 4_000),
            slowdown_by_level: 0.004,
            levels: vec![SpeedLevel {
                duration: Nanos::from_nanos(WORK_NS),
                share: 1.0,
                dwell: Nanos::from_millis(80),
                stays: 1,
            }],
            warm_up: WarmUp {
                settled_after: Some(Nanos::from_millis(31)),
                ratio: 1.4,
            },
            histogram: histogram(quanta),
            times: (0..if cpu < 16 { 20 } else { 0 })
                .map(|i| TimeStretch {
                    begin: Nanos::from_millis(i * 5),
                    lower: Nanos::from_nanos(WORK_NS),
                    median: Nanos::from_nanos(WORK_NS + 60),
                    upper: Nanos::from_nanos(WORK_NS + 100 + i),
                })
                .collect(),
        }),
    }
}

/// Curves of the right shape: rare long events cost more with more ranks, until one always strikes.
fn curves(weight: f64) -> Vec<Curve> {
    Topology::ALL
        .into_iter()
        .zip([0.35, 0.55, 0.7, 1.0])
        .map(|(topology, reach)| Curve {
            topology,
            points: [
                2u64,
                16,
                64,
                256,
                1 << 10,
                1 << 12,
                1 << 14,
                1 << 16,
                1 << 18,
                1_000_000,
            ]
            .into_iter()
            .map(|ranks| CurvePoint {
                ranks,
                slowdown: estimate(
                    weight * 24.0 * (1.0 - (-4.2e-4 * reach * ranks as f64).exp()) + 0.02 * weight,
                    200,
                ),
            })
            .collect(),
        })
        .collect()
}

fn prediction(culprit: &str) -> Prediction {
    let without = [
        (SourceKind::Task, culprit, 0.45),
        (SourceKind::Hypervisor, "hypervisor gap", 0.8),
        (SourceKind::KernelThread, "kworker/1:2", 0.96),
    ];
    Prediction {
        granularity: Nanos::from_nanos(WORK_NS),
        method:
            "max-plus recurrence, 400 steps, 8 replications; independent sources, random phases"
                .to_owned(),
        caveats: vec![
            "noise of these CPUs is taken for that of all nodes".to_owned(),
            "events longer than those seen here are not in it".to_owned(),
        ],
        curves: curves(1.0),
        without: without
            .into_iter()
            .map(|(kind, name, weight)| WhatIf {
                kind,
                name: name.to_owned(),
                curves: curves(weight),
                saved: curves(1.0 - weight)
                    .into_iter()
                    .map(|mut c| {
                        c.points.drain(..c.points.len() - 1);
                        c
                    })
                    .collect(),
            })
            .collect(),
        by_granularity: Topology::ALL
            .into_iter()
            .zip([0.6, 0.8, 0.9, 1.0])
            .map(|(topology, weight)| GranularityCurve {
                topology,
                ranks: 1_000_000,
                points: (0..12)
                    .map(|i| {
                        let granularity = 5_000u64 << i;
                        (
                            Nanos::from_nanos(granularity),
                            estimate(weight * 5.0e5 / granularity as f64, 200),
                        )
                    })
                    .collect(),
            })
            .collect(),
        by_rate: None,
        checks: vec![
            PredictionCheck {
                name: "neighbour exchange".to_owned(),
                ranks: 2,
                measured: 0.021,
                predicted: estimate(0.0225, 200),
            },
            PredictionCheck {
                name: "barrier".to_owned(),
                ranks: 2,
                measured: 0.019,
                predicted: estimate(0.0224, 200),
            },
        ],
    }
}

fn advice(culprit: &str, ranks: u64) -> Vec<Advice> {
    let gain = |saved: f64, now: f64| Gain {
        of: GainOf::PredictedSlowdown,
        topology: Some(Topology::Torus3d),
        ranks: Some(1_000_000),
        saved: estimate(saved, 200),
        now,
    };
    vec![
        Advice {
            action: "compute for at least 1.28 ms between two synchronisations (3D)".to_owned(),
            reason: "programs are then 4.10 % slower, with 100 us of computation 80.0 %".to_owned(),
            command: None,
            gain: Some(gain(0.759, 0.8)),
            inferred: false,
        },
        Advice {
            action: format!(
                "move `{}` off the CPUs of the ranks",
                culprit.escape_debug()
            ),
            reason: format!(
                "it struck CPU 0 every 50.0 ms for 502 us and cost {ranks} ranks most of what they lost"
            ),
            command: Some("taskset -a -c -p 1 4242".to_owned()),
            gain: Some(gain(0.44, 0.8)),
            inferred: false,
        },
        Advice {
            action: "ask the operator of the host what else runs on these CPUs".to_owned(),
            reason:
                "gaps took 0.50 % of the CPUs' time and the kernel counted 0.13 % of steal time"
                    .to_owned(),
            command: None,
            gain: Some(gain(0.16, 0.8)),
            inferred: true,
        },
        Advice {
            action: "start measuring after 31 ms of load".to_owned(),
            reason: "until then, the same work took 1.40 times as long on CPU 0".to_owned(),
            command: None,
            gain: None,
            inferred: false,
        },
    ]
}
