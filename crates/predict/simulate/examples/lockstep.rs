//! Ranks in lockstep with noise, all their finish times written to a file: throughput and memory.
//!
//! `cargo run --release -p idlewave-simulate --example lockstep -- SIDES STEPS EVENTS_PER_RANK_STEP
//! EVERY [FILE]`, for instance `100x100x100 1000 0.01 1 times.bin`. Every EVERY steps a row of
//! unsigned 64-bit little-endian nanoseconds, one per rank, is written. With 0, the run is only
//! timed.

use idlewave_noise::{Arrivals, Lengths, Noise, NoiseModel, Source};
use idlewave_simulate::lockstep::{Lockstep, LockstepConfig};
use idlewave_simulate::{Shape, Stencil};
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::Instant;

const WORK_NS: u64 = 20_000;
const COMMUNICATION_NS: u64 = 1_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [sides, steps, events, every, file @ ..] = &arguments[..] else {
        return Err("SIDES STEPS EVENTS_PER_RANK_STEP EVERY [FILE]".into());
    };
    // The first side is the one that varies fastest.
    let mut sides = sides
        .split('x')
        .map(str::parse)
        .collect::<Result<Vec<u32>, _>>()?;
    sides.reverse();
    let shape = Shape::of_sides(&sides).ok_or("no more than three sides")?;
    let (steps, every): (u64, u64) = (steps.parse()?, every.parse()?);
    let rate_per_s = events.parse::<f64>()? * 1e9 / (WORK_NS + COMMUNICATION_NS) as f64;
    let noise = Noise::new(&model(rate_per_s), 1, 0, |_| true)?;
    let config = LockstepConfig::new(Stencil::nearest(shape), WORK_NS, COMMUNICATION_NS);

    let begin = Instant::now();
    let mut lockstep = Lockstep::new(config, &noise)?;
    let ready = begin.elapsed();
    let begin = Instant::now();
    match (every, file.first()) {
        (0, _) => lockstep.advance(steps)?,
        (_, None) => lockstep.run(steps, every, |_, _| Ok::<(), Box<dyn Error>>(()))?,
        (_, Some(path)) => {
            let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
            let mut bytes = Vec::new();
            lockstep.run(steps, every, |_, times| {
                bytes.resize(8 * times.len(), 0);
                for (bytes, time) in bytes.chunks_exact_mut(8).zip(times) {
                    bytes.copy_from_slice(&time.to_le_bytes());
                }
                out.write_all(&bytes)?;
                Ok::<(), Box<dyn Error>>(())
            })?;
            out.flush()?;
        }
    }
    let taken = begin.elapsed().as_secs_f64();
    let rank_steps = lockstep.ranks() as f64 * steps as f64;
    let latest = lockstep.times().into_iter().max().unwrap_or(0);
    println!(
        "{} threads, prepared in {ready:.1?}",
        rayon::current_num_threads()
    );
    println!(
        "{rank_steps:.3e} rank-steps in {taken:.3} s: {:.3e} per second",
        rank_steps / taken
    );
    println!("mean step {:.0} ns", latest as f64 / steps as f64);
    match peak_bytes() {
        Some(bytes) => println!(
            "peak memory {:.0} MB, {:.0} bytes per rank",
            bytes / 1e6,
            bytes / lockstep.ranks() as f64
        ),
        None => println!("peak memory unknown: no /proc"),
    }
    Ok(())
}

fn model(rate_per_s: f64) -> NoiseModel {
    NoiseModel {
        sources: vec![Source::task(
            "daemon",
            Arrivals::Poisson { rate_per_s },
            Some(Lengths::Fixed { ns: 5_000 }),
        )],
        ..NoiseModel::default()
    }
}

/// Largest resident set so far.
fn peak_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(1024.0 * kilobytes)
}
