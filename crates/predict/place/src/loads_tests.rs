//! Loads computed by hand, and incrementally updated loads against loads from scratch.

use super::*;
use crate::cases::case;
use crate::random::Random;
use crate::testing::program_of;
use idlewave_network::{NetworkParameters, Quantity, SlowDown, play};
use idlewave_topology::{Routing, Topology};
use proptest::prelude::*;

fn parameters() -> NetworkParameters {
    let mut p = NetworkParameters::assumed("test", 1e9);
    p.overhead_ns = Quantity::stated(1_000.0);
    p.memory = Quantity::stated(4e9);
    p.inside.bandwidth = Quantity::stated(2e9);
    p.outside.bandwidth = Quantity::stated(0.5e9);
    p.outside.latency_ns = Quantity::stated(7_000.0);
    p.inside.latency_ns = Quantity::stated(300.0);
    p.slow_down = vec![SlowDown {
        ranks: 2,
        factor: Quantity::stated(1.5),
    }];
    p
}

#[test]
fn loads_are_bytes_over_capacity_and_ranks_compute_and_transfer() {
    let network = Network::new(
        Topology::star(2).unwrap(),
        parameters(),
        Routing::Deterministic,
    )
    .unwrap();
    // 3 MB within the first node; 5 MB in two messages out of it.
    let messages = [(0, 1, 3_000_000), (0, 2, 4_000_000), (1, 2, 1_000_000)];
    let program = program_of(3, &messages, 2_000_000);
    let traffic = Traffic::new(&program);
    let unit = unit(&network, &traffic);
    let mut ways = Ways::new(&network, unit, 3, 1);
    let mut loads = Loads::new(&traffic, &mut ways, vec![0, 0, 1]).unwrap();
    let objective = loads.objective();
    let near = |value: i64, seconds: f64| (value as f64 * unit / seconds - 1.0).abs() < 1e-9;
    // Memory 3 MB / 4 GB/s; out of one node and into the other 5 ms each.
    assert!(near(objective.peak, 5e-3));
    assert!(near(objective.total, 0.75e-3 + 2.0 * 5e-3));
    assert_eq!(objective.latency_ns, 300 + 2 * 7_000);
    // Rank 0: 2 ms x 1.5, two overheads, 4 MB at 0.5 GB/s.
    assert!(near(objective.bound, 3e-3 + 2e-6 + 8e-3));
    let alone = loads.shift(1, 1).unwrap();
    // Rank 2 now shares its node with rank 1, and the longest message goes to it.
    assert!(near(alone.peak, 7e-3) && near(alone.bound, 3e-3 + 2e-6 + 8e-3));
}

proptest! {
    #[test]
    fn changed_loads_are_those_from_scratch_and_a_way_back_leaves_no_trace(seed: u64, steps in 1usize..30) {
        let case = case(seed);
        let traffic = Traffic::new(&case.program);
        let ranks = case.program.ranks();
        let unit = unit(&case.network, &traffic);
        let mut random = Random::new(seed ^ 1);
        let mut ways = Ways::new(&case.network, unit, ranks, 1);
        let sites = case.network.topology().node_indices().map(|n| ways.cores(n).len()).sum::<usize>();
        let at: Vec<u32> = (0..ranks).map(|_| random.below(sites) as u32).collect();
        let mut loads = Loads::new(&traffic, &mut ways, at).unwrap();
        for _ in 0..steps {
            let before = (loads.objective(), loads.at.clone(), loads.way.clone(), loads.count.clone());
            let values = (loads.values().0.to_vec(), loads.values().1.to_vec());
            let rank = random.below(ranks as usize) as u32;
            let tried = match random.below(2) {
                0 => {
                    let other = (rank + 1 + random.below(ranks as usize - 1) as u32) % ranks;
                    loads.swap(rank, other).unwrap()
                }
                _ => loads.shift(rank, random.below(sites) as u32).unwrap(),
            };
            let mut own = Ways::new(&case.network, unit, ranks, 1);
            let mut scratch = Loads::new(&traffic, &mut own, loads.at.clone()).unwrap();
            prop_assert_eq!(tried, scratch.objective());
            prop_assert_eq!(loads.values(), scratch.values());
            if random.below(2) == 0 {
                loads.undo();
                prop_assert_eq!(loads.objective(), before.0);
                prop_assert_eq!(loads.values(), (&values.0[..], &values.1[..]));
                prop_assert_eq!((&loads.at, &loads.way, &loads.count), (&before.1, &before.2, &before.3));
            } else {
                loads.keep();
                prop_assert_eq!(loads.objective(), tried);
            }
        }
        let (sites, objective) = (loads.at.clone(), loads.objective());
        let turned: Vec<u32> = sites.iter().rev().copied().collect();
        loads.assign(&turned).unwrap();
        prop_assert_eq!(loads.assign(&sites).unwrap(), objective);
        loads.swap(0, 1).unwrap();
        loads.keep();
        prop_assert_eq!(loads.swap(0, 1).unwrap(), objective);
    }

    /// No replay is faster than the largest load of a resource.
    #[test]
    fn the_load_of_a_resource_is_a_bound(seed: u64) {
        let case = case(seed);
        let traffic = Traffic::new(&case.program);
        let unit = unit(&case.network, &traffic);
        let mut random = Random::new(seed ^ 2);
        let mut ways = Ways::new(&case.network, unit, case.program.ranks(), 1);
        let nodes = case.network.topology().nodes().len();
        let at: Vec<u32> = (0..case.program.ranks()).map(|_| random.below(nodes) as u32).collect();
        let places: Vec<_> = at.iter().map(|&site| ways.place(site)).collect();
        let mut loads = Loads::new(&traffic, &mut ways, at).unwrap();
        let peak = loads.objective().peak as f64 * unit;
        let stage = case.network.stage(&case.program, &places, 1).unwrap();
        let seconds = play(&case.program, &stage).makespan_ns() as f64 * 1e-9;
        prop_assert!(seconds >= peak * (1.0 - 1e-9) - 1e-9, "{} {}", seconds, peak);
    }
}
