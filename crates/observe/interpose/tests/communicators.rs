//! All members of a communicator give it the same number and the same members, and peers are ranks
//! of MPI_COMM_WORLD, under every installed MPI library.

#[allow(dead_code)]
mod common;

use common::{Place, Process};
use idlewave_interpose::Record;
use idlewave_interpose::ring::flags;
use idlewave_mpi::testing::installations;
use std::collections::{BTreeMap, BTreeSet};

const RANKS: u32 = 4;

/// Peer, bytes and communicator of the only pair of messages with a tag.
fn pair(process: &Process, tag: i32) -> (u32, u64, u64) {
    let messages = process
        .messages()
        .remove(&tag)
        .expect("messages with this tag");
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[0].peer, messages[1].peer);
    assert_eq!(messages[0].bytes, messages[1].bytes);
    assert_eq!(messages[0].communicator, messages[1].communicator);
    (
        messages[0].peer.expect("a peer"),
        messages[0].bytes,
        messages[0].communicator,
    )
}

fn some(ranks: &[u32]) -> Vec<Option<u32>> {
    ranks.iter().copied().map(Some).collect()
}

fn check(what: &str, all: &[Process]) {
    // All processes that list the members of a communicator list the same ones.
    let mut members: BTreeMap<u64, Vec<Option<u32>>> = BTreeMap::new();
    let mut shown: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
    for (rank, process) in all.iter().enumerate() {
        for (key, list) in process.members() {
            assert_eq!(
                *members.entry(key).or_insert_with(|| list.clone()),
                list,
                "{what}"
            );
            shown.entry(key).or_default().insert(rank as u32);
        }
    }
    // All members list it, since all use it.
    for (key, list) in &members {
        let by: Vec<_> = shown[key].iter().copied().map(Some).collect();
        let mut list = list.clone();
        list.sort();
        assert_eq!(by, list, "{what}: communicator {key:x}");
    }
    let world = all[0].calls("MPI_Comm_split")[0].2.expect("a communicator");
    assert_eq!(members[&world], some(&[0, 1, 2, 3]), "{what}");

    for (rank, process) in all.iter().enumerate() {
        let what = format!("{what} rank {rank}");
        let rank = rank as u32;
        let half = some(if rank % 2 == 0 { &[0, 2] } else { &[1, 3] });
        let other_of_half = (rank + 2) % RANKS;
        let (peer, bytes, first) = pair(process, 1);
        assert_eq!((peer, bytes), (other_of_half, 10), "{what}");
        let (peer, bytes, again) = pair(process, 2);
        assert_eq!((peer, bytes), (other_of_half, 11), "{what}");
        let (peer, bytes, later) = pair(process, 4);
        assert_eq!((peer, bytes), (other_of_half, 13), "{what}");
        let keys = BTreeSet::from([first, again, later]);
        assert_eq!(
            keys.len(),
            3,
            "{what}: same members, but not the same communicator"
        );
        assert!(keys.iter().all(|key| members[key] == half), "{what}");
        if rank < 2 {
            let (peer, bytes, two) = pair(process, 3);
            assert_eq!((peer, bytes), (1 - rank, 12), "{what}");
            assert_eq!(members[&two], some(&[0, 1]), "{what}");
        }
        // The partner in the other half of the intercommunicator.
        let (peer, bytes, inter) = pair(process, 5);
        assert_eq!(
            (peer, bytes),
            (if rank % 2 == 0 { rank + 1 } else { rank - 1 }, 14),
            "{what}"
        );
        assert_eq!(members[&inter], some(&[0, 2, 1, 3]), "{what}");
        let marked = process.messages()[&5]
            .iter()
            .all(|message| message.flags & flags::INTER != 0);
        assert!(marked, "{what}");

        let bcasts = process.calls("MPI_Bcast");
        assert_eq!(bcasts[0].3, Some(3), "{what}: the root as a world rank");
        assert_eq!(
            members[&bcasts[0].2.expect("one")],
            some(&[3, 2, 1, 0]),
            "{what}"
        );
        let expected = match rank {
            0 => (8, 0, Some(inter), Some(0), 0),
            2 => (0, 0, Some(inter), None, 0),
            _ => (0, 8, Some(inter), Some(0), 0),
        };
        assert_eq!(bcasts[1], expected, "{what}");
        let sums = process.calls("MPI_Allreduce");
        assert_eq!(sums[0].2, Some(inter), "{what}");
        assert_eq!(
            members[&sums[1].2.expect("one")],
            some(&[0, 2, 1, 3]),
            "{what}"
        );
        assert_ne!(sums[1].2, Some(inter), "{what}");

        // One rank against three: the bytes sent to and received from the other group.
        let amounts = |name| process.amounts(name)[0];
        let alone = rank == 0;
        let share = if alone { 24 } else { 4 * u64::from(rank) };
        assert_eq!(amounts("MPI_Reduce_scatter"), (24, share), "{what}");
        let share = if alone { 24 } else { 8 };
        assert_eq!(amounts("MPI_Reduce_scatter_block"), (24, share), "{what}");
        let got = if alone { 24 } else { 8 };
        assert_eq!(amounts("MPI_Allgather"), (8, got), "{what}");
        let gathered = if alone { (0, 36) } else { (12, 0) };
        assert_eq!(amounts("MPI_Gather"), gathered, "{what}");

        // 1 in the duplicate of the world, 20 in duplicates of the half, 1 in MPI_COMM_SELF: all
        // these communicators differ.
        let barriers: BTreeSet<_> = process
            .calls("MPI_Barrier")
            .iter()
            .map(|call| call.2)
            .collect();
        assert_eq!(barriers.len(), 22, "{what}");
        assert_eq!(process.losses(), BTreeMap::new(), "{what}");
    }
    // The members of a communicator come before its first use.
    for ring in all.iter().flat_map(|process| &process.rings) {
        let mut known = BTreeSet::new();
        for record in &ring.records {
            match record {
                Record::Members { communicator, .. } => {
                    known.insert(*communicator);
                }
                Record::Call {
                    communicator: Some(key),
                    ..
                } => assert!(known.contains(key), "{what}"),
                Record::Transfer { communicator, .. } => {
                    assert!(known.contains(communicator), "{what}")
                }
                _ => {}
            }
        }
    }
}

#[test]
fn all_members_agree_on_every_communicator_and_peers_are_world_ranks() {
    let place = Place::new();
    for mpi in installations() {
        if let Some(program) = place.compile_c(&mpi, "communicators.c") {
            check(mpi.name, &place.run_well(&mpi, RANKS, &[&program]));
        }
    }
}
