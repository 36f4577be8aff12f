//! OTF2 archives that the real library writes from runs: otf2-print must accept them and list what
//! the run has, and reading them must give the run back.

#![allow(clippy::unwrap_used)]

use crate::common;
use crate::common::*;
use crate::otf2_print::{Rows, exported, listed, regions, rows};
use idlewave_run::RunReader;
use idlewave_run::tables::*;
use idlewave_units::{Bytes, Pid, Rank};
use proptest::prelude::*;
use std::path::Path;

/// Locations of ranks have the rank's number in their lower half.
fn rank(location: u64) -> u32 {
    location as u32
}

fn operation(id: u32, name: &str, class: OperationClass) -> Operation {
    let name = name.to_owned();
    Operation { id, name, class }
}

const OPERATIONS: [(&str, OperationClass); 9] = [
    ("MPI_Init", OperationClass::Life),
    ("MPI_Send", OperationClass::Send),
    ("MPI_Isend", OperationClass::Send),
    ("MPI_Recv", OperationClass::Receive),
    ("MPI_Irecv", OperationClass::Receive),
    ("MPI_Waitall", OperationClass::Complete),
    ("MPI_Bcast", OperationClass::FromRoot),
    ("MPI_Allreduce", OperationClass::AllToAll),
    ("MPI_Ibarrier", OperationClass::StartCollective),
];

fn call(rank: u32, operation: u32, begin: u64, end: u64) -> Call {
    common::call(rank, 100 + rank, operation, begin, end)
}

fn collective(call: Call, sequence: u32, root: Option<u32>, bytes: (u64, u64)) -> Call {
    Call {
        comm: Some(0),
        sequence: Some(sequence),
        root: root.map(Rank::new),
        sent: Some(Bytes::new(bytes.0)),
        received: Some(Bytes::new(bytes.1)),
        ..call
    }
}

fn end(rank: u32, direction: Direction, tag: i32, times: [u64; 3]) -> Transfer {
    Transfer {
        rank: Rank::new(rank),
        thread: Pid::new(100 + rank),
        direction,
        comm: 0,
        peer: Some(Rank::new(1 - rank)),
        tag,
        bytes: Some(Bytes::new(1_000 + tag.unsigned_abs() as u64)),
        posted_ns: times[0],
        wait_ns: Some(times[1]),
        completed_ns: Some(times[2]),
    }
}

