//! Ways through built topologies: closed forms, and laws that every route obeys.

#![allow(clippy::unwrap_used)]

use idlewave_topology::{
    Cable, Dragonfly, FatTree, LinkIndex, MemoryDomain, Node, NodeIndex, Pods, Route, Routing,
    Switch, SwitchIndex, Topology, TopologyError, Vertex,
};
use idlewave_units::BytesPerSecond;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};

fn node(n: usize) -> NodeIndex {
    NodeIndex::new(n)
}

fn switch(s: usize) -> Vertex {
    Vertex::Switch(SwitchIndex::new(s))
}

fn vertex(n: usize) -> Vertex {
    Vertex::Node(node(n))
}

fn ends(topology: &Topology, from: &str, to: &str) -> (NodeIndex, NodeIndex) {
    (topology.node(from).unwrap(), topology.node(to).unwrap())
}

/// Names of the vertices that a deterministic route meets, in order.
fn way(topology: &Topology, from: &str, to: &str) -> Vec<String> {
    let (a, b) = ends(topology, from, to);
    let route = topology.routes(a, b, Routing::Deterministic).unwrap();
    let mut way = vec![from.to_owned()];
    for (link, share) in &route.shares {
        assert_eq!(*share, 1.0);
        way.push(topology.name(topology.links()[link.get()].to).to_owned());
    }
    assert_eq!(way.len() as u32, route.hops + 2);
    way
}

/// Shares of a multipath route by the names of both ends of a link.
fn shares(topology: &Topology, from: &str, to: &str) -> BTreeMap<String, f64> {
    let (a, b) = ends(topology, from, to);
    let route = topology.routes(a, b, Routing::Multipath).unwrap();
    let named = |(link, share): &(LinkIndex, f64)| {
        let link = topology.links()[link.get()];
        let name = |v| topology.name(v);
        (format!("{} {}", name(link.from), name(link.to)), *share)
    };
    route.shares.iter().map(named).collect()
}

fn two_levels() -> FatTree {
    FatTree {
        nodes_per_leaf: 4,
        leaves: 3,
        spines: 2,
        cables_per_spine: 1,
        pods: None,
    }
}

/// What flows into each vertex flows out of it, but for the ends; no link twice; no share beyond 0
/// to 1.
fn lawful(topology: &Topology, from: NodeIndex, to: NodeIndex, route: &Route) {
    let mut balance: BTreeMap<Vertex, f64> = BTreeMap::new();
    let mut seen = HashSet::new();
    for (link, share) in &route.shares {
        assert!(seen.insert(*link), "link twice");
        assert!(*share > 0.0 && *share <= 1.0, "{share}");
        let link = topology.links()[link.get()];
        *balance.entry(link.from).or_default() -= share;
        *balance.entry(link.to).or_default() += share;
    }
    *balance.entry(Vertex::Node(from)).or_default() += 1.0;
    *balance.entry(Vertex::Node(to)).or_default() -= 1.0;
    for (vertex, rest) in balance {
        let name = topology.name(vertex);
        assert!(rest.abs() < 1e-9, "{rest} is left at {name}");
    }
}

#[test]
fn a_star_joins_all_nodes_by_one_switch() {
    let star = Topology::star(3).unwrap();
    assert_eq!(way(&star, "n1", "n3"), ["n1", "switch1", "n3"]);
    assert_eq!(star.distance(node(0), node(2)), Some(1));
    assert_eq!(star.distance(node(1), node(1)), Some(0));
    let none = star.routes(node(1), node(1), Routing::Multipath).unwrap();
    assert_eq!(none, Route::default());
    assert_eq!(star.leaf_of(node(2)), Some(SwitchIndex::new(0)));
}

