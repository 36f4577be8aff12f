//! Synthetic recorded programs in which every wait and its origin are known to the nanosecond.

#![allow(clippy::unwrap_used)]

use crate::made;
use crate::made::Made;
use idlewave_run::tables::{Table, WaitKind};

const US: u64 = 1_000;

#[test]
fn a_late_sender_is_charged_with_what_held_it_back() {
    // The sender computes for 100 us, alpha takes 50 us; the receiver is there after 60 us.
    let mut made = Made::new(2);
    made.strike(1, (30 * US, 80 * US), 0);
    made.message(1, 0, (150 * US, 151 * US), (60 * US, 152 * US));
    let found = made.explain();
    assert_eq!(found.waits(), [(0, 60 * US, 150 * US, 1, 0)]);
    assert_eq!(found.tables.waits.row(0).kind, WaitKind::LateSender);
    // What is left is the longer computation of the sender, 100 us against 60: seen once, it may be
    // anything.
    assert_eq!(
        found.parts(0),
        [(1, "alpha", 50 * US), (1, "unexplained", 40 * US)]
    );
    let program = found.program();
    assert_eq!(program.waited.get(), 90 * US);
    assert_eq!(program.named.get(), 50 * US);
    assert_eq!(program.propagated.get(), 0);
    assert_eq!(program.latest[0].cpu.map(|c| c.get()), Some(1));
}

#[test]
fn a_delay_is_followed_through_waits_to_the_rank_where_it_began() {
    // 2 is struck and sends to 1, which sends to 0.
    let mut made = Made::new(3);
    made.strike(2, (10 * US, 90 * US), 1);
    made.message(2, 1, (100 * US, 101 * US), (20 * US, 102 * US));
    made.message(1, 0, (105 * US, 106 * US), (25 * US, 107 * US));
    let found = made.explain();
    assert_eq!(
        found.waits(),
        [(1, 20 * US, 100 * US, 2, 0), (0, 25 * US, 105 * US, 1, 1)]
    );
    assert_eq!(found.parts(0), [(2, "beta", 80 * US)]);
    // 1 waited for 80 us, as long as 0 now waits for it.
    assert_eq!(found.parts(1), [(2, "beta", 80 * US)]);
    assert_eq!(found.tables.waits.row(1).parent, Some(0));
    assert_eq!(found.program().propagated.get(), 80 * US);
    let wave = &found.program().waves[0];
    assert_eq!((wave.origin.get(), wave.hops, wave.ranks), (2, 2, 2));
    assert_eq!(wave.lost.get(), 160 * US);
    let beta = found
        .findings
        .sources
        .iter()
        .find(|s| s.name == "beta")
        .unwrap();
    assert_eq!((beta.stolen.get(), beta.lateness.get()), (80 * US, 80 * US));
    // Two waits and the struck rank itself.
    assert_eq!(beta.lost.get(), 240 * US);
    assert_eq!((beta.late_steps, beta.absorbed), (1, Some(0.0)));
    assert_eq!(beta.amplification, Some(3.0));
}

#[test]
fn members_of_a_collective_wait_for_whom_its_class_says() {
    let enter = [10 * US, 70 * US, 40 * US, 100 * US];
    let members = |leave: [u64; 4]| -> Vec<(u32, u64, u64)> {
        (0..4)
            .map(|r| (r as u32, enter[r], leave[r] * US))
            .collect()
    };
    let of = |name, root, leave| {
        let mut made = Made::new(4);
        made.collective(name, 0, root, &members(leave));
        let mut waits: Vec<_> = made
            .explain()
            .waits()
            .into_iter()
            .map(|(rank, begin, end, culprit, _)| (rank, begin / US, end / US, culprit))
            .collect();
        waits.sort_unstable();
        waits
    };
    assert_eq!(
        of("MPI_Barrier", None, [101; 4]),
        [(0, 10, 100, 3), (1, 70, 100, 3), (2, 40, 100, 3)]
    );
    assert_eq!(
        of("MPI_Comm_split", None, [101; 4]),
        of("MPI_Barrier", None, [101; 4])
    );
    // The root enters at 70; 3 comes later and does not wait.
    assert_eq!(
        of("MPI_Bcast", Some(1), [71, 71, 71, 101]),
        [(0, 10, 70, 1), (2, 40, 70, 1)]
    );
    // A member that left before the root entered did not wait for it.
    assert_eq!(
        of("MPI_Bcast", Some(1), [71, 71, 45, 101]),
        [(0, 10, 70, 1)]
    );
    assert_eq!(
        of("MPI_Reduce", Some(2), [11, 71, 101, 101]),
        [(2, 40, 100, 3)]
    );
    assert_eq!(of("MPI_Scan", None, [11, 71, 71, 101]), [(2, 40, 70, 1)]);
}

