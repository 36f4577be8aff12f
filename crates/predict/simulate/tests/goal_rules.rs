//! The LogGOPS engine against hand arithmetic: one case for every rule of docs/simulate.md.

#![allow(clippy::unwrap_used)]

use idlewave_simulate::goal::{GoalError, Parameters, PerByte, Schedule, simulate};
use idlewave_units::{Bytes, Nanos};

/// Numbers that are easy to add: o 10, L 100, nothing else; only sends of more than 1000 bytes
/// wait.
fn plain() -> Parameters {
    Parameters {
        latency: Nanos::from_nanos(100),
        overhead: Nanos::from_nanos(10),
        gap: Nanos::ZERO,
        gap_per_byte: PerByte::ZERO,
        overhead_per_byte: PerByte::ZERO,
        rendezvous: Bytes::new(1_000),
    }
}

/// A schedule of these ranks; semicolons separate operations.
fn schedule(ranks: &[&str]) -> Schedule {
    let mut text = format!("num_ranks {}\n", ranks.len());
    for (rank, operations) in ranks.iter().enumerate() {
        text += &format!("rank {rank} {{\n{}\n}}\n", operations.replace(';', "\n"));
    }
    text.parse().unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[track_caller]
fn finish(parameters: Parameters, ranks: &[&str], expected: &[u64]) {
    let outcome = simulate(&schedule(ranks), &parameters).unwrap();
    assert_eq!(outcome.finish_ns, expected);
}

#[test]
fn a_message_costs_latency_two_overheads_and_its_bytes_but_the_first() {
    let defaults = Parameters::default();
    // 1500 + 2500 + 1500 + 1023 * 6
    finish(
        defaults,
        &["send 1024b to 1", "recv 1024b from 0"],
        &[1_500, 11_638],
    );
    // An empty message has no byte after the first: it does not pay for -1 bytes.
    finish(
        defaults,
        &["send 0b to 1", "recv 0b from 0"],
        &[1_500, 5_500],
    );
    finish(
        defaults,
        &["send 1b to 1", "recv 1b from 0"],
        &[1_500, 5_500],
    );
}

#[test]
fn the_documented_ping_pong_ends_as_by_hand() {
    let text = include_str!("../../../../docs/examples/pingpong.goal");
    let outcome = simulate(&text.parse().unwrap(), &Parameters::default()).unwrap();
    // Rank 1: 10000 + 11638 for the message, 2000, 1500 for the send. Rank 0: 23638 + 11638 and
    // 500.
    assert_eq!(outcome.finish_ns, [35_776, 25_138]);
    assert_eq!((outcome.operations, outcome.messages), (7, 2));
    assert_eq!(outcome.bytes, Some(2_048));
    assert_eq!(outcome.slowest(1), [(0, 35_776)]);
}

#[test]
fn overhead_takes_the_cpu_on_both_sides() {
    // Sends at 0 and 10; messages arrive at 110 and 120, received by 120 and 130.
    let two = ["send 1b to 1;send 1b to 1", "recv 1b from 0;recv 1b from 0"];
    finish(plain(), &two, &[20, 130]);
    // The message that arrives at 110 waits for the work until 500.
    finish(
        plain(),
        &["send 1b to 1", "recv 1b from 0;calc 500"],
        &[10, 510],
    );
}

#[test]
fn gap_separates_messages_on_each_side_of_a_nic() {
    let gap = Parameters {
        gap: Nanos::from_nanos(25),
        ..plain()
    };
    // Sends at 0 and 25; messages arrive at 110 and 135.
    let two = ["send 1b to 1;send 1b to 1", "recv 1b from 0;recv 1b from 0"];
    finish(gap, &two, &[35, 145]);
    // Both arrive at 110: one is received then, the other at 135.
    let both = [
        "send 1b to 2",
        "send 1b to 2",
        "recv 1b from 0;recv 1b from 1",
    ];
    finish(gap, &both, &[10, 10, 145]);
    finish(plain(), &both, &[10, 10, 130]);
    // The two sides of a NIC do not wait for each other: rank 1 sends at 120, once it has received
    // the message of 110.
    let answer = [
        "send 1b to 1;recv 1b from 1",
        "r: recv 1b from 0;s: send 1b to 0;s requires r",
    ];
    finish(gap, &answer, &[240, 130]);
}

#[test]
fn bytes_keep_the_nic_of_the_sender_and_nic_and_cpu_of_the_receiver() {
    let per_byte = Parameters {
        gap_per_byte: PerByte::from_nanos(2),
        ..plain()
    };
    // 100 * 2: the second send at 200. Messages arrive at 110 and 310, received by 320 and 530.
    let two = [
        "send 101b to 1;send 101b to 1",
        "recv 101b from 0;recv 101b from 0",
    ];
    finish(per_byte, &two, &[210, 530]);
    // The sender's work continues at 10, the receiver's, which needs the message, at 320.
    let work = [
        "s: send 101b to 1;c: calc 50;c requires s",
        "r: recv 101b from 0;c: calc 50;c requires r",
    ];
    finish(per_byte, &work, &[60, 370]);
}

#[test]
fn bytes_may_cost_less_than_a_nanosecond() {
    let fast = Parameters {
        gap_per_byte: "0.04".parse().unwrap(),
        ..plain()
    };
    // 1023 * 0.04 = 40.92 rounds once, to 41; 12 * 0.04 = 0.48 rounds to 0.
    finish(
        Parameters {
            rendezvous: Bytes::new(65_535),
            ..fast
        },
        &["send 1024b to 1", "recv 1024b from 0"],
        &[10, 161],
    );
    finish(fast, &["send 13b to 1", "recv 13b from 0"], &[10, 120]);
    // The sending side rounds the same way: 39.96 to 40.
    let two = [
        "send 1000b to 1;send 1000b to 1",
        "recv 1b from 0;recv 1b from 0",
    ];
    // 999 * 0.04 = 39.96: sends at 0 and 40; messages arrive at 110 and 150, received by 160 and
    // 210.
    finish(fast, &two, &[50, 210]);
}

#[test]
fn overhead_per_byte_keeps_the_senders_cpu_and_the_receivers_where_it_is_the_longer() {
    let costly = Parameters {
        overhead_per_byte: PerByte::from_nanos(3),
        ..plain()
    };
    // The first byte leaves after o whatever O is: it arrives at 110.
    finish(costly, &["send 101b to 1", "recv 101b from 0"], &[310, 420]);
    let both = Parameters {
        gap_per_byte: PerByte::from_nanos(5),
        ..costly
    };
    finish(both, &["send 101b to 1", "recv 101b from 0"], &[310, 620]);
}

#[test]
fn the_sender_of_a_long_message_waits_for_its_receive() {
    let short = Parameters {
        rendezvous: Bytes::new(10),
        ..plain()
    };
    let send = |bytes: u32| format!("s: send {bytes}b to 1;c: calc 5;c requires s");
    // The receive is posted at 0 and met at 110.
    for (bytes, sender) in [(10, 15), (11, 115)] {
        finish(short, &[&send(bytes), "recv 1b from 0"], &[sender, 120]);
    }
    // The receive is posted at 1000, when the message has just been received.
    let late = "c: calc 1000;r: recv 1b from 0;r requires c";
    for (bytes, sender) in [(10, 15), (11, 1_005)] {
        finish(short, &[&send(bytes), late], &[sender, 1_010]);
    }
    // What waits for the start of the send proceeds at once; the CPU's clock advances all the same.
    let next = |word: &str| format!("s: send 11b to 1;t: send 1b to 2;t {word} s");
    let other = "recv 1b from 0";
    finish(
        short,
        &[&next("irequires"), late, other],
        &[1_000, 1_010, 130],
    );
    finish(
        short,
        &[&next("requires"), late, other],
        &[1_010, 1_010, 1_120],
    );
}

#[test]
fn a_late_receiver_of_a_large_message() {
    // 100,000 bytes exceed 65,535, so the sender waits. The receiver works until 5,000,000; the
    // message, which arrived at 4,000, then takes 1500 + 99,999 * 6 = 601,494. The receive is also
    // posted at 5,000,000 and releases the sender at that time.
    finish(
        Parameters::default(),
        &[
            "s: send 100000b to 1;c: calc 1000;c requires s",
            "w: calc 5000000;r: recv 100000b from 0;r requires w;c: calc 1000;c requires r",
        ],
        &[5_001_000, 5_602_494],
    );
}

#[test]
fn the_length_of_the_message_decides_and_not_that_of_the_receive() {
    let short = Parameters {
        rendezvous: Bytes::new(10),
        ..plain()
    };
    let late = |bytes: u32| format!("c: calc 1000;r: recv {bytes}b from 0;r requires c");
    let send = |bytes: u32| format!("s: send {bytes}b to 1;c: calc 5;c requires s");
    finish(short, &[&send(11), &late(1)], &[1_005, 1_010]);
    finish(short, &[&send(10), &late(99)], &[15, 1_010]);
}

#[test]
fn irequires_waits_for_the_start_and_requires_for_the_end() {
    // The receive is posted at 0; its message takes from 110 to 120.
    let receiver = |word: &str| format!("r: recv 1b from 0;c: calc 50;c {word} r");
    finish(
        plain(),
        &["send 1b to 1", &receiver("irequires")],
        &[10, 120],
    );
    finish(
        plain(),
        &["send 1b to 1", &receiver("requires")],
        &[10, 170],
    );
}

#[test]
fn cpus_of_a_rank_work_at_the_same_time_and_wait_for_each_other_where_told() {
    finish(plain(), &["calc 100;calc 70 cpu 1"], &[100]);
    finish(plain(), &["calc 100;calc 70"], &[170]);
    finish(
        plain(),
        &["a: calc 100;b: calc 70 cpu 1;b requires a"],
        &[170],
    );
    finish(
        plain(),
        &["a: calc 100;b: calc 70 cpu 1;b irequires a"],
        &[100],
    );
    // The later of both, even if the other dependency is given last.
    let both = "a: calc 1000;b: calc 10 cpu 1;c: calc 1 cpu 2;c requires a;c requires b";
    finish(plain(), &[both], &[1_001]);
    // A dependency on a start also waits if that start is late.
    let chain = "a: calc 100;b: calc 5;b requires a;c: calc 50 cpu 1;c irequires b";
    finish(plain(), &[chain], &[150]);
}

#[test]
fn a_message_takes_the_receivers_cpu_of_the_senders_number() {
    let receiver = "calc 500;recv 1b from 0";
    finish(plain(), &["send 1b to 1", receiver], &[10, 510]);
    finish(plain(), &["send 1b to 1 cpu 1", receiver], &[10, 500]);
    // The receive ends at 120, whichever CPU received its message and whenever it was posted.
    let early = "r: recv 1b from 0;c: calc 5;c requires r";
    finish(plain(), &["send 1b to 1 cpu 1", early], &[10, 125]);
    let late = "w: calc 115;r: recv 1b from 0;r requires w;c: calc 5;c requires r";
    finish(plain(), &["send 1b to 1 cpu 1", late], &[10, 125]);
}

#[test]
fn a_long_send_on_another_cpu_has_ended_when_it_was_met_and_its_overhead_is_over() {
    let slow = Parameters {
        rendezvous: Bytes::new(10),
        overhead_per_byte: PerByte::from_nanos(100),
        ..plain()
    };
    // 10 + 10 * 100 of overhead; met at 110.
    let sender = "s: send 11b to 1 cpu 1;c: calc 5;c requires s";
    finish(slow, &[sender, "recv 1b from 0"], &[1_015, 1_120]);
    let late = "w: calc 3000;r: recv 1b from 0;r requires w";
    finish(slow, &[sender, late], &[3_005, 3_000]);
}

#[test]
fn nics_of_a_rank_send_at_the_same_time() {
    let per_byte = Parameters {
        gap_per_byte: PerByte::from_nanos(2),
        ..plain()
    };
    // The second send at 10; the messages of 110 and 120 share the receiver's CPU: until 320 and
    // 530.
    let two = [
        "send 101b to 1;send 101b to 1 nic 1",
        "recv 101b from 0;recv 101b from 0",
    ];
    finish(per_byte, &two, &[20, 530]);
    // With a CPU each, both are sent at 0 and received by 320.
    let both = [
        "send 101b to 1;send 101b to 1 cpu 1 nic 1",
        "recv 101b from 0;recv 101b from 0",
    ];
    finish(per_byte, &both, &[10, 320]);
    // Without the second NIC the second message leaves at 200.
    let one = [
        "send 101b to 1;send 101b to 1 cpu 1",
        "recv 101b from 0;recv 101b from 0",
    ];
    finish(per_byte, &one, &[210, 520]);
}

#[test]
fn a_receive_from_any_source_takes_what_comes_first() {
    let receiver = "recv 1b from -1;recv 1b from 1";
    // Rank 2 comes first and leaves the message of rank 1 for the second receive.
    finish(
        plain(),
        &[
            receiver,
            "c: calc 50;s: send 1b to 0;s requires c",
            "send 1b to 0",
        ],
        &[170, 60, 10],
    );
    let swapped = [
        receiver,
        "send 1b to 0",
        "c: calc 50;s: send 1b to 0;s requires c",
    ];
    match simulate(&schedule(&swapped), &plain()) {
        Err(GoalError::Unfinished(left)) => assert_eq!(
            left.to_string(),
            "1 receive gets no message: rank 0 line 4 (recv 1b from 1 tag 0); \
             1 message is received by nobody: rank 2 line 11 (send 1b to 0 tag 0)"
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_receive_of_any_tag_takes_what_comes_first() {
    let receiver = "recv 1b from 0 tag -1;recv 1b from 0 tag 4";
    finish(
        plain(),
        &["send 1b to 1 tag 3;send 1b to 1 tag 4", receiver],
        &[20, 130],
    );
    let swapped = ["send 1b to 1 tag 4;send 1b to 1 tag 3", receiver];
    assert!(simulate(&schedule(&swapped), &plain()).is_err());
    // A posted receive with another tag is skipped.
    let passed = "recv 1b from 0 tag 4;recv 1b from 0 tag -1";
    finish(
        plain(),
        &["send 1b to 1 tag 3;send 1b to 1 tag 4", passed],
        &[20, 130],
    );
}

#[test]
fn messages_that_nobody_expected_are_taken_in_the_order_of_their_arrival() {
    let short = Parameters {
        rendezvous: Bytes::new(10),
        ..plain()
    };
    // Both messages have been received when that of rank 3 arrives, at 610, and lets the first
    // receive be posted at 620; the second is posted at 1590. Each releases its sender.
    let late = "t: recv 1b from 3 tag 9;r: recv 1b from -1;r requires t;\
                b: calc 970;b requires r;q: recv 1b from -1;q requires b";
    let slow = "w: calc 50;s: send 11b to 0;s requires w;c: calc 5;c requires s";
    let fast = "s: send 11b to 0;c: calc 5;c requires s";
    let last = "w: calc 500;s: send 1b to 0 tag 9;s requires w";
    finish(short, &[late, slow, fast, last], &[1_590, 1_595, 625, 510]);
    finish(short, &[late, fast, slow, last], &[1_590, 625, 1_595, 510]);
}

#[test]
fn of_operations_freed_together_sends_begin_before_receives_and_those_before_work() {
    // The send is listed last but starts at 10 all the same.
    let sender = "a: calc 10;c: calc 100;s: send 1b to 1;c requires a;s requires a";
    finish(plain(), &[sender, "recv 1b from 0"], &[120, 130]);
    // Of the same kind, the one whose dependency is given first goes first.
    let order = |first: &str, second: &str| {
        format!("a: calc 10;s: send 1b to 1;t: send 1b to 2;{first} requires a;{second} requires a")
    };
    let receive = "recv 1b from 0";
    finish(
        plain(),
        &[&order("s", "t"), receive, receive],
        &[30, 130, 140],
    );
    finish(
        plain(),
        &[&order("t", "s"), receive, receive],
        &[30, 140, 130],
    );
    // Operations without dependencies: in file order within a kind.
    finish(plain(), &["calc 100;send 1b to 1", receive], &[110, 120]);
    finish(
        plain(),
        &["send 1b to 2;send 1b to 1", receive, receive],
        &[20, 130, 120],
    );
}

#[test]
fn of_events_of_the_same_time_the_one_that_was_made_first_comes_first() {
    let short = Parameters {
        rendezvous: Bytes::new(10),
        ..plain()
    };
    // Both arrive at 110. Rank 0 sent first: its message is received and met at 110, the other at
    // 120.
    let sender = "s: send 11b to 2;c: calc 5;c requires s";
    finish(
        short,
        &[sender, sender, "recv 1b from 0;recv 1b from 1"],
        &[115, 125, 130],
    );
    // A message that had to wait is older than work released meanwhile: at 1000 it goes first.
    let receiver = "recv 1b from 0;a: calc 1000;b: calc 100;b requires a";
    let sender = "s: send 11b to 1;c: calc 5;c requires s";
    finish(short, &[sender, receiver], &[1_005, 1_110]);
}

#[test]
fn a_rank_may_send_to_itself() {
    finish(plain(), &["send 1b to 0;recv 1b from 0"], &[120]);
    let short = Parameters {
        rendezvous: Bytes::new(10),
        ..plain()
    };
    finish(
        short,
        &["s: send 11b to 0;r: recv 1b from 0;c: calc 5;c requires s"],
        &[125],
    );
}

#[test]
fn ranks_without_operations_have_finished_at_once() {
    finish(plain(), &["", "calc 5", ""], &[0, 5, 0]);
}

#[test]
fn times_beyond_64_bits_are_an_error_that_says_where() {
    let most = u64::MAX;
    finish(plain(), &[&format!("calc {most}")], &[most]);
    let cases = [
        (format!("calc 1;calc {most}"), "line 4"),
        (
            format!(
                "a: calc {};s: send 1b to 0;s requires a;recv 1b from 0",
                most - 5
            ),
            "line 4",
        ),
        (format!("send {most}b to 0;recv 1b from 0"), "line 3"),
    ];
    let costly = Parameters {
        gap_per_byte: PerByte::from_nanos(2),
        ..plain()
    };
    for (text, place) in cases {
        match simulate(&schedule(&[&text]), &costly) {
            Err(error @ GoalError::TooLong { .. }) => {
                assert!(error.to_string().contains(place), "{error}")
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_cannot_happen_is_named_with_what_waits_for_it() {
    let told = |ranks: &[&str]| match simulate(&schedule(ranks), &plain()) {
        Err(GoalError::Unfinished(left)) => left.to_string(),
        other => panic!("{other:?}"),
    };
    // Both wait for a message before they send.
    let circle =
        |peer: u32| format!("r: recv 8b from {peer} tag 5;s: send 8b to {peer} tag 5;s requires r");
    assert_eq!(
        told(&[&circle(1), &circle(0)]),
        "2 receives get no message: rank 0 line 3 (recv 8b from 1 tag 5), \
         rank 1 line 8 (recv 8b from 0 tag 5); 2 operations never started"
    );
    // Both send long messages before they receive.
    let long =
        |peer: u32| format!("s: send 2000b to {peer};r: recv 2000b from {peer};r requires s");
    assert_eq!(
        told(&[&long(1), &long(0)]),
        "2 messages are received by nobody: rank 1 line 8 (send 2000b to 0 tag 0), \
         rank 0 line 3 (send 2000b to 1 tag 0); 2 operations never started"
    );
    let many = "recv 1b from -1;".repeat(9) + "recv 1b from -1 tag -1";
    assert_eq!(
        told(&[&many]),
        "10 receives get no message: rank 0 line 3 (recv 1b from any tag 0), \
         rank 0 line 4 (recv 1b from any tag 0), rank 0 line 5 (recv 1b from any tag 0) and 7 more"
    );
}
