//! Chains computed by hand, and replays that are never shorter.

use super::*;
use crate::Use;
use crate::play::play;
use crate::stage::{Stage, Way};
use idlewave_simulate::goal::{Operation, ScheduleBuilder};
use proptest::prelude::*;

const LEAST: Least = Least {
    slow_down: 1.0,
    overhead_ns: 10,
    eager_limit: 1_000,
};

/// A byte per nanosecond, latency 100.
fn message(message: &Message) -> (u64, u64) {
    (message.bytes, 100)
}

/// Operations of each rank, each with the indices of the rank's operations that it waits for.
fn program(ranks: &[Vec<(Operation, Vec<usize>)>]) -> Program {
    let mut builder = ScheduleBuilder::new(ranks.len() as u32).unwrap();
    for operations in ranks {
        let mut ids = Vec::new();
        for (operation, after) in operations {
            let id = builder.push(*operation).unwrap();
            for &earlier in after {
                builder.requires(id, ids[earlier]).unwrap();
            }
            ids.push(id);
        }
        builder.end_rank().unwrap();
    }
    Program::new(&builder.finish().unwrap()).unwrap()
}

#[test]
fn a_message_is_work_overhead_transfer_latency_overhead_and_handshakes_where_it_is_long() {
    for (bytes, expected) in [
        (500, 1_000 + 10 + 500 + 100 + 10),
        (2_000, 1_000 + 10 + 200 + 2_000 + 100 + 10),
    ] {
        let program = program(&[
            vec![
                (Operation::calc(1_000), vec![]),
                (Operation::send(bytes, 1), vec![0]),
            ],
            vec![(Operation::recv(bytes, 0), vec![])],
        ]);
        assert_eq!(program.least_ns(LEAST, message), expected);
        let slow = Least {
            slow_down: 2.0,
            ..LEAST
        };
        assert_eq!(program.least_ns(slow, message), expected + 1_000);
    }
}

#[test]
fn a_cpu_does_one_thing_after_the_other() {
    let program = program(&[vec![
        (Operation::calc(70), vec![]),
        (Operation::calc(50), vec![]),
    ]]);
    assert_eq!(program.least_ns(LEAST, message), 120);
}

/// Two messages arrive at a rank. A long computation waits for one, a send for the other. The order
/// of arrival decides which of the two is delayed.
#[test]
fn a_faster_network_may_be_slower_but_never_below_the_bound() {
    let program = program(&[
        vec![(Operation::send(100, 2), vec![])],
        vec![
            (Operation::calc(50), vec![]),
            (Operation::send(10, 2), vec![0]),
        ],
        vec![
            (Operation::recv(100, 0), vec![]),
            (Operation::calc(10_000), vec![0]),
            (Operation::recv(10, 1), vec![]),
            (Operation::send(900, 3), vec![2]),
        ],
        vec![
            (Operation::recv(900, 2), vec![]),
            (Operation::calc(20_000), vec![0]),
        ],
    ]);
    let played = |first_ns: u64| {
        let way = |latency_ns| Way {
            uses: Vec::new(),
            limit: 1e9,
            latency_ns,
        };
        let stage = Stage {
            capacity: Vec::new(),
            ways: vec![way(first_ns), way(100)],
            way_of_message: program
                .messages()
                .iter()
                .map(|m| u32::from(m.from != 0))
                .collect(),
            slow_down: vec![1.0; 4],
            measured_with: 1,
            overhead_ns: 10,
            eager_limit: 1_000,
            slack: 0.0,
        };
        play(&program, &stage).makespan_ns()
    };
    let (fast, slow) = (played(0), played(500));
    assert!(fast > slow, "{fast} {slow}");
    let first_at_once = |m: &Message| (m.bytes, if m.from == 0 { 0 } else { 100 });
    assert!(program.least_ns(LEAST, first_at_once) <= slow);
}

proptest! {
    #[test]
    fn no_play_is_shorter(
        messages in prop::collection::vec((0u32..5, 1u32..5, 0u64..3_000, 0u64..500, any::<bool>()), 1..25),
        shared in prop::collection::vec(0u32..4, 25), slow in 1.0f64..3.0,
    ) {
        let mut ranks = vec![Vec::new(); 5];
        for &(from, by, bytes, ns, waits) in &messages {
            let to = ((from + by) % 5) as usize;
            let from = from as usize;
            let last = |rank: &Vec<(Operation, Vec<usize>)>| if waits { rank.len().checked_sub(1) } else { None };
            let after: Vec<usize> = last(&ranks[from]).into_iter().collect();
            ranks[from].push((Operation::calc(ns), after));
            let work = ranks[from].len() - 1;
            ranks[from].push((Operation::send(bytes, to as u32), vec![work]));
            ranks[to].push((Operation::recv(bytes, from as u32), vec![]));
        }
        let program = program(&ranks);
        let way = |&resource: &u32| Way {
            uses: vec![Use { resource, share: 1.0 }],
            limit: 1e9,
            latency_ns: 100 + u64::from(resource),
        };
        let stage = Stage {
            capacity: vec![5e8, 1e9, 2e9, 3e9],
            ways: shared.iter().map(way).collect(),
            way_of_message: (0..program.messages().len() as u32).collect(),
            slow_down: vec![slow, 1.0, 1.5, slow, 1.0],
            measured_with: 1,
            overhead_ns: 10,
            eager_limit: 1_000,
            slack: 0.0,
        };
        prop_assert!(play(&program, &stage).makespan_ns() >= program.least_ns(LEAST, message));
    }
}
