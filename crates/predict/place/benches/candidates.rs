//! Time and memory of the search for placements: `cargo bench -p idlewave-place --bench
//! candidates`. One thread.
//!
//! 4,096 ranks in a cube exchange their surfaces on 1,024 nodes of 64 cores, 32 nodes per leaf
//! switch. All rank counts per node from 4, the least that fits, to 64 are considered, 61 in all.
//! The memory columns show the peak allocation.
//!
//! Lower bound on the cost: a placement has 22,528 messages. For each, a route is looked up and its
//! four to six uses are added: about 50 ns, or 1.1 ms in all. 61 rank counts with at least eight
//! placements each take 0.6 s.

use divan::AllocProfiler;
use idlewave_network::{Network, NetworkParameters, Program, Quantity};
use idlewave_place::testing::halo;
use idlewave_place::{Job, candidates};
use idlewave_simulate::Shape;
use idlewave_topology::{FatTree, Routing, Topology};
use idlewave_units::BytesPerSecond;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// The network; if `used`, every seventh node is busy.
fn network(used: bool, routing: Routing) -> Network {
    let tree = FatTree {
        nodes_per_leaf: 32,
        leaves: 32,
        spines: 16,
        cables_per_spine: 1,
        pods: None,
    };
    let made = || {
        let mut topology = Topology::fat_tree(tree).ok()?.with_cores(64);
        topology = topology.with_capacity(BytesPerSecond::new(12.5e9)?);
        if used {
            topology.update_nodes(|index, node| node.free = index.get() % 7 != 3);
        }
        let mut parameters = NetworkParameters::assumed("bench", 12.5e9);
        parameters.memory = Quantity::stated(50e9);
        Network::new(topology, parameters, routing).ok()
    };
    made().unwrap_or_else(|| panic!("the numbers above are possible"))
}

fn cube() -> Program {
    let shape = Shape {
        x: 16,
        y: 16,
        z: 16,
    };
    halo(shape, 100_000, 1_000_000)
}

fn find(network: &Network, program: &Program, job: &Job) -> usize {
    candidates(network, program, job).map_or(0, |found| found.len())
}

/// All rank counts per node, with and without local search.
#[divan::bench(args = [0_u64, 200_000], sample_count = 3, sample_size = 1)]
fn all_numbers_of_ranks_per_node(bencher: divan::Bencher, trials: u64) {
    let (network, program) = (network(false, Routing::Deterministic), cube());
    let job = Job {
        trials,
        ..Job::default()
    };
    bencher.bench(|| find(&network, &program, &job));
}

/// The same with multipath routes over all spines, and with busy nodes.
#[divan::bench(args = ["multipath", "busy"], sample_count = 3, sample_size = 1)]
fn other_networks(bencher: divan::Bencher, kind: &str) {
    let network = match kind {
        "multipath" => network(false, Routing::Multipath),
        _ => network(true, Routing::Deterministic),
    };
    let program = cube();
    bencher.bench(|| find(&network, &program, &Job::default()));
}

/// Cost of a trial of local search: the difference between the two times, divided by 100,000.
#[divan::bench(args = [0_u64, 100_000], sample_count = 3, sample_size = 1)]
fn trials(bencher: divan::Bencher, trials: u64) {
    let (network, program) = (network(false, Routing::Deterministic), cube());
    let job = Job {
        trials,
        ranks_per_node: vec![16],
        ..Job::default()
    };
    bencher.bench(|| find(&network, &program, &job));
}