#[test]
fn a_fat_tree_has_the_counts_and_levels_of_its_numbers() {
    let pods = Pods {
        pods: 2,
        cores_per_spine: 3,
        cables_per_core: 2,
    };
    let numbers = FatTree {
        pods: Some(pods),
        ..two_levels()
    };
    let tree = Topology::fat_tree(numbers).unwrap();
    assert_eq!(tree.nodes().len(), 24);
    let levels = tree.switches().iter().map(|s| s.level.unwrap());
    let of_level = |l| levels.clone().filter(|level| *level == l).count();
    assert_eq!([1, 2, 3].map(of_level), [6, 4, 6]);
    // 24 of nodes, 6 leaves with 2 spines each, 4 spines with 3 cores each; two directions.
    assert_eq!(tree.links().len(), 2 * (24 + 12 + 12));
    let hops = |a, b| {
        let (a, b) = ends(&tree, a, b);
        tree.distance(a, b)
    };
    assert_eq!(hops("n1", "n4"), Some(1));
    assert_eq!(hops("n1", "n5"), Some(3));
    assert_eq!(hops("n1", "n13"), Some(5));
    let cables = |a, b| {
        let [a, b] = [a, b].map(|name| tree.vertex(name).unwrap());
        tree.link(tree.link_between(a, b).unwrap()).unwrap().cables
    };
    assert_eq!(
        [cables("leaf6", "spine4"), cables("spine4", "core6")],
        [1, 2]
    );
    let leaf = tree.leaf_of(node(12)).unwrap();
    assert_eq!(tree.name(Vertex::Switch(leaf)), "leaf4");
}

#[test]
fn the_destination_selects_the_spine() {
    let tree = Topology::fat_tree(two_levels()).unwrap();
    // Destinations 4 and 5 counted from 0, modulo two spines.
    let expected = ["n1", "leaf1", "spine1", "leaf2", "n5"];
    assert_eq!(way(&tree, "n1", "n5"), expected);
    let expected = ["n1", "leaf1", "spine2", "leaf2", "n6"];
    assert_eq!(way(&tree, "n1", "n6"), expected);
    let expected = ["n9", "leaf3", "spine2", "leaf2", "n6"];
    assert_eq!(way(&tree, "n9", "n6"), expected);
}

#[test]
fn shifts_use_no_link_twice_on_a_full_fat_tree_of_three_levels() {
    // The defining property of destination-modulo routing (Zahavi 2012): a shift of all nodes is
    // free of contention.
    let numbers = FatTree {
        nodes_per_leaf: 4,
        leaves: 4,
        spines: 4,
        cables_per_spine: 1,
        pods: Some(Pods {
            pods: 4,
            cores_per_spine: 4,
            cables_per_core: 1,
        }),
    };
    let tree = Topology::fat_tree(numbers).unwrap();
    let nodes = tree.nodes().len();
    assert_eq!(nodes, 64);
    for shift in 1..nodes {
        let mut load = vec![0; tree.links().len()];
        for n in 0..nodes {
            let to = node((n + shift) % nodes);
            let route = tree.routes(node(n), to, Routing::Deterministic).unwrap();
            for (link, _) in route.shares {
                load[link.get()] += 1;
            }
        }
        assert_eq!(load.iter().max(), Some(&1), "shift {shift}");
    }
}

#[test]
fn many_ways_split_equally_over_spines() {
    let tree = Topology::fat_tree(two_levels()).unwrap();
    let split = shares(&tree, "n1", "n5");
    assert_eq!(split["n1 leaf1"], 1.0);
    assert_eq!(split["leaf1 spine2"], 0.5);
    assert_eq!(split["spine1 leaf2"], 0.5);
    assert_eq!(split["leaf2 n5"], 1.0);
    assert_eq!(split.len(), 6);
}

#[test]
fn of_unequal_links_each_cable_takes_the_same_part() {
    let join = |a, b, count| Cable {
        count,
        ..Cable::new(a, b)
    };
    let cables = [
        join(vertex(0), switch(0), 1),
        join(vertex(1), switch(1), 1),
        join(switch(0), switch(2), 1),
        join(switch(0), switch(3), 3),
        join(switch(2), switch(1), 1),
        join(switch(3), switch(1), 3),
    ];
    let switches = ["a", "b", "s", "t"].map(Switch::new).to_vec();
    let nodes = vec![Node::new("x"), Node::new("y")];
    let graph = Topology::from_cables(nodes, switches, &cables).unwrap();
    let split = shares(&graph, "x", "y");
    assert_eq!(split["a s"], 0.25);
    assert_eq!(split["a t"], 0.75);
    let levels: Vec<_> = graph.switches().iter().map(|s| s.level).collect();
    assert_eq!(levels, [Some(1), Some(1), Some(2), Some(2)]);
}

