//! Max-min shares and whole programs: `cargo bench -p idlewave-network`.
//!
//! The first benchmark counts rates computed, one flow per class. The others count flows replayed
//! from start to end.

#![allow(clippy::unwrap_used)]

use divan::Bencher;
use divan::counter::ItemsCount;
use idlewave_network::{
    Description, Network, NetworkParameters, Part, Place, Program, Sharing, described, play,
};
use idlewave_simulate::collectives::{Algorithms, Kind};
use idlewave_simulate::{Shape, Stencil};
use idlewave_topology::{FatTree, NodeIndex, Routing, Topology};
use idlewave_units::BytesPerSecond;

fn main() {
    divan::main();
}

/// 1,024 nodes on 32 leaves, oversubscribed 2:1 between leaves.
fn cluster() -> Network {
    let tree = FatTree {
        nodes_per_leaf: 32,
        leaves: 32,
        spines: 16,
        cables_per_spine: 1,
        pods: None,
    };
    let rate = BytesPerSecond::new(12.5e9).unwrap();
    let topology = Topology::fat_tree(tree)
        .unwrap()
        .with_cores(64)
        .with_capacity(rate);
    let parameters = NetworkParameters::assumed("benchmark", 12e9);
    Network::new(topology, parameters, Routing::Deterministic).unwrap()
}

fn block(ranks: u32, k: u32) -> Vec<Place> {
    let node = |rank: u32| NodeIndex::new((rank / k) as usize);
    (0..ranks)
        .map(|rank| Place {
            node: node(rank),
            domain: 0,
        })
        .collect()
}

fn halo(ranks: u32) -> Program {
    let stencil = Stencil::nearest(Shape::cuboid(ranks as usize));
    let phases = vec![Part::Compute(1_000_000), Part::Exchange(stencil, 64 << 10)];
    let schedule = described(&Description { ranks, phases }, 2, &Algorithms::default());
    Program::new(&schedule.unwrap()).unwrap()
}

/// Flows between random nodes.
#[divan::bench(args = [1_000, 24_000, 100_000])]
fn solve(bencher: Bencher<'_, '_>, flows: u32) {
    let network = cluster();
    let mut sharing = Sharing::new(network.capacity().to_vec());
    let mut state = 1_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        Place {
            node: NodeIndex::new((state >> 54) as usize),
            domain: 0,
        }
    };
    for _ in 0..flows {
        let way = network.way(next(), next()).unwrap();
        let class = sharing.add_class(&way.uses, way.limit);
        sharing.start(class);
    }
    bencher
        .counter(ItemsCount::new(flows))
        .bench_local(|| sharing.solve());
}

#[divan::bench(args = [4, 16, 64], sample_count = 5)]
fn halo_of_4096_ranks(bencher: Bencher<'_, '_>, k: u32) {
    let (network, program) = (cluster(), halo(4_096));
    let stage = network.stage(&program, &block(4_096, k), 1).unwrap();
    bencher
        .counter(ItemsCount::new(program.messages().len()))
        .bench_local(|| play(&program, &stage));
}

#[divan::bench(args = [1, 8], sample_count = 5)]
fn all_to_all_of_64_ranks(bencher: Bencher<'_, '_>, k: u32) {
    let network = cluster();
    let phases = vec![Part::Collective(Kind::Alltoall, 1 << 20)];
    let schedule = described(
        &Description { ranks: 64, phases },
        1,
        &Algorithms::default(),
    );
    let program = Program::new(&schedule.unwrap()).unwrap();
    let stage = network.stage(&program, &block(64, k), 1).unwrap();
    bencher
        .counter(ItemsCount::new(program.messages().len()))
        .bench_local(|| play(&program, &stage));
}
