//! Force loop of the Lennard-Jones run: pairs per second on one core, and the cost of building the
//! lists.
//!
//! Floor: for a pair within the list's reach, 3 subtractions, 3 multiplications and 2 additions
//! give the distance; then come one division, 7 operations for the strength and 9 for the two sums.
//! That is about 25 operations. The division dominates at 4 to 5 cycles of a current core, so a
//! pair takes about 1 ns without vectors. A partner moves 4 bytes of the list, 24 of its position
//! and twice 24 of its force, mostly within the first two cache levels, since neighbours in the box
//! are neighbours in memory.

use divan::Bencher;
use divan::counter::ItemsCount;
use idlewave_workloads::md::Kernel;

fn main() {
    divan::main();
}

/// Listed pairs per second of the force loop, for boxes that fit into the second cache level and
/// boxes that fit into none.
#[divan::bench(args = [5, 10, 25])]
fn forces(bencher: Bencher, cells: u32) {
    let mut kernel = Kernel::new(cells, 200);
    bencher
        .counter(ItemsCount::new(kernel.pairs()))
        .bench_local(|| kernel.forces());
}

/// The same, but counts only pairs close enough to interact.
#[divan::bench(args = [10])]
fn interactions(bencher: Bencher, cells: u32) {
    let mut kernel = Kernel::new(cells, 200);
    bencher
        .counter(ItemsCount::new(kernel.interactions()))
        .bench_local(|| kernel.forces());
}

/// Particles per second when building the list.
#[divan::bench(args = [10])]
fn list(bencher: Bencher, cells: u32) {
    let mut kernel = Kernel::new(cells, 200);
    bencher
        .counter(ItemsCount::new(kernel.particles()))
        .bench_local(|| kernel.list());
}
