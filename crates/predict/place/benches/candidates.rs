//! Time and memory of the search for placements: `cargo bench -p idlewave-place --bench
//! candidates`. One thread.
//!
//! 4,096 ranks in a cube exchange their surfaces on 1,024 nodes of 64 cores, 32 nodes per leaf
//! switch. All numbers of ranks per node from 4, the least that fits, to 64 are considered: 61 of
//! them. The columns of memory say what was allocated at most at a time.
//!
//! What it must cost at least: a placement has 22,528 messages whose way is looked up and whose
//! four to six uses are added, about 50 ns each or 1.1 ms; 61 numbers have eight placements or more
//! each, 0.6 s.

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

/// The network, every seventh node busy where it is said to be `used`.
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

/// All numbers of ranks per node, with and without local search.
#[divan::bench(args = [0_u64, 200_000], sample_count = 3, sample_size = 1)]
fn all_numbers_of_ranks_per_node(bencher: divan::Bencher, trials: u64) {
    let (network, program) = (network(false, Routing::Deterministic), cube());
    let job = Job {
        trials,
        ..Job::default()
    };
    bencher.bench(|| find(&network, &program, &job));
}

/// The same with ways over all spines at once, and with busy nodes.
#[divan::bench(args = ["multipath", "busy"], sample_count = 3, sample_size = 1)]
fn other_networks(bencher: divan::Bencher, kind: &str) {
    let network = match kind {
        "multipath" => network(false, Routing::Multipath),
        _ => network(true, Routing::Deterministic),
    };
    let program = cube();
    bencher.bench(|| find(&network, &program, &Job::default()));
}

/// What a trial of local search costs: the difference of the two, divided by 100,000.
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
