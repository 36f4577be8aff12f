//! Simulated runs and their findings.

use idlewave_explain::{Explanation, explain};
use idlewave_noise::{Arrivals, Lengths, NoiseModel, Scope, Source, Together};
use idlewave_run::findings::{Findings, SourceFinding};
use idlewave_run::{RunReader, SourceKind};
use idlewave_simulate::Shape;
use idlewave_simulate::Stencil;
use idlewave_simulate::Work;
use idlewave_simulate::bulk::{Algorithm, Collective, Phase, Program, Wait};
use idlewave_simulate::bundle::{Run, Written, write_run};
use idlewave_simulate::goal::Parameters;
use idlewave_units::Nanos;
use std::path::Path;
use std::sync::atomic::AtomicBool;

pub const WORK: u64 = 1_000_000;

pub fn costs(latency: u64) -> Parameters {
    Parameters {
        latency: Nanos::from_nanos(latency),
        ..Parameters::FREE
    }
}

pub fn ring(ranks: u32) -> Program {
    Program {
        ranks,
        phases: vec![
            Phase::Compute(Work::Same(WORK)),
            Phase::Exchange {
                stencil: Stencil::nearest(Shape {
                    x: ranks as usize,
                    y: 1,
                    z: 1,
                }),
                bytes: 8,
                wait: Wait::All,
            },
        ],
        costs: costs(10_000),
    }
}

/// Messages take no time, so a step contains only what the ranks do.
pub fn barrier(ranks: u32) -> Program {
    Program {
        costs: costs(0),
        phases: vec![
            Phase::Compute(Work::Same(WORK)),
            Phase::Collective {
                operation: Collective::Barrier,
                algorithm: Algorithm::Dissemination,
                bytes: 0,
            },
        ],
        ..ring(ranks)
    }
}

pub fn source(kind: SourceKind, name: &str, arrivals: Arrivals, ns: u64) -> Source {
    Source {
        kind,
        name: name.to_owned(),
        strikes: Scope::EachCpu,
        together: Together::Alone,
        cpus: None,
        keeps: 0.0,
        arrivals,
        length: Some(Lengths::Fixed { ns }),
        fit: None,
    }
}

pub fn poisson(rate_per_s: f64) -> Arrivals {
    Arrivals::Poisson { rate_per_s }
}

pub fn model(cpus_per_node: u32, sources: Vec<Source>) -> NoiseModel {
    NoiseModel {
        cpus_per_node,
        sources,
        ..NoiseModel::default()
    }
}

pub fn run<'a>(program: &'a Program, model: &'a NoiseModel, steps: u64) -> Run<'a> {
    Run {
        program,
        model,
        seed: 7,
        replication: 0,
        without: &[],
        delays: &[],
        steps,
        command: &[],
        started: "2026-01-01T00:00:00Z",
    }
}

pub fn written(path: &Path, run: &Run<'_>) -> Written {
    write_run(path, run, &AtomicBool::new(false)).unwrap()
}

pub fn explained(run: &Run<'_>) -> (Explanation, RunReader, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    written(&path, run);
    let reader = RunReader::open(&path).unwrap();
    let explanation = explain(&reader, &AtomicBool::new(false)).unwrap();
    (explanation, reader, dir)
}

pub fn found<'a>(findings: &'a Findings, name: &str) -> Option<&'a SourceFinding> {
    findings.sources.iter().find(|s| s.name == name)
}

pub fn parts_add_up(findings: &Findings) {
    for late in &findings.latest {
        let sum: u64 = late.parts.iter().map(|p| p.time.get()).sum();
        assert_eq!(sum, late.lateness.get());
    }
    let by_source: u64 = findings.sources.iter().map(|s| s.lateness.get()).sum();
    assert_eq!(by_source, findings.lateness.get());
}