#[test]
fn a_wait_at_a_collective_is_charged_to_the_last_rank_only() {
    let mut made = Made::new(3);
    made.strike(1, (US, 41 * US), 2);
    made.collective(
        "MPI_Allreduce",
        0,
        None,
        &[
            (0, 10 * US, 52 * US),
            (1, 50 * US, 51 * US),
            (2, 10 * US, 52 * US),
        ],
    );
    // In the second one 2 is late; what held 1 back before the first is forgotten.
    made.strike(2, (60 * US, 90 * US), 0);
    made.collective(
        "MPI_Allreduce",
        0,
        None,
        &[
            (0, 62 * US, 94 * US),
            (1, 61 * US, 94 * US),
            (2, 92 * US, 93 * US),
        ],
    );
    let found = made.explain();
    assert_eq!(
        found.waits(),
        [
            (0, 10 * US, 50 * US, 1, 0),
            (2, 10 * US, 50 * US, 1, 0),
            (1, 61 * US, 92 * US, 2, 0),
            (0, 62 * US, 92 * US, 2, 0),
        ]
    );
    for wait in [0, 1] {
        assert_eq!(found.parts(wait), [(1, "gamma", 40 * US)]);
    }
    assert_eq!(found.parts(3), [(2, "alpha", 30 * US)]);
    let gamma = found
        .findings
        .sources
        .iter()
        .find(|s| s.name == "gamma")
        .unwrap();
    // One delay of 40 us, for which two ranks waited: lost by three.
    assert_eq!(
        (gamma.lateness.get(), gamma.lost.get()),
        (40 * US, 120 * US)
    );
    assert_eq!(found.program().waits[0].name, "wait at MPI_Allreduce");
    assert_eq!(found.program().waits[0].count, 4);
}

#[test]
fn sub_communicators_bind_their_members_only() {
    // Rows {0, 1} and {2, 3}, columns {0, 2} and {1, 3}.
    let mut made = Made::new(4);
    for (comm, ranks) in [(1, [0, 1]), (2, [2, 3]), (3, [0, 2]), (4, [1, 3])] {
        made.communicator(comm, &ranks);
    }
    made.strike(3, (US, 31 * US), 0);
    let us = |list: &[(u32, u64, u64)]| -> Vec<(u32, u64, u64)> {
        list.iter().map(|&(r, b, e)| (r, b * US, e * US)).collect()
    };
    made.collective("MPI_Barrier", 1, None, &us(&[(0, 10, 11), (1, 10, 11)]));
    made.collective("MPI_Barrier", 2, None, &us(&[(2, 10, 41), (3, 40, 41)]));
    made.collective("MPI_Barrier", 3, None, &us(&[(0, 20, 52), (2, 50, 52)]));
    made.collective("MPI_Barrier", 4, None, &us(&[(1, 20, 52), (3, 50, 52)]));
    let found = made.explain();
    assert_eq!(
        found.waits(),
        [
            (2, 10 * US, 40 * US, 3, 0),
            (0, 20 * US, 50 * US, 2, 1),
            (1, 20 * US, 50 * US, 3, 0),
        ]
    );
    for wait in 0..3 {
        assert_eq!(found.parts(wait), [(3, "alpha", 30 * US)]);
    }
}

#[test]
fn what_held_both_back_makes_neither_late() {
    // 0 and 1 both waited for 2, which beta struck for 200 us; then alpha strikes 1 for 30 us.
    let mut made = Made::new(3);
    made.strike(2, (10 * US, 210 * US), 1);
    made.message(2, 0, (220 * US, 221 * US), (20 * US, 223 * US));
    made.message(2, 1, (221 * US, 222 * US), (20 * US, 223 * US));
    made.strike(1, (230 * US, 260 * US), 0);
    made.message(1, 0, (263 * US, 264 * US), (233 * US, 265 * US));
    let found = made.explain();
    assert_eq!(found.waits()[2], (0, 233 * US, 263 * US, 1, 0));
    // The 1 us by which 1 was released later counts.
    let parts = found.parts(2);
    assert_eq!(parts[0].1, "alpha");
    assert!(parts[0].2 >= 29 * US, "{parts:?}");
    assert_eq!(parts.iter().map(|p| p.2).sum::<u64>(), 30 * US);
}