#[test]
fn destinations_use_each_of_the_parallel_cables_equally() {
    // Six destinations behind a leaf with one cable up to s and two to t.
    let join = |a, b, count| Cable {
        count,
        ..Cable::new(a, b)
    };
    let mut cables: Vec<Cable> = (0..6).map(|n| join(vertex(n), switch(1), 1)).collect();
    cables.extend([
        join(vertex(6), switch(0), 1),
        join(switch(0), switch(2), 1),
        join(switch(0), switch(3), 2),
        join(switch(2), switch(1), 1),
        join(switch(3), switch(1), 2),
    ]);
    let switches = ["a", "b", "s", "t"].map(Switch::new).to_vec();
    let nodes = (0..7).map(|n| Node::new(format!("n{n}"))).collect();
    let graph = Topology::from_cables(nodes, switches, &cables).unwrap();
    let third = |n: usize| way(&graph, "n6", &format!("n{n}"))[2].clone();
    let ways: Vec<String> = (0..6).map(third).collect();
    assert_eq!(ways, ["s", "t", "t", "s", "t", "t"]);
}

#[test]
fn parallel_cables_are_one_link_with_the_sum_of_their_capacities() {
    let rate = BytesPerSecond::new;
    let cable = |n, capacity| Cable {
        capacity: rate(capacity),
        ..Cable::new(vertex(n), switch(0))
    };
    let cables = [cable(0, 3.0), cable(1, 7.0), cable(0, 5.0)];
    let nodes = vec![Node::new("x"), Node::new("y")];
    let star = Topology::from_cables(nodes, vec![Switch::new("s")], &cables).unwrap();
    assert_eq!(star.links().len(), 4);
    let link = star.links()[0];
    assert_eq!((link.cables, link.capacity), (2, rate(8.0)));
    assert_eq!(link.capacity_per_cable(), rate(4.0));
    assert_eq!(star.links()[1].from, switch(0));
    assert_eq!(star.links()[1].capacity, rate(8.0));
    let faster = star.with_capacity(rate(10.0).unwrap());
    assert_eq!(faster.links()[0].capacity, rate(20.0));
}

#[test]
fn cores_memory_and_capacities_are_set_on_all() {
    let rate = |r| BytesPerSecond::new(r).unwrap();
    let tree = Topology::fat_tree(two_levels()).unwrap().with_cores(48);
    let tree = tree.with_memory(idlewave_units::Bytes::new(1 << 30));
    let tree = tree
        .with_capacity(rate(1e9))
        .with_uplink_capacity(rate(2e9));
    assert!(tree.nodes().iter().all(|n| n.cores == Some(48)));
    assert!(
        tree.nodes()
            .iter()
            .all(|n| n.memory.unwrap().get() == 1 << 30)
    );
    for link in tree.links() {
        let switches = matches!((link.from, link.to), (Vertex::Switch(_), Vertex::Switch(_)));
        let expected = if switches { 2e9 } else { 1e9 };
        assert_eq!(link.capacity, Some(rate(expected)));
    }
}

#[test]
fn domains_with_other_cores_than_the_node_is_given_are_forgotten() {
    let mut topology = Topology::star(2).unwrap();
    topology.update_nodes(|_, node| {
        let half = MemoryDomain {
            cores: 4,
            memory: None,
        };
        node.domains = vec![half; 2];
    });
    let domains = |topology: &Topology| topology.nodes()[0].domains.len();
    assert_eq!(domains(&topology.clone().with_cores(8)), 2);
    assert_eq!(domains(&topology.with_cores(6)), 0);
}

