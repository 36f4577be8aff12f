//! Returned candidates, errors, and cases with a known best placement.

use super::*;
use crate::cases::case;
use crate::job::MemoryVerdict;
use crate::testing::{halo, program_of};
use idlewave_network::{NetworkParameters, Place};
use idlewave_simulate::Shape;
use idlewave_topology::{
    Cable, FatTree, MemoryDomain, Node, Routing, Switch, SwitchIndex, Topology, Vertex,
};
use idlewave_units::{Bytes, BytesPerSecond};
use proptest::prelude::*;
use std::collections::HashMap;

fn on(topology: Topology) -> Network {
    let parameters = NetworkParameters::assumed("test", 1e9);
    Network::new(topology, parameters, Routing::Deterministic).unwrap()
}

fn star(nodes: usize, cores: u32) -> Network {
    on(Topology::star(nodes).unwrap().with_cores(cores))
}

fn tree() -> Topology {
    let tree = FatTree {
        nodes_per_leaf: 4,
        leaves: 3,
        spines: 1,
        cables_per_spine: 1,
        pods: None,
    };
    let rate = BytesPerSecond::new(1e9).unwrap();
    Topology::fat_tree(tree)
        .unwrap()
        .with_cores(2)
        .with_capacity(rate)
}

fn ring(ranks: u32) -> Program {
    let next = |rank| (rank, (rank + 1) % ranks, 1_000_000);
    program_of(ranks, &(0..ranks).map(next).collect::<Vec<_>>(), 0)
}

#[test]
fn the_batch_systems_placement_comes_first_for_each_number_of_ranks_per_node() {
    let network = star(4, 4);
    let found = candidates(&network, &ring(6), &Job::default()).unwrap();
    let first = |k| found.iter().find(|c| c.ranks_per_node == k).unwrap();
    // One per node would take six nodes.
    assert_eq!(found.iter().map(|c| c.ranks_per_node).min(), Some(2));
    let places: Vec<usize> = first(4).places.iter().map(|p| p.node.get()).collect();
    assert_eq!(places, [0, 0, 0, 0, 1, 1]);
    assert_eq!(first(4).how.selection, Selection::First);
    assert_eq!(first(4).how.order, Order::Block);
    assert_eq!(first(2).nodes.len(), 3);
}

#[test]
fn local_ranks_take_turns_among_domains() {
    let mut topology = Topology::star(2).unwrap().with_cores(4);
    topology.update_nodes(|_, node| {
        node.domains = [2; 2]
            .map(|cores| MemoryDomain {
                cores,
                memory: None,
            })
            .to_vec();
    });
    let job = Job {
        ranks_per_node: vec![4],
        trials: 0,
        ..Job::default()
    };
    let found = candidates(&on(topology.clone()), &ring(6), &job).unwrap();
    let domains: Vec<u32> = found[0].places.iter().map(|p| p.domain).collect();
    assert_eq!(domains, [0, 1, 0, 1, 0, 1]);
    // A domain without free cores is skipped, in every order of ranks.
    topology.update_nodes(|_, node| (node.domains[0].cores, node.domains[1].cores) = (1, 3));
    let found = candidates(&on(topology), &ring(6), &job).unwrap();
    let domains: Vec<u32> = found[0].places.iter().map(|p| p.domain).collect();
    assert_eq!(domains, [0, 1, 1, 1, 0, 1]);
    for candidate in &found {
        for node in &candidate.nodes {
            let first = |p: &&Place| p.node == *node && p.domain == 0;
            assert!(candidate.places.iter().filter(first).count() <= 1);
        }
    }
}