#[test]
fn a_synchronous_send_waits_for_its_receiver_and_a_buffered_one_does_not() {
    let of = |name, send_end| {
        let mut made = Made::new(2);
        made.strike(1, (20 * US, 70 * US), 0);
        made.message_by(name, 0, 1, (30 * US, send_end), (80 * US, 83 * US));
        made.explain().waits()
    };
    let late_receiver = [(0, 30 * US, 80 * US, 1, 0)];
    assert_eq!(of("MPI_Ssend", 82 * US), late_receiver);
    assert_eq!(of("MPI_Send", 82 * US), late_receiver);
    assert_eq!(of("MPI_Send", 31 * US), []);
    // A sender that was itself interrupted in a buffered send did not wait.
    let mut made = Made::new(2);
    made.strike(0, (31 * US, 81 * US), 0);
    made.message(0, 1, (30 * US, 82 * US), (80 * US, 83 * US));
    assert_eq!(made.explain().waits(), []);
}

#[test]
fn receives_from_any_source_get_the_message_that_they_got() {
    let mut made = Made::new(3);
    // Rank 0 receives twice from any source: first from 2, then from 1; the tag is that of the
    // message.
    for (rank, at) in [(2, 50), (1, 90)] {
        let span = (at * US, (at + 1) * US);
        made.call("MPI_Send", rank, span);
        made.transfer(
            true,
            rank,
            Some(0),
            0,
            3,
            10 * u64::from(rank),
            span.0,
            Some(span),
        );
    }
    for (peer, span) in [(2, (10 * US, 52 * US)), (1, (60 * US, 92 * US))] {
        made.call("MPI_Recv", 0, span);
        made.transfer(
            false,
            0,
            Some(peer),
            0,
            3,
            10 * u64::from(peer),
            span.0,
            Some(span),
        );
    }
    // One that was never completed, and one that nobody received.
    made.transfer(false, 0, None, 0, 9, 0, 95 * US, None);
    made.call("MPI_Send", 1, (97 * US, 98 * US));
    made.transfer(
        true,
        1,
        Some(2),
        0,
        4,
        10,
        97 * US,
        Some((97 * US, 98 * US)),
    );
    // To a process outside the program, and from one.
    made.transfer(true, 1, Some(7), 0, 4, 10, 97 * US, None);
    made.transfer(true, 7, Some(1), 0, 4, 10, 97 * US, None);
    let found = made.explain();
    let messages = &found.tables.messages;
    let ends: Vec<_> = messages
        .rows()
        .map(|m| {
            (
                m.from.get(),
                m.to.get(),
                m.bytes.get(),
                m.sent_ns < m.completed_ns,
            )
        })
        .collect();
    assert_eq!(ends, [(2, 0, 20, true), (1, 0, 10, true)]);
    assert_eq!(
        found.waits(),
        [(0, 10 * US, 50 * US, 2, 0), (0, 60 * US, 90 * US, 1, 0)]
    );
    let losses = found.findings.losses.entries();
    let count = |what: &str| {
        losses
            .iter()
            .find(|l| l.what.contains(what))
            .map(|l| l.count)
    };
    assert_eq!(count("never completed"), Some(1));
    assert_eq!(count("without their other end"), Some(1));
    assert_eq!(count("outside MPI_COMM_WORLD"), Some(2));
}

#[test]
fn collectives_have_the_bytes_that_their_members_sent() {
    let mut made = Made::new(2);
    for (begin, sent) in [(10 * US, 24), (20 * US, 100)] {
        let members = [(0, begin, begin + US), (1, begin, begin + US)];
        made.collective_of("MPI_Allreduce", 0, None, &members, sent);
    }
    let found = made.explain();
    let mut operations = found.program().operations.iter();
    let reduce = operations.find(|o| o.name == "MPI_Allreduce").unwrap();
    assert_eq!((reduce.calls, reduce.bytes), (4, 2 * 24 + 2 * 100));
}

#[test]
fn messages_of_one_stream_do_not_overtake_each_other() {
    let mut made = Made::new(2);
    made.call("MPI_Waitall", 0, (50 * US, 51 * US));
    made.call("MPI_Waitall", 1, (50 * US, 52 * US));
    // Receives are posted before the sends, other tags in between, and completed in another order.
    for (i, tag) in [(0, 5), (1, 6), (2, 5), (3, 5)] {
        made.call("MPI_Irecv", 1, (i * US, i * US + 10));
        made.transfer(
            false,
            1,
            Some(0),
            0,
            tag,
            i,
            i * US,
            Some((50 * US, 52 * US)),
        );
    }
    for (i, tag) in [(10, 5), (11, 5), (12, 6), (13, 5)] {
        made.call("MPI_Isend", 0, (i * US, i * US + 10));
        made.transfer(
            true,
            0,
            Some(1),
            0,
            tag,
            0,
            i * US,
            Some((50 * US, 51 * US)),
        );
    }
    let found = made.explain();
    let order: Vec<_> = found
        .tables
        .messages
        .rows()
        .map(|m| {
            (
                (m.sent_ns - made::START) / US,
                (m.posted_ns - made::START) / US,
            )
        })
        .collect();
    assert_eq!(order, [(10, 0), (11, 2), (12, 1), (13, 3)]);
}

