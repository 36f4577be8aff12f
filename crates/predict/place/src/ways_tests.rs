//! Cached routes equal the network's.

use super::*;
use idlewave_network::{NetworkParameters, Quantity};
use idlewave_topology::{Cable, FatTree, Node, Routing, Switch, Topology};
use idlewave_units::BytesPerSecond;
use proptest::prelude::*;

fn topologies() -> Vec<Topology> {
    let tree = FatTree {
        nodes_per_leaf: 3,
        leaves: 3,
        spines: 2,
        cables_per_spine: 2,
        pods: None,
    };
    let rate = |rate| BytesPerSecond::new(rate).unwrap();
    // Cables of two speeds below one switch.
    let node = |n: usize| Vertex::Node(NodeIndex::new(n));
    let switch = Vertex::Switch(idlewave_topology::SwitchIndex::new(0));
    let cables: Vec<Cable> = (0..5)
        .map(|n| Cable {
            capacity: Some(rate(if n % 2 == 0 { 0.2e9 } else { 2e9 })),
            ..Cable::new(node(n), switch)
        })
        .collect();
    let nodes = (0..5).map(|n| Node::new(format!("n{n}"))).collect();
    let mixed = Topology::from_cables(nodes, vec![Switch::new("s")], &cables);
    vec![
        mixed.unwrap(),
        Topology::star(5).unwrap(),
        Topology::fat_tree(tree).unwrap().with_capacity(rate(1e9)),
        Topology::torus_of(&[3, 3], true, 2)
            .unwrap()
            .with_capacity(rate(2e9)),
    ]
}

proptest! {
    #[test]
    fn a_way_is_what_the_network_says_with_loads_switches_and_shared_adapters(
        which in 0usize..4, multipath: bool, both: bool, switch: bool,
        load in (0usize..5, 0usize..5, 0.0f64..2e9), pairs in prop::collection::vec((0usize..5, 0usize..5), 1..20),
    ) {
        let mut parameters = NetworkParameters::assumed("test", 1e9);
        parameters.adapter.both = both.then_some(Quantity::stated(1.5e9));
        parameters.switch = switch.then_some(Quantity::stated(9e9));
        let routing = if multipath { Routing::Multipath } else { Routing::Deterministic };
        let topology = topologies().swap_remove(which);
        let mut network = Network::new(topology, parameters, routing).unwrap();
        network.add_load(NodeIndex::new(load.0), NodeIndex::new(load.1), load.2).unwrap();
        let mut ways = Ways::new(&network, 1e-3, 1, 1);
        for (from, to) in pairs {
            let place = |node| Place { node: NodeIndex::new(node), domain: 0 };
            let (a, b) = (ways.site(place(from)), ways.site(place(to)));
            let way = ways.find(a, b).unwrap();
            let costs = ways.head(way, a).iter().chain(ways.costs(way));
            let mut found: Vec<(u32, f64)> = costs.map(|c| (c.resource, c.per_byte * 1e-3)).collect();
            found.sort_by(|a, b| a.partial_cmp(b).unwrap());
            let real = network.way(place(from), place(to)).unwrap();
            let cost = |u: &idlewave_network::Use| (u.resource, u.share / network.capacity()[u.resource as usize]);
            let mut wanted: Vec<(u32, f64)> = real.uses.iter().map(cost).collect();
            wanted.sort_by(|a, b| a.partial_cmp(b).unwrap());
            prop_assert_eq!(found.len(), wanted.len());
            for (found, wanted) in found.iter().zip(&wanted) {
                prop_assert_eq!(found.0, wanted.0);
                prop_assert!((found.1 / wanted.1 - 1.0).abs() < 1e-12);
            }
            prop_assert!((ways.alone(way) * 1e-3 * real.limit - 1.0).abs() < 1e-12);
            prop_assert_eq!(ways.latency_ns(way), real.latency_ns);
            prop_assert_eq!(ways.is_within(way), from == to);
        }
    }
}