#[test]
fn a_torus_goes_along_the_first_dimension_first_and_the_short_way_round() {
    let torus = Topology::torus(&[4, 3], true).unwrap();
    // n1 is at 0-0, n12 at 3-2: one step down in each dimension.
    let expected = ["n1", "at-0-0", "at-3-0", "at-3-2", "n12"];
    assert_eq!(way(&torus, "n1", "n12"), expected);
    // Half a ring: up.
    let expected = ["n2", "at-1-0", "at-2-0", "at-3-0", "n4"];
    assert_eq!(way(&torus, "n2", "n4"), expected);
    let expected = ["n4", "at-3-0", "at-0-0", "at-1-0", "n2"];
    assert_eq!(way(&torus, "n4", "n2"), expected);
    let mesh = Topology::torus(&[4, 3], false).unwrap();
    assert_eq!(mesh.distance(node(0), node(11)), Some(6));
    let expected = [
        "n12", "at-3-2", "at-2-2", "at-1-2", "at-0-2", "at-0-1", "at-0-0", "n1",
    ];
    assert_eq!(way(&mesh, "n12", "n1"), expected);
}

#[test]
fn many_ways_in_a_torus_are_all_orders_of_dimensions_and_both_halves_of_a_ring() {
    let torus = Topology::torus(&[4, 3], true).unwrap();
    // From 0-0 to 2-1: two orders, and the first dimension is half a ring.
    let split = shares(&torus, "n1", "n7");
    assert_eq!(split["at-0-0 at-1-0"], 0.25);
    assert_eq!(split["at-0-0 at-3-0"], 0.25);
    assert_eq!(split["at-0-0 at-0-1"], 0.5);
    assert_eq!(split["at-3-1 at-2-1"], 0.25);
    assert_eq!(split["at-2-0 at-2-1"], 0.5);
    // In three dimensions a third of the orders begins with each.
    let cube = Topology::torus(&[3, 3, 3], true).unwrap();
    let split = shares(&cube, "n1", "n14");
    for next in ["at-1-0-0", "at-0-1-0", "at-0-0-1"] {
        let first = split[&format!("at-0-0-0 {next}")];
        assert!((first - 1.0 / 3.0).abs() < 1e-12, "{first}");
    }
    let second = split["at-1-0-0 at-1-1-0"];
    assert!((second - 1.0 / 6.0).abs() < 1e-12, "{second}");
}

#[test]
fn a_ring_of_two_is_one_cable() {
    let pair = Topology::torus(&[2], true).unwrap();
    assert_eq!(pair.links().len(), 2 * (2 + 1));
    assert_eq!(way(&pair, "n1", "n2"), ["n1", "at-0", "at-1", "n2"]);
    assert_eq!(shares(&pair, "n2", "n1")["at-1 at-0"], 1.0);
}

#[test]
fn a_hypercube_has_its_closed_forms() {
    for d in 1..=7_u32 {
        let cube = Topology::hypercube(d, 1).unwrap();
        let nodes = 1_u64 << d;
        assert_eq!(cube.nodes().len() as u64, nodes);
        // d 2^(d - 1) cables between switches, each one link per direction, besides those of nodes.
        let cables = u64::from(d) << (d - 1);
        assert_eq!(cube.links().len() as u64, 2 * (nodes + cables));
        // Distances count switches: one more than the hops between them.
        let from_first = cube.node_indices().skip(1);
        let hops: Vec<u32> = from_first
            .map(|to| cube.distance(node(0), to).unwrap() - 1)
            .collect();
        assert_eq!(hops.iter().max(), Some(&d));
        // The mean is d 2^(d - 1) / (2^d - 1).
        assert_eq!(hops.iter().map(|&h| u64::from(h)).sum::<u64>(), cables);
        for (a, b) in [(0, nodes - 1), (nodes / 2, nodes / 3)] {
            let distance = cube.distance(node(a as usize), node(b as usize));
            let differing = (a ^ b).count_ones();
            assert_eq!(distance, Some(if a == b { 0 } else { 1 + differing }));
        }
    }
}

