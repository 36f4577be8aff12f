//! Bounds computed by hand, and replays of all placements, none of which is faster.

use super::*;
use crate::cases::case;
use crate::testing::program_of;
use crate::{Job, candidates};
use idlewave_network::{NetworkParameters, Quantity, SlowDown, play};
use idlewave_topology::{Routing, Topology};
use proptest::prelude::*;

fn parameters() -> NetworkParameters {
    let mut p = NetworkParameters::assumed("test", 1e9);
    p.overhead_ns = Quantity::stated(0.0);
    p.inside.latency_ns = Quantity::stated(200.0);
    p.outside.latency_ns = Quantity::stated(1_000.0);
    p.eager_limit = u64::MAX;
    p
}

fn bound(
    parameters: NetworkParameters,
    program: &Program,
    per_node: u32,
    nodes: usize,
) -> LowerBound {
    let topology = Topology::star(nodes).unwrap();
    let network = Network::new(topology, parameters, Routing::Deterministic).unwrap();
    let all: Vec<NodeIndex> = network.topology().node_indices().collect();
    lower_bound(&network, program, &all, per_node, nodes, 1)
}

#[test]
fn all_but_the_heaviest_partners_are_left_to_the_cables() {
    // All send 1 MB to each of three others.
    let all = (0..4).flat_map(|a| {
        (0..4)
            .filter(move |b| *b != a)
            .map(move |b| (a, b, 1_000_000))
    });
    let program = program_of(4, &all.collect::<Vec<_>>(), 0);
    let volume = |k, n| bound(parameters(), &program, k, n).volume_seconds;
    assert!((volume(1, 4) - 3e-3).abs() < 1e-8);
    assert!((volume(2, 2) - 4e-3).abs() < 1e-8);
    assert_eq!(volume(4, 1), 0.0);
    // Two of three nodes: the third one's cable does not help.
    let network = Network::new(
        Topology::star(3).unwrap(),
        parameters(),
        Routing::Deterministic,
    )
    .unwrap();
    let all: Vec<NodeIndex> = network.topology().node_indices().collect();
    let two = lower_bound(&network, &program, &all, 2, 2, 1).volume_seconds;
    assert!((two - 4e-3).abs() < 1e-8);
}

#[test]
fn a_chain_takes_the_cheaper_way_and_the_least_slow_down() {
    let program = program_of(2, &[(0, 1, 4_000_000)], 1_000_000);
    let mut slow = parameters();
    slow.slow_down = vec![SlowDown {
        ranks: 2,
        factor: Quantity::stated(3.0),
    }];
    let chain = |k, n| bound(slow.clone(), &program, k, n).chain_seconds;
    // One node each: 1 ms, 4 MB at 1 GB/s, 1 us. One node: 3 ms, at 4 GB/s, 200 ns.
    assert!((chain(1, 2) - 5.001e-3).abs() < 1e-8);
    assert!((chain(2, 1) - 4.0002e-3).abs() < 1e-8);
    // Unknown which: the best of each.
    assert!((chain(2, 2) - 2.0002e-3).abs() < 1e-8);
}

proptest! {
    #[test]
    fn no_placement_is_played_faster(seed: u64) {
        let case = case(seed);
        let ranks = case.program.ranks();
        let nodes: Vec<NodeIndex> = case.network.topology().node_indices().collect();
        let job = Job { trials: 50, seed, ..Job::default() };
        for candidate in candidates(&case.network, &case.program, &job).unwrap() {
            let k = candidate.ranks_per_node;
            let stage = case.network.stage(&case.program, &candidate.places, 1).unwrap();
            let played = play(&case.program, &stage).makespan_ns() as f64 * 1e-9;
            let count = ranks.div_ceil(k) as usize;
            let bound = lower_bound(&case.network, &case.program, &nodes, k, count.max(candidate.nodes.len()), 1);
            prop_assert!(played >= bound.seconds(), "{} {:?} {:?}", played, bound, candidate);
        }
    }
}