/// Two ranks with every kind of call and message, calls of no length, and marks around them.
fn program(path: &Path) -> RunReader {
    use Direction::{Receive, Send};
    write(path, two_ranks(), |run| {
        let tasks = [100, 101].map(|pid| task(pid, "app", TaskKind::Rank));
        run.write_table(&table::<Tasks>(tasks)).unwrap();
        let operations = (0..).zip(OPERATIONS);
        let operations = operations.map(|(id, (name, class))| operation(id, name, class));
        run.write_table(&table::<Operations>(operations)).unwrap();
        let member = |comm, member, rank| Communicator {
            comm,
            member,
            rank: Rank::new(rank),
            key: comm.into(),
        };
        // The second communicator has the ranks the other way round.
        let members = [(1, 1, 0), (0, 1, 1), (1, 0, 1), (0, 0, 0)];
        let members = members.map(|(comm, place, rank)| member(comm, place, rank));
        run.write_table(&table::<Communicators>(members)).unwrap();
        let (comm, request) = (Some(0), Some(0));
        let calls = [
            call(0, 0, 1_000, 1_100),
            Call {
                comm,
                ..call(0, 1, 1_200, 1_300)
            },
            // Two requests are open at once.
            Call {
                comm: Some(1),
                request,
                ..call(0, 2, 1_320, 1_340)
            },
            Call {
                comm,
                request: Some(1),
                ..call(0, 2, 1_400, 1_450)
            },
            // It begins where the previous one ends.
            call(0, 5, 1_450, 1_800),
            collective(call(0, 6, 2_000, 2_100), 0, Some(0), (64, 0)),
            Call {
                comm: Some(1),
                ..collective(call(0, 6, 2_150, 2_160), 0, Some(0), (8, 0))
            },
            // A call of no length.
            collective(call(0, 7, 2_500, 2_500), 1, None, (8, 8)),
            Call {
                comm,
                sequence: Some(2),
                request: Some(2),
                ..call(0, 8, 2_600, 2_610)
            },
            call(1, 0, 1_000, 1_100),
            Call {
                comm,
                request,
                ..call(1, 4, 1_110, 1_120)
            },
            Call {
                comm: Some(1),
                request: Some(1),
                ..call(1, 4, 1_125, 1_130)
            },
            Call {
                comm,
                ..call(1, 3, 1_150, 1_350)
            },
            call(1, 5, 1_400, 1_600),
            collective(call(1, 6, 1_900, 2_200), 0, Some(0), (0, 64)),
            Call {
                comm: Some(1),
                ..collective(call(1, 6, 2_250, 2_260), 0, Some(0), (0, 8))
            },
            collective(call(1, 7, 2_300, 2_500), 1, None, (8, 8)),
            Call {
                comm,
                sequence: Some(2),
                request: Some(2),
                ..call(1, 8, 2_600, 2_610)
            },
        ];
        run.write_table(&table::<Calls>(calls)).unwrap();
        let transfers = [
            end(0, Send, 1, [1_200, 1_200, 1_300]),
            Transfer {
                comm: 1,
                ..end(0, Send, 3, [1_320, 1_450, 1_800])
            },
            end(0, Send, -77, [1_400, 1_450, 1_800]),
            end(1, Receive, 1, [1_150, 1_150, 1_350]),
            end(1, Receive, -77, [1_110, 1_400, 1_600]),
            Transfer {
                comm: 1,
                ..end(1, Receive, 3, [1_125, 1_400, 1_600])
            },
        ];
        run.write_table(&table::<Transfers>(transfers)).unwrap();
        let mark = |rank, name: &str, begin, end| Mark {
            rank: Some(Rank::new(rank)),
            node: NODE,
            thread: Pid::new(100 + rank),
            name: name.to_owned(),
            begin_ns: begin,
            end_ns: Some(end),
        };
        // Inner ones come first, as they end first. One ends where a call begins.
        let marks = [
            mark(0, "exchange, \"fast\"", 1_150, 2_000),
            mark(0, "point", 2_300, 2_300),
            mark(0, "step", 1_100, 2_700),
            mark(1, "step", 1_100, 2_700),
        ];
        run.write_table(&table::<Marks>(marks)).unwrap();
    })
}

