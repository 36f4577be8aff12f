//! Paths, capacities and closed forms of whole programs.

use super::*;
use crate::play::play;
use crate::quantity::Quantity;
use idlewave_simulate::goal::{Operation, ScheduleBuilder};
use idlewave_topology::{FatTree, LinkIndex};
use idlewave_units::BytesPerSecond;

/// Adapters of 1 GB/s, memory of 4 GB/s of which one message can use 2, latency 1 us and 100 ns per
/// further switch; everything else is free.
fn parameters() -> NetworkParameters {
    let mut p = NetworkParameters::assumed("test", 1e9);
    p.overhead_ns = Quantity::stated(0.0);
    p.hop_ns = Quantity::stated(100.0);
    p.memory = Quantity::stated(4e9);
    p.inside.bandwidth = Quantity::stated(2e9);
    p.inside.latency_ns = Quantity::stated(0.0);
    p.outside.latency_ns = Quantity::stated(1_000.0);
    p.outside.bandwidth = Quantity::stated(1e9);
    p.eager_limit = u64::MAX;
    p
}

fn star(nodes: usize, parameters: NetworkParameters) -> Network {
    let topology = Topology::star(nodes).unwrap();
    Network::new(topology, parameters, Routing::Deterministic).unwrap()
}

fn on(node: usize) -> Place {
    Place {
        node: NodeIndex::new(node),
        domain: 0,
    }
}

/// Every rank sends this many bytes to every other one, all at once.
fn all_to_all(ranks: u32, bytes: u64) -> Program {
    let mut builder = ScheduleBuilder::new(ranks).unwrap();
    for rank in 0..ranks {
        for other in (0..ranks).filter(|&other| other != rank) {
            builder.push(Operation::send(bytes, other)).unwrap();
            builder.push(Operation::recv(bytes, other)).unwrap();
        }
        builder.end_rank().unwrap();
    }
    Program::new(&builder.finish().unwrap()).unwrap()
}

#[test]
fn k_pairs_between_two_nodes_get_a_kth_of_the_adapter_each() {
    let network = star(2, parameters());
    for k in [1_u32, 2, 4, 8] {
        let mut builder = ScheduleBuilder::new(2 * k).unwrap();
        for rank in 0..k {
            builder.push(Operation::send(1_000_000, rank + k)).unwrap();
            builder.end_rank().unwrap();
        }
        for rank in 0..k {
            builder.push(Operation::recv(1_000_000, rank)).unwrap();
            builder.end_rank().unwrap();
        }
        let program = Program::new(&builder.finish().unwrap()).unwrap();
        let places: Vec<Place> = (0..2 * k).map(|r| on((r / k) as usize)).collect();
        let stage = network.stage(&program, &places, 1).unwrap();
        assert_eq!(
            play(&program, &stage).makespan_ns(),
            1_000_000 * u64::from(k) + 1_000
        );
    }
}

#[test]
fn an_all_to_all_takes_what_the_adapters_must_move() {
    // k^2 s (N-1) / B: each of k ranks sends s bytes to the k (N-1) ranks of the other nodes.
    for (nodes, k) in [(2_u64, 1_u64), (2, 4), (3, 2), (4, 3), (8, 2)] {
        let network = star(nodes as usize, parameters());
        let program = all_to_all((nodes * k) as u32, 50_000);
        let places: Vec<Place> = (0..nodes * k).map(|r| on((r / k) as usize)).collect();
        let stage = network.stage(&program, &places, 1).unwrap();
        let time = play(&program, &stage).makespan_ns();
        let bound = k * k * 50_000 * (nodes - 1);
        // Each adapter moves what the bound counts, in each direction.
        let link = network.way(on(0), on(1)).unwrap().uses[0].resource;
        assert_eq!(stage.loads(&program)[link as usize], bound as f64);
        assert!(
            time >= bound + 1_000 && time <= bound + 1_010,
            "{nodes} {k}: {time} {bound}"
        );
    }
}

#[test]
fn messages_within_a_node_take_its_memory_and_no_adapter() {
    let network = star(2, parameters());
    let program = all_to_all(4, 1_000_000);
    // 12 messages, at 4 GB/s together: each alone could have 2.
    let stage = network.stage(&program, &[on(0); 4], 1).unwrap();
    assert_eq!(play(&program, &stage).makespan_ns(), 3_000_000);
    // One node's own pair: 2 messages at 2 GB/s each.
    let pair = all_to_all(2, 1_000_000);
    let stage = network.stage(&pair, &[on(1); 2], 1).unwrap();
    assert_eq!(play(&pair, &stage).makespan_ns(), 500_000);
}

