//! Bytes, peers and tags of every way of sending and receiving are exact, under every installed MPI
//! library.

#[allow(dead_code)]
mod common;

use common::{Message, Place, Process};
use idlewave_interpose::ring::flags;
use idlewave_mpi::abi::Family;
use idlewave_mpi::testing::{Installation, installations};
use std::collections::BTreeMap;

const RANKS: u32 = 4;

/// Bytes of the messages to the next rank, by tag: see programs/point_to_point.c.
fn to_next(large: bool) -> BTreeMap<i32, Vec<u64>> {
    let mut all = BTreeMap::from([
        (1, vec![400]),
        (3, vec![33]),
        (6, vec![24]),
        (7, vec![20]),
        (8, vec![16; 5]),
        (9, vec![100, 200, 300]),
        (10, vec![40]),
        (11, vec![50]),
        (12, vec![60]),
        (13, vec![70]),
        (14, vec![80]),
        (15, vec![90]),
        (16, vec![5, 6]),
        (17, vec![7, 8]),
        (18, vec![9, 10]),
        (19, vec![11]),
        (20, vec![12]),
        (21, vec![13]),
        (22, vec![14]),
        (24, vec![15]),
        (25, vec![48]),
        (26, vec![0]),
        (27, vec![60_000]),
        (28, (1..=20).collect()),
    ]);
    if large {
        all.insert(29, vec![16]);
    }
    all
}

fn pairs(messages: &[Message], send: bool) -> Vec<(Option<u32>, u64)> {
    let chosen = messages.iter().filter(|message| message.send == send);
    chosen
        .map(|message| (message.peer, message.bytes))
        .collect()
}

fn check(mpi: &Installation, rank: u32, process: &Process, large: bool) {
    let what = format!("{} rank {rank}", mpi.name);
    let mut messages = process.messages();
    let (next, previous) = ((rank + 1) % RANKS, (rank + RANKS - 1) % RANKS);
    let freed = messages[&24].iter().filter(|message| {
        message.flags & (flags::FREED | flags::CANCELLED) == flags::FREED && message.send
    });
    let freed = freed.count();
    for (tag, bytes) in to_next(large) {
        let found = messages.remove(&tag).unwrap_or_default();
        let expect = |peer| {
            bytes
                .iter()
                .map(|&bytes| (Some(peer), bytes))
                .collect::<Vec<_>>()
        };
        assert_eq!(pairs(&found, true), expect(next), "{what} tag {tag} sent");
        assert_eq!(
            pairs(&found, false),
            expect(previous),
            "{what} tag {tag} received"
        );
        assert!(
            found.iter().all(|message| message.complete),
            "{what} tag {tag}: {found:?}"
        );
        let synchronous = found
            .iter()
            .filter(|message| message.flags & flags::SYNCHRONOUS != 0);
        assert_eq!(
            synchronous.count(),
            if tag == 16 { 2 } else { 0 },
            "{what} tag {tag}"
        );
        let own = found
            .iter()
            .any(|message| message.flags & (flags::SELF | flags::FAILED) != 0);
        assert!(!own, "{what} tag {tag}");
    }
    // From any source.
    let found = messages.remove(&2).unwrap_or_default();
    if rank == 0 {
        let expect: Vec<_> = (1..RANKS)
            .map(|peer| (Some(peer), 10 + u64::from(peer)))
            .collect();
        assert_eq!(pairs(&found, false), expect, "{what}");
    } else {
        assert_eq!(
            pairs(&found, true),
            [(Some(0), 10 + u64::from(rank))],
            "{what}"
        );
    }
    // To itself.
    let found = messages.remove(&4).unwrap_or_default();
    assert_eq!(pairs(&found, true), [(Some(rank), 8)], "{what}");
    assert_eq!(pairs(&found, false), [(Some(rank), 8)], "{what}");
    assert!(
        found.iter().all(|message| message.flags & flags::SELF != 0),
        "{what}"
    );
    // Cancelled.
    let found = messages.remove(&23).unwrap_or_default();
    assert_eq!(pairs(&found, false), [(Some(previous), 0)], "{what}");
    assert!(found[0].flags & flags::CANCELLED != 0, "{what}: {found:?}");
    assert_eq!(freed, 1, "{what}: given up by the sender, not cancelled");
    // Nothing goes to MPI_PROC_NULL, and nothing else is left.
    assert_eq!(messages, BTreeMap::new(), "{what}");
    assert_eq!(process.losses(), BTreeMap::new(), "{what}");
}

#[test]
fn bytes_peers_and_tags_of_all_messages_are_exact_in_c() {
    let place = Place::new();
    for mpi in installations() {
        let Some(program) = place.compile_c(&mpi, "point_to_point.c") else {
            continue;
        };
        let large = mpi.family == Family::Mpich;
        for (rank, process) in place.run_well(&mpi, RANKS, &[&program]).iter().enumerate() {
            check(&mpi, rank as u32, process, large);
        }
    }
}
