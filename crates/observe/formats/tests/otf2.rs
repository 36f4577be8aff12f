//! OTF2 archives: a run has what the real library writes and lists.

#![allow(clippy::unwrap_used)]

use crate::common::*;
use crate::otf2_file::{Archive, BARRIER, CHUNK, IRECV, MAIN, Out, SEND, WAIT};
use crate::otf2_print::{Rows, kinds, listed, rows};
use idlewave_formats::import::{Imported, Subject};
use idlewave_run::RunReader;
use idlewave_run::tables::*;
use idlewave_units::{NodeId, Rank};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An archive that the real library wrote; `None` if there is no library. Each rank's clock is
/// `ahead` ticks ahead of the previous rank's.
fn written(dir: &Path, ranks: u32, steps: u32, ahead: u32) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/otf2_writer.c");
    let program = dir.join("otf2_writer");
    let built = Command::new("cc")
        .args(["-O1", "-Wall", "-Werror", "-o"])
        .args([&program, &source])
        .arg("-lotf2")
        .output();
    let built = match built {
        Ok(built) => built,
        Err(error) => {
            skip(&format!("there is no C compiler: {error}"));
            return None;
        }
    };
    if !built.status.success() {
        let said = String::from_utf8_lossy(&built.stderr).into_owned();
        assert!(said.contains("otf2"), "{said}");
        skip("there is no libotf2 (package libotf2-trace-dev)");
        return None;
    }
    let archive = dir.join("archive");
    let ran = Command::new(&program)
        .arg(&archive)
        .args([ranks, steps, ahead].map(|number| number.to_string()))
        .output()
        .unwrap();
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    Some(archive)
}

fn imported(from: &Path, to: &Path) -> (Imported, RunReader) {
    let imported = back(from, to).unwrap();
    (imported, RunReader::open(to).unwrap())
}

/// The writer's clock has 2.5 ticks per nanosecond.
fn ns(ticks: u64) -> u64 {
    ticks * 2 / 5
}

/// The writer's only location beyond the ranks is a thread of rank 0.
fn rank(location: u64) -> u32 {
    location as u32
}

#[test]
fn a_run_has_what_the_real_library_lists() {
    let dir = tempfile::tempdir().unwrap();
    let Some(archive) = written(dir.path(), 3, 50, 0) else {
        return;
    };
    let anchor = archive.join("traces.otf2");
    let Some(listing) = listed(&anchor, &[]) else {
        return;
    };
    let (imported, run) = imported(&anchor, &dir.path().join("run"));
    let expected = rows(&listing, rank, ns);
    let found = Rows::of(&run);
    found.same_as(&expected);
    assert!(found.ends.len() > 300 && found.calls.len() > 1_000 && found.marks.len() > 150);
    let kinds = kinds(&listing);
    assert_eq!(imported.events, kinds.values().sum::<u64>());
    assert_eq!(
        imported.program,
        Subject::Told {
            name: "archive".to_owned(),
            ranks: 3,
            threads: 4
        }
    );
    let ledger = entries(&imported.losses);
    assert_eq!(
        ledger,
        [
            "collectives that do not block x3".to_owned(),
            format!("metrics x{}", kinds["METRIC"]),
            "who had the CPUs, interrupts and wake-ups x1".to_owned(),
        ]
    );
}

