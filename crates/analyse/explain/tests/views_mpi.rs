//! The view of a recorded MPI program whose calls and messages are worked out by hand.

#![allow(clippy::unwrap_used)]

use crate::made::{START, plain_call};
use idlewave_explain::explain;
use idlewave_explain::views::{Filter, Mpi, View, ViewKind, view};
use idlewave_run::tables::*;
use idlewave_run::testing::empty_manifest;
use idlewave_run::{Phase, PhaseKind, RankSheet, RunReader, RunWriter};
use idlewave_units::{Bytes, Nanos, NodeId, Pid, Rank};
use std::sync::atomic::AtomicBool;

const NAMES: [(&str, OperationClass); 6] = [
    ("MPI_Init", OperationClass::Life),
    ("MPI_Finalize", OperationClass::Life),
    ("MPI_Send", OperationClass::Send),
    ("MPI_Recv", OperationClass::Receive),
    ("MPI_Allgather", OperationClass::AllToAll),
    ("MPI_Bcast", OperationClass::FromRoot),
];

#[derive(Default)]
struct Made {
    calls: Calls,
    transfers: Transfers,
}

impl Made {
    fn call(&mut self, rank: u32, name: &str, span: (u64, u64), set: impl FnOnce(&mut Call)) {
        let operation = NAMES.iter().position(|n| n.0 == name).unwrap() as u32;
        let mut call = plain_call(rank, operation, span);
        set(&mut call);
        self.calls.push(call);
    }

    fn collective(
        &mut self,
        rank: u32,
        name: &str,
        span: (u64, u64),
        root: Option<u32>,
        bytes: [u64; 2],
    ) {
        self.call(rank, name, span, |c| {
            c.comm = Some(0);
            c.sequence = Some(if root.is_some() { 1 } else { 0 });
            c.root = root.map(Rank::new);
            c.sent = Some(Bytes::new(bytes[0]));
            c.received = Some(Bytes::new(bytes[1]));
        });
    }

    fn transfer(
        &mut self,
        sends: bool,
        rank: u32,
        peer: u32,
        bytes: u64,
        span: (u64, Option<u64>),
    ) {
        self.transfers.push(Transfer {
            rank: Rank::new(rank),
            thread: Pid::new(100 + rank),
            direction: if sends {
                Direction::Send
            } else {
                Direction::Receive
            },
            comm: 0,
            peer: Some(Rank::new(peer)),
            tag: 5,
            bytes: Some(Bytes::new(bytes)),
            posted_ns: START + span.0,
            wait_ns: span.1.map(|_| START + span.0),
            completed_ns: span.1.map(|end| START + end),
        });
    }

    fn written(self) -> (tempfile::TempDir, RunReader) {
        self.written_as(str::to_owned)
    }

    /// The same with other names of the functions.
    fn written_as(self, named: impl Fn(&str) -> String) -> (tempfile::TempDir, RunReader) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let mut manifest = empty_manifest();
        manifest.phases.push(Phase {
            kind: PhaseKind::Recorded {
                library: Some("test".to_owned()),
                exit_code: Some(0),
            },
            begin_ns: START,
            end_ns: START + 1_000_000,
        });
        let mut communicators = Communicators::default();
        for rank in 0..3 {
            manifest.ranks.push(RankSheet {
                rank: Rank::new(rank),
                node: NodeId::new(0),
                cpu: None,
                threads: vec![Pid::new(100 + rank)],
                process: Some(Pid::new(100 + rank)),
                priority: None,
            });
            communicators.push(Communicator {
                comm: 0,
                member: rank,
                rank: Rank::new(rank),
                key: 1,
            });
        }
        let mut operations = Operations::default();
        for (id, (name, class)) in NAMES.iter().enumerate() {
            operations.push(Operation {
                id: id as u32,
                name: named(name),
                class: *class,
            });
        }
        let mut out = RunWriter::create(&path, manifest).unwrap();
        out.write_table(&self.calls).unwrap();
        out.write_table(&self.transfers).unwrap();
        out.write_table(&communicators).unwrap();
        out.write_table(&operations).unwrap();
        out.close(None).unwrap();
        (dir, RunReader::open(&path).unwrap())
    }
}

