//! Calls per second: a recorded program from its bundle to its explanation.
//!
//! The floor: a call is read (about 60 bytes in nine columns), put in a list of 32 bytes and
//! visited five times (order, waits, timing twice, sums); an end of a message is read (60 bytes),
//! sorted in a stream and matched (56 bytes, 20 comparisons for a million). At 10 GB/s and 2 ns a
//! comparison that is some 30 ns a call and 90 ns an end. With two ends for every three calls, it
//! is 90 ns a call in all, or 11 million calls a second. Arrow tables cost as much again.

#![allow(clippy::unwrap_used)]

#[path = "../tests/made/mod.rs"]
mod made;

use divan::Bencher;
use divan::counter::ItemsCount;
use made::world::World;

fn main() {
    divan::main();
}

const RANKS: u32 = 16;

/// Neighbour exchange on a ring with a delay every 50 iterations; five calls an iteration and rank.
#[divan::bench(args = [100_000, 1_000_000], sample_count = 3, sample_size = 1)]
fn explain(bencher: Bencher, calls: usize) {
    let iterations = calls / 5 / RANKS as usize;
    let mut world = World::new(RANKS);
    for k in 0..iterations {
        if k % 50 == 20 {
            world.strike(k / 50 % RANKS as usize, 300_000, 0);
        }
        world.compute_all(100_000);
        world.exchange(&[1, -1]);
    }
    let bundle = world.made.write();
    bencher
        .counter(ItemsCount::new(calls))
        .bench_local(|| bundle.explain());
}

/// An allreduce on all ranks in every iteration.
#[divan::bench(args = [1_000_000], sample_count = 3, sample_size = 1)]
fn collectives(bencher: Bencher, calls: usize) {
    let mut world = World::new(RANKS);
    for k in 0..calls / RANKS as usize {
        if k % 50 == 20 {
            world.strike(k / 50 % RANKS as usize, 300_000, 0);
        }
        world.compute_all(100_000);
        world.collective("MPI_Allreduce", 0);
    }
    let bundle = world.made.write();
    bencher
        .counter(ItemsCount::new(calls))
        .bench_local(|| bundle.explain());
}
