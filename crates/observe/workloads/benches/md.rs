//! Forces of the Lennard-Jones run: pairs per second of one core, with the cost of making the lists
//! beside them.
//!
//! Floor: a pair within the reach of the list takes 3 subtractions, 3 multiplications and 2
//! additions for its distance, one division, 7 operations for the strength and 9 for the two sums:
//! about 25 operations, of which the division limits: 4 to 5 cycles of a current core, so about 1
//! ns per pair without vectors. A partner moves 4 bytes of the list, 24 of its position and twice
//! 24 of its force, mostly within the first two cache levels as neighbours in the box are
//! neighbours in memory.

use divan::Bencher;
use divan::counter::ItemsCount;
use idlewave_workloads::md::Kernel;

fn main() {
    divan::main();
}

/// Listed pairs per second of the force loop, for boxes within the second cache level and beyond
/// all of them.
#[divan::bench(args = [5, 10, 25])]
fn forces(bencher: Bencher, cells: u32) {
    let mut kernel = Kernel::new(cells, 200);
    bencher
        .counter(ItemsCount::new(kernel.pairs()))
        .bench_local(|| kernel.forces());
}

/// The same, counting only pairs that are near enough to interact.
#[divan::bench(args = [10])]
fn interactions(bencher: Bencher, cells: u32) {
    let mut kernel = Kernel::new(cells, 200);
    bencher
        .counter(ItemsCount::new(kernel.interactions()))
        .bench_local(|| kernel.forces());
}

/// Particles per second of making the list.
#[divan::bench(args = [10])]
fn list(bencher: Bencher, cells: u32) {
    let mut kernel = Kernel::new(cells, 200);
    bencher
        .counter(ItemsCount::new(kernel.particles()))
        .bench_local(|| kernel.list());
}
