//! Cases computed by hand, and invariants of every program.

use super::*;
use crate::maxmin::Use;
use crate::path::Held;
use crate::stage::Way;
use idlewave_simulate::goal::{Operation, Schedule, ScheduleBuilder};
use proptest::prelude::*;

/// Ranks given by their operations, each of which waits for the previous one.
fn in_order(ranks: &[&[Operation]]) -> Schedule {
    let mut builder = ScheduleBuilder::new(ranks.len() as u32).unwrap();
    for operations in ranks {
        let mut last = None;
        for operation in *operations {
            let id = builder.push(*operation).unwrap();
            if let Some(last) = last {
                builder.requires(id, last).unwrap();
            }
            last = Some(id);
        }
        builder.end_rank().unwrap();
    }
    builder.finish().unwrap()
}

/// Every rank on its own node, with an adapter of 1 byte per nanosecond each way, latency 100,
/// overhead 10, eager limit 1000.
fn nodes(program: &Program) -> Stage {
    let ranks = program.ranks();
    let mut stage = Stage {
        capacity: vec![1e9; 2 * ranks as usize],
        ways: Vec::new(),
        way_of_message: Vec::new(),
        slow_down: vec![1.0; ranks as usize],
        measured_with: 1,
        overhead_ns: 10,
        eager_limit: 1_000,
        slack: 0.0,
    };
    for message in program.messages() {
        let out = Use {
            resource: 2 * message.from,
            share: 1.0,
        };
        let into = Use {
            resource: 2 * message.to + 1,
            share: 1.0,
        };
        stage.way_of_message.push(stage.ways.len() as u32);
        stage.ways.push(Way {
            uses: vec![out, into],
            limit: f64::INFINITY,
            latency_ns: 100,
        });
    }
    stage
}

fn played(ranks: &[&[Operation]]) -> (Program, Stage, Played) {
    let program = Program::new(&in_order(ranks)).unwrap();
    let stage = nodes(&program);
    let played = play(&program, &stage);
    let parts = played.critical_path(&program, &stage);
    assert_eq!(parts.total_ns(), played.makespan_ns(), "{parts:?}");
    (program, stage, played)
}

fn send(bytes: u64, to: u32) -> Operation {
    Operation::send(bytes, to)
}

fn recv(bytes: u64, from: u32) -> Operation {
    Operation::recv(bytes, from)
}

fn calc(ns: u64) -> Operation {
    Operation::calc(ns)
}

#[test]
fn ranks_begin_when_they_are_told_to() {
    // Rank 0 sends 100 bytes: overhead 10, latency 100, 100 bytes, overhead 10.
    let schedule = in_order(&[&[Operation::send(100, 1)], &[Operation::recv(100, 0)]]);
    let program = Program::new(&schedule).unwrap();
    let stage = nodes(&program);
    assert_eq!(play_from(&program, &stage, &[500, 0]).finish_ns, [510, 720]);
    assert_eq!(play_from(&program, &stage, &[0, 900]).finish_ns, [10, 910]);
    assert_eq!(play(&program, &stage).finish_ns, [10, 220]);
}

#[test]
fn a_short_message_takes_overhead_transfer_latency_overhead() {
    let (program, stage, played) =
        played(&[&[calc(1_000), send(500, 1), calc(7)], &[recv(500, 0)]]);
    // The sender continues at once: 1000 + 10 + 7. The receiver ends at 1010 + 500 + 100 + 10.
    assert_eq!(played.finish_ns, [1_017, 1_620]);
    let parts = played.critical_path(&program, &stage);
    assert_eq!(
        (parts.compute_ns, parts.overhead_ns, parts.last_rank),
        (1_000, 20, 1)
    );
    assert_eq!(
        parts.latency_ns.values().copied().collect::<Vec<_>>(),
        [100]
    );
    // Both adapters are full; the lower number is reported.
    assert_eq!(parts.transfer_ns[&(0, Held::Shared(0))], 500);
}