#[test]
fn e_cube_routing_corrects_the_lowest_bit_first() {
    let cube = Topology::hypercube(4, 1).unwrap();
    // 0b0001 to 0b1110: bit by bit from the lowest.
    let expected = [
        "n2",
        "at-1-0-0-0",
        "at-0-0-0-0",
        "at-0-1-0-0",
        "at-0-1-1-0",
        "at-0-1-1-1",
        "n15",
    ];
    assert_eq!(way(&cube, "n2", "n15"), expected);
    // An all-to-all uses every link between switches 2^(d - 1) times.
    let mut uses = vec![0; cube.links().len()];
    for from in cube.node_indices() {
        for to in cube.node_indices() {
            let route = cube.routes(from, to, Routing::Deterministic).unwrap();
            for (link, _) in route.shares {
                uses[link.get()] += 1;
            }
        }
    }
    for (link, uses) in cube.links().iter().zip(uses) {
        let between = matches!((link.from, link.to), (Vertex::Switch(_), Vertex::Switch(_)));
        assert_eq!(uses, if between { 8 } else { 15 });
    }
}

#[test]
fn several_nodes_on_a_switch_of_a_torus_meet_there() {
    let torus = Topology::torus_of(&[3, 3], true, 4).unwrap();
    assert_eq!(torus.nodes().len(), 36);
    assert_eq!(way(&torus, "n1", "n4"), ["n1", "at-0-0", "n4"]);
    assert_eq!(way(&torus, "n1", "n5"), ["n1", "at-0-0", "at-1-0", "n5"]);
}

#[test]
fn a_dragonfly_goes_local_global_local() {
    // The largest one of groups of two switches with one global port each.
    let numbers = Dragonfly {
        groups: 3,
        switches_per_group: 2,
        nodes_per_switch: 1,
        global_links_per_switch: 1,
    };
    let dragonfly = Topology::dragonfly(numbers).unwrap();
    assert_eq!(dragonfly.links().len(), 2 * (6 + 3 + 3));
    // Port 1 of group 1 leads to group 2, port 2 to group 3; port 1 of group 2 to group 1.
    assert_eq!(way(&dragonfly, "n1", "n3"), ["n1", "g1s1", "g2s1", "n3"]);
    let expected = ["n2", "g1s2", "g1s1", "g2s1", "g2s2", "n4"];
    assert_eq!(way(&dragonfly, "n2", "n4"), expected);
    assert_eq!(way(&dragonfly, "n1", "n2"), ["n1", "g1s1", "g1s2", "n2"]);
    assert_eq!(dragonfly.distance(node(1), node(3)), Some(4));
}

#[test]
fn of_several_global_cables_one_on_a_shortest_way_is_taken() {
    // Two groups of three switches, each joined with each of the other group once: one cable leads
    // all the way.
    let numbers = Dragonfly {
        groups: 2,
        switches_per_group: 3,
        nodes_per_switch: 2,
        global_links_per_switch: 1,
    };
    let dragonfly = Topology::dragonfly(numbers).unwrap();
    for from in 1..=6 {
        for to in 7..=12 {
            let way = way(&dragonfly, &format!("n{from}"), &format!("n{to}"));
            let straight = (from - 1) / 2 == (to - 7) / 2;
            assert_eq!(way.len(), if straight { 4 } else { 5 }, "{way:?}");
        }
    }
}

#[test]
fn levels_that_are_given_stay_and_cables_across_count_once() {
    let levels = |a, b| {
        let of_level = |name, level| Switch {
            level,
            ..Switch::new(name)
        };
        let cables = [
            Cable::new(vertex(0), switch(0)),
            Cable::new(switch(0), switch(1)),
        ];
        let switches = vec![of_level("s", a), of_level("t", b)];
        let made = Topology::from_cables(vec![Node::new("x")], switches, &cables).unwrap();
        [0, 1].map(|s| made.switches()[s].level)
    };
    assert_eq!(levels(None, Some(7)), [Some(1), Some(7)]);
    assert_eq!(levels(Some(3), None), [Some(3), Some(2)]);
    let torus = Topology::torus(&[3, 3], true).unwrap().levels();
    assert_eq!((torus.len(), torus[0].across, torus[0].down), (1, 18, 9));
}

