//! Rare contents of OTF2 archives: definitions of old versions and of TAU, regions and calls that
//! do not end or are too many, and numbers that are local or occur twice.

#![allow(clippy::unwrap_used)]

use crate::common::*;
use crate::otf2_file::{Archive, BARRIER, MAIN, Out, SEND, WAIT};
use idlewave_run::RunReader;
use idlewave_run::tables::*;
use idlewave_units::{Pid, Rank};
use std::path::Path;

/// No archive has what the kernel did.
const ALWAYS: &str = "who had the CPUs, interrupts and wake-ups x1";

/// The run of an archive, and its ledger without the entry that is always there.
fn imported(archive: &Archive, dir: &Path) -> (Vec<String>, RunReader) {
    let to = dir.join("run");
    let imported = back(&archive.write(dir), &to).unwrap();
    let mut losses = entries(&imported.losses);
    losses.retain(|loss| loss != ALWAYS);
    (losses, RunReader::open(&to).unwrap())
}

/// The archive with other events for rank 0, in place of its nine.
fn with_events(fill: impl FnOnce(&mut Out)) -> Archive {
    let mut archive = Archive::new(false);
    let mut events = Out::records(false, 0);
    fill(&mut events);
    *archive.file("a/10.evt") = events.end();
    archive
}

/// The archive with more definitions.
fn with_definitions(fill: impl FnOnce(&mut Out)) -> Archive {
    let mut archive = Archive::new(false);
    let mut more = Out::records(false, 0);
    fill(&mut more);
    archive.append("a.def", more);
    archive
}

/// Calls of rank 0, each with its name.
fn calls(run: &RunReader) -> Vec<(String, Call)> {
    let names = run.read::<Operations>().unwrap().name;
    let calls = run.read::<Calls>().unwrap();
    let of_rank = calls.rows().filter(|call| call.rank == Rank::new(0));
    of_rank
        .map(|call| (names[call.operation as usize].clone(), call))
        .collect()
}

#[test]
fn regions_within_calls_and_ends_of_others_change_neither_calls_nor_marks() {
    let dir = tempfile::tempdir().unwrap();
    let archive = with_events(|out| {
        out.at(1_000).single(12, MAIN);
        // This one was not entered.
        out.single(13, WAIT);
        out.at(2_000).single(12, SEND);
        out.single(12, MAIN).single(12, WAIT);
        out.record(14, |f| {
            f.numbers(&[1, 0, 5, 64]);
        });
        out.single(13, WAIT).single(13, MAIN);
        out.at(2_100).single(13, SEND);
        // Two events are earlier than the previous one, and the call with the collective is none.
        out.at(2_050).single(12, WAIT).record(23, |f| {
            f.u8(0).numbers(&[0, 1, 7, 8]);
        });
        out.at(2_200).single(13, WAIT);
        out.at(4_000).single(13, MAIN);
    });
    let (losses, run) = imported(&archive, dir.path());
    assert_eq!(
        losses,
        [
            "times that run backwards x2",
            "regions within calls of MPI x2",
            "ends of regions that were not entered x1",
        ]
    );
    let found = calls(&run);
    let times = found
        .iter()
        .map(|(n, c)| (n.as_str(), c.begin_ns, c.end_ns));
    assert!(times.eq([("MPI_Send", 2_000, 2_100), ("MPI_Wait", 2_100, 2_200)]));
    assert_eq!(found[0].1.comm, Some(0));
    let wait = &found[1].1;
    assert_eq!((wait.root, wait.sent, wait.received), (None, None, None));
    let marks: Vec<Mark> = run.read::<Marks>().unwrap().rows().collect();
    assert_eq!(marks[0].end_ns, Some(4_000), "{marks:?}");
}

#[test]
fn what_does_not_end_keeps_what_is_known_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let archive = with_events(|out| {
        // Two requests with one number: the first one never completes.
        for (begin, tag) in [(1_000, 5), (1_100, 6)] {
            out.at(begin).single(12, SEND).record(15, |f| {
                f.numbers(&[1, 0, tag, 64, 9]);
            });
            out.at(begin + 50).single(13, SEND);
        }
        for _ in 0..1_026 {
            out.single(12, MAIN);
        }
        // This ends one of the two that lie too deep.
        out.single(13, MAIN);
        out.at(1_500).single(12, WAIT);
        out.at(1_600).single(16, 9);
    });
    let (losses, run) = imported(&archive, dir.path());
    assert_eq!(
        losses,
        [
            "calls of MPI that do not end x1",
            "regions that lie too deep in others x2",
        ]
    );
    let ends = run.read::<Transfers>().unwrap();
    let mut ends: Vec<_> = ends
        .rows()
        .filter(|end| end.rank == Rank::new(0))
        .map(|end| (end.tag, end.posted_ns, end.wait_ns, end.completed_ns))
        .collect();
    ends.sort_unstable();
    assert_eq!(
        ends,
        [(5, 1_000, None, None), (6, 1_100, Some(1_500), Some(1_600))]
    );
    let marks = run.read::<Marks>().unwrap();
    let open = marks.rows().filter(|mark| mark.end_ns.is_none());
    assert_eq!(open.count(), 1_024);
}

