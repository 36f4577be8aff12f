//! Invariants of the local search, and what it must find.

use super::*;
use crate::cases::case;
use crate::loads::unit;
use crate::testing::halo;
use crate::ways::Ways;
use idlewave_network::{Network, NetworkParameters};
use idlewave_simulate::Shape;
use idlewave_topology::{Routing, Topology};
use proptest::prelude::*;

proptest! {
    #[test]
    fn the_result_is_not_worse_than_the_start_and_uses_no_slot_twice(seed: u64, trials in 0u64..3_000) {
        let case = case(seed);
        let traffic = Traffic::new(&case.program);
        let mut random = Random::new(seed);
        let mut ways = Ways::new(&case.network, unit(&case.network, &traffic), traffic.ranks(), 1);
        let all: Vec<NodeIndex> = case.network.topology().node_indices().collect();
        let nodes = all[..traffic.ranks().div_ceil(case.per_node) as usize].to_vec();
        // Ranks in order, each on the node after the previous one's.
        let at: Vec<u32> = (0..traffic.ranks())
            .map(|rank| {
                let node = nodes[rank as usize % nodes.len()];
                let domain = rank / nodes.len() as u32 % ways.cores(node).len() as u32;
                ways.site(Place { node, domain })
            })
            .collect();
        let mut loads = Loads::new(&traffic, &mut ways, at).unwrap();
        let start = loads.objective();
        let mut slots = Slots::new(&loads, &nodes, &all, case.per_node);
        let mut search = Search { slots: &mut slots, random: &mut random, trials };
        let end = search.improve(&traffic, &mut loads).unwrap();
        prop_assert!(end <= start);
        prop_assert_eq!(loads.objective(), end);
        let at = loads.sites().to_vec();
        prop_assert_eq!(Loads::new(&traffic, loads.ways, at).unwrap().objective(), end);
        for (place, &site) in slots.sites.iter().enumerate() {
            let taken = loads.sites().iter().filter(|s| **s == site).count() as u32;
            let node = loads.ways.place(site);
            let all = of_domains(case.per_node, loads.ways.cores(node.node))[node.domain as usize];
            prop_assert_eq!(taken + slots.free[place], all);
        }
    }
}

#[test]
fn a_large_halo_in_random_order_is_brought_together() {
    let topology = Topology::star(16).unwrap().with_cores(16);
    let parameters = NetworkParameters::assumed("test", 1e9);
    let network = Network::new(topology, parameters, Routing::Deterministic).unwrap();
    let program = halo(Shape::plane(256), 1_000_000, 0);
    let traffic = Traffic::new(&program);
    let mut ways = Ways::new(&network, unit(&network, &traffic), 256, 1);
    let mut random = Random::new(1);
    let mut at: Vec<u32> = (0..256).map(|rank| rank % 16).collect();
    for last in (1..256).rev() {
        at.swap(last, random.below(last + 1));
    }
    let mut loads = Loads::new(&traffic, &mut ways, at).unwrap();
    let start = loads.objective();
    let nodes: Vec<NodeIndex> = network.topology().node_indices().collect();
    let mut slots = Slots::new(&loads, &nodes, &[], 16);
    let mut search = Search {
        slots: &mut slots,
        random: &mut random,
        trials: 20_000,
    };
    let end = search.improve(&traffic, &mut loads).unwrap();
    // With a random placement nearly all of the 60 or so neighbours of a node's ranks are outside;
    // with squares of 4 x 4 it would be 16.
    assert!(5 * end.peak < 3 * start.peak, "{start:?} {end:?}");
}

#[test]
fn a_node_whose_domains_are_smaller_takes_no_ranks_of_another_one() {
    let mut topology = Topology::star(2).unwrap().with_cores(4);
    topology.update_nodes(|n, node| {
        let cores = if n.get() == 0 { [2, 2] } else { [1, 3] };
        node.domains = cores
            .map(|cores| idlewave_topology::MemoryDomain {
                cores,
                memory: None,
            })
            .to_vec();
    });
    let parameters = NetworkParameters::assumed("test", 1e9);
    let network = Network::new(topology, parameters, Routing::Deterministic).unwrap();
    let (first, second) = (NodeIndex::new(0), NodeIndex::new(1));
    let program = halo(Shape::plane(4), 1_000_000, 0);
    let traffic = Traffic::new(&program);
    let mut ways = Ways::new(&network, unit(&network, &traffic), 4, 1);
    let at = [0, 1, 0, 1].map(|domain| {
        ways.site(Place {
            node: first,
            domain,
        })
    });
    let mut loads = Loads::new(&traffic, &mut ways, at.to_vec()).unwrap();
    let mut slots = Slots::new(&loads, &[first], &[second], 4);
    let mut random = Random::new(1);
    let mut search = Search {
        slots: &mut slots,
        random: &mut random,
        trials: 0,
    };
    let ranks: Vec<u32> = (0..4).collect();
    let tried = search.exchange(&mut loads, (0, 0), &ranks, WORST);
    assert_eq!(tried.unwrap(), WORST);
    assert_eq!(slots.nodes(), [first]);
}