#[test]
fn many_ways_in_a_dragonfly_use_each_global_cable_of_the_two_groups() {
    let numbers = Dragonfly {
        groups: 3,
        switches_per_group: 4,
        nodes_per_switch: 2,
        global_links_per_switch: 2,
    };
    let dragonfly = Topology::dragonfly(numbers).unwrap();
    // 8 ports for 2 other groups: 4 cables each, one per switch.
    let split = shares(&dragonfly, "n1", "n9");
    let ends = split.iter().filter(|(name, _)| {
        let (from, to) = name.split_once(' ').unwrap();
        from.starts_with("g1") && to.starts_with("g2")
    });
    let global: Vec<f64> = ends.map(|(_, share)| *share).collect();
    assert_eq!(global, [0.25; 4]);
    assert_eq!(split["g1s1 g1s3"], 0.25);
    let route = dragonfly
        .routes(node(0), node(8), Routing::Multipath)
        .unwrap();
    assert_eq!(route.hops, 4);
    assert_eq!(dragonfly.distance(node(0), node(8)), Some(2));
}

#[test]
fn parts_that_nothing_joins_are_allowed_and_named_when_a_way_is_asked_for() {
    let cables = [
        Cable::new(vertex(0), switch(0)),
        Cable::new(vertex(1), switch(1)),
    ];
    let nodes = ["x", "y", "z"].map(Node::new).to_vec();
    let switches = vec![Switch::new("s"), Switch::new("t")];
    let parts = Topology::from_cables(nodes, switches, &cables).unwrap();
    for to in [1, 2] {
        for routing in [Routing::Deterministic, Routing::Multipath] {
            let error = parts.routes(node(0), node(to), routing).unwrap_err();
            let name = ["x", "y", "z"][to];
            let message = format!("find a route from x to {name}: no switches connect them");
            assert_eq!(error.to_string(), message);
        }
        assert_eq!(parts.distance(node(0), node(to)), None);
    }
    assert_eq!(parts.leaf_of(node(2)), None);
    for topology in [&parts, &Topology::torus(&[3], true).unwrap()] {
        assert_eq!(topology.distance(node(0), node(9)), None);
        assert_eq!(topology.distance(node(9), node(9)), None);
        assert_eq!(topology.distance(node(9), node(0)), None);
    }
    let far = parts.routes(node(0), node(9), Routing::Multipath);
    assert!(matches!(far, Err(TopologyError::NoSuch { index: 9, .. })));
}

#[test]
fn a_direct_cable_needs_no_switch() {
    let cables = [Cable::new(vertex(0), vertex(1))];
    let nodes = vec![Node::new("x"), Node::new("y")];
    let pair = Topology::from_cables(nodes, Vec::new(), &cables).unwrap();
    let route = pair
        .routes(node(1), node(0), Routing::Deterministic)
        .unwrap();
    assert_eq!(route.shares, [(LinkIndex::new(1), 1.0)]);
    assert_eq!((route.hops, pair.distance(node(1), node(0))), (0, Some(0)));
}

#[test]
fn a_node_with_two_ports_uses_the_one_that_is_nearer_or_both() {
    let cables = [
        Cable::new(vertex(0), switch(0)),
        Cable::new(vertex(0), switch(1)),
        Cable::new(vertex(1), switch(1)),
        Cable::new(vertex(2), switch(0)),
        Cable::new(vertex(2), switch(1)),
    ];
    let nodes = ["x", "y", "z"].map(Node::new).to_vec();
    let switches = vec![Switch::new("s"), Switch::new("t")];
    let rails = Topology::from_cables(nodes, switches, &cables).unwrap();
    assert_eq!(way(&rails, "x", "y"), ["x", "t", "y"]);
    assert_eq!(shares(&rails, "x", "z")["x s"], 0.5);
    assert_eq!(rails.leaf_of(node(0)), Some(SwitchIndex::new(0)));
}