#[test]
fn clocks_that_are_apart_are_brought_together_by_collectives() {
    let dir = tempfile::tempdir().unwrap();
    // Three ranks, 1 ms apart.
    let Some(archive) = written(dir.path(), 3, 50, 2_500_000) else {
        return;
    };
    let (apart, moved) = imported(&archive, &dir.path().join("apart"));
    let other = tempfile::tempdir().unwrap();
    let archive = written(other.path(), 3, 50, 0).unwrap();
    let (together, still) = imported(&archive, &dir.path().join("together"));
    assert_eq!(still.manifest().losses.entries().len(), 3);
    assert_eq!(entries(&apart.losses)[..3], entries(&together.losses)[..]);
    let last = &apart.losses.entries()[3];
    assert_eq!(
        (last.what.as_str(), last.count),
        ("ranks whose clocks differed from that of the first one", 2)
    );
    assert!(last.consequence.starts_with("by up to 2.00 ms"), "{last:?}");
    assert!(
        last.consequence.contains("corrected to about 1."),
        "{last:?}"
    );
    // Counted from the first call of rank 0, all times are those of clocks that agree, to within
    // the time for which the last rank waits in a collective.
    let times = |run: &RunReader| -> Vec<(Rank, i64, i64)> {
        let calls = run.read::<Calls>().unwrap();
        let since_first = |ns: u64| ns as i64 - calls.begin_ns[0] as i64;
        let times = |c: Call| (c.rank, since_first(c.begin_ns), since_first(c.end_ns));
        calls.rows().map(times).collect()
    };
    let (moved_times, still_times) = (times(&moved), times(&still));
    assert!(moved_times.len() > 1_000);
    for (moved, still) in moved_times.iter().zip(&still_times) {
        assert_eq!(moved.0, still.0);
        let off = moved.1.abs_diff(still.1).max(moved.2.abs_diff(still.2));
        let most = if moved.0 == Rank::new(0) { 1 } else { 2_000 };
        assert!(off <= most, "{moved:?} {still:?}");
    }
    let sent = |run: &RunReader| run.read::<Transfers>().unwrap();
    assert_eq!(sent(&moved).rank, sent(&still).rank);
    let span =
        |run: &RunReader| run.manifest().phases[0].end_ns - run.manifest().phases[0].begin_ns;
    assert!(span(&moved).abs_diff(span(&still)) <= 2_000);
}

/// A ring of four ranks over Open MPI 4.1, traced by EZTrace 2.0 of Debian 12: 20 steps, with a
/// collective of halves in every fourth. Each process's clock starts with the process, two groups
/// have the number 0, and only their names show that regions are MPI's.
#[test]
fn an_archive_of_eztrace_is_read_with_its_ranks_and_clocks_that_agree() {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in unpacked(include_bytes!("eztrace.tar.zst")) {
        let path = dir.path().join(&name);
        match name.ends_with('/') {
            true => std::fs::create_dir(path).unwrap(),
            false => std::fs::write(path, bytes).unwrap(),
        }
    }
    let (imported, run) = imported(&dir.path().join("eztrace"), &dir.path().join("run"));
    let named = "eztrace_log".to_owned();
    let program = Subject::Told {
        name: named,
        ranks: 4,
        threads: 4,
    };
    assert_eq!((imported.program, imported.events), (program, 1_552));
    let names = run.read::<Operations>().unwrap().name;
    let calls: Vec<Call> = run.read::<Calls>().unwrap().rows().collect();
    let number = |name: &str, rank| {
        let is_it = |call: &&Call| names[call.operation as usize] == name && call.rank == rank;
        calls.iter().filter(is_it).count()
    };
    for rank in (0..4).map(Rank::new) {
        let common = [
            "MPI_Sendrecv",
            "MPI_Irecv",
            "MPI_Isend",
            "MPI_Waitall",
            "MPI_Allreduce",
        ];
        assert_eq!(common.map(|name| number(name, rank)), [20; 5]);
        assert_eq!(
            ["MPI_Barrier", "MPI_Bcast"].map(|name| number(name, rank)),
            [5; 2]
        );
        let sends = 20 * usize::from(rank.get() % 2 == 0);
        assert_eq!(
            ["MPI_Send", "MPI_Recv"].map(|name| number(name, rank)),
            [sends, 20 - sends]
        );
    }
    // As written, three ranks left each allreduce 0.1 s before the fourth entered it.
    for sequence in 0..20 {
        let of_it = || {
            calls
                .iter()
                .filter(|c| c.comm == Some(0) && c.sequence == Some(sequence))
        };
        assert_eq!(of_it().count(), 4);
        let entered = of_it().map(|c| c.begin_ns).max().unwrap();
        let left = of_it().map(|c| c.end_ns).min().unwrap();
        assert!(entered < left + 20_000, "{sequence}: {entered} {left}");
    }
    assert_eq!(
        entries(&imported.losses),
        [
            "receives that never completed x80",
            "ends of regions that were not entered x3",
            "events of kinds that a run has no table for x8",
            "who had the CPUs, interrupts and wake-ups x1",
            "ranks whose clocks differed from that of the first one x3",
        ]
    );
}

