//! Fortran programs are recorded like C programs, once per call, through each of Fortran's three
//! interfaces.

#[allow(dead_code)]
mod common;

use common::{Message, Place, Process, source};
use idlewave_interpose::ring::flags;
use idlewave_mpi::testing::{Installation, installations};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

const RANKS: u32 = 4;
const FORMS: [(u32, &str); 3] = [(1, "mpif.h"), (2, "use mpi"), (3, "use mpi_f08")];

fn compile(place: &Place, mpi: &Installation, form: u32) -> Option<PathBuf> {
    let to = place.file(&format!("fortran{form}.{}", mpi.name));
    let mut compiler = Command::new(mpi.mpifort.as_deref()?);
    compiler.args([
        "-O1",
        "-cpp",
        "-ffree-line-length-none",
        "-fallow-argument-mismatch",
    ]);
    compiler
        .arg(format!("-DFORM={form}"))
        .arg("-o")
        .arg(&to)
        .arg(source("fortran.F90"));
    let done = compiler.output().expect("the compiler");
    let words = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{} form {form}: {words}", mpi.name);
    Some(to)
}

fn check(what: &str, rank: u32, process: &Process, form: u32) {
    let (next, previous) = ((rank + 1) % RANKS, (rank + RANKS - 1) % RANKS);
    let mut expected: BTreeMap<i32, Vec<u64>> = BTreeMap::from([
        (1, vec![400]),
        (2, vec![80]),
        (3, vec![40, 80]),
        (4, vec![28]),
        (5, vec![32]),
        (7, vec![40; 3]),
        (8, vec![44]),
        (9, vec![48]),
        (10, vec![52]),
        (11, vec![56]),
        (12, vec![60]),
        (13, vec![48]),
    ]);
    if form == 3 {
        expected.insert(15, vec![68]);
    }
    let mut messages = process.messages();
    let pairs = |messages: &[Message], send| -> Vec<_> {
        let chosen = messages.iter().filter(|message| message.send == send);
        chosen
            .map(|message| (message.peer, message.bytes))
            .collect()
    };
    for (tag, bytes) in expected {
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
            found
                .iter()
                .all(|message| message.complete && message.flags & flags::FAILED == 0)
        );
    }
    // The other rank of the same half.
    let found = messages.remove(&14).unwrap_or_default();
    let partner = Some((rank + 2) % RANKS);
    assert_eq!(pairs(&found, true), [(partner, 64)], "{what}");
    assert_eq!(pairs(&found, false), [(partner, 64)], "{what}");
    assert_eq!(messages, BTreeMap::new(), "{what}");

    let size = u64::from(RANKS);
    let each_way = (1..=size).map(|i| 4 * 8 * (u64::from(rank) + i)).sum();
    let bcast = if rank == 1 { (80, 0) } else { (0, 80) };
    assert_eq!(process.amounts("MPI_Bcast"), [bcast], "{what}");
    assert_eq!(process.amounts("MPI_Allreduce"), [(48, 48); 2], "{what}");
    assert_eq!(
        process.amounts("MPI_Allgather"),
        [(20, 20 * size)],
        "{what}"
    );
    assert_eq!(
        process.amounts("MPI_Alltoall"),
        [(24 * size, 24 * size)],
        "{what}"
    );
    assert_eq!(
        process.amounts("MPI_Alltoallv"),
        [(each_way, each_way); 2],
        "{what}"
    );
    assert_eq!(process.amounts("MPI_Iallreduce"), [(48, 48)], "{what}");
    // Once each: what Fortran's functions call internally is not recorded again.
    let barriers = if form == 3 { 2 } else { 1 };
    assert_eq!(process.calls("MPI_Barrier").len(), barriers, "{what}");
    for function in [
        "MPI_Init_thread",
        "MPI_Finalize",
        "MPI_Comm_split",
        "MPI_Comm_free",
        "MPI_Mrecv",
    ] {
        assert_eq!(process.calls(function).len(), 1, "{what} {function}");
    }
    assert_eq!(process.rings[0].state.thread_level, Some(1), "{what}");
    assert_eq!(process.losses(), BTreeMap::new(), "{what}");
}

#[test]
fn messages_and_collectives_are_exact_in_all_three_forms_of_fortran() {
    let place = Place::new();
    for mpi in installations() {
        for (form, name) in FORMS {
            let Some(program) = compile(&place, &mpi, form) else {
                println!("{} has no Fortran compiler", mpi.name);
                continue;
            };
            let what = format!("{} {name}", mpi.name);
            for (rank, process) in place.run_well(&mpi, RANKS, &[&program]).iter().enumerate() {
                check(&format!("{what} rank {rank}"), rank as u32, process, form);
            }
        }
    }
}
