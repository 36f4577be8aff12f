//! Rank-steps and events per second: `cargo bench -p idlewave-simulate`. One thread.

use divan::counter::ItemsCount;
use idlewave_run::findings::Topology;
use idlewave_run::{LengthBin, NoiseSource, SourceKind};
use idlewave_simulate::mean_delay;
use idlewave_units::Nanos;

fn main() {
    divan::main();
}

/// Events per rank-step, spread evenly over this many sources.
fn sources(per_step: f64, count: u32) -> Vec<NoiseSource> {
    let lengths = (0..1_000).map(|i| LengthBin {
        length_ns: 1_000 + 37 * i,
        count: 1 + i % 7,
    });
    (0..count)
        .map(|_| NoiseSource {
            kind: SourceKind::Task,
            name: "bench".into(),
            rate_per_s: per_step / 20e-6 / f64::from(count),
            events: 1,
            watched: Nanos::from_secs(1),
            period: None,
            lengths: lengths.clone().collect(),
        })
        .collect()
}

fn run(bencher: divan::Bencher, topology: Topology, ranks: u32, per_step: f64, items: f64) {
    let steps = 256u64.max((20_000_000 / u64::from(ranks)).div_ceil(256) * 256);
    let sources = sources(per_step, 12);
    bencher
        .counter(ItemsCount::new(
            (f64::from(ranks) * steps as f64 * items) as u64,
        ))
        .bench(|| mean_delay(topology, ranks, &sources, Nanos::from_micros(20), steps, 1));
}

const RANKS: [u32; 4] = [64, 1_024, 16_384, 1_000_000];

#[divan::bench(args = RANKS, sample_count = 11, sample_size = 1)]
fn ring_rank_steps(bencher: divan::Bencher, ranks: u32) {
    run(bencher, Topology::Ring1d, ranks, 1e-3, 1.0);
}

#[divan::bench(args = RANKS, sample_count = 11, sample_size = 1)]
fn torus_2d_rank_steps(bencher: divan::Bencher, ranks: u32) {
    run(bencher, Topology::Torus2d, ranks, 1e-3, 1.0);
}

#[divan::bench(args = RANKS, sample_count = 11, sample_size = 1)]
fn torus_3d_rank_steps(bencher: divan::Bencher, ranks: u32) {
    run(bencher, Topology::Torus3d, ranks, 1e-3, 1.0);
}

/// Half an event per rank-step: mostly the cost of events.
#[divan::bench(args = [1_024u32, 16_384], sample_count = 11, sample_size = 1)]
fn ring_events(bencher: divan::Bencher, ranks: u32) {
    run(bencher, Topology::Ring1d, ranks, 0.5, 0.5);
}

#[divan::bench(args = [1_024u32, 1_000_000], sample_count = 11, sample_size = 1)]
fn barrier_events(bencher: divan::Bencher, ranks: u32) {
    run(bencher, Topology::Barrier, ranks, 1e-2, 1e-2);
}
