//! Rank-steps and events per second: `cargo bench -p idlewave-simulate --bench engine`. One thread,
//! except for `*_all_threads`.
//! Memory per rank: `cargo run --release -p idlewave-simulate --example lockstep -- 10000000 64 0.01 0`.

use divan::counter::ItemsCount;
use idlewave_noise::{Arrivals, Lengths, Noise, NoiseModel, Source};
use idlewave_simulate::bulk::{Algorithm, Collective, Phase, Program};
use idlewave_simulate::goal::Parameters;
use idlewave_simulate::lockstep::{Lockstep, LockstepConfig};
use idlewave_simulate::question::{Effort, Question, answer};
use idlewave_simulate::{Shape, Stencil, Work};
use std::sync::atomic::AtomicBool;

fn main() {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find(|line| line.starts_with("model name"));
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!(
        "{}, {} CPUs, load before the run {}",
        model.map_or("unknown processor", |line| line
            .trim_start_matches("model name\t: ")),
        std::thread::available_parallelism().map_or(0, usize::from),
        load.split(' ').next().unwrap_or("unknown"),
    );
    divan::main();
}

/// All ranks wait for all, in steps of 20 us with two events per hundred rank-steps.
#[divan::bench(args = [1_024u32, 65_536], sample_count = 11, sample_size = 1)]
fn barrier_rank_steps(bencher: divan::Bencher, ranks: u32) {
    let barrier = Phase::Collective {
        operation: Collective::Barrier,
        algorithm: Algorithm::Dissemination,
        bytes: 1,
    };
    let program = Program {
        ranks,
        phases: vec![Phase::Compute(Work::Same(20_000)), barrier],
        costs: Parameters::FREE,
    };
    let arrivals = Arrivals::Poisson {
        rate_per_s: 1_000.0,
    };
    let model = NoiseModel {
        sources: vec![Source::task(
            "bench",
            arrivals,
            Lengths::Fixed { ns: 5_000 },
        )],
        ..NoiseModel::default()
    };
    let steps = 5_000_000 / u64::from(ranks);
    let question = Question {
        program: &program,
        model: &model,
        steps,
        warm_up: 0,
        delays: &[],
        without: &[],
        approach: None,
    };
    let effort = Effort {
        seed: 1,
        least: 2,
        most: 2,
        precision: 1.0,
    };
    let stop = AtomicBool::new(false);
    bencher
        .counter(ItemsCount::new(2 * steps * u64::from(ranks)))
        .bench(|| answer(&question, &effort, &stop, &|_, _| {}));
}

/// Events on the wall clock: `per_step` of them per step of 21 microseconds.
fn wall_clock(per_step: f64) -> Noise {
    let model = NoiseModel {
        sources: vec![Source::task(
            "bench",
            Arrivals::Poisson {
                rate_per_s: per_step / 21e-6,
            },
            Some(Lengths::Fixed { ns: 5_000 }),
        )],
        ..NoiseModel::default()
    };
    Noise::new(&model, 1, 0, |_| true).expect("the model above is sound")
}

fn lockstep(bencher: divan::Bencher, shape: Shape, per_step: f64, threads: usize) {
    let noise = wall_clock(per_step);
    let stencil = Stencil::nearest(shape);
    let ranks = stencil.ranks() as u64;
    let steps = (50_000_000 / ranks).clamp(16, 65_536);
    let mut lockstep = Lockstep::new(LockstepConfig::new(stencil, 20_000, 1_000), &noise)
        .expect("the configuration above is sound");
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .expect("threads can be started");
    // The run continues: every sample takes its next steps.
    bencher
        .counter(ItemsCount::new(ranks * steps))
        .bench_local(|| pool.install(|| lockstep.advance(steps)));
}

fn cube(side: usize) -> Shape {
    let (x, y, z) = (side, side, side);
    Shape { x, y, z }
}

const MANY_RANKS: [usize; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];

#[divan::bench(args = MANY_RANKS, sample_count = 7, sample_size = 1)]
fn lockstep_ring(bencher: divan::Bencher, ranks: usize) {
    lockstep(bencher, Shape::line(ranks), 1e-2, 1);
}

#[divan::bench(args = [1e-4, 1e-2, 1e-1], sample_count = 7, sample_size = 1)]
fn lockstep_ring_of_a_million_by_noise(bencher: divan::Bencher, per_step: f64) {
    lockstep(bencher, Shape::line(1_000_000), per_step, 1);
}

/// Ranks along a side of a cube.
#[divan::bench(args = [10usize, 22, 46, 100, 215], sample_count = 7, sample_size = 1)]
fn lockstep_cube(bencher: divan::Bencher, side: usize) {
    lockstep(bencher, cube(side), 1e-2, 1);
}

#[divan::bench(sample_count = 7, sample_size = 1)]
fn lockstep_ring_all_threads(bencher: divan::Bencher) {
    lockstep(bencher, Shape::line(1_000_000), 1e-2, 0);
}

#[divan::bench(sample_count = 7, sample_size = 1)]
fn lockstep_cube_all_threads(bencher: divan::Bencher) {
    lockstep(bencher, cube(100), 1e-2, 0);
}
