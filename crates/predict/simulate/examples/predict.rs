//! Predicts from a model of noise and prints the curves: a quick check of speed and plausibility.
//!
//! `cargo run --release -p idlewave-simulate --example predict -- noise.toml 20us`

use idlewave_noise::NoiseModel;
use idlewave_run::findings::{Curve, Estimate};
use idlewave_simulate::{PredictConfig, QuietStep, predict};
use idlewave_units::Nanos;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("name a file with a model of noise")?;
    let work: Nanos = args.next().as_deref().unwrap_or("20us").parse()?;
    let model = NoiseModel::read(&std::fs::read_to_string(path)?)?;
    let step = QuietStep {
        work,
        exchange: Some(Nanos::from_nanos(800)),
        barrier: Some(Nanos::from_micros(1)),
    };
    let worst = model.sources.iter().take(3);
    let config = PredictConfig {
        seed: 1,
        remove: worst.map(|s| (s.kind, s.name.clone())).collect(),
        measured: Vec::new(),
    };
    let begin = Instant::now();
    let prediction = predict(
        &model,
        &step,
        &config,
        1.0,
        &AtomicBool::new(false),
        &|_| {},
    )?;
    println!(
        "{:.2} s\n{}",
        begin.elapsed().as_secs_f64(),
        prediction.method
    );
    for caveat in &prediction.caveats {
        println!("- {caveat}");
    }
    let show = |e: &Estimate| format!("{:.4}+-{:.4}", e.value, (e.high - e.low) / 2.0);
    let print = |name: &str, curves: &[Curve]| {
        for curve in curves {
            let points = curve.points.iter();
            let points: Vec<String> = points
                .map(|p| format!("{}: {}", p.ranks, show(&p.slowdown)))
                .collect();
            println!(
                "{name:>12} {:>8} {}",
                curve.topology.label(),
                points.join("  ")
            );
        }
    };
    print("all", &prediction.curves);
    for without in &prediction.without {
        print(&without.name, &without.curves);
        print("saved", &without.saved);
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
    Ok(())
}