#[test]
fn what_cannot_be_placed_is_said_with_numbers_and_names() {
    let refused =
        |network: &Network, job: &Job| candidates(network, &ring(9), job).unwrap_err().to_string();
    let all = Job::default();
    assert!(refused(&star(2, 4), &all).contains("9 ranks: the 2 available nodes have 8 cores"));
    let unknown = on(Topology::star(2).unwrap());
    assert!(refused(&unknown, &all).contains("n1") && refused(&unknown, &all).contains("--cores"));
    let mut busy = Topology::star(2).unwrap().with_cores(8);
    busy.update_nodes(|_, node| node.free = false);
    let busy = on(busy);
    assert!(refused(&busy, &all).contains("no node is free"));
    let named = Job {
        nodes: Some(vec![NodeIndex::new(1)]),
        ..Job::default()
    };
    assert!(refused(&busy, &named).contains("the 1 available nodes"));
    let beyond = Job {
        nodes: Some(vec![NodeIndex::new(2)]),
        ..Job::default()
    };
    assert!(refused(&busy, &beyond).contains("node 2"));
    let few = Job {
        max_nodes: Some(1),
        ..Job::default()
    };
    assert!(refused(&star(2, 8), &few).contains("at most 8 of them per node on at most 1 nodes"));
    let none = Job {
        ranks_per_node: vec![0],
        ..Job::default()
    };
    assert!(refused(&star(2, 8), &none).contains("0 ranks per node"));
    let five = Job {
        ranks_per_node: vec![20],
        ..Job::default()
    };
    assert!(candidates(&star(2, 8), &ring(9), &five).is_err());
}

#[test]
fn of_parts_that_nothing_joins_the_largest_is_taken() {
    let nodes: Vec<Node> = (0..5).map(|i| Node::new(format!("n{i}"))).collect();
    let leaf = |node: usize| SwitchIndex::new(usize::from(node >= 2));
    let cable = |node| {
        Cable::new(
            Vertex::Node(NodeIndex::new(node)),
            Vertex::Switch(leaf(node)),
        )
    };
    let cables: Vec<Cable> = (0..5).map(cable).collect();
    let switches = ["a", "b"].map(Switch::new).to_vec();
    let topology = Topology::from_cables(nodes, switches, &cables).unwrap();
    let network = on(topology.with_cores(4));
    let found = candidates(&network, &ring(12), &Job::default()).unwrap();
    assert!(!found.is_empty());
    for candidate in &found {
        assert!(
            candidate.nodes.iter().all(|n| n.get() >= 2),
            "{candidate:?}"
        );
    }
    let error = candidates(&network, &ring(13), &Job::default()).unwrap_err();
    let parts = PlaceError::Parted {
        ranks: 13,
        parts: 2,
        cores: 12,
    };
    assert_eq!(error, parts);
    // Six fit on the one part that is used, two per node, although there are ten places in all.
    let two = Job {
        ranks_per_node: vec![2],
        ..Job::default()
    };
    let error = candidates(&network, &ring(8), &two).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("at most 3 nodes, as only one of the 2 disconnected parts"),
        "{error}"
    );
    // Of two equally large parts the first is used.
    let even = Job {
        nodes: Some([0, 1, 3, 4].map(NodeIndex::new).to_vec()),
        ..Job::default()
    };
    for candidate in candidates(&network, &ring(8), &even).unwrap() {
        assert!(candidate.nodes.iter().all(|n| n.get() < 2), "{candidate:?}");
    }
    // If only one of the parts is allowed, it is the whole network.
    let first = Job {
        nodes: Some(vec![NodeIndex::new(0), NodeIndex::new(1)]),
        ..Job::default()
    };
    assert!(candidates(&network, &ring(8), &first).is_ok());
}