fn tree(routing: Routing, measured: Option<f64>) -> Network {
    let tree = FatTree {
        nodes_per_leaf: 4,
        leaves: 2,
        spines: 2,
        cables_per_spine: 1,
        pods: None,
    };
    let rate = |rate| BytesPerSecond::new(rate).unwrap();
    let topology = Topology::fat_tree(tree)
        .unwrap()
        .with_capacity(rate(2e9))
        .with_uplink_capacity(rate(2e9));
    let mut parameters = parameters();
    parameters.outside.bandwidth = Quantity::stated(2e9);
    if let Some(rate) = measured {
        parameters.adapter.out = Quantity::measured(rate, rate, rate);
    }
    Network::new(topology, parameters, routing).unwrap()
}

#[test]
fn ways_through_a_tree_have_its_switches_and_its_cables() {
    let network = tree(Routing::Deterministic, None);
    let near = network.way(on(0), on(1)).unwrap();
    assert_eq!((near.uses.len(), near.latency_ns), (2, 1_000));
    let far = network.way(on(0), on(7)).unwrap();
    assert_eq!((far.uses.len(), far.latency_ns), (4, 1_200));
    // The adapter is slower than the links.
    assert_eq!(far.limit, 1e9);
    let both = tree(Routing::Multipath, None).way(on(0), on(7)).unwrap();
    let halves: Vec<f64> = both.uses.iter().map(|u| u.share).collect();
    assert_eq!(
        halves.iter().filter(|&&s| s == 0.5).count(),
        4,
        "{halves:?}"
    );
    assert_eq!(
        halves.iter().filter(|&&s| s == 1.0).count(),
        2,
        "{halves:?}"
    );
}

#[test]
fn links_carry_as_much_of_what_they_should_as_the_measured_adapter_does() {
    let link = |network: &Network| {
        let way = network.way(on(0), on(7)).unwrap();
        way.uses
            .iter()
            .map(|u| network.capacity()[u.resource as usize])
            .fold(0.0, f64::max)
    };
    assert_eq!(link(&tree(Routing::Deterministic, None)), 2e9);
    assert_eq!(link(&tree(Routing::Deterministic, Some(1.5e9))), 1.5e9);
}

#[test]
fn what_others_send_is_taken_away_from_every_link_of_their_way() {
    let mut network = star(3, parameters());
    let before = network.capacity().to_vec();
    network
        .add_load(NodeIndex::new(0), NodeIndex::new(1), 0.25e9)
        .unwrap();
    let way = network.way(on(0), on(1)).unwrap();
    for one in &way.uses {
        assert_eq!(network.capacity()[one.resource as usize], 0.75e9);
    }
    // The bandwidth of a single message does not change: the link's capacity accounts for other
    // jobs.
    assert_eq!(network.way(on(0), on(1)).unwrap().limit, 1e9);
    network
        .add_load(NodeIndex::new(0), NodeIndex::new(1), 5e9)
        .unwrap();
    for one in &way.uses {
        assert_eq!(network.capacity()[one.resource as usize], 0.1e9);
    }
    let changed = before
        .iter()
        .zip(network.capacity())
        .filter(|(a, b)| a != b)
        .count();
    assert_eq!(changed, way.uses.len());
}

#[test]
fn loads_of_the_links_of_a_path_are_the_load_of_the_path() {
    let mut parameters = parameters();
    parameters.adapter.both = Some(Quantity::stated(1.5e9));
    parameters.switch = Some(Quantity::stated(5e9));
    let whole = star(3, parameters);
    let (mut by_path, mut by_link) = (whole.clone(), whole);
    let (from, to) = (NodeIndex::new(0), NodeIndex::new(2));
    by_path.add_load(from, to, 0.25e9).unwrap();
    let topology = by_link.topology();
    let route = topology.routes(from, to, Routing::Deterministic).unwrap();
    for (link, _) in route.shares {
        by_link.add_link_load(link, 0.25e9);
    }
    assert_eq!(by_link.capacity(), by_path.capacity());
    by_link.add_link_load(LinkIndex::new(1000), 1e9);
    assert_eq!(by_link.capacity(), by_path.capacity());
}