#[test]
fn messages_beyond_those_that_a_call_can_hold_end_where_they_are_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let archive = with_events(|out| {
        out.at(1_000).single(12, WAIT);
        for _ in 0..8_193 {
            out.record(18, |f| {
                f.numbers(&[1, 0, 5, 64]);
            });
        }
        out.at(2_000).single(13, WAIT);
    });
    let (_, run) = imported(&archive, dir.path());
    let ends = run.read::<Transfers>().unwrap();
    let at = |ns| {
        ends.rows()
            .filter(|end| end.completed_ns == Some(ns))
            .count()
    };
    assert_eq!((at(1_000), at(2_000)), (1, 8_192));
}

#[test]
fn groups_and_regions_of_old_versions_and_names_of_tau_are_understood() {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = with_definitions(|out| {
        out.record(10, |f| {
            f.number(20).text("MPI_Send()");
        });
        // Without canonical name, role and paradigm, as before version 1.1.
        out.record(15, |f| {
            f.numbers(&[SEND, 20, 0]).u8(0).numbers(&[0, 0, 0]);
        });
        // Groups as before version 1.2: locations, ranks, and the caller alone.
        for (number, kind, members) in [(0, 6, &[11, 10][..]), (1, 4, &[0, 1]), (2, 5, &[])] {
            out.record(18, |f| {
                f.numbers(&[number, 0])
                    .u8(kind)
                    .number(members.len() as u64);
                f.numbers(members);
            });
        }
        out.record(22, |f| {
            f.numbers(&[3, 0, 2]).none().number(0);
        });
    });
    // Location 11's number 5 is communicator 3. The caller is the root there and in the first one.
    let mut local = Out::records(false, 0);
    local.record(5, |f| {
        f.u8(6).number(1).u8(1).numbers(&[5, 3]);
    });
    *archive.file("a/11.def") = local.end();
    let mut events = Out::records(false, 0);
    for (begin, comm) in [(1_000, 5), (2_000, 0)] {
        events.at(begin).single(12, BARRIER).record(23, |f| {
            f.u8(0).number(comm).number(u64::from(u32::MAX - 1));
            f.numbers(&[0, 0]);
        });
        events.at(begin + 100).single(13, BARRIER);
    }
    *archive.file("a/11.evt") = events.end();
    let (_, run) = imported(&archive, dir.path());
    let mut members: Vec<(u32, u32)> = Vec::new();
    for row in run.read::<Communicators>().unwrap().rows() {
        members.push((row.comm, row.rank.get()));
    }
    // Location 11 is rank 0 now, and alone in the second communicator.
    assert_eq!(members, [(0, 0), (0, 1), (1, 0)]);
    let found = calls(&run);
    let found: Vec<_> = found
        .iter()
        .map(|(name, call)| (name.as_str(), call.comm, call.root))
        .collect();
    let root = Some(Rank::new(0));
    assert_eq!(
        found,
        [
            ("MPI_Barrier", Some(1), root),
            ("MPI_Barrier", Some(0), root)
        ]
    );
    let names = run.read::<Operations>().unwrap().name;
    assert!(names.contains(&"MPI_Send".to_owned()), "{names:?}");
}

#[test]
fn nodes_have_a_memory_of_their_own_or_the_class_of_nodes() {
    let dir = tempfile::tempdir().unwrap();
    let archive = with_definitions(|out| {
        // 2 has a memory of its own, 3 the class "node"; 4 and 5 are parts of them.
        for numbers in [[2, 2, 7, 0], [3, 3, 6, 0], [4, 9, 9, 2], [5, 9, 9, 3]] {
            out.record(12, |f| {
                f.numbers(&numbers);
            });
        }
        out.record(27, |f| {
            f.number(2).u8(1);
        });
        for rank in 0..2 {
            out.record(13, |f| {
                f.numbers(&[rank, 9]).u8(1).number(4 + rank).none();
            });
        }
    });
    let (_, run) = imported(&archive, dir.path());
    let nodes = run.manifest().nodes.iter();
    assert!(
        nodes
            .map(|node| node.host.name.as_str())
            .eq(["MPI_Send", "MPI_Irecv"])
    );
    let method = &run.manifest().nodes[0].clock.method;
    assert!(method.contains("offsets of each location"), "{method}");
}

#[test]
fn threads_have_the_numbers_that_the_archive_gives_them_once() {
    let dir = tempfile::tempdir().unwrap();
    let archive = with_definitions(|out| {
        out.record(10, |f| {
            f.number(20).text("idlewave::thread");
        });
        // Both have the same number; the last two properties have another name.
        for (location, name, number) in [(10, 20, 77), (11, 20, 77), (10, 9, 5), (11, 9, 5)] {
            out.record(29, |f| {
                f.numbers(&[location, name, 0]).u8(3).number(number);
            });
        }
    });
    let (_, run) = imported(&archive, dir.path());
    let threads: Vec<Pid> = run.read::<Tasks>().unwrap().pid;
    assert_eq!(threads[0], Pid::new(77));
    assert!(threads[1].get() > 1 << 22, "{threads:?}");
}

#[test]
fn an_archive_without_any_local_definitions_lacks_none() {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = Archive::new(false);
    archive.remove("a/10.def");
    archive.remove("a/11.def");
    let (losses, _) = imported(&archive, dir.path());
    assert!(
        losses.iter().all(|loss| !loss.starts_with("locations")),
        "{losses:?}"
    );
}