#[test]
fn numbers_that_make_no_topology_are_refused_with_the_number() {
    let message = |made: Result<Topology, TopologyError>| made.unwrap_err().to_string();
    let none = "use 0 nodes: must be 1 to 1000000";
    assert_eq!(message(Topology::star(0)), none);
    let spines = FatTree {
        spines: 0,
        ..two_levels()
    };
    assert!(message(Topology::fat_tree(spines)).contains("use 0 spines"));
    let huge = FatTree {
        nodes_per_leaf: u32::MAX,
        leaves: u32::MAX,
        ..two_levels()
    };
    assert!(message(Topology::fat_tree(huge)).contains("nodes: must be 1 to 1000000"));
    assert!(message(Topology::hypercube(0, 1)).contains("use 0 dimensions"));
    assert!(message(Topology::hypercube(13, 1)).contains("use 13 dimensions"));
    assert!(message(Topology::torus(&[], true)).contains("use 0 dimensions"));
    assert!(message(Topology::torus(&[3, 0], true)).contains("use 0 switches"));
    let few = Dragonfly {
        groups: 6,
        switches_per_group: 2,
        nodes_per_switch: 1,
        global_links_per_switch: 2,
    };
    let few = message(Topology::dragonfly(few));
    assert!(few.contains("6 groups") && few.contains("4 global ports"));
    let of = |names: &[&str], cables: &[Cable]| {
        let nodes = names.iter().copied().map(Node::new).collect();
        message(Topology::from_cables(nodes, Vec::new(), cables))
    };
    assert!(of(&["x", "x"], &[]).contains("\"x\""));
    assert!(of(&["a b"], &[]).contains("\"a b\""));
    let same = [Cable::new(vertex(0), vertex(0))];
    assert_eq!(of(&["x"], &same), "join x with itself");
    let none = Cable {
        count: 0,
        ..Cable::new(vertex(0), vertex(1))
    };
    assert!(of(&["x", "y"], &[none]).contains("use 0 parallel cables"));
    let many = [Cable {
        count: 2049,
        ..none
    }; 2];
    assert!(of(&["x", "y"], &many).contains("use 4098 parallel cables"));
}

fn any_topology() -> impl Strategy<Value = Topology> {
    let tree = (
        1..5u32,
        1..5u32,
        1..4u32,
        1..3u32,
        0..3u32,
        1..3u32,
        1..3u32,
    );
    let tree = tree.prop_map(
        |(nodes_per_leaf, leaves, spines, cables_per_spine, pods, cores, top)| {
            let pods = (pods > 0).then_some(Pods {
                pods,
                cores_per_spine: cores,
                cables_per_core: top,
            });
            let numbers = FatTree {
                nodes_per_leaf,
                leaves,
                spines,
                cables_per_spine,
                pods,
            };
            Topology::fat_tree(numbers).unwrap()
        },
    );
    let torus = (prop::collection::vec(1..5u32, 1..4), any::<bool>(), 1..3u32)
        .prop_map(|(dims, wrap, nodes)| Topology::torus_of(&dims, wrap, nodes).unwrap());
    let cube = (1..6u32, 1..3u32).prop_map(|(d, nodes)| Topology::hypercube(d, nodes).unwrap());
    let dragonfly = (1..5u32, 1..4u32, 1..3u32, 1..3u32)
        .prop_filter("enough ports", |(g, a, _, h)| a * h + 1 >= *g)
        .prop_map(
            |(groups, switches_per_group, nodes_per_switch, global_links_per_switch)| {
                let numbers = Dragonfly {
                    groups,
                    switches_per_group,
                    nodes_per_switch,
                    global_links_per_switch,
                };
                Topology::dragonfly(numbers).unwrap()
            },
        );
    let joined = prop::collection::vec((0..8usize, 0..8usize, 1..3u32), 1..20);
    let graph = (2..8usize, 1..8usize, joined).prop_map(|(nodes, switches, joined)| {
        let at = |s| switch(s % switches);
        let mut cables: Vec<Cable> = (0..nodes)
            .map(|n| Cable::new(vertex(n), at(n * 3)))
            .collect();
        for (a, b, count) in joined {
            if at(a) != at(b) {
                cables.push(Cable {
                    count,
                    ..Cable::new(at(a), at(b))
                });
            }
        }
        let nodes = (0..nodes).map(|n| Node::new(format!("n{n}"))).collect();
        let switches = (0..switches)
            .map(|s| Switch::new(format!("s{s}")))
            .collect();
        Topology::from_cables(nodes, switches, &cables).unwrap()
    });
    prop_oneof![tree, torus, cube, dragonfly, graph]
}

