//! The engines against closed forms from the literature, on systems so large that only the engines'
//! own error is left.
//!
//! `cargo run --release -p idlewave-simulate --example closed_forms`: a minute.

#[path = "../tests/draws/mod.rs"]
mod draws;

use draws::uniform;
use idlewave_noise::{Arrivals, Clock, Lengths, Noise, NoiseModel, Source};
use idlewave_simulate::bulk::{Algorithm, Collective, Phase, Program};
use idlewave_simulate::goal::Parameters;
use idlewave_simulate::lockstep::{InjectedDelay, Lockstep, LockstepConfig};
use idlewave_simulate::question::{Effort, Question, answer};
use idlewave_simulate::{Shape, Stencil, Work};
use std::error::Error;
use std::sync::atomic::AtomicBool;

fn row(name: &str, law: f64, seen: f64, half_width: f64) {
    println!(
        "{name:<58} {law:>10.5} {seen:>10.5} {half_width:>9.5} {:>+7.2} %",
        100.0 * (seen / law - 1.0)
    );
}

fn ring(ranks: usize, one_sided: bool) -> Stencil {
    Stencil {
        one_sided,
        ..Stencil::nearest(Shape::line(ranks))
    }
}

/// Mean step beyond the work under rare events of fixed length, and the half-width of its interval,
/// both in lengths of an event.
fn rare(stencil: Stencil, per_step: f64, steps: u64) -> Result<(f64, f64), Box<dyn Error>> {
    // Long work and short events: hardly any event falls into a wait, for which the law does not
    // account.
    let (work, length) = (100_000_000_u64, 10_000_u64);
    let rate_per_s = per_step * 1e9 / work as f64;
    let arrivals = Arrivals::Poisson { rate_per_s };
    let model = NoiseModel {
        sources: vec![Source::task("x", arrivals, Lengths::Fixed { ns: length })],
        ..NoiseModel::default()
    };
    let noise = Noise::new(&model, 5, 0, |_| true)?;
    let mut lockstep = Lockstep::new(LockstepConfig::new(stencil, work, 0), &noise)?;
    lockstep.advance(steps / 4)?;
    let step = lockstep.mean_step(steps)?;
    let extra = (step.mean_ns - work as f64) / length as f64;
    Ok((extra, step.half_width_ns / length as f64))
}

/// The same, in nanoseconds, for a barrier of `ranks` ranks, with noise by exposure and events of
/// these lengths.
fn barrier(ranks: u32, q: f64, lengths: &[u64]) -> Result<(f64, f64), Box<dyn Error>> {
    let work = 100_000;
    let barrier = Phase::Collective {
        operation: Collective::Barrier,
        algorithm: Algorithm::Dissemination,
        bytes: 1,
    };
    let program = Program {
        ranks,
        phases: vec![Phase::Compute(Work::Same(work)), barrier],
        costs: Parameters::FREE,
    };
    let bins = lengths.iter().map(|&ns| [ns, 1]).collect();
    let arrivals = Arrivals::Poisson {
        rate_per_s: q * 1e9 / work as f64,
    };
    let law = Lengths::Empirical { bins, tail: None };
    let model = NoiseModel {
        clock: Clock::Work,
        sources: vec![Source::task("x", arrivals, law)],
        ..NoiseModel::default()
    };
    let question = Question {
        program: &program,
        model: &model,
        steps: 300_000_000 / u64::from(ranks),
        warm_up: 0,
        delays: &[],
        without: &[],
        approach: None,
    };
    let effort = Effort {
        seed: 9,
        least: 8,
        most: 8,
        precision: 1.0,
    };
    let found = answer(&question, &effort, &AtomicBool::new(false), &|_, _| {})?;
    let half = found.step_ns.half_width();
    Ok((found.step_ns.mean - work as f64, half))
}

/// Expected maximum over ranks, each with Poisson(q) events whose sum is mostly a single event of
/// this law: 1 - exp(-q P(length > x)) to the power of the ranks, integrated over the lengths (in
/// quantiles, as they are simulated).
fn single_hits(ranks: u32, q: f64, lengths: &[u64]) -> f64 {
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    let n = sorted.len() as f64;
    let mut below = 0;
    let mut expected = 0.0;
    for (i, &length) in sorted.iter().enumerate() {
        let longer = (n - i as f64) / n;
        expected += (length - below) as f64 * (1.0 - (-q * longer * f64::from(ranks)).exp());
        below = length;
    }
    expected
}

fn quantiles(law: impl Fn(f64) -> f64) -> Vec<u64> {
    (0..4_000)
        .map(|i| law((f64::from(i) + 0.5) / 4_000.0) as u64)
        .collect()
}

/// Mean step where every rank waits for one neighbour and is delayed by an exponential time in
/// every step, and its half-width, both in units of the mean delay.
fn exponential() -> Result<(f64, f64), Box<dyn Error>> {
    let (ranks, steps, mean) = (1_000_u32, 10_000_u64, 1e6);
    let mut config = LockstepConfig::new(ring(ranks as usize, true), 0, 0);
    config.delays = (0..steps)
        .flat_map(|step| (0..ranks).map(move |rank| (step, rank)))
        .map(|(step, rank)| InjectedDelay {
            step,
            rank,
            work_ns: (-mean * uniform(u64::from(rank), step).ln()) as u64,
        })
        .collect();
    let none = Noise::new(&NoiseModel::default(), 1, 0, |_| true)?;
    let mut lockstep = Lockstep::new(config, &none)?;
    lockstep.advance(steps / 4)?;
    let step = lockstep.mean_step(steps - steps / 4)?;
    Ok((step.mean_ns / mean, step.half_width_ns / mean))
}

fn main() -> Result<(), Box<dyn Error>> {
    println!(
        "{:<58} {:>10} {:>10} {:>9} {:>9}",
        "law", "expected", "simulated", "95 % +-", "error"
    );
    let (seen, half) = exponential()?;
    row("exponential, one neighbour: 2 mu", 2.0, seen, half);
    for q in [1e-3_f64, 1e-4] {
        let steps = (40.0 / q) as u64;
        let (seen, half) = rare(ring(100_000, true), q, steps)?;
        let name = format!("rare, fixed, one neighbour: D sqrt(q), q = {q:e}");
        row(&name, q.sqrt(), seen, half);
        let (seen, half) = rare(ring(100_000, false), q, steps)?;
        let name = format!("rare, fixed, two neighbours: D sqrt(2 q), q = {q:e}");
        row(&name, (2.0 * q).sqrt(), seen, half);
    }
    let fixed = vec![5_000];
    let exponential = quantiles(|p| -5_000.0 * (1.0 - p).ln());
    let pareto = quantiles(|p| 5_000.0 * (1.0 - p).powf(-1.0 / 2.5));
    for (law, lengths) in [
        ("Bernoulli", fixed),
        ("exponential", exponential),
        ("Pareto 2.5", pareto),
    ] {
        for (ranks, q) in [(1_000, 1e-4), (100_000, 1e-6), (1_000, 1e-3)] {
            let (seen, half) = barrier(ranks, q, &lengths)?;
            let expected = single_hits(ranks, q, &lengths);
            let name = format!("barrier, {law}, {ranks} ranks, q = {q:e}, us");
            row(&name, expected / 1e3, seen / 1e3, half / 1e3);
        }
    }
    Ok(())
}