#[test]
fn a_wait_shorter_than_the_error_of_the_clocks_is_not_trusted() {
    let of = |error| {
        let mut made = Made::new(2);
        made.places = vec![(0, 0), (1, 0)];
        made.clock_error = error;
        made.message(1, 0, (40 * US, 41 * US), (10 * US, 43 * US));
        made.explain()
    };
    assert_eq!(of(30 * US).waits(), [(0, 10 * US, 40 * US, 1, 0)]);
    let found = of(30 * US + 1);
    assert_eq!(found.waits(), []);
    let class = &found.program().waits[0];
    assert_eq!(class.name, "shorter than the error of the clocks");
    assert_eq!((class.count, class.time.get()), (1, 30 * US));
    assert_eq!(found.program().ranks_time[0].waiting.get(), 30 * US);
}

#[test]
fn the_same_daemon_on_two_nodes_is_one_source_and_says_where() {
    let mut made = Made::new(2);
    // Both on CPU 0 of their nodes; alpha has the same pid on both but strikes the second only.
    made.places = vec![(0, 0), (1, 0)];
    made.strike(1, (5 * US, 55 * US), 0);
    made.message(1, 0, (70 * US, 71 * US), (20 * US, 72 * US));
    let found = made.explain();
    assert_eq!(found.waits(), [(0, 20 * US, 70 * US, 1, 0)]);
    assert_eq!(found.parts(0), [(1, "alpha", 50 * US)]);
    let alpha = found
        .findings
        .sources
        .iter()
        .find(|s| s.name == "alpha")
        .unwrap();
    assert_eq!(alpha.stolen.get(), 50 * US);
    let detail = alpha.detail.as_deref();
    assert_eq!(detail, Some("pid 500 on node 0, pid 500 on node 1"));
}

#[test]
fn sleep_inside_a_call_is_how_a_rank_waits_and_outside_it_is_taken() {
    let mut made = Made::new(2);
    made.sleep(0, (22 * US, 80 * US));
    made.sleep(1, (10 * US, 60 * US));
    made.message(1, 0, (80 * US, 81 * US), (20 * US, 82 * US));
    let found = made.explain();
    assert_eq!(found.parts(0)[0], (1, "blocked", 50 * US));
    let blocked = found
        .findings
        .sources
        .iter()
        .find(|s| s.name == "blocked")
        .unwrap();
    assert_eq!(blocked.stolen.get(), 50 * US);
    let times = &found.program().ranks_time;
    assert_eq!(times[0].taken.get(), 0);
    assert_eq!(times[1].taken.get(), 50 * US);
}

#[test]
fn a_hole_of_the_trace_is_charged_to_the_task_seen_last_until_the_rank_calls() {
    let mut made = Made::new(2);
    made.strike(1, (30 * US, 80 * US), 0);
    made.holes.push((1, 30 * US));
    made.message(1, 0, (100 * US, 101 * US), (30 * US, 102 * US));
    let found = made.explain();
    assert_eq!(
        found.parts(0),
        [(1, "alpha", 50 * US), (1, "unexplained", 20 * US)]
    );
    let filled = |l: &&idlewave_run::Loss| l.what.starts_with("holes in the kernel trace");
    let losses = found.findings.losses.entries();
    assert_eq!(losses.iter().find(filled).map(|l| l.count), Some(1));
}

#[test]
fn what_a_rank_waited_for_the_other_is_not_what_the_other_waits_for() {
    // beta strikes 0 and 1 waits for it; then alpha strikes 1 and 0 waits for that alone.
    let mut made = Made::new(2);
    made.strike(0, (10 * US, 210 * US), 1);
    made.message(0, 1, (220 * US, 221 * US), (20 * US, 223 * US));
    made.strike(1, (230 * US, 260 * US), 0);
    made.message(1, 0, (263 * US, 264 * US), (233 * US, 265 * US));
    let found = made.explain();
    assert_eq!(found.waits()[1], (0, 233 * US, 263 * US, 1, 0));
    assert_eq!(found.parts(1), [(1, "alpha", 30 * US)]);
}
