//! What the analysis of a recorded program cannot explain is reported, and does no harm.

use crate::made;
use crate::made::{Explained, Made};
use idlewave_run::TraceMode;

const US: u64 = 1_000;

#[test]
fn neighbourhood_collectives_are_counted_as_not_explained() {
    let mut made = Made::new(3);
    let members = [
        (0, 10 * US, 52 * US),
        (1, 50 * US, 52 * US),
        (2, 20 * US, 52 * US),
    ];
    made.collective("MPI_Neighbor_allgather", 0, None, &members);
    made.collective(
        "MPI_Barrier",
        0,
        None,
        &[
            (0, 60 * US, 90 * US),
            (1, 80 * US, 90 * US),
            (2, 80 * US, 90 * US),
        ],
    );
    let found = made.explain();
    // Only the wait in the barrier.
    assert_eq!(found.waits(), [(0, 60 * US, 80 * US, 1, 0)]);
    let entries = found.findings.losses.entries();
    let counted = entries
        .iter()
        .find(|l| l.what == "neighbourhood collectives");
    assert_eq!(counted.map(|l| l.count), Some(1));
}

#[test]
fn a_second_recorded_phase_is_left_alone() {
    let mut made = Made::new(2);
    made.strike(1, (10 * US, 90 * US), 0);
    made.message(1, 0, (100 * US, 101 * US), (20 * US, 102 * US));
    let once = made.explain();
    let twice = made
        .write_with(|manifest| manifest.phases.push(manifest.phases[0].clone()))
        .explain();
    assert_eq!(once.findings.program, twice.findings.program);
    assert_eq!(once.tables.wait_parts, twice.tables.wait_parts);
}

#[test]
fn what_a_rank_lost_itself_is_told_from_what_came_back_to_it() {
    // A delay of rank 1 travels over ranks 2 and 3 back to rank 1, which is struck again before it
    // lets rank 0 go on.
    let mut made = Made::new(4);
    made.strike(1, (10 * US, 50 * US), 0);
    made.message(1, 2, (60 * US, 61 * US), (20 * US, 62 * US));
    made.message(2, 3, (65 * US, 66 * US), (25 * US, 67 * US));
    made.message(3, 1, (70 * US, 71 * US), (62 * US, 72 * US));
    made.strike(1, (75 * US, 95 * US), 0);
    made.message(1, 0, (100 * US, 101 * US), (30 * US, 102 * US));
    let found = made.explain();
    let waits = found.waits();
    assert_eq!(waits[2], (1, 62 * US, 70 * US, 3, 2));
    assert_eq!(waits[3], (0, 30 * US, 100 * US, 1, 0));
    assert_eq!(found.parts(2), [(1, "alpha", 8 * US)]);
    // Both together are one row: 40 + 20 of its own and 8 that came back.
    assert_eq!(found.parts(3)[0], (1, "alpha", 68 * US));
    assert_eq!(found.parts(3).len(), 2);
    // 40 to rank 3, 8 to rank 1, and the same 8 to rank 0.
    assert_eq!(found.program().propagated.get(), 56 * US);
    let alpha = found.findings.sources.iter().find(|s| s.name == "alpha");
    let (lateness, lost) = alpha.map(|s| (s.lateness.get(), s.lost.get())).unwrap();
    assert_eq!((lateness, lost), (60 * US, (40 + 40 + 8 + 68 + 60) * US));
}

/// The count of an entry of the ledger.
fn counted(found: &made::Explained, what: &str) -> Option<u64> {
    let entries = found.findings.losses.entries();
    entries.iter().find(|l| l.what == what).map(|l| l.count)
}

#[test]
fn a_message_that_came_before_it_was_sent_is_none() {
    let mut made = Made::new(2);
    made.message(1, 0, (50 * US, 51 * US), (20 * US, 30 * US));
    let found = made.explain();
    assert_eq!(found.program().messages, 0);
    let what = "messages received before they were sent";
    assert_eq!(counted(&found, what), Some(1));
    assert_eq!(
        counted(&found, "sends and receives without their other end"),
        None
    );
}

#[test]
fn collectives_that_were_seen_in_part_or_do_not_agree_are_counted() {
    let mut made = Made::new(3);
    let some = [(0, 10 * US, 52 * US), (1, 50 * US, 52 * US)];
    made.collective("MPI_Barrier", 0, None, &some);
    made.collective("MPI_Barrier", 0, None, &[(0, 60 * US, 92 * US)]);
    made.same_number(0);
    let others = [(1, 90 * US, 92 * US), (2, 90 * US, 92 * US)];
    made.collective("MPI_Allreduce", 0, None, &others);
    let found = made.explain();
    assert_eq!(found.waits(), []);
    for what in [
        "collectives not recorded on all their members",
        "collectives whose members called different functions",
    ] {
        assert_eq!(counted(&found, what), Some(1), "{what}");
    }
}

/// Three ranks on this many nodes, one of which sends for longer than usual.
fn slow_send(nodes: u32, library: &'static str, mode: TraceMode) -> Explained {
    let mut made = Made::new(3);
    (made.library, made.mode) = (library, mode);
    for (rank, place) in made.places.iter_mut().enumerate() {
        place.0 = rank as u32 % nodes;
    }
    for k in 0..9 {
        let at = 20 * k * US;
        made.message(
            1,
            2,
            (at + 10 * US, at + 12 * US),
            (at + 11 * US, at + 13 * US),
        );
    }
    made.message(1, 2, (190 * US, 250 * US), (191 * US, 193 * US));
    made.message(1, 0, (260 * US, 261 * US), (200 * US, 262 * US));
    let found = made.explain();
    assert_eq!(found.waits(), [(0, 200 * US, 260 * US, 1, 0)]);
    found
}

#[test]
fn a_send_that_takes_longer_than_its_like_is_the_networks() {
    // 60 us instead of 2.
    assert_eq!(
        slow_send(2, "MPI_", TraceMode::Tracefs).parts(0)[0],
        (1, "network", 58 * US)
    );
}

#[test]
fn on_one_node_there_is_no_network() {
    let wanted = (1, "shared-memory transfer", 58 * US);
    assert_eq!(slow_send(1, "MPI_", TraceMode::Tracefs).parts(0)[0], wanted);
    // Unless another library may use sockets.
    let unknown = (1, "network", 58 * US);
    assert_eq!(
        slow_send(1, "gloo:", TraceMode::PerfSwitch).parts(0)[0],
        unknown
    );
}

#[test]
fn without_switches_nobody_knows_what_a_long_call_waited_for() {
    for nodes in [1, 2] {
        for mode in [TraceMode::Counters, TraceMode::Off] {
            let found = slow_send(nodes, "MPI_", mode);
            let found = found.parts(0)[0];
            assert_eq!(found, (1, "long calls", 58 * US), "{nodes} {mode:?}");
        }
    }
}

#[test]
fn a_buffered_send_of_some_microseconds_waited_for_nobody() {
    let mut made = Made::new(2);
    made.message(0, 1, (10 * US, 30 * US), (15 * US, 31 * US));
    assert_eq!(made.explain().waits(), []);
}
