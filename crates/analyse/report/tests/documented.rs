//! docs/run-bundle.md describes `run.json` and `findings.json` as they are: every object, its
//! fields and their types.

#![allow(clippy::unwrap_used)]

use idlewave_explain::explain;
use idlewave_report::testing::{Synthetic, SyntheticNodes, SyntheticProgram};
use idlewave_run::findings::{
    BenchmarkFindings, Estimate, Findings, FixedTimeFindings, JitterCore, JitterCulprit,
    JitterFindings, JitterMap, JitterOrder, JitterPattern, JitterPoint, JitterScale, JitterSlowest,
    MeasuredRate, MeasuredRates, NodesFindings, RateLaw, RatePoint, ReservedGaps, Topology, Way,
    Ways, WorkStretch,
};
use idlewave_run::{
    Alignment, AlignmentPoint, BenchmarkCalls, BenchmarkRank, BenchmarkRegion, BenchmarkSheet,
    CgroupQuota, Conditions, Coupling, DetourLoop, ExchangeVariant, Incomplete, IterationTimes,
    LengthBin, Manifest, Neighbour, NoiseSource, Phase, PhaseKind, Priority, Realtime, Reserve,
    ReservedBy, Scaling, ScalingPoint, ScalingSheet, Siblings, Simulated, SimulatedDelay,
    SourceKind, Turn, Unavailable, WorkKernel,
};
use idlewave_units::{Bytes, Cpu, Nanos, NodeId, Pid, Rank};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

/// Fields and types as the page states them, by object.
type Objects = BTreeMap<String, Vec<(String, String)>>;

fn objects() -> Objects {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/run-bundle.md");
    let page = std::fs::read_to_string(path).unwrap();
    let json = &page[page.find("\n## run.json").unwrap()..];
    let mut objects = Objects::new();
    for section in json.split("\n### ").skip(1) {
        let (name, body) = section.split_once('\n').unwrap();
        let fields = body
            .lines()
            .filter(|l| l.starts_with("| `"))
            .map(|l| l.trim_matches('|').split('|').map(str::trim).collect())
            .map(|cells: Vec<&str>| (cells[0].trim_matches('`').to_owned(), cells[1].to_owned()))
            .collect();
        objects.insert(name.to_owned(), fields);
    }
    objects
}

/// Compares documents with the page and remembers what it has seen.
struct Check {
    objects: Objects,
    met: BTreeSet<String>,
    filled: BTreeSet<(String, String)>,
}

impl Check {
    fn object(&mut self, name: &str, value: &Value) {
        let fields = self.objects.get(name);
        let fields = fields
            .unwrap_or_else(|| panic!("{name} is not described"))
            .clone();
        self.met.insert(name.to_owned());
        let value = value
            .as_object()
            .unwrap_or_else(|| panic!("{name} is no object"));
        if fields.is_empty() {
            // One of several variants, distinguished by `kind`.
            let kind = value["kind"].as_str().unwrap();
            return self.object(&format!("{name} {kind}"), &Value::Object(value.clone()));
        }
        let described: BTreeSet<&String> = fields.iter().map(|f| &f.0).collect();
        assert_eq!(described, value.keys().collect(), "fields of {name}");
        for (field, expected) in &fields {
            let content = &value[field.as_str()];
            let place = format!("{name}.{field}");
            match (content, expected.strip_suffix(" or null")) {
                (Value::Null, Some(_)) => continue,
                (_, base) => self.value(&place, base.unwrap_or(expected), content),
            }
            self.filled.insert((name.to_owned(), field.clone()));
        }
    }

    fn value(&mut self, place: &str, expected: &str, value: &Value) {
        let fits = match (expected, value) {
            ("text", Value::String(_))
            | ("number", Value::Number(_))
            | ("boolean", Value::Bool(_))
            | ("text or object", Value::String(_) | Value::Object(_)) => true,
            (_, Value::Array(items)) => {
                if let Some(of) = expected.strip_prefix("list of ") {
                    for item in items {
                        self.value(place, of, item);
                    }
                } else {
                    let pair = expected.strip_prefix('[').and_then(|e| e.strip_suffix(']'));
                    let pair: Vec<&str> = pair
                        .unwrap_or_else(|| panic!("{place}: {expected}"))
                        .split(", ")
                        .collect();
                    assert_eq!(pair.len(), items.len(), "{place}");
                    for (of, item) in pair.iter().zip(items) {
                        self.value(place, of, item);
                    }
                }
                true
            }
            (_, Value::Object(_)) => {
                self.object(expected, value);
                true
            }
            _ => false,
        };
        assert!(
            fits,
            "{place} is described as {expected}, and there is {value}"
        );
    }
}

