//! Predicts from a made-up profile of an ordinary machine and prints the curves: a look at speed and plausibility.

use idlewave_run::findings::Estimate;
use idlewave_run::{Coupling, LengthBin, NoiseProfile, NoiseSource, SourceKind};
use idlewave_simulate::{MeasuredRun, PredictConfig, predict};
use idlewave_units::Nanos;

fn source(kind: SourceKind, name: &str, rate_per_s: f64, lengths: &[(u64, u64)]) -> NoiseSource {
    NoiseSource {
        kind,
        name: name.into(),
        rate_per_s,
        events: lengths.iter().map(|l| l.1).sum(),
        watched: Nanos::from_secs(20),
        period: None,
        lengths: lengths
            .iter()
            .map(|&(length_ns, count)| LengthBin { length_ns, count })
            .collect(),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let work: Nanos = args.next().as_deref().unwrap_or("20us").parse()?;
    let profile = NoiseProfile {
        sources: vec![
            source(
                SourceKind::TimerTick,
                "timer tick",
                250.0,
                &[(1_500, 900), (4_000, 90), (15_000, 10)],
            ),
            source(SourceKind::Task, "daemon", 20.0, &[(500_000, 1)]),
            source(SourceKind::Irq, "virtio", 150.0, &[(3_000, 5), (8_000, 1)]),
            source(
                SourceKind::Softirq,
                "net_rx",
                100.0,
                &[(5_000, 9), (60_000, 1)],
            ),
            source(
                SourceKind::KernelThread,
                "kworker",
                5.0,
                &[(30_000, 10), (200_000, 1)],
            ),
            source(
                SourceKind::Hypervisor,
                "hypervisor",
                0.05,
                &[(4_000_000, 1)],
            ),
        ],
        work,
        exchange: Some(Nanos::from_nanos(800)),
        barrier: Some(Nanos::from_micros(1)),
    };
    let slowdown = Estimate {
        value: 0.02,
        low: 0.01,
        high: 0.03,
        n: 9,
        method: "made up".into(),
    };
    let config = PredictConfig {
        seed: 1,
        remove: [0, 1, 3]
            .map(|i: usize| (profile.sources[i].kind, profile.sources[i].name.clone()))
            .to_vec(),
        measured: vec![MeasuredRun {
            name: "barrier".into(),
            coupling: Coupling::Barrier,
            ranks: 2,
            work,
            slowdown,
        }],
    };
    let begin = std::time::Instant::now();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let prediction = predict(&profile, &config, &stop, &|_| {})?;
    println!(
        "{:.2} s\n{}",
        begin.elapsed().as_secs_f64(),
        prediction.method
    );
    for caveat in &prediction.caveats {
        println!("- {caveat}");
    }
    let show = |e: &Estimate| format!("{:.4}+-{:.4} ({})", e.value, (e.high - e.low) / 2.0, e.n);
    let none = vec![("all".to_string(), &prediction.curves)];
    let without = prediction
        .without
        .iter()
        .map(|w| (w.name.clone(), &w.curves));
    for (name, curves) in none.into_iter().chain(without) {
        for curve in curves {
            let points: Vec<String> = curve.points.iter().map(|p| show(&p.slowdown)).collect();
            println!(
                "{name:>12} {:>8} {}",
                curve.topology.label(),
                points.join(" ")
            );
        }
    }
    for curve in &prediction.by_granularity {
        for (work, e) in &curve.points {
            println!(
                "{} {} {work}: {}",
                curve.topology.label(),
                curve.ranks,
                show(e)
            );
        }
    }
    for check in &prediction.checks {
        println!(
            "{} {}: {} measured, {} predicted",
            check.name,
            check.ranks,
            check.measured,
            show(&check.predicted)
        );
    }
    Ok(())
}
