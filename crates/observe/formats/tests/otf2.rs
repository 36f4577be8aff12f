//! OTF2 archives: what the real library writes and lists is what a run has of it.

#![allow(clippy::unwrap_used)]

mod common;
mod otf2_file;
mod otf2_print;

use common::*;
use idlewave_formats::import::{ImportError, Imported, Subject};
use idlewave_run::RunReader;
use idlewave_run::tables::*;
use idlewave_units::{NodeId, Rank};
use otf2_file::{Archive, COMPRESSION, Out, SUBSTRATE};
use otf2_print::{Rows, kinds, listed, rows};
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An archive that the real library wrote; `None` where there is none.
fn written(dir: &Path, ranks: u32, steps: u32) -> Option<PathBuf> {
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
        .args([ranks.to_string(), steps.to_string()])
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

/// The writer's clock has 2.5 ticks a nanosecond.
fn ns(ticks: u64) -> u64 {
    ticks * 2 / 5
}

/// Its only location beyond the ranks is a thread of rank 0.
fn rank(location: u64) -> u32 {
    location as u32
}

#[test]
fn a_run_has_what_the_real_library_lists() {
    let dir = tempfile::tempdir().unwrap();
    let Some(archive) = written(dir.path(), 3, 50) else {
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
fn ranks_nodes_threads_and_communicators_are_those_of_the_definitions() {
    let dir = tempfile::tempdir().unwrap();
    let Some(archive) = written(dir.path(), 4, 3) else {
        return;
    };
    // The directory does as well as the anchor.
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
    // MPI_COMM_SELF is another one for each rank.
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
        // Each collective has one call of each member.
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

/// Worked out by hand.
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

/// The error of an archive that was changed, and its next step.
fn refused(change: impl FnOnce(&mut Archive)) -> (ImportError, String) {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = Archive::new(false);
    change(&mut archive);
    let anchor = archive.write(dir.path());
    let to = dir.path().join("run");
    let error = back(&anchor, &to).unwrap_err();
    assert!(!to.exists(), "half a run is left");
    let next = error.next_step();
    (error, next)
}

#[test]
fn archives_that_cannot_be_read_are_refused_with_a_next_step() {
    let (error, next) = refused(|archive| archive.remove("a.def"));
    assert!(error.to_string().contains("there is no "), "{error}");
    assert!(next.contains("NAME.def"), "{next}");
    let (error, next) = refused(|archive| {
        archive.remove("a/10.evt");
        archive.remove("a/11.evt");
    });
    assert!(error.to_string().contains("events are missing"), "{error}");
    assert!(next.contains("directory NAME"), "{next}");
    let (error, next) = refused(|archive| archive.file("a.otf2")[COMPRESSION] = 2);
    assert!(error.to_string().contains("compressed"), "{error}");
    assert!(next.contains("without compression"), "{next}");
    let (error, next) = refused(|archive| archive.file("a.otf2")[SUBSTRATE] = 2);
    assert!(error.to_string().contains("SIONlib"), "{error}");
    assert!(next.contains("without SIONlib"), "{next}");
    for (name, at) in [
        ("a.otf2", 15),
        ("a.def", 19),
        ("a.def", 0),
        ("a/11.def", 1),
        ("a/11.def", 19),
    ] {
        let (error, _) = refused(|archive| archive.file(name)[at] ^= 0x0f);
        assert!(
            matches!(error, ImportError::Damaged { .. }),
            "{name} {at}: {error}"
        );
    }
    // Definitions without a clock.
    let (error, _) = refused(|archive| archive.file("a.def")[18] = 2);
    assert!(
        error.to_string().contains("how fast the clock ticks"),
        "{error}"
    );
    let (error, _) = refused(|archive| archive.file("a/10.evt")[1 << 18] = 9);
    assert!(
        error
            .to_string()
            .ends_with("no chunk begins here at byte 262144"),
        "{error}"
    );
    // A length that leads beyond a chunk that is whole.
    let (error, _) = refused(|archive| {
        let file = archive.file("a/10.evt");
        let end = (1 << 18) - 11;
        file[end..end + 11]
            .copy_from_slice(&[120, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255]);
        file[200..end].fill(5);
        let start = file.iter().position(|b| *b == 13).unwrap();
        file[start + 2..end].fill(0);
        file[start + 2] = 120;
        file[start + 3..start + 12].fill(255);
    });
    assert!(
        error.to_string().contains("goes beyond its chunk"),
        "{error}"
    );
}

#[test]
fn directories_are_asked_for_the_one_archive_that_they_hold() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("run");
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let error = back(&empty, &to).unwrap_err();
    assert!(error.to_string().contains("OTF2 archive"), "{error}");
    let anchor = Archive::new(false).write(dir.path());
    fs::copy(&anchor, dir.path().join("b.otf2")).unwrap();
    let error = back(dir.path(), &to).unwrap_err();
    assert!(
        error.to_string().contains("several OTF2 archives"),
        "{error}"
    );
    fs::remove_file(dir.path().join("b.otf2")).unwrap();
    assert!(back(dir.path(), &to).is_ok());
}

#[test]
fn what_is_cut_or_missing_is_in_the_ledger() {
    let ledger = |change: &dyn Fn(&mut Archive)| {
        let dir = tempfile::tempdir().unwrap();
        let mut archive = Archive::new(false);
        change(&mut archive);
        let anchor = archive.write(dir.path());
        let (imported, run) = imported(&anchor, &dir.path().join("run"));
        let mut found = entries(&imported.losses);
        assert_eq!(
            found.pop().unwrap(),
            "who had the CPUs, interrupts and wake-ups x1"
        );
        (found, run.read::<Calls>().unwrap().len())
    };
    let cut = |archive: &mut Archive| {
        let file = archive.file("a/11.evt");
        let length = file.len();
        file.truncate(length - 20);
    };
    let (found, calls) = ledger(&cut);
    assert_eq!(
        found,
        [
            "files of events that are cut short x1",
            "events that the definitions announce and the files lack x2",
            "calls of MPI that do not end x1"
        ]
    );
    assert_eq!(calls, 4);
    let (found, calls) = ledger(&|archive: &mut Archive| archive.remove("a/11.evt"));
    assert_eq!(
        found,
        [
            "files of events that are missing x1",
            "events that the definitions announce and the files lack x12"
        ]
    );
    assert_eq!(calls, 2);
    let (found, _) = ledger(&|archive: &mut Archive| archive.remove("a/10.def"));
    assert_eq!(found, ["locations without local definitions x1"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    /// What is read of changed bytes is a run whose rows lie in its time.
    #[test]
    fn no_bytes_are_too_strange(
        big: bool,
        file in 0..6_usize,
        changes in prop::collection::vec((0..1_000_usize, any::<u8>()), 1..4),
        cut in prop::option::weighted(0.2, 0..1_000_usize),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut archive = Archive::new(big);
        let bytes = &mut archive.0[file].1;
        for (at, value) in changes {
            let length = bytes.len();
            bytes[at % length] = value;
        }
        if let Some(cut) = cut {
            let length = bytes.len();
            bytes.truncate(cut % length);
        }
        let anchor = archive.write(dir.path());
        let to = dir.path().join("run");
        if back(&anchor, &to).is_ok() {
            let run = RunReader::open(&to).unwrap();
            let phase = &run.manifest().phases[0];
            for call in run.read::<Calls>().unwrap().rows() {
                prop_assert!(phase.begin_ns <= call.begin_ns);
                prop_assert!(call.begin_ns <= call.end_ns && call.end_ns <= phase.end_ns);
            }
            for end in run.read::<Transfers>().unwrap().rows() {
                prop_assert!(end.posted_ns <= end.completed_ns.unwrap_or(u64::MAX));
            }
            run.read::<Marks>().unwrap();
            run.read::<Communicators>().unwrap();
        } else {
            prop_assert!(!to.exists());
        }
    }
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
    let file = archive.file("a.def");
    file.pop();
    file.extend(&more.end()[18..]);
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