#[test]
fn memory_is_judged_per_node_and_unknown_where_nobody_told() {
    let gib = |n: u64| Bytes::new(n << 30);
    let told = star(2, 4).topology().clone().with_memory(gib(8));
    let verdict = |topology: &Topology, each, k| {
        let job = Job {
            ranks_per_node: vec![k],
            memory_per_rank: each,
            trials: 0,
            ..Job::default()
        };
        candidates(&on(topology.clone()), &ring(4), &job).unwrap()[0].memory
    };
    assert_eq!(verdict(&told, Some(gib(2)), 4), MemoryVerdict::Fits);
    let (node, needed, there) = (NodeIndex::new(0), gib(12), gib(8));
    assert_eq!(
        verdict(&told, Some(gib(3)), 4),
        MemoryVerdict::Exceeds {
            node,
            needed,
            there
        }
    );
    assert_eq!(verdict(&told, Some(gib(3)), 2), MemoryVerdict::Fits);
    assert_eq!(verdict(&told, None, 4), MemoryVerdict::Unknown);
    assert_eq!(
        verdict(star(2, 4).topology(), Some(gib(1)), 4),
        MemoryVerdict::Unknown
    );
}

#[test]
fn greedy_selection_leaves_the_leaf_that_others_load() {
    let mut topology = tree();
    // Free: two nodes on the first leaf, all of the second and third; a job within the second leaf
    // loads its first two nodes.
    topology.update_nodes(|n, node| node.free = !(2..4).contains(&n.get()));
    let mut network = on(topology);
    network
        .add_load(NodeIndex::new(4), NodeIndex::new(5), 0.9e9)
        .unwrap();
    network
        .add_load(NodeIndex::new(5), NodeIndex::new(4), 0.9e9)
        .unwrap();
    let job = Job {
        ranks_per_node: vec![2],
        trials: 0,
        ..Job::default()
    };
    let found = candidates(&network, &ring(8), &job).unwrap();
    let best = found
        .iter()
        .min_by(|a, b| a.bound_seconds.total_cmp(&b.bound_seconds))
        .unwrap();
    assert_eq!(best.how.selection, Selection::Greedy);
    assert!(
        best.nodes.iter().all(|n| ![4, 5].contains(&n.get())),
        "{:?}",
        best.nodes
    );
    assert!(best.bound_seconds < 0.5 * found[0].bound_seconds);
}

#[test]
fn a_tail_is_uneven_or_even_and_a_node_that_is_named_twice_is_there_once() {
    // Ten ranks in a ring: four on a node and two on the last one, or four, three, three.
    let mut slow = NetworkParameters::assumed("test", 1e9);
    slow.slow_down = vec![idlewave_network::SlowDown {
        ranks: 4,
        factor: idlewave_network::Quantity::stated(2.0),
    }];
    let topology = Topology::star(3).unwrap().with_cores(4);
    let network = Network::new(topology, slow, Routing::Deterministic).unwrap();
    let job = Job {
        ranks_per_node: vec![4],
        nodes: Some([2, 1, 1, 0, 2].map(NodeIndex::new).to_vec()),
        trials: 0,
        ..Job::default()
    };
    let found = candidates(&network, &ring(10), &job).unwrap();
    let counts = |c: &Candidate| {
        let on = |node| c.places.iter().filter(|p| p.node.get() == node).count();
        [0, 1, 2].map(on)
    };
    assert!(!found[0].how.even && counts(&found[0]) == [4, 4, 2]);
    let even = found.iter().find(|c| c.how.even).unwrap();
    assert_eq!(counts(even), [4, 3, 3]);
}

#[test]
fn ranks_that_were_numbered_at_random_are_brought_together() {
    // Eight cliques of four consecutive numbers, renumbered.
    let rank = |number: u32| (number * 13 + 5) % 32;
    let mut messages = Vec::new();
    for (a, b) in (0..32).flat_map(|a| (0..32).map(move |b| (a, b))) {
        if a != b && a / 4 == b / 4 {
            messages.push((rank(a), rank(b), 100_000));
        }
    }
    let program = program_of(32, &messages, 0);
    let job = Job {
        ranks_per_node: vec![4],
        trials: 0,
        ..Job::default()
    };
    let found = candidates(&star(8, 4), &program, &job).unwrap();
    let mapped = found.iter().find(|c| c.how.order == Order::Mapped).unwrap();
    let node = |number| mapped.places[rank(number) as usize].node;
    assert!((0..32).all(|number| node(number) == node(number / 4 * 4)));
}