/// A manifest in which every field has a value.
fn full(mut manifest: Manifest) -> Manifest {
    manifest.incomplete = Some(Incomplete::Killed);
    manifest.losses.enter("events", 1, "consequence", "advice");
    let phase = |kind| Phase {
        kind,
        begin_ns: 1,
        end_ns: 2,
    };
    let detour = DetourLoop {
        cpu: Cpu::new(0),
        begin_ns: 1,
        end_ns: 2,
        turns: 3,
        turn_quanta: 1.0,
        recording: Nanos::ZERO,
        not_kept: 0,
        stolen: Nanos::ZERO,
        involuntary_switches: Some(1),
        moved: false,
    };
    manifest.phases.push(phase(PhaseKind::Detour {
        node: NodeId::new(0),
        threshold: Nanos::ZERO,
        floor: Nanos::ZERO,
        loops: vec![detour],
    }));
    manifest.phases.push(phase(PhaseKind::FixedWork {
        node: NodeId::new(0),
        work_steps: 1,
        kernel: WorkKernel::Stream,
        array: Some(Bytes::from_kib(64)),
    }));
    manifest.phases.push(phase(PhaseKind::FixedTime {
        node: NodeId::new(0),
        interval: Nanos::from_micros(100),
        work_steps: 1,
        kernel: WorkKernel::Stream,
        array: Some(Bytes::from_kib(64)),
    }));
    manifest.conditions = Conditions {
        one_at_a_time: true,
        neighbours: vec![Neighbour::Io],
        realtime: Some(Realtime {
            priority: 1,
            reserve: Some(Reserve {
                time: Nanos::from_millis(50),
                period: Nanos::from_secs(1),
                by: ReservedBy::FairServer,
            }),
        }),
    };
    manifest.phases.push(phase(PhaseKind::MolecularDynamics {
        particles_per_rank: 4_000,
        steps: 1,
        rebuilds: 0,
        pairs: 1,
        energy_drift: Some(1e-4),
    }));
    manifest
        .phases
        .push(phase(PhaseKind::Benchmark(benchmark())));
    manifest.phases.push(phase(PhaseKind::PingPong {
        bytes: 8,
        pairs: 1,
        rounds: 20,
        latency: estimate(),
    }));
    manifest.phases.push(phase(PhaseKind::Scaling(ScalingSheet {
        program: "is:S".to_owned(),
        scaling: Scaling::Strong,
        operation: "keys ranked".to_owned(),
        points: vec![ScalingPoint {
            ranks: 1,
            program: "is:S".to_owned(),
            operations: vec![1.0],
            times: vec![Nanos::ZERO],
            efficiency: Some(estimate()),
            predicted: Some(0.9),
        }],
        not_predicted: Some("too few".to_owned()),
    })));
    manifest.phases.push(phase(PhaseKind::Lockstep {
        coupling: Coupling::Barrier,
        work_steps: 1,
        work_target: Nanos::ZERO,
        message_bytes: 1_024,
        sides: vec![2],
        neighbourhood: Default::default(),
        variant: idlewave_run::ExchangeVariant::NonBlocking,
        ranks: Some(2),
        iterations: 1,
        threshold: Nanos::ZERO,
        turn: Some(Turn {
            round: 1,
            siblings: Some(Siblings::Busy),
        }),
    }));
    manifest.phases.push(phase(PhaseKind::Recorded {
        library: Some("Open MPI v4.1.4".to_owned()),
        exit_code: Some(0),
    }));
    manifest.simulated = Some(Simulated {
        engine: "bulk-synchronous program".to_owned(),
        program: vec!["compute 1 ms".to_owned()],
        steps: 1,
        noise_model: "schema = 1".to_owned(),
        replication: 0,
        without: vec!["daemon".to_owned()],
        delays: vec![SimulatedDelay {
            rank: Rank::new(0),
            step: 0,
            length: Nanos::ZERO,
        }],
    });
    manifest.ranks[0].process = Some(Pid::new(4_242));
    manifest.ranks[0].priority = Some(Priority::Nice(10));
    let node = &mut manifest.nodes[0];
    node.alignment = Some(Alignment {
        points: vec![AlignmentPoint {
            time_ns: 1,
            offset_ns: -1,
            round_trip: Nanos::ZERO,
        }],
        error: Nanos::ZERO,
        method: "shortest of 1000 round trips".to_owned(),
    });
    let host = &mut node.host;
    host.kernel_command_line = Some("quiet".to_owned());
    host.isolated = Some("0-1".parse().unwrap());
    host.nohz_full.clone_from(&host.isolated);
    host.rcu_nocbs.clone_from(&host.isolated);
    host.governor = Some("performance".to_owned());
    host.turbo = Some(true);
    host.irqbalance = Some(false);
    host.transparent_huge_pages = Some("never".to_owned());
    host.rt_runtime_us = Some(950_000);
    host.numa_nodes = Some(1);
    host.memory = Some(Bytes::new(1 << 30));
    host.unreadable.push("cpufreq: none".to_owned());
    host.cgroup_quota = Some(CgroupQuota {
        quota: Nanos::from_millis(200),
        period: Nanos::from_millis(100),
    });
    host.caches.push(idlewave_run::Cache {
        level: 1,
        kind: "Data".to_owned(),
        size: Bytes::new(1 << 15),
        shared_by: "0".parse().unwrap(),
    });
    host.topology.push(idlewave_run::CpuTopology {
        cpu: Cpu::new(0),
        core: Some(0),
        package: Some(0),
        numa: Some(0),
        siblings: Some("0".parse().unwrap()),
    });
    node.clock.invariant = Some(true);
    node.trace.unavailable.push(Unavailable {
        what: "names".to_owned(),
        why: "not permitted".to_owned(),
        allow: Some("sudo idlewave ...".to_owned()),
    });
    node.contamination.cpu_pressure = Some(0.1);
    node.contamination.throttled = Some(1);
    manifest
}

