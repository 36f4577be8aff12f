//! Writes a simulated run with its findings and its report into a directory, which must be empty or not exist:
//! `cargo run -p idlewave-simulate --example simulated_run -- DIR [RANKS [wave|noise|barrier]]`. `wave`: one delay in a ring, with a little noise;
//! `noise`: several sources, no delay; `barrier`: the same under a barrier.

use idlewave_explain::explain;
use idlewave_noise::{Arrivals, Lengths, NoiseModel, Source};
use idlewave_run::{RunReader, SourceKind};
use idlewave_simulate::Shape;
use idlewave_simulate::Stencil;
use idlewave_simulate::Work;
use idlewave_simulate::bulk::{Algorithm, Collective, OneOff, Phase, Program, Wait};
use idlewave_simulate::bundle::{Run, write_run};
use idlewave_simulate::goal::Parameters;
use std::error::Error;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let path: PathBuf = arguments
        .get(1)
        .ok_or("usage: simulated_run DIR [RANKS [wave|noise|barrier]]")?
        .into();
    let ranks: u32 = arguments.get(2).map_or(Ok(64), |r| r.parse())?;
    let what = arguments.get(3).map_or("wave", String::as_str);
    let program = Program {
        ranks,
        phases: vec![Phase::Compute(Work::Same(1_000_000)), waiting(what, ranks)],
        costs: Parameters::default(),
    };
    let model = model(what);
    let delays = match what {
        "wave" => vec![OneOff {
            rank: ranks / 3,
            step: 10,
            ns: 8_000_000,
        }],
        _ => Vec::new(),
    };
    let run = Run {
        program: &program,
        model: &model,
        seed: 1,
        replication: 0,
        without: &[],
        delays: &delays,
        steps: u64::from(ranks) + 60,
        command: &arguments,
        started: "2026-01-01T00:00:00Z",
    };
    let stop = AtomicBool::new(false);
    write_run(&path, &run, &stop)?;
    let reader = RunReader::open(&path)?;
    let findings = explain(&reader, &stop)?.findings;
    reader.write_findings(&findings)?;
    let folder = path.join("report_files");
    let mut put = |name: &str, bytes: &[u8]| {
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(name), bytes)
    };
    let page = idlewave_report::render_page(&reader, &findings, None, Some(&mut put))?;
    std::fs::write(path.join("report.html"), page)?;
    print!(
        "{}",
        idlewave_report::render_text(reader.manifest(), &findings, 80, false)
    );
    Ok(())
}

fn waiting(what: &str, ranks: u32) -> Phase {
    match what {
        "barrier" => Phase::Collective {
            operation: Collective::Barrier,
            algorithm: Algorithm::Dissemination,
            bytes: 0,
        },
        _ => Phase::Exchange {
            stencil: Stencil::nearest(Shape {
                x: ranks as usize,
                y: 1,
                z: 1,
            }),
            bytes: 1_024,
            wait: Wait::All,
        },
    }
}

fn model(what: &str) -> NoiseModel {
    let source = |kind, name: &str, arrivals, mean_ns| Source {
        kind,
        name: name.to_owned(),
        strikes: Default::default(),
        together: Default::default(),
        cpus: None,
        keeps: 0.0,
        arrivals,
        length: Some(Lengths::Exponential { mean_ns }),
        fit: None,
    };
    let tick = source(
        SourceKind::TimerTick,
        "timer tick",
        Arrivals::Periodic {
            period_ns: 4_000_000,
            jitter_ns: 0,
            phase_ns: None,
        },
        3_000.0,
    );
    let poisson = |rate_per_s| Arrivals::Poisson { rate_per_s };
    let mut sources = vec![tick];
    if what != "wave" {
        sources.push(source(SourceKind::Task, "sshd", poisson(1.0), 900_000.0));
        sources.push(source(
            SourceKind::KernelThread,
            "kworker",
            poisson(6.0),
            60_000.0,
        ));
        sources.push(source(SourceKind::Irq, "eth0", poisson(50.0), 8_000.0));
    }
    NoiseModel {
        cpus_per_node: 16,
        sources,
        ..NoiseModel::default()
    }
}