proptest! {
    #[test]
    fn what_flows_into_a_switch_flows_out_and_the_way_is_as_long_as_hops_says(
        topology in any_topology(),
        pick in any::<[prop::sample::Index; 2]>(),
    ) {
        let [from, to] = pick.map(|i| node(i.index(topology.nodes().len())));
        prop_assert_eq!(topology.distance(to, from), topology.distance(from, to));
        let Some(distance) = topology.distance(from, to) else {
            prop_assert!(topology.routes(from, to, Routing::Multipath).is_err());
            return Ok(());
        };
        let one = topology.routes(from, to, Routing::Deterministic).unwrap();
        let all = topology.routes(from, to, Routing::Multipath).unwrap();
        prop_assert_eq!(one.hops, distance);
        prop_assert!(all.hops >= distance);
        if from != to {
            lawful(&topology, from, to, &one);
            lawful(&topology, from, to, &all);
            prop_assert_eq!(one.shares.len() as u32, distance + 1);
            let all: HashSet<_> = all.shares.iter().map(|(l, _)| *l).collect();
            prop_assert!(one.shares.iter().all(|(l, _)| all.contains(l)));
        }
    }

    #[test]
    fn each_link_has_its_opposite_beside_it(topology in any_topology()) {
        for (place, link) in topology.links().iter().enumerate() {
            let other = topology.links()[place ^ 1];
            prop_assert_eq!((other.from, other.to), (link.to, link.from));
            prop_assert_eq!(other.cables, link.cables);
            prop_assert_eq!(LinkIndex::new(place).opposite(), LinkIndex::new(place ^ 1));
            let found = topology.link_between(link.from, link.to);
            prop_assert_eq!(found, Some(LinkIndex::new(place)));
        }
    }

    #[test]
    fn distances_in_a_torus_are_those_of_any_graph_with_its_cables(
        dims in prop::collection::vec(1..5u32, 1..4),
        wrap in any::<bool>(),
    ) {
        let torus = Topology::torus(&dims, wrap).unwrap();
        let links = torus.links().iter().step_by(2);
        let cables: Vec<Cable> = links.map(|l| Cable::new(l.from, l.to)).collect();
        let (nodes, switches) = (torus.nodes().to_vec(), torus.switches().to_vec());
        let graph = Topology::from_cables(nodes, switches, &cables).unwrap();
        for to in torus.node_indices() {
            prop_assert_eq!(torus.distance(node(0), to), graph.distance(node(0), to));
        }
    }
}

#[test]
fn switches_of_tori_and_dragonflies_have_coordinates() {
    let at = |topology: &Topology, name: &str| match topology.vertex(name) {
        Some(Vertex::Switch(switch)) => topology.coordinates(switch),
        other => panic!("{other:?}"),
    };
    let torus = Topology::torus(&[4, 3, 2], true).unwrap();
    assert_eq!(at(&torus, "at-3-1-0"), [3, 1, 0]);
    assert_eq!(at(&torus, "at-0-2-1"), [0, 2, 1]);
    let dragonfly = Topology::dragonfly(Dragonfly {
        groups: 4,
        switches_per_group: 3,
        nodes_per_switch: 1,
        global_links_per_switch: 1,
    });
    assert_eq!(at(&dragonfly.unwrap(), "g3s2"), [1, 2]);
    assert!(at(&Topology::star(2).unwrap(), "switch1").is_empty());
}