#[test]
fn the_real_library_lists_what_the_run_has_and_reading_gives_it_back() {
    let dir = tempfile::tempdir().unwrap();
    let run = program(&dir.path().join("run"));
    let Some((anchor, export)) = exported(&run, &dir.path().join("out")) else {
        return;
    };
    assert_eq!(
        entries(&export.losses),
        ["ends of collectives that do not block x2"]
    );
    let expected = Rows::of(&run);
    if let Some(listing) = listed(&anchor, &["-Werror"]) {
        // The events of a call of no length have one time, so the listing cannot tell its start
        // from its end.
        rows(&listing, rank, |ticks| ticks).same_as(&expected);
        let all = listed(&anchor, &["-A", "-Werror"]).unwrap();
        assert!(
            all.contains("Ticks per Seconds: 1000000000, Global Offset: 1000, Length: 1700"),
            "{all}"
        );
    }
    let imported = back(&anchor, &dir.path().join("back")).unwrap();
    let found = RunReader::open(&dir.path().join("back")).unwrap();
    Rows::of(&found).same_as(&expected);
    assert_eq!(
        entries(&imported.losses),
        ["who had the CPUs, interrupts and wake-ups x1"]
    );
    let calls = |run: &RunReader, own: bool| {
        let mut rows: Vec<Call> = run.read::<Calls>().unwrap().rows().collect();
        rows.sort_by_key(|call| (call.rank, call.begin_ns, call.end_ns));
        for row in &mut rows {
            // A receive names its communicator only at its end, and so does a nonblocking
            // collective.
            let hidden = [4, 8].map(|at| OPERATIONS[at].0);
            let name = &run.read::<Operations>().unwrap().name[row.operation as usize];
            if own && hidden.contains(&name.as_str()) {
                (row.comm, row.sequence) = (None, None);
            }
            row.operation = OPERATIONS.iter().position(|(n, _)| n == name).unwrap() as u32;
        }
        rows
    };
    assert_eq!(calls(&found, false), calls(&run, true));
    let ends = |run: &RunReader| {
        let mut rows: Vec<Transfer> = run.read::<Transfers>().unwrap().rows().collect();
        rows.sort_by_key(|end| (end.rank, end.posted_ns, end.tag));
        rows
    };
    assert_eq!(ends(&found), ends(&run));
    let manifest = |run: &RunReader| {
        let ranks = run.manifest().ranks.clone();
        ranks
            .into_iter()
            .map(|r| (r.rank, r.node, r.threads))
            .collect::<Vec<_>>()
    };
    assert_eq!(manifest(&found), manifest(&run));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(25))]

    /// Calls follow each other; marks lie anywhere.
    #[test]
    fn calls_come_back_as_they_were_whatever_the_marks_and_regions_lie_within_each_other(
        calls in prop::collection::vec((0..3_u64, 0..4_u64, 0..OPERATIONS.len()), 1..12),
        marks in prop::collection::vec((0..30_u64, 0..12_u64, 0..4_u32), 0..10),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut now = 1_000;
        let run = write(&dir.path().join("run"), two_ranks(), |run| {
            let operations = (0..).zip(OPERATIONS);
            let operations = operations.map(|(id, (name, class))| operation(id, name, class));
            run.write_table(&table::<Operations>(operations)).unwrap();
            let rows = calls.iter().map(|&(gap, length, of)| {
                let begin = now + gap;
                now = begin + length;
                call(0, of as u32, begin, now)
            });
            run.write_table(&table::<Calls>(rows.collect::<Vec<_>>())).unwrap();
            let rows = marks.iter().map(|&(begin, length, name)| Mark {
                rank: Some(Rank::new(0)),
                node: NODE,
                thread: Pid::new(100),
                name: format!("mark {name}"),
                begin_ns: 1_000 + begin,
                end_ns: Some(1_000 + begin + length),
            });
            run.write_table(&table::<Marks>(rows)).unwrap();
        });
        let Some((anchor, _)) = exported(&run, &dir.path().join("out")) else {
            return Ok(());
        };
        if let Some(listing) = listed(&anchor, &["-Werror"]) {
            let mut open = Vec::new();
            for (enters, name, _) in regions(&listing, 0) {
                match enters {
                    true => open.push(name),
                    false => prop_assert_eq!(open.pop(), Some(name)),
                }
            }
            prop_assert!(open.is_empty());
        }
        back(&anchor, &dir.path().join("back")).unwrap();
        let found = RunReader::open(&dir.path().join("back")).unwrap();
        prop_assert_eq!(Rows::of(&found).calls, Rows::of(&run).calls);
    }
}