#[test]
fn ranks_that_talk_to_each_other_are_mapped_to_one_leaf() {
    // Nodes of the two leaves alternate in the order of the topology.
    let nodes: Vec<Node> = (0..6).map(|i| Node::new(format!("n{i}"))).collect();
    let vertex = |switch| Vertex::Switch(SwitchIndex::new(switch));
    let mut cables: Vec<Cable> = (0..6)
        .map(|n| Cable::new(Vertex::Node(NodeIndex::new(n)), vertex(n % 2)))
        .collect();
    cables.push(Cable::new(vertex(0), vertex(1)));
    let switches = ["a", "b"].map(Switch::new).to_vec();
    let topology = Topology::from_cables(nodes, switches, &cables).unwrap();
    // Three nodes of two ranks on each leaf; ranks of one parity communicate.
    let pairs = (0..12).flat_map(|a| (0..12).map(move |b| (a, b)));
    let messages: Vec<_> = pairs
        .filter(|(a, b)| a != b && a % 2 == b % 2)
        .map(|(a, b)| (a, b, 100_000))
        .collect();
    let network = on(topology.with_cores(2));
    let ways = Ways::new(&network, 1.0, 12, 1);
    let layout = Layout {
        nodes: (0..6).map(NodeIndex::new).collect(),
        counts: vec![2; 6],
    };
    let program = program_of(12, &messages, 0);
    let at = map(&Traffic::new(&program), &ways, &layout);
    let leaf = |rank: usize| ways.node(at[rank]) % 2;
    assert!((0..12).all(|rank| leaf(rank) == leaf(rank % 2)), "{at:?}");
    assert_ne!(leaf(0), leaf(1));
}

#[test]
fn a_cube_in_blocks_of_eight_is_mapped_better_than_in_order() {
    let program = halo(Shape { x: 8, y: 8, z: 8 }, 100_000, 0);
    let job = Job {
        ranks_per_node: vec![8],
        trials: 0,
        ..Job::default()
    };
    let found = candidates(&star(64, 8), &program, &job).unwrap();
    let mapped = found.iter().find(|c| c.how.order == Order::Mapped).unwrap();
    // A line of eight has 34 neighbours or more outside, a cube of 2 x 2 x 2 has 24.
    assert!(mapped.bound_seconds < 0.8 * found[0].bound_seconds);
}

/// A ring whose neighbours are 13 rank numbers apart, and the node of each rank: eight nodes, each
/// with four consecutive members of the ring.
fn scattered_ring() -> (Program, Vec<u32>) {
    let rank = |number: u32| number * 13 % 32;
    let next = |number| (rank(number), rank((number + 1) % 32), 1_000_000);
    let program = program_of(32, &(0..32).map(next).collect::<Vec<_>>(), 0);
    let mut node_of = vec![0; 32];
    for number in 0..32 {
        node_of[rank(number) as usize] = number / 4;
    }
    (program, node_of)
}

