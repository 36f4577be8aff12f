//! Random small cases for tests.

use crate::random::Random;
use crate::testing::{halo, program_of};
use idlewave_network::{Network, NetworkParameters, Program, Quantity, SlowDown};
use idlewave_simulate::Shape;
use idlewave_topology::{FatTree, MemoryDomain, NodeIndex, Routing, Topology};
use idlewave_units::BytesPerSecond;

/// A program on a network.
pub(crate) struct Case {
    pub program: Program,
    pub network: Network,
    pub per_node: u32,
}

fn topology(random: &mut Random, nodes: u32) -> Topology {
    let tree = |nodes_per_leaf, leaves| FatTree {
        nodes_per_leaf,
        leaves,
        spines: 1,
        cables_per_spine: 1,
        pods: None,
    };
    match random.below(3) {
        0 => Topology::star(nodes as usize),
        1 => Topology::torus(&[nodes], true),
        _ if nodes == 4 => Topology::fat_tree(tree(2, 2)),
        _ => Topology::fat_tree(tree(1, nodes)),
    }
    .unwrap()
}

/// Two to eight ranks with random messages or in a grid, on two to four nodes on a switch, in a
/// ring or a tree, with one or two domains, with or without slow-down and other jobs.
pub(crate) fn case(seed: u64) -> Case {
    let mut random = Random::new(seed);
    let nodes = 2 + random.below(3) as u32;
    let domains = 1 + random.below(2);
    let ranks = 2 + random.below(if domains == 2 { 5 } else { 7 }) as u32;
    let per_node = ranks.div_ceil(nodes) + random.below(2) as u32;
    let rate = |rate| BytesPerSecond::new(rate).unwrap();
    let mut topology = topology(&mut random, nodes)
        .with_cores(per_node)
        .with_capacity(rate(1e9));
    if domains == 2 {
        topology.update_nodes(|_, node| {
            node.domains = [per_node.div_ceil(2), per_node / 2]
                .map(|cores| MemoryDomain {
                    cores,
                    memory: None,
                })
                .to_vec();
        });
    }
    let mut parameters = NetworkParameters::assumed("test", 1e9);
    parameters.memory = Quantity::stated(if random.below(2) == 0 { 4e9 } else { 1.5e9 });
    if random.below(2) == 0 {
        parameters.slow_down = vec![SlowDown {
            ranks: 4,
            factor: Quantity::stated(2.0),
        }];
    }
    let mut network = Network::new(topology, parameters, Routing::Deterministic).unwrap();
    if random.below(2) == 0 {
        network
            .add_load(NodeIndex::new(0), NodeIndex::new(1), 0.5e9)
            .unwrap();
    }
    let program = match random.below(4) {
        0 => halo(Shape::cuboid(ranks as usize), 1_000_000, 100_000),
        _ => {
            let count = 1 + random.below(3 * ranks as usize);
            let message = |_| {
                let from = random.below(ranks as usize) as u32;
                let to = (from + 1 + random.below(ranks as usize - 1) as u32) % ranks;
                (from, to, random.below(2_000_000) as u64)
            };
            let messages: Vec<_> = (0..count).map(message).collect();
            program_of(ranks, &messages, 100_000)
        }
    };
    Case {
        program,
        network,
        per_node,
    }
}