#[test]
fn what_others_send_above_what_a_link_carries_is_found_though_it_came_in_parts() {
    let mut network = star(3, parameters());
    let node = NodeIndex::new;
    // All of the adapter out of the first node, and 60 % of the adapter into the last.
    network.add_load(node(0), node(1), 0.4e9).unwrap();
    network.add_load(node(0), node(2), 0.6e9).unwrap();
    assert_eq!(network.overloaded(), None);
    network.add_load(node(1), node(2), 0.5e9).unwrap();
    let into = network.way(on(1), on(2)).unwrap().uses[1].resource;
    let (at, taken, whole) = network.overloaded().unwrap();
    assert_eq!((at, whole), (into, 1e9));
    assert!((taken - 1.1e9).abs() < 1.0, "{taken}");
    assert_eq!(network.describe(at), "adapter into n3");
}

#[test]
fn resources_have_names_and_parameters() {
    let network = star(2, parameters());
    let way = network.way(on(0), on(1)).unwrap();
    let names: Vec<String> = way
        .uses
        .iter()
        .map(|u| network.describe(u.resource))
        .collect();
    assert_eq!(names, ["adapter out of n1", "adapter into n2"]);
    assert_eq!(
        network.parameter_of(way.uses[0].resource),
        Parameter::AdapterOut
    );
    assert_eq!(network.parameter_of(0), Parameter::Memory);
    assert_eq!(network.describe(1), "memory of n2");
}

#[test]
fn ranks_of_a_full_node_compute_longer_than_where_they_were_measured() {
    let mut slow = parameters();
    slow.slow_down = [(2, 1.5), (4, 3.0)]
        .map(|(ranks, factor)| crate::SlowDown {
            ranks,
            factor: Quantity::stated(factor),
        })
        .to_vec();
    let network = star(2, slow);
    let places = [on(0), on(0), on(0), on(0), on(1)];
    assert_eq!(network.slow_down(&places, 1), [3.0, 3.0, 3.0, 3.0, 1.0]);
    assert_eq!(
        network.slow_down(&places, 2),
        [2.0, 2.0, 2.0, 2.0, 1.0 / 1.5]
    );
    let program = all_to_all(2, 8);
    let error = network.stage(&program, &places, 1).unwrap_err();
    assert_eq!(error.to_string(), "5 places for 2 ranks");
}

#[test]
fn what_goes_two_ways_loads_each_by_its_part() {
    let network = tree(Routing::Multipath, None);
    let program = all_to_all(2, 1_000);
    let stage = network.stage(&program, &[on(0), on(7)], 1).unwrap();
    let loads = stage.loads(&program);
    let of_way: Vec<f64> = stage.ways[0]
        .uses
        .iter()
        .map(|u| loads[u.resource as usize])
        .collect();
    assert_eq!(
        of_way.iter().filter(|&&l| l == 500.0).count(),
        4,
        "{of_way:?}"
    );
    assert_eq!(
        of_way.iter().filter(|&&l| l == 1_000.0).count(),
        2,
        "{of_way:?}"
    );
}

#[test]
fn only_programs_of_very_many_messages_are_played_with_slack() {
    let network = star(1, parameters());
    let slack = |ranks: u32| {
        let program = all_to_all(ranks, 8);
        network
            .stage(&program, &vec![on(0); ranks as usize], 1)
            .unwrap()
            .slack
    };
    assert_eq!(slack(100), 0.0);
    assert_eq!(slack(101), 0.01);
}

#[test]
fn a_time_is_as_uncertain_as_its_computation_where_ranks_are_more_or_fewer_than_measured() {
    let mut vague = parameters();
    vague.slow_down = vec![crate::SlowDown {
        ranks: 2,
        factor: Quantity::measured(2.0, 1.0, 4.0),
    }];
    let network = star(2, vague);
    let mut builder = ScheduleBuilder::new(2).unwrap();
    for _ in 0..2 {
        builder.push(Operation::calc(1_000_000)).unwrap();
        builder.end_rank().unwrap();
    }
    let program = Program::new(&builder.finish().unwrap()).unwrap();
    let seconds = |places: &[Place], measured_with| {
        let stage = network.stage(&program, places, measured_with).unwrap();
        let played = play(&program, &stage);
        let found = network
            .estimate(&program, &stage, places, &played, 3.0)
            .seconds;
        [found.low, found.value, found.high].map(|s| (s * 1e9).round() / 1e6)
    };
    let (together, apart) = ([on(0); 2], [on(0), on(1)]);
    // With as many ranks per node as measured, nothing is uncertain; with more or fewer, the curve
    // is.
    assert_eq!(seconds(&together, 2), [3.0, 3.0, 3.0]);
    assert_eq!(seconds(&apart, 1), [3.0, 3.0, 3.0]);
    assert_eq!(seconds(&together, 1), [3.0, 6.0, 12.0]);
    assert_eq!(seconds(&apart, 2), [0.75, 1.5, 3.0]);
}