fn full_findings(mut findings: Findings, program: &Findings, manifest: &Manifest) -> Findings {
    findings.trace = manifest.nodes[0].trace.clone();
    findings.contamination = manifest.nodes[0].contamination.clone();
    findings.losses = manifest.losses.clone();
    findings.conditions = manifest.conditions.clone();
    let noise = &mut findings.cpus[0];
    if let Some(work) = &mut noise.fixed_work {
        work.array = Some(Bytes::from_kib(64));
    }
    noise.reserved = Some(ReservedGaps {
        by: ReservedBy::FairServer,
        count: 2,
        length: estimate(),
        distance: Some(Nanos::from_secs(1)),
        share: 0.05,
    });
    let periods = noise.detours.as_ref().map(|d| d.periods.clone());
    noise.fixed_time = Some(FixedTimeFindings {
        interval: Nanos::from_micros(100),
        work_steps: 1,
        kernel: WorkKernel::Stream,
        array: Some(Bytes::from_kib(64)),
        count: 1,
        reference: 200.0,
        most: 201,
        median: 199,
        overrun: 0,
        lost: estimate(),
        largest: Nanos::ZERO,
        periods: periods.unwrap_or_default(),
        work: vec![WorkStretch {
            begin: Nanos::ZERO,
            mean: 1.0,
            least: 0.9,
        }],
    });
    findings.program.clone_from(&program.program);
    findings.jitter.push(jitter());
    findings.benchmarks.push(BenchmarkFindings {
        phase: 0,
        sheet: benchmark(),
    });
    findings.nodes = Some(nodes());
    findings.ways = Some(Ways {
        rounds: 12,
        ways: vec![Way {
            variant: ExchangeVariant::NonBlocking,
            siblings: Some(Siblings::Busy),
            phases: vec![0],
            step: estimate(),
            exchange: estimate(),
            noise: estimate(),
            longer: Some(estimate()),
        }],
    });
    let prediction = findings.prediction.as_mut().expect("a prediction");
    let extra = prediction.curves[0].points[0].slowdown.clone();
    prediction.by_rate = Some(RateLaw {
        topology: Topology::Ring1d,
        ranks: 1_024,
        points: vec![RatePoint {
            factor: 1.0,
            strikes: 0.5,
            taken: Some(1.0),
            extra: extra.clone(),
        }],
        exponent: Some(extra),
        unknown: Some("few".to_owned()),
        square_root: Some((0.5, 1.0)),
    });
    findings.lockstep[0].by_rate = Some(MeasuredRates {
        windows: 100,
        steps: 16,
        background: Some(1.5),
        groups: vec![MeasuredRate {
            strikes: 0.5,
            length: Some(1.5),
            extra: estimate(),
        }],
        exponent: Some(estimate()),
        unknown: Some("few".to_owned()),
    });
    findings.lockstep[0].slowdown_not_known = Some("not known: 3 steps, too noisy".to_owned());
    findings.not_predicted = Some("too many events".to_owned());
    findings.profile.exchange = Some(Nanos::ZERO);
    findings.profile.barrier = Some(Nanos::ZERO);
    findings.profile.sources.push(NoiseSource {
        kind: SourceKind::Irq,
        name: "eth0".to_owned(),
        rate_per_s: 1.0,
        events: 1,
        watched: Nanos::ZERO,
        period: Some(Nanos::ZERO),
        lengths: vec![LengthBin {
            length_ns: 1,
            count: 1,
        }],
    });
    findings
}