#[test]
fn an_order_from_outside_is_judged_as_the_others_are() {
    let (program, node_of) = scattered_ring();
    let job = Job {
        ranks_per_node: vec![4],
        trials: 0,
        ..Job::default()
    };
    let network = star(8, 4);
    assert_eq!(layouts(&network, &program, &job), Ok(vec![vec![4; 8]]));
    let with = |node_of: &[u32]| {
        let mapping = Mapping::new(vec![4; 8], node_of.to_vec()).unwrap();
        candidates_with(&network, &program, &job, &[mapping]).unwrap()
    };
    let places = |found: &[Candidate]| -> Vec<usize> {
        let from = |c: &&Candidate| c.how.order == Order::Scotch;
        let found = found.iter().find(from).unwrap();
        found.places.iter().map(|p| p.node.get()).collect()
    };
    let good = with(&node_of);
    let wanted: Vec<usize> = node_of.iter().map(|&n| n as usize).collect();
    assert_eq!(places(&good), wanted);
    let best = |found: &[Candidate]| {
        found
            .iter()
            .map(|c| c.bound_seconds)
            .fold(f64::MAX, f64::min)
    };
    let own = candidates(&network, &program, &job).unwrap();
    assert!(best(&good) <= best(&own));
    assert!(good[1].how.order == Order::Scotch || best(&own) <= good[2].bound_seconds);
    // The worst one is reported as well, after all others.
    let apart: Vec<u32> = (0..32).map(|rank| (rank / 2 + rank % 2 * 3) % 8).collect();
    let bad = with(&apart);
    assert_eq!(bad[..bad.len() - 1], own);
    assert_eq!(bad.last().unwrap().how.order, Order::Scotch);
}

#[test]
fn layouts_are_those_that_are_tried() {
    // Ten ranks: by fours 4 4 2 or 4 3 3, by fives 5 5; with all on one node there is nothing to
    // map.
    let job = Job {
        ranks_per_node: vec![4, 5, 10],
        ..Job::default()
    };
    let sizes: Vec<Vec<u32>> = vec![vec![4, 3, 3], vec![4, 4, 2], vec![5, 5]];
    assert_eq!(layouts(&star(3, 10), &ring(10), &job), Ok(sizes.clone()));
    // An order for the even layout and none for the full one.
    let mapping = Mapping::new(sizes[0].clone(), vec![0, 0, 1, 1, 1, 2, 2, 2, 0, 0]).unwrap();
    let found = candidates_with(&star(3, 10), &ring(10), &job, &[mapping]).unwrap();
    let outside = |c: &&Candidate| c.how.order == Order::Scotch;
    let outside: Vec<&Candidate> = found.iter().filter(outside).collect();
    assert!(!outside.is_empty() && outside.iter().all(|c| c.how.even && c.ranks_per_node == 4));
    assert!(layouts(&star(2, 4), &ring(9), &job).is_err());
}

proptest! {
    #[test]
    fn candidates_are_placements_and_the_same_seed_gives_the_same(seed: u64) {
        let case = case(seed);
        let job = Job { trials: 300, seed, ..Job::default() };
        // Deals out ranks like cards, on full nodes or not.
        let dealt = layouts(&case.network, &case.program, &job).unwrap().into_iter().map(|sizes| {
            let nodes = sizes.len() as u32;
            let node_of = (0..case.program.ranks()).map(|rank| (rank + seed as u32 % 7) % nodes);
            Mapping::new(sizes, node_of.collect()).unwrap()
        });
        let dealt: Vec<Mapping> = dealt.collect();
        let with = || candidates_with(&case.network, &case.program, &job, &dealt).unwrap();
        let found = with();
        prop_assert_eq!(&found, &with());
        for candidate in &found {
            prop_assert_eq!(candidate.places.len() as u32, case.program.ranks());
            let mut slots: HashMap<_, u32> = HashMap::new();
            let mut ranks: HashMap<_, u32> = HashMap::new();
            for place in &candidate.places {
                prop_assert!(place.domain < case.network.domains(place.node));
                *slots.entry(*place).or_default() += 1;
                *ranks.entry(place.node).or_default() += 1;
            }
            prop_assert_eq!(ranks.values().max(), Some(&candidate.ranks_per_node));
            prop_assert!(candidate.ranks_per_node <= case.per_node);
            prop_assert_eq!(ranks.len(), candidate.nodes.len());
            prop_assert!(candidate.nodes.iter().all(|n| ranks.contains_key(n)));
            for (place, taken) in slots {
                let domains = &case.network.topology().nodes()[place.node.get()].domains;
                let has = domains.get(place.domain as usize).map_or(case.per_node, |d| d.cores);
                prop_assert!(taken <= has);
            }
        }
    }
}