#[test]
fn a_long_message_waits_for_its_receive_and_its_sender_for_its_end() {
    // Sent at 10, known at 110; posted at 500: flows from 600 to 2600.
    let (_, _, late) = played(&[&[send(2_000, 1), calc(5)], &[calc(500), recv(2_000, 0)]]);
    assert_eq!(late.finish_ns, [2_605, 2_710]);
    // Posted at once: known at 110, answered at 210.
    let (program, stage, early) = played(&[&[send(2_000, 1)], &[recv(2_000, 0)]]);
    assert_eq!(early.finish_ns, [2_210, 2_320]);
    let parts = early.critical_path(&program, &stage);
    assert_eq!(parts.latency_ns.values().sum::<u64>(), 300);
    // Posted at 60, before it is known: the handshake starts from the send.
    let (_, _, between) = played(&[&[send(2_000, 1)], &[calc(60), recv(2_000, 0)]]);
    assert_eq!(between.finish_ns, [2_210, 2_320]);
}

#[test]
fn a_message_that_was_there_before_is_taken_at_once() {
    let (_, _, played) = played(&[&[send(8, 1)], &[calc(10_000), recv(8, 0)]]);
    assert_eq!(played.finish_ns, [10, 10_010]);
}

#[test]
fn k_senders_to_one_share_its_adapter() {
    for k in [1_u32, 2, 5] {
        let senders: Vec<Vec<Operation>> = (0..k).map(|_| vec![send(900, k)]).collect();
        let receives: Vec<Operation> = (0..k).map(|from| recv(900, from)).collect();
        let mut ranks: Vec<&[Operation]> = senders.iter().map(Vec::as_slice).collect();
        ranks.push(&receives);
        let (_, _, played) = played(&ranks);
        // All arrive together; the receiver handles them one after the other.
        let expected = 10 + 900 * u64::from(k) + 100 + 10 * u64::from(k);
        assert_eq!(played.finish_ns[k as usize], expected);
    }
}

#[test]
fn directions_do_not_share_and_slow_ranks_compute_longer() {
    let (program, mut stage, both) =
        played(&[&[send(800, 1), recv(800, 1)], &[send(800, 0), recv(800, 0)]]);
    assert_eq!(both.finish_ns, [920, 920]);
    stage.slow_down = vec![1.0, 2.5];
    assert_eq!(play(&program, &stage), both.clone());
    let (program, mut stage, _) = played(&[&[calc(100)], &[calc(100)]]);
    stage.slow_down = vec![1.0, 2.5];
    assert_eq!(play(&program, &stage).finish_ns, [100, 250]);
}

impl PartialEq for Played {
    fn eq(&self, other: &Self) -> bool {
        self.finish_ns == other.finish_ns && self.end_ns == other.end_ns
    }
}

#[test]
fn what_waits_for_a_start_does_not_wait_for_the_end() {
    let mut builder = ScheduleBuilder::new(2).unwrap();
    let receive = builder.push(recv(100, 1)).unwrap();
    let beside = builder.push(calc(50)).unwrap();
    builder.irequires(beside, receive).unwrap();
    builder.end_rank().unwrap();
    let before = builder.push(calc(1_000)).unwrap();
    let sent = builder.push(send(100, 0)).unwrap();
    builder.requires(sent, before).unwrap();
    let after = builder.push(calc(3)).unwrap();
    builder.irequires(after, sent).unwrap();
    builder.end_rank().unwrap();
    let program = Program::new(&builder.finish().unwrap()).unwrap();
    let stage = nodes(&program);
    let played = play(&program, &stage);
    assert_eq!(played.end_ns, [1_220, 50, 1_000, 1_010, 1_013]);
    assert_eq!(played.critical_path(&program, &stage).total_ns(), 1_220);
}

#[test]
fn operations_that_wait_for_nothing_take_turns_on_their_cpu() {
    let mut builder = ScheduleBuilder::new(2).unwrap();
    builder.push(calc(100)).unwrap();
    builder.push(calc(50)).unwrap();
    builder.push(send(20, 1)).unwrap();
    builder.end_rank().unwrap();
    builder.push(recv(20, 0)).unwrap();
    builder.push(calc(400)).unwrap();
    builder.end_rank().unwrap();
    let program = Program::new(&builder.finish().unwrap()).unwrap();
    let stage = nodes(&program);
    let played = play(&program, &stage);
    // Sent at 160, arrived at 280, received when the CPU is free.
    assert_eq!(played.finish_ns, [160, 410]);
    let parts = played.critical_path(&program, &stage);
    assert_eq!((parts.compute_ns, parts.overhead_ns), (400, 10));
    assert_eq!(parts.total_ns(), 410);
}