#[test]
fn ranks_nodes_threads_and_communicators_are_those_of_the_definitions() {
    let dir = tempfile::tempdir().unwrap();
    let Some(archive) = written(dir.path(), 4, 3, 0) else {
        return;
    };
    // The directory works as well as the anchor.
    let (_, run) = imported(&archive, &dir.path().join("run"));
    let manifest = run.manifest();
    let hosts: Vec<&str> = manifest
        .nodes
        .iter()
        .map(|n| n.host.name.as_str())
        .collect();
    assert_eq!(hosts, ["n1", "n2"]);
    let ranks: Vec<_> = manifest
        .ranks
        .iter()
        .map(|r| (r.rank, r.node, r.threads.len()))
        .collect();
    let rank = |rank, node, threads| (Rank::new(rank), NodeId::new(node), threads);
    assert_eq!(
        ranks,
        [rank(0, 0, 2), rank(1, 1, 1), rank(2, 0, 1), rank(3, 1, 1)]
    );
    let names = run.read::<Tasks>().unwrap().name;
    assert_eq!(names[..2], ["Master thread:0", "OMP thread 1:0"]);
    let mut comms: Vec<Vec<u32>> = Vec::new();
    for member in run.read::<Communicators>().unwrap().rows() {
        let comm = member.comm as usize;
        comms.resize(comms.len().max(comm + 1), Vec::new());
        assert_eq!(member.member as usize, comms[comm].len());
        comms[comm].push(member.rank.get());
    }
    // Each rank has an MPI_COMM_SELF of its own.
    assert_eq!(
        comms,
        [
            vec![0, 1, 2, 3],
            vec![0, 1],
            vec![0],
            vec![1],
            vec![2],
            vec![3]
        ]
    );
    let calls = run.read::<Calls>().unwrap();
    for (comm, size) in [(0, 4), (1, 2), (2, 1), (5, 1)] {
        let mut of: Vec<(u32, u32)> = calls
            .rows()
            .filter(|call| call.comm == Some(comm))
            .filter_map(|call| Some((call.sequence?, call.rank.get())))
            .collect();
        of.sort_unstable();
        // Each collective has one call from each member.
        assert!(!of.is_empty() && of.len() % size == 0);
        for (n, members) in of.chunks(size).enumerate() {
            assert!(
                members.iter().all(|(sequence, _)| *sequence as usize == n),
                "{members:?}"
            );
        }
    }
    let operations = run.read::<Operations>().unwrap();
    let class = |name: &str| {
        let at = operations.name.iter().position(|n| n == name).unwrap();
        operations.class[at]
    };
    assert_eq!(class("MPI_Bcast"), OperationClass::FromRoot);
    assert_eq!(class("MPI_Ibarrier"), OperationClass::StartCollective);
    assert_eq!(class("MPI_Wait"), OperationClass::Complete);
    let requests: Vec<Option<u64>> = calls
        .rows()
        .filter(|call| call.rank == Rank::new(3) && call.request.is_some())
        .map(|call| call.request)
        .collect();
    assert_eq!(requests, (0..7).map(Some).collect::<Vec<_>>());
}

/// The rows, worked out by hand.
fn story() -> Rows {
    let call = |rank, name: &str, begin, end| (rank, name.to_owned(), begin, end);
    let mark = |rank, begin, end| (rank, "main".to_owned(), begin, end);
    Rows {
        calls: vec![
            call(0, "MPI_Barrier", 3_000, 3_500),
            call(0, "MPI_Send", 2_000, 2_100),
            call(1, "MPI_Barrier", 2_200, 3_500),
            call(1, "MPI_Irecv", 1_100, 1_150),
            call(1, "MPI_Wait", 1_200, 2_150),
        ],
        ends: vec![
            (0, true, 1, 5, 64, 2_000, 2_000, 2_100),
            (1, false, 0, 5, 64, 1_100, 1_200, 2_150),
        ],
        collectives: vec![
            (0, "MPI_Barrier".to_owned(), 3_000, None, 0, 0),
            (1, "MPI_Barrier".to_owned(), 2_200, None, 0, 0),
        ],
        marks: vec![mark(0, 1_000, 4_000), mark(1, 1_000, 4_000)],
    }
}

