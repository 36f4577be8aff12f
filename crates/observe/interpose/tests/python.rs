//! mpi4py opens the MPI library with RTLD_LOCAL, so that its symbols are not globally visible. Its
//! calls are recorded nevertheless.

#[allow(dead_code)]
mod common;

use common::{Message, Place, Process, source};
use idlewave_mpi::testing::{installations, skip};
use std::collections::BTreeMap;

const RANKS: u32 = 4;

/// Bytes of the calls of a function and of its variant with large counts: mpi4py calls whichever
/// the library has.
fn amounts(process: &Process, name: &str) -> Vec<(u64, u64)> {
    let mut all = process.amounts(name);
    all.extend(process.amounts(&format!("{name}_c")));
    all
}

fn check(what: &str, rank: u32, process: &Process) {
    let (next, previous) = ((rank + 1) % RANKS, (rank + RANKS - 1) % RANKS);
    let partner = (rank + 2) % RANKS;
    let expected = [
        (1, vec![100], next, previous),
        (2, vec![200], next, previous),
        (3, vec![24], next, previous),
        (4, vec![16; 3], next, previous),
        (5, vec![50], partner, partner),
    ];
    let mut messages = process.messages();
    let pairs = |messages: &[Message], send| -> Vec<_> {
        let chosen = messages.iter().filter(|message| message.send == send);
        chosen
            .map(|message| (message.peer, message.bytes))
            .collect()
    };
    for (tag, bytes, to, from) in expected {
        let found = messages.remove(&tag).unwrap_or_default();
        let expect = |peer| {
            bytes
                .iter()
                .map(|&bytes| (Some(peer), bytes))
                .collect::<Vec<_>>()
        };
        assert_eq!(pairs(&found, true), expect(to), "{what} tag {tag} sent");
        assert_eq!(
            pairs(&found, false),
            expect(from),
            "{what} tag {tag} received"
        );
        assert!(
            found.iter().all(|message| message.complete),
            "{what} tag {tag}"
        );
    }
    assert_eq!(messages, BTreeMap::new(), "{what}");
    let size = u64::from(RANKS);
    let each_way = (1..=size).map(|k| 8 * (u64::from(rank) + k)).sum();
    assert_eq!(amounts(process, "MPI_Allreduce"), [(64, 64); 2], "{what}");
    assert_eq!(
        amounts(process, "MPI_Alltoall"),
        [(24 * size, 24 * size)],
        "{what}"
    );
    assert_eq!(
        amounts(process, "MPI_Alltoallv"),
        [(each_way, each_way)],
        "{what}"
    );
    assert_eq!(process.calls("MPI_Comm_split").len(), 1, "{what}");
    assert_eq!(process.calls("MPI_Finalize").len(), 1, "{what}");
    assert_eq!(process.losses(), BTreeMap::new(), "{what}");
}

#[test]
fn messages_and_collectives_are_exact_through_mpi4py() {
    let place = Place::new();
    let mut seen = 0;
    for mpi in installations() {
        let Some(python) = &mpi.python else { continue };
        let program = source("messages.py");
        for (rank, process) in place
            .run_well(&mpi, RANKS, &[python, &program])
            .iter()
            .enumerate()
        {
            check(&format!("{} rank {rank}", mpi.name), rank as u32, process);
        }
        seen += 1;
    }
    if seen == 0 {
        skip("no installation has mpi4py");
    }
}