/// If a million overlapped, each end would write all others again.
#[test]
fn regions_that_lie_too_deep_in_others_are_left_out_and_in_the_ledger() {
    let dir = tempfile::tempdir().unwrap();
    let mark = |begin, end| Mark {
        rank: Some(Rank::new(0)),
        node: NODE,
        thread: Pid::new(100),
        name: "same".to_owned(),
        begin_ns: begin,
        end_ns: Some(end),
    };
    let run = write(&dir.path().join("run"), two_ranks(), |run| {
        let nested = (0..1_030).map(|n| mark(1_000 + n, 9_000 - n));
        let rows = nested.chain([mark(9_500, 9_600)]);
        run.write_table(&table::<Marks>(rows)).unwrap();
    });
    let Some((anchor, export)) = exported(&run, &dir.path().join("out")) else {
        return;
    };
    assert_eq!(
        entries(&export.losses),
        ["regions that lie too deep in others x6"]
    );
    let back_to = dir.path().join("back");
    back(&anchor, &back_to).unwrap();
    let found = Rows::of(&RunReader::open(&back_to).unwrap()).marks;
    let mut expected = Rows::of(&run).marks;
    expected.retain(|mark| !(2_024..9_000).contains(&mark.2));
    assert_eq!(found, expected);
}

/// The ranks are 1 and 2 of three: rank 0 was not recorded.
#[test]
fn what_belongs_to_ranks_or_communicators_that_are_not_listed_is_in_the_ledger() {
    use Direction::{Receive, Send};
    let dir = tempfile::tempdir().unwrap();
    let mut manifest = two_ranks();
    for (number, sheet) in (1..).zip(&mut manifest.ranks) {
        (sheet.rank, sheet.threads) = (Rank::new(number), vec![Pid::new(100 + number)]);
    }
    let run = write(&dir.path().join("run"), manifest, |run| {
        let operations = (0..).zip(OPERATIONS);
        let operations = operations.map(|(id, (name, class))| operation(id, name, class));
        run.write_table(&table::<Operations>(operations)).unwrap();
        let members = (0..3).map(|rank| Communicator {
            comm: 0,
            member: rank,
            rank: Rank::new(rank),
            key: 0,
        });
        run.write_table(&table::<Communicators>(members)).unwrap();
        let calls = [
            call(1, 1, 1_000, 1_100),
            call(1, 3, 1_200, 1_300),
            call(1, 4, 1_400, 1_500),
            Call {
                comm: Some(7),
                ..collective(call(1, 7, 1_600, 1_700), 0, None, (8, 8))
            },
            call(2, 3, 1_000, 1_200),
        ];
        run.write_table(&table::<Calls>(calls)).unwrap();
        let of = |rank, peer, end| Transfer {
            rank: Rank::new(rank),
            thread: Pid::new(100 + rank),
            peer: Some(Rank::new(peer)),
            ..end
        };
        let transfers = [
            of(1, 2, end(0, Send, 1, [1_000, 1_000, 1_100])),
            of(1, 0, end(0, Send, 2, [1_000, 1_000, 1_100])),
            of(1, 0, end(0, Receive, 3, [1_200, 1_200, 1_300])),
            Transfer {
                completed_ns: None,
                ..of(1, 2, end(0, Receive, 4, [1_400, 1_400, 1_500]))
            },
            of(2, 1, end(0, Receive, 1, [1_000, 1_000, 1_200])),
        ];
        run.write_table(&table::<Transfers>(transfers)).unwrap();
    });
    let Some((anchor, export)) = exported(&run, &dir.path().join("out")) else {
        return;
    };
    assert_eq!(
        entries(&export.losses),
        [
            "collectives whose communicator has no list of members x1",
            "messages whose other rank is not known x2",
            "messages without an end x1",
            "ranks that the run does not list x1",
        ]
    );
    let Some(listing) = listed(&anchor, &["-Werror"]) else {
        return;
    };
    // In the archive they are ranks 0 and 1.
    let found = rows(&listing, rank, |ticks| ticks);
    assert_eq!(
        found.ends,
        [
            (0, true, 1, 1, 1_001, 1_000, 1_000, 1_100),
            (1, false, 0, 1, 1_001, 1_000, 1_000, 1_200)
        ]
    );
    assert!(found.collectives.is_empty());
    assert!(!listing.contains("UNKNOWN"), "{listing}");
}