#[test]
fn either_byte_order_gives_the_run_that_was_worked_out_by_hand() {
    let mut listings = Vec::new();
    for big in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let anchor = Archive::new(big).write(dir.path());
        let (imported, run) = imported(&anchor, &dir.path().join("run"));
        Rows::of(&run).same_as(&story());
        assert_eq!(
            entries(&imported.losses),
            ["who had the CPUs, interrupts and wake-ups x1"]
        );
        assert_eq!(
            (imported.events, run.manifest().phases[0].begin_ns),
            (21, 1_000)
        );
        assert_eq!(run.manifest().phases[0].end_ns, 4_000);
        listings.extend(listed(&anchor, &["-A"]));
        if let Some(listing) = listed(&anchor, &[]) {
            let rank = |location| location as u32 - 10;
            rows(&listing, rank, |ticks| ticks).same_as(&story());
        }
    }
    // The real library reads both alike.
    assert!(
        listings
            .windows(2)
            .all(|w| w[0].lines().count() == w[1].lines().count())
    );
}

#[test]
fn ranks_between_two_groups_are_those_of_the_other_group() {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = Archive::new(false);
    let mut more = Out::records(false, 0);
    for (group, member) in [(2, 0), (3, 1)] {
        more.record(18, |f| {
            f.numbers(&[group, 0]).u8(0).numbers(&[1, member]);
            f.u8(5).u8(4).number(0);
        });
    }
    more.record(43, |f| {
        f.numbers(&[7, 0, 2, 3, 0, 0]);
    });
    archive.append("a.def", more);
    // The send of rank 0 goes to rank 0 of the other group.
    let file = archive.file("a/10.evt");
    let send = [14, 7, 1, 1, 0, 1, 5, 1, 64];
    let at = file.windows(send.len()).position(|w| w == send).unwrap();
    file[at + 2..at + 5].copy_from_slice(&[0, 1, 7]);
    let (_, run) = imported(&archive.write(dir.path()), &dir.path().join("run"));
    let transfers = run.read::<Transfers>().unwrap();
    let send = transfers
        .rows()
        .find(|end| end.direction == Direction::Send)
        .unwrap();
    assert_eq!((send.comm, send.peer), (1, Some(Rank::new(1))));
    let members: Vec<(u32, u32)> = run
        .read::<Communicators>()
        .unwrap()
        .rows()
        .map(|member| (member.comm, member.rank.get()))
        .collect();
    assert_eq!(members, [(0, 0), (0, 1), (1, 0), (1, 1)]);
}

#[test]
fn ranks_are_places_in_the_largest_group_of_locations_and_of_equal_ones_in_the_first() {
    for (group, members, first_rank) in [
        (9, &[11, 10][..], 10),
        (9, &[11, 10, 10], 11),
        (9, &[11], 10),
        // The archive's own group has the number 0, and this one takes its place.
        (0, &[11, 10], 11),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut archive = Archive::new(false);
        let mut more = Out::records(false, 0);
        more.record(18, |f| {
            f.numbers(&[group, 0]).u8(0).number(members.len() as u64);
            f.numbers(members).u8(4).u8(4).number(0);
        });
        archive.append("a.def", more);
        let (_, run) = imported(&archive.write(dir.path()), &dir.path().join("run"));
        // Only location 11 posts a receive.
        let calls = run.read::<Calls>().unwrap();
        let names = run.read::<Operations>().unwrap().name;
        let receives = calls
            .rows()
            .find(|call| names[call.operation as usize] == "MPI_Irecv");
        let expected = u32::from(first_rank == 10);
        assert_eq!(receives.unwrap().rank, Rank::new(expected), "{members:?}");
    }
}

#[test]
fn calls_and_messages_of_a_thread_that_belongs_to_no_rank_are_counted_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = Archive::new(false);
    let mut more = Out::records(false, 0);
    more.record(14, |f| {
        f.numbers(&[12, 10]).u8(1).numbers(&[6, 7]);
    });
    archive.append("a.def", more);
    let mut other = Out::records(false, 0);
    other.at(1_100).single(12, SEND).record(15, |f| {
        f.numbers(&[1, 0, 6, 32, 9]);
    });
    other.at(1_200).single(13, SEND);
    other.at(1_300).single(12, WAIT).single(16, 9);
    other.at(1_400).single(13, WAIT);
    archive.0.push(("a/12.evt".to_owned(), other.end()));
    archive
        .0
        .push(("a/12.def".to_owned(), Out::records(false, 0).end()));
    let (imported, run) = imported(&archive.write(dir.path()), &dir.path().join("run"));
    assert_eq!(
        entries(&imported.losses),
        [
            "calls and messages of threads that belong to no rank x3",
            "who had the CPUs, interrupts and wake-ups x1"
        ]
    );
    Rows::of(&run).same_as(&story());
    // Threads of ranks come first.
    let kinds = run.read::<Tasks>().unwrap().kind;
    assert_eq!(kinds, [TaskKind::Rank, TaskKind::Rank, TaskKind::Program]);
}

