//! Every state of small configurations, and random paths through larger ones: the invariants of
//! `search` hold in all.

use idlewave_gang::search::{Faults, Move, Shape, World, explore, walk};
use idlewave_units::Nanos;
use proptest::prelude::*;

const NONE: Faults = Faults {
    lose: 0,
    double: 0,
    late: 0,
    agent: 0,
    controller: 0,
    fail: 0,
    die: 0,
    leave: 0,
};

/// A chain or a star of nodes: the first gang, then a switch to the second that drains the network
/// of the first.
fn all_hold(nodes: u32, arity: u16, faults: Faults, at_least: u64) -> (u32, u32) {
    let mut shape = Shape::new(nodes, arity, &[(0, false), (1, true)]);
    shape.faults = faults;
    let found = explore(&shape, 3_000_000);
    println!(
        "{nodes} nodes, arity {arity}: {} states, {} moves, {} ends; most switches and aborts on a path {:?}; {faults:?}",
        found.states, found.moves, found.ends, found.over
    );
    assert_eq!(found.wrong, None);
    assert!(
        !found.cut && found.ends > 0 && found.states >= at_least,
        "{} states",
        found.states
    );
    found.over
}

#[test]
fn without_faults_both_switches_are_carried_out_and_none_is_aborted() {
    assert_eq!(all_hold(1, 1, NONE, 50), (2, 0));
    assert_eq!(all_hold(2, 1, NONE, 200), (2, 0));
    assert_eq!(all_hold(2, 2, NONE, 500), (2, 0));
    assert_eq!(all_hold(3, 3, NONE, 5_000), (2, 0));
}

#[test]
fn losing_doubling_and_delaying_messages_breaks_nothing() {
    for arity in [1, 2] {
        all_hold(2, arity, Faults { lose: 2, ..NONE }, 20_000);
    }
    all_hold(
        1,
        1,
        Faults {
            double: 1,
            late: 1,
            lose: 1,
            ..NONE
        },
        20_000,
    );
    all_hold(
        2,
        1,
        Faults {
            double: 1,
            late: 1,
            ..NONE
        },
        50_000,
    );
    all_hold(3, 3, Faults { lose: 1, ..NONE }, 50_000);
}

#[test]
fn crashes_of_agents_and_controllers_break_nothing() {
    all_hold(
        2,
        1,
        Faults {
            agent: 1,
            lose: 1,
            ..NONE
        },
        50_000,
    );
    all_hold(2, 2, Faults { agent: 1, ..NONE }, 5_000);
    for arity in [1, 2] {
        all_hold(
            2,
            arity,
            Faults {
                controller: 1,
                lose: arity as u8 - 1,
                ..NONE
            },
            5_000,
        );
    }
    all_hold(
        1,
        1,
        Faults {
            controller: 1,
            agent: 1,
            ..NONE
        },
        10_000,
    );
}

#[test]
fn what_fails_dies_or_leaves_on_a_node_breaks_nothing() {
    let mut aborts = 0;
    for arity in [1, 2] {
        aborts += all_hold(2, arity, Faults { fail: 1, ..NONE }, 5_000).1;
        aborts += all_hold(2, arity, Faults { leave: 1, ..NONE }, 5_000).1;
    }
    aborts += all_hold(2, 1, Faults { die: 1, ..NONE }, 20_000).1;
    assert!(aborts > 0);
}

#[test]
fn where_messages_take_a_tick_or_none_everything_holds_too() {
    let mut shape = Shape::new(2, 1, &[(0, true)]);
    shape.delay = 1;
    shape.settings.hop = Nanos::from_nanos(2);
    shape.faults = Faults { lose: 1, ..NONE };
    let found = explore(&shape, 50_000);
    println!("{} states, cut: {}", found.states, found.cut);
    assert_eq!(found.wrong, None);
}

/// A larger configuration with slow messages, late timers and clocks that differ.
fn large(nodes: u32, arity: u16, offsets: Vec<u64>, faults: Faults) -> Shape {
    let tick = Nanos::from_nanos;
    let mut shape = Shape::new(
        nodes,
        arity,
        &[(0, false), (1, true), (0, true), (1, false)],
    );
    shape.settings.lease = tick(60);
    // Clocks differ by 3 at most, timers are 2 late, thawing takes 2.
    shape.settings.margin = tick(8);
    shape.settings.repeat = tick(8);
    shape.settings.limit = tick(45);
    shape.settings.hop = tick(4);
    shape.settings.beat = tick(15);
    shape.delay = 2;
    shape.lateness = 2;
    shape.offsets = offsets;
    shape.window = 300;
    shape.horizon = 700;
    shape.faults = faults;
    shape
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_schedule_of_up_to_nine_nodes_ends_thawed_and_in_step(
        nodes in 1_u32..10,
        arity in 1_u16..9,
        offsets in prop::collection::vec(0_u64..4, 10),
        counts in prop::array::uniform8(0_u8..4),
        seed: u64,
        fault in 0.0..0.2,
    ) {
        let [lose, double, late, agent, controller, fail, die, leave] = counts;
        let faults = Faults {
            lose: lose * 5, double: double * 3, late: late * 2, agent: agent / 2,
            controller: controller / 2, fail, die: die / 2, leave: leave / 3,
        };
        let end = walk(&large(nodes, arity, offsets, faults), seed, fault);
        if let Err((wrong, steps)) = end {
            return Err(TestCaseError::fail(format!("{wrong} after {} moves", steps.len())));
        }
    }
}

#[test]
fn hundreds_of_random_schedules_end_thawed_and_in_step() {
    for seed in 0..500_u64 {
        let part = |shift: u32| (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> shift) as u8;
        let faults = Faults {
            lose: part(5) % 12,
            double: part(9) % 6,
            late: part(13) % 4,
            agent: part(17) % 3,
            controller: part(21) % 2,
            fail: part(25) % 4,
            die: part(29) % 3,
            leave: part(33) % 2,
        };
        let offsets = (0..10).map(|i| u64::from(part(i * 5)) % 4).collect();
        let (nodes, arity) = (1 + u32::from(part(40)) % 9, 1 + u16::from(part(45)) % 8);
        let fault = f64::from(part(50)) / 1_280.0;
        if let Err((wrong, steps)) = walk(&large(nodes, arity, offsets, faults), seed, fault) {
            panic!(
                "seed {seed}: {wrong} after {} moves, {faults:?}",
                steps.len()
            );
        }
    }
}

#[test]
fn without_faults_a_random_schedule_carries_out_every_switch() {
    for (seed, arity) in [(1, 1), (2, 2), (3, 8)] {
        let world = walk(&large(9, arity, vec![0, 3, 1, 2, 0, 0, 3], NONE), seed, 0.0).unwrap();
        assert_eq!(world.over(), (4, 0), "arity {arity}");
    }
}

#[test]
fn a_node_that_never_answers_aborts_the_switch_and_not_the_next() {
    let shape = Shape::new(2, 2, &[(0, false), (1, false), (0, false)]);
    let mut shape = shape;
    shape.faults = Faults { agent: 1, ..NONE };
    let mut world = World::new(&shape);
    world.apply(Move::CrashAgent(1, false)).unwrap();
    for _ in 0..500 {
        let step = world.moves().into_iter().find(|m| !m.fault()).unwrap();
        world.apply(step).unwrap();
    }
    assert_eq!(world.over(), (2, 1));
}