/// Nodes in which every field has a value.
fn nodes() -> NodesFindings {
    let dir = tempfile::tempdir().unwrap();
    let made = SyntheticNodes {
        nodes: 6,
        noisy: Some(2),
        slow: None,
    };
    let run = made.write(&dir.path().join("run")).unwrap();
    let explained = explain(&run, &AtomicBool::new(false)).unwrap();
    explained.findings.nodes.unwrap()
}

fn estimate() -> Estimate {
    Estimate {
        value: 1.0,
        low: 0.9,
        high: 1.1,
        n: 10,
        method: "mean".to_owned(),
    }
}

/// A benchmark in which every field has a value.
fn benchmark() -> BenchmarkSheet {
    BenchmarkSheet {
        benchmark: "is:S".to_owned(),
        verified: true,
        iterations: 10,
        all_iterations: 10,
        operation: "keys ranked".to_owned(),
        operations: 10,
        rate: 1.0,
        checksum: Some("0".to_owned()),
        memory_per_rank: Bytes::new(1),
        ranks: vec![BenchmarkRank {
            iterations: Some(IterationTimes {
                count: 10,
                median: Nanos::ZERO,
                tenth: Nanos::ZERO,
                ninetieth: Nanos::ZERO,
                computation: Nanos::ZERO,
                slowest: 3,
            }),
            calls: vec![BenchmarkCalls {
                call: "send".to_owned(),
                count: 1,
                bytes: Bytes::new(8),
                time: Nanos::ZERO,
            }],
            regions: vec![BenchmarkRegion {
                name: "sums".to_owned(),
                time: Nanos::ZERO,
            }],
            ..BenchmarkRank::default()
        }],
    }
}

/// Jitter in which every field has a value.
fn jitter() -> JitterFindings {
    let pattern = |shift| JitterPattern {
        lag: 1,
        shift,
        share: estimate(),
        by_chance: 0.5,
        p: 0.3,
    };
    JitterFindings {
        phase: 0,
        name: "forces".to_owned(),
        ranks: 2,
        steps: 10,
        median: Nanos::ZERO,
        core: Some(JitterCore {
            mean: estimate(),
            deviation: estimate(),
            tail: estimate(),
            misfit: 0.01,
            outlier_z: 5.0,
            outlier_from: Nanos::ZERO,
            outliers: 1,
            efficiency_without_outliers: 1.0,
            outlier_share: Some(0.5),
        }),
        slowest: JitterSlowest {
            duration: Nanos::ZERO,
            rank: Rank::new(1),
            step: 3,
            begin_ns: 1,
            z: Some(9.0),
        },
        efficiency: estimate(),
        scale: vec![JitterScale {
            ranks: 2,
            gaussian: Some(0.9),
            measured: Some(0.8),
            extrapolated: Some(estimate()),
            not_extrapolated: Some("too few".into()),
        }],
        tail_shape: Some(estimate()),
        distribution: vec![JitterPoint {
            duration: Nanos::ZERO,
            count: 1,
            fitted: Some(0.1),
        }],
        slowest_counts: vec![4, 6],
        slow_ranks: vec![Rank::new(1)],
        run_length: 1.0,
        run_length_by_chance: 1.0,
        longest_run: 2,
        order: Some(JitterOrder {
            steps: 100,
            lags: 25,
            moves: Some(pattern(1)),
            returns: pattern(0),
        }),
        map: JitterMap {
            steps_per_column: 1,
            ranks_per_row: 1,
            cells: vec![(0, 0, 1)],
        },
        culprits: vec![JitterCulprit {
            source: 0,
            time: Nanos::ZERO,
            steps: 1,
        }],
    }
}

#[test]
fn both_documents_have_the_objects_fields_and_types_of_the_page() {
    let dir = tempfile::tempdir().unwrap();
    let synthetic = Synthetic {
        iterations: 3_000,
        ..Synthetic::default()
    };
    let (run, findings) = synthetic.write(&dir.path().join("run")).unwrap();
    let manifest = full(run.manifest().clone());
    let ring = SyntheticProgram::ring();
    let (_, program) = ring.write(&dir.path().join("ring")).unwrap();
    let findings = full_findings(findings, &program, &manifest);
    let mut check = Check {
        objects: objects(),
        met: BTreeSet::new(),
        filled: BTreeSet::new(),
    };
    check.object("Manifest", &serde_json::to_value(&manifest).unwrap());
    check.object("Findings", &serde_json::to_value(&findings).unwrap());

    let described: BTreeSet<String> = check.objects.keys().cloned().collect();
    assert_eq!(described, check.met, "objects described, objects met");
    let fields = check
        .objects
        .iter()
        .flat_map(|(o, f)| f.iter().map(move |(f, _)| (o.clone(), f.clone())));
    let empty: Vec<(String, String)> = fields.filter(|f| !check.filled.contains(f)).collect();
    assert!(
        empty.is_empty(),
        "never seen with a value, so not compared: {empty:?}"
    );
}
