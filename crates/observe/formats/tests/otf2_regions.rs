//! Regions in OTF2 archives that the real library writes: where they lie, in which location, and
//! what they are called.

#![allow(clippy::unwrap_used)]

use crate::common;
use crate::common::*;
use crate::otf2_print::{exported, listed, regions};
use idlewave_run::RunReader;
use idlewave_run::tables::*;
use idlewave_units::{Bytes, Pid, Rank};

fn call(thread: u32, operation: u32, begin: u64, end: u64) -> Call {
    common::call(0, thread, operation, begin, end)
}

fn mark(thread: u32, name: &str, begin: u64, end: Option<u64>) -> Mark {
    Mark {
        rank: Some(Rank::new(0)),
        node: NODE,
        thread: Pid::new(thread),
        name: name.to_owned(),
        begin_ns: begin,
        end_ns: end,
    }
}

/// Rank 0 with these calls and marks.
fn run(path: &std::path::Path, calls: &[Call], marks: &[Mark]) -> RunReader {
    write(path, two_ranks(), |run| {
        let names = [
            ("MPI_Wait", OperationClass::Complete),
            ("MPI_Bcast_c", OperationClass::FromRoot),
            ("MPI_Ibcast", OperationClass::StartCollective),
        ];
        let operations = (0..).zip(names).map(|(id, (name, class))| Operation {
            id,
            name: name.to_owned(),
            class,
        });
        run.write_table(&table::<Operations>(operations)).unwrap();
        let members = [0, 1].map(|rank| Communicator {
            comm: 0,
            member: rank,
            rank: Rank::new(rank),
            key: 0,
        });
        run.write_table(&table::<Communicators>(members)).unwrap();
        run.write_table(&table::<Calls>(calls.to_vec())).unwrap();
        run.write_table(&table::<Marks>(marks.to_vec())).unwrap();
    })
}

/// Starts (+) and ends (-) of the regions of a location.
fn shown(listing: &str, location: u64) -> Vec<String> {
    let sign = |enters| if enters { '+' } else { '-' };
    regions(listing, location)
        .into_iter()
        .map(|(enters, name, time)| format!("{}{name} {time}", sign(enters)))
        .collect()
}

#[test]
fn marks_end_with_the_call_within_which_they_end() {
    let dir = tempfile::tempdir().unwrap();
    let calls = [call(100, 0, 2_000, 3_000), call(100, 0, 4_000, 4_100)];
    // Two of one name, and two that end together, the outer one first.
    let marks = [
        mark(100, "m", 1_000, Some(2_500)),
        mark(100, "m", 1_100, Some(2_600)),
        mark(100, "outer", 5_000, Some(7_000)),
        mark(100, "inner", 6_000, Some(7_000)),
    ];
    let run = run(&dir.path().join("run"), &calls, &marks);
    let Some((anchor, export)) = exported(&run, &dir.path().join("out")) else {
        return;
    };
    assert_eq!(
        entries(&export.losses),
        ["marked regions that end within a call x2"]
    );
    let Some(listing) = listed(&anchor, &["-Werror"]) else {
        return;
    };
    let expected = "+m 1000 +m 1100 +MPI_Wait 2000 -MPI_Wait 3000 -m 3000 -m 3000 +MPI_Wait 4000 \
                    -MPI_Wait 4100 +outer 5000 +inner 6000 -inner 7000 -outer 7000";
    assert_eq!(shown(&listing, 0).join(" "), expected);
}

#[test]
fn a_mark_that_does_not_end_encloses_what_begins_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let marks = [
        mark(100, "open", 1_200, None),
        mark(100, "point", 1_200, Some(1_200)),
        mark(100, "with it", 1_200, Some(1_300)),
        // A name that C cannot hold, from a thread of this rank that nothing else knows.
        mark(999, "a\0b", 1_400, Some(1_500)),
    ];
    let run = run(&dir.path().join("run"), &[], &marks);
    let Some((anchor, export)) = exported(&run, &dir.path().join("out")) else {
        return;
    };
    assert_eq!(entries(&export.losses), ["regions that were never left x1"]);
    let Some(listing) = listed(&anchor, &["-Werror"]) else {
        return;
    };
    let expected = "+point 1200 -point 1200 +open 1200 +with it 1200 -with it 1300 +a b 1400 -a b 1500 \
                    -open 1500";
    assert_eq!(shown(&listing, 0).join(" "), expected);
}

#[test]
fn threads_that_only_call_have_locations_and_nodes_are_machines() {
    let dir = tempfile::tempdir().unwrap();
    let of = |operation, sequence| Call {
        comm: Some(0),
        sequence: Some(sequence),
        root: Some(Rank::new(1)),
        sent: Some(Bytes::new(8)),
        received: Some(Bytes::new(16)),
        ..call(150, operation, 1_000 * u64::from(operation), 4_000)
    };
    let starts = Call {
        request: Some(6),
        ..of(2, 1)
    };
    let calls = [
        call(100, 0, 500, 600),
        Call {
            end_ns: 1_100,
            ..of(1, 0)
        },
        starts,
    ];
    let run = run(&dir.path().join("run"), &calls, &[]);
    let Some((anchor, export)) = exported(&run, &dir.path().join("out")) else {
        return;
    };
    assert_eq!(
        entries(&export.losses),
        ["ends of collectives that do not block x1"]
    );
    let Some(listing) = listed(&anchor, &["-Werror"]) else {
        return;
    };
    assert_eq!(shown(&listing, 0).len(), 2);
    assert_eq!(shown(&listing, 1 << 32).len(), 4);
    let line = |word: &str| listing.lines().find(|line| line.starts_with(word)).unwrap();
    let collective = line("MPI_COLLECTIVE_END");
    for part in ["BCAST", "Sent: 8", "Received: 16"] {
        assert!(collective.contains(part), "{collective}");
    }
    // Requests of messages have even numbers.
    let request = line("NON_BLOCKING_COLLECTIVE_REQUEST");
    assert!(request.ends_with("Request: 13"), "{request}");
    let definitions = listed(&anchor, &["-G"]).unwrap();
    assert!(definitions.contains("SHARED_MEMORY"), "{definitions}");
}