/// Rank 0 sends 100 bytes to rank 1, all gather 30 bytes from each, rank 2 broadcasts 8 bytes.
/// Rank 1 posts a receive that nothing completes; rank 2 never finalizes.
fn made() -> Made {
    let mut made = Made::default();
    for rank in 0..3 {
        made.call(rank, "MPI_Init", (0, 1_000), |_| {});
    }
    made.call(0, "MPI_Send", (2_000, 2_500), |c| c.comm = Some(0));
    made.call(1, "MPI_Recv", (2_000, 3_000), |c| c.comm = Some(0));
    made.transfer(true, 0, 1, 100, (2_000, Some(2_500)));
    made.transfer(false, 1, 0, 100, (2_000, Some(3_000)));
    made.transfer(false, 1, 2, 0, (3_500, None));
    for rank in 0..3 {
        made.collective(rank, "MPI_Allgather", (4_000, 5_000), None, [30, 90]);
    }
    for rank in 0..3 {
        let bytes = if rank == 2 { [8, 0] } else { [0, 8] };
        made.collective(rank, "MPI_Bcast", (6_000, 6_200), Some(2), bytes);
    }
    for rank in 0..2 {
        made.call(rank, "MPI_Finalize", (9_000, 9_100), |_| {});
    }
    made
}

fn shown(run: &RunReader, filter: &Filter) -> Mpi {
    let stop = AtomicBool::new(false);
    let findings = explain(run, &stop).unwrap().findings;
    match view(run, &findings, ViewKind::Mpi, filter, &stop).unwrap() {
        View::Mpi(found) => found,
        other => panic!("{other:?}"),
    }
}

fn cells(all: &[idlewave_explain::views::Traffic]) -> Vec<(u32, u32, f64)> {
    all.iter()
        .map(|c| (c.from.get(), c.to.get(), c.bytes))
        .collect()
}

#[test]
fn calls_bytes_and_what_was_never_completed() {
    let (_dir, run) = made().written();
    let found = shown(&run, &Filter::default());
    let row = |name: &str| found.calls.iter().find(|c| c.function == name).unwrap();
    let gather = row("MPI_Allgather");
    assert_eq!((gather.calls.count, gather.calls.total.get()), (3, 3_000));
    assert_eq!((gather.sent.get(), gather.received.get()), (90, 270));
    assert_eq!(gather.communicator, Some(0));
    assert_eq!(row("MPI_Init").communicator, None);
    assert_eq!(cells(&found.point_to_point), [(0, 1, 100.0)]);
    // 90 bytes of the gather divided among three; 8 from the root of the broadcast.
    assert_eq!(
        cells(found.collective.as_ref().unwrap()),
        [
            (0, 0, 30.0),
            (0, 1, 30.0),
            (0, 2, 30.0),
            (1, 0, 30.0),
            (1, 1, 30.0),
            (1, 2, 30.0),
            (2, 0, 38.0),
            (2, 1, 38.0),
            (2, 2, 30.0),
        ]
    );
    let world = &found.communicators[0];
    assert_eq!((world.members, world.calls, world.messages), (3, 8, 1));
    assert_eq!(
        (world.message_bytes.get(), world.collective_bytes.get()),
        (100, 98)
    );
    assert_eq!(found.open, 1);
    let open = &found.open_transfers[0];
    assert_eq!(
        (open.rank.get(), open.receives, open.peer),
        (1, true, Some(Rank::new(2)))
    );
    assert_eq!(open.posted.get(), 3_500);
    assert_eq!(found.unfinished.len(), 1);
    let rank = &found.unfinished[0];
    assert_eq!(
        (rank.rank.get(), rank.last.as_str(), rank.left.get()),
        (2, "MPI_Bcast", 6_200)
    );
}

#[test]
fn a_library_without_a_last_call_leaves_no_rank_unfinished() {
    let (_dir, run) = made().written_as(|name| name.replace("MPI_", "gloo:"));
    let found = shown(&run, &Filter::default());
    assert!(!found.calls.is_empty());
    assert_eq!(found.unfinished, []);
}

#[test]
fn a_rank_and_a_stretch_of_time_can_be_chosen() {
    let (_dir, run) = made().written();
    let first = Filter {
        rank: Some(Rank::new(0)),
        to: Some(Nanos::from_nanos(5_500)),
        ..Filter::default()
    };
    let found = shown(&run, &first);
    let names: Vec<&str> = found.calls.iter().map(|c| c.function.as_str()).collect();
    assert_eq!(names, ["MPI_Init", "MPI_Allgather", "MPI_Send"]);
    assert!(found.unfinished.is_empty(), "it finalized later");
    let stop = AtomicBool::new(false);
    let findings = explain(&run, &stop).unwrap().findings;
    let by_cpu = Filter {
        cpus: Some("0".parse().unwrap()),
        ..Filter::default()
    };
    let error = view(&run, &findings, ViewKind::Mpi, &by_cpu, &stop).unwrap_err();
    assert!(error.to_string().contains("not by CPU"), "{error}");
}