/// Appends a barrier of MPI_COMM_WORLD, in rank 0's local numbers.
fn barrier(out: &mut Out, begin: u64, end: u64) {
    out.at(begin).single(12, BARRIER).record(23, |f| {
        f.u8(0).number(0).none().numbers(&[0, 0]);
    });
    out.at(end).single(13, BARRIER);
}

/// Gives rank 0 a second thread, location 12, that comes after the first one in all lists. It
/// starts requests 8 and 9, which the first thread completes, and calls the first barrier.
fn two_threads() -> Archive {
    let mut archive = Archive::new(false);
    let mut more = Out::records(false, 0);
    more.record(14, |f| {
        f.numbers(&[12, 10]).u8(1).numbers(&[9, 0]);
    });
    archive.append("a.def", more);
    let mut second = Out::records(false, 0);
    second.at(1_100).single(12, IRECV).single(17, 8);
    second.at(1_200).single(13, IRECV);
    second.at(1_210).single(12, SEND).record(15, |f| {
        f.numbers(&[1, 0, 6, 32, 9]);
    });
    second.at(1_220).single(13, SEND);
    barrier(&mut second, 1_300, 1_400);
    archive.0.push(("a/12.evt".to_owned(), second.end()));
    archive
        .0
        .push(("a/12.def".to_owned(), Out::records(false, 0).end()));
    let mut first = Out::records(false, 0);
    first.at(1_000).single(12, MAIN);
    first.at(1_500).single(12, WAIT).single(16, 9);
    first.at(1_550).record(19, |f| {
        f.numbers(&[1, 0, 7, 16, 8]);
    });
    first.at(1_600).single(13, WAIT);
    barrier(&mut first, 1_700, 1_800);
    first.at(1_900).single(13, MAIN);
    *archive.file("a/10.evt") = first.end();
    archive
}

#[test]
fn what_one_thread_starts_another_may_complete() {
    let dir = tempfile::tempdir().unwrap();
    let anchor = two_threads().write(dir.path());
    let (imported, run) = imported(&anchor, &dir.path().join("run"));
    assert_eq!(
        entries(&imported.losses),
        ["who had the CPUs, interrupts and wake-ups x1"]
    );
    let ends: Vec<_> = Rows::of(&run)
        .ends
        .into_iter()
        .filter(|end| end.0 == 0)
        .collect();
    assert_eq!(
        ends,
        [
            (0, false, 1, 7, 16, 1_100, 1_500, 1_600),
            (0, true, 1, 6, 32, 1_210, 1_500, 1_600),
        ]
    );
    let threads = run.manifest().ranks[0].threads.clone();
    let transfers = run.read::<Transfers>().unwrap();
    let posted = transfers.rows().filter(|end| end.rank == Rank::new(0));
    assert!(posted.map(|end| end.thread).eq([threads[1]; 2]));
    // Collectives are numbered in order of time, not of threads.
    let calls = run.read::<Calls>().unwrap();
    let barriers: Vec<_> = calls
        .rows()
        .filter(|call| call.rank == Rank::new(0) && call.sequence.is_some())
        .map(|call| (call.sequence, call.begin_ns, call.thread))
        .collect();
    assert_eq!(
        barriers,
        [(Some(0), 1_300, threads[1]), (Some(1), 1_700, threads[0])]
    );
}

#[test]
fn threads_that_cannot_be_read_with_the_others_are_in_the_ledger() {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = two_threads();
    // Only eight chunks of 16 MiB are held in memory.
    archive.file("a.otf2")[CHUNK..CHUNK + 8].copy_from_slice(&(16_u64 << 20).to_le_bytes());
    let mut more = Out::records(false, 0);
    for location in 13..21 {
        more.record(14, |f| {
            f.numbers(&[location, 10]).u8(1).numbers(&[0, 0]);
        });
    }
    archive.append("a.def", more);
    let anchor = archive.write(dir.path());
    let (imported, _) = imported(&anchor, &dir.path().join("run"));
    assert_eq!(
        entries(&imported.losses),
        [
            "locations without local definitions x8",
            "threads beyond those of their process that could be read together x2",
            "who had the CPUs, interrupts and wake-ups x1"
        ]
    );
}
