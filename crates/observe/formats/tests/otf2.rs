//! OTF2 archives: what the real library writes and lists is what a run has of it.

#![allow(clippy::unwrap_used)]

mod common;
mod otf2_print;

use common::*;
use idlewave_formats::import::{Imported, Subject};
use idlewave_run::RunReader;
use idlewave_run::tables::*;
use idlewave_units::{NodeId, Rank};
use otf2_print::{Rows, kinds, listed, rows};
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