#[test]
fn programs_that_cannot_be_played_are_named() {
    let refused = |ranks: &[&[Operation]]| Program::new(&in_order(ranks)).unwrap_err().to_string();
    let any = Operation::recv(8, None);
    assert!(refused(&[&[send(8, 1)], &[any]]).contains("rank 1 receives from any"));
    assert!(
        refused(&[&[send(8, 1)], &[]])
            .contains("rank 0 sends 1 messages of tag 0 to rank 1, which receives 0")
    );
}

#[test]
fn ranks_that_wait_for_each_other_are_stuck() {
    let stuck = |ranks: &[&[Operation]]| {
        let program = Program::new(&in_order(ranks)).unwrap();
        play(&program, &nodes(&program)).stuck
    };
    let met = stuck(&[&[send(1, 1), recv(1, 1)], &[recv(1, 0), send(1, 0)]]);
    assert_eq!(met, None);
    // Both receive before they send.
    let takers: [&[Operation]; 3] = [
        &[calc(5)],
        &[recv(1, 2), send(1, 2)],
        &[recv(1, 1), send(1, 1)],
    ];
    assert_eq!(stuck(&takers), Some(1));
    // Both send messages that wait for their receives; short ones do not.
    let senders = |bytes| {
        stuck(&[
            &[send(bytes, 1), recv(bytes, 1)],
            &[send(bytes, 0), recv(bytes, 0)],
        ])
    };
    assert_eq!(senders(1_001), Some(0));
    assert_eq!(senders(1_000), None);
}

fn programs() -> impl Strategy<Value = (u32, Vec<(u32, u32, u64, u64)>)> {
    (2_u32..6).prop_flat_map(|ranks| {
        let one = (0..ranks, 1..ranks, 0_u64..3_000, 0_u64..500);
        (Just(ranks), prop::collection::vec(one, 1..25))
    })
}

fn program((ranks, messages): &(u32, Vec<(u32, u32, u64, u64)>)) -> Program {
    let mut of: Vec<Vec<Operation>> = vec![Vec::new(); *ranks as usize];
    for &(from, by, bytes, ns) in messages {
        let to = (from + by) % ranks;
        of[from as usize].extend([calc(ns), send(bytes, to)]);
        of[to as usize].push(recv(bytes, from));
    }
    let of: Vec<&[Operation]> = of.iter().map(Vec::as_slice).collect();
    Program::new(&in_order(&of)).unwrap()
}

proptest! {
    #[test]
    fn the_parts_of_the_critical_path_are_the_finish_time(case in programs()) {
        let program = program(&case);
        let stage = nodes(&program);
        let played = play(&program, &stage);
        let parts = played.critical_path(&program, &stage);
        prop_assert_eq!(parts.total_ns(), played.makespan_ns());
    }

    /// No operation ends before what it depends on, and every byte takes its time.
    #[test]
    fn nothing_happens_before_its_cause(case in programs()) {
        let program = program(&case);
        let stage = nodes(&program);
        let played = play(&program, &stage);
        for (message, journey) in program.messages().iter().zip(&played.journeys) {
            prop_assert!(journey.begin_ns >= played.end_ns[message.send as usize]);
            prop_assert!(journey.end_ns >= journey.begin_ns + message.bytes);
            prop_assert!(played.end_ns[message.receive as usize] >= journey.end_ns + 110);
        }
        for w in program.ranks.windows(2) {
            for step in w[0]..w[1] {
                for &(later, _) in program.waiting_for(step) {
                    prop_assert!(played.begin_ns[later as usize] >= played.end_ns[step as usize]);
                }
            }
        }
    }

    /// Time scales with everything that takes time.
    #[test]
    fn twice_the_bandwidth_and_half_of_everything_else_is_half_the_time(case in programs()) {
        let doubled = (case.0, case.1.iter().map(|&(f, b, bytes, ns)| (f, b, bytes, 2 * ns)).collect());
        let (fast, slow) = (program(&case), program(&doubled));
        let mut half = nodes(&slow);
        half.capacity.iter_mut().for_each(|c| *c /= 2.0);
        half.overhead_ns *= 2;
        half.ways.iter_mut().for_each(|w| w.latency_ns *= 2);
        let (a, b) = (play(&fast, &nodes(&fast)), play(&slow, &half));
        for (a, b) in a.finish_ns.iter().zip(&b.finish_ns) {
            // Each message's end is rounded up to a nanosecond.
            prop_assert!(a * 2 + 2 >= *b && a * 2 <= b + 2 * case.1.len() as u64 + 2, "{a} {b}");
        }
    }
}
