//! Paraver traces: what is written, whether an independent reader accepts it and finds the same
//! numbers, and whether reading it gives the run back.

#![allow(clippy::unwrap_used)]

use crate::common::*;
use idlewave_formats::export::Format;
use idlewave_formats::import::{Imported, Subject};
use idlewave_run::tables::*;
use idlewave_run::testing::empty_manifest;
use idlewave_run::{RunReader, SourceKind};
use idlewave_units::{Bytes, Cpu, NodeId, Pid, Rank};
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Rank 0 is preempted by a kernel thread for 1.5 us and comes late to a barrier; rank 1 waits for
/// it. A clock interrupt of 300 ns, with a softirq of 120 ns in it, hits rank 1.
fn late(path: &Path) -> RunReader {
    let at = |ns| 1_000_000 + ns;
    write(path, two_ranks(), |run| {
        let tasks = [
            task(0, "swapper", TaskKind::Idle),
            task(7, "kworker/0:1", TaskKind::Kernel),
            task(100, "app", TaskKind::Rank),
            task(101, "app", TaskKind::Rank),
        ];
        run.write_table(&table::<Tasks>(tasks)).unwrap();
        let bursts = [
            burst(0, 100, at(0), at(4_000), EndReason::Preempted),
            burst(1, 101, at(0), at(9_000), EndReason::Sleeping),
            burst(0, 7, at(4_000), at(5_500), EndReason::Sleeping),
            burst(0, 100, at(5_500), at(10_000), EndReason::Unknown),
            burst(1, 0, at(9_000), at(10_000), EndReason::Unknown),
        ];
        run.write_table(&table::<Bursts>(bursts)).unwrap();
        let sources = [
            source(0, SourceKind::TimerTick, "local_timer"),
            source(1, SourceKind::Softirq, "TIMER"),
        ];
        run.write_table(&table::<Sources>(sources)).unwrap();
        let interrupts = [
            interrupt(0, 1, 101, at(2_000), at(2_300), 0),
            interrupt(1, 1, 101, at(2_100), at(2_220), 1),
        ];
        run.write_table(&table::<Interrupts>(interrupts)).unwrap();
        let wakeup = Wakeup {
            node: NODE,
            time_ns: at(3_900),
            cpu: Cpu::new(0),
            waker: Pid::new(100),
            pid: Pid::new(7),
            target_cpu: Cpu::new(0),
        };
        run.write_table(&table::<Wakeups>([wakeup])).unwrap();
        let operation = |id, name: &str, class| Operation {
            id,
            name: name.to_owned(),
            class,
        };
        let operations = [
            operation(0, "MPI_Barrier", OperationClass::AllToAll),
            operation(1, "MPI_Send", OperationClass::Send),
            operation(2, "MPI_Foo", OperationClass::Other),
        ];
        run.write_table(&table::<Operations>(operations)).unwrap();
        let call = |rank, operation, begin, end, comm: Option<u32>| Call {
            rank: Rank::new(rank),
            thread: Pid::new(100 + rank),
            operation,
            begin_ns: at(begin),
            end_ns: at(end),
            comm,
            sequence: comm,
            root: None,
            sent: None,
            received: None,
            request: None,
        };
        let calls = [
            call(1, 2, 100, 200, None),
            call(1, 0, 4_700, 6_350, Some(0)),
            call(0, 0, 6_200, 6_350, Some(0)),
        ];
        run.write_table(&table::<Calls>(calls)).unwrap();
        let member = |member| Communicator {
            comm: 0,
            member,
            rank: Rank::new(member),
            key: 1,
        };
        run.write_table(&table::<Communicators>([member(0), member(1)]))
            .unwrap();
        let message = Message {
            from: Rank::new(0),
            to: Rank::new(1),
            comm: 0,
            tag: -77,
            bytes: Bytes::new(8),
            sent_ns: at(6_400),
            posted_ns: at(6_390),
            wait_ns: at(6_390),
            completed_ns: at(6_500),
        };
        run.write_table(&table::<Messages>([message])).unwrap();
        let wait = Wait {
            rank: Rank::new(1),
            call: 1,
            kind: WaitKind::Collective,
            begin_ns: at(4_700),
            end_ns: at(6_200),
            culprit: Rank::new(0),
            parent: None,
            hops: 0,
        };
        run.write_table(&table::<Waits>([wait])).unwrap();
        let mark = |begin, end: Option<u64>| Mark {
            rank: Some(Rank::new(1)),
            node: NODE,
            thread: Pid::new(101),
            name: "solve, \"fast\"".to_owned(),
            begin_ns: at(begin),
            end_ns: end.map(at),
        };
        run.write_table(&table::<Marks>([
            mark(300, Some(4_600)),
            mark(7_000, Some(7_000)),
        ]))
        .unwrap();
    })
}

/// The trace, worked out by hand.
const EXPECTED: &str = "\
#Paraver (01/01/2026 at 00:00):10000_ns:1(2):2:2(1:1,1:1):2(2:1,1:1),1
c:1:1:2:1:2
1:1:1:1:1:0:4000:1
1:2:1:2:1:0:9000:1
2:1:1:1:1:0:60000001:1
2:2:1:2:1:0:60000001:2
2:0:1:2:1:100:50000003:1002
2:0:1:2:1:200:50000003:0
2:0:1:2:1:300:60000019:1
2:2:1:2:1:2000:61000000:1
2:2:1:2:1:2100:61000001:2
2:2:1:2:1:2220:61000001:0
2:2:1:2:1:2300:61000000:0
1:0:2:2:1:3900:4000:7
1:1:2:2:1:4000:5500:1
1:0:1:1:1:4000:5500:7
2:1:1:1:1:4000:60000001:0
2:1:2:2:1:4000:60000001:1
2:0:1:2:1:4600:60000019:0
2:0:1:2:1:4700:50000002:8:50100004:1
2:0:1:2:1:4700:60000040:1:60000041:3
2:1:2:2:1:4700:60000032:1
1:1:1:1:1:5500:10000:1
1:0:2:2:1:5500:10000:9
2:1:2:2:1:5500:60000001:0
2:1:2:2:1:5500:60000032:0
2:1:1:1:1:5500:60000001:1
2:0:1:1:1:6200:50000002:8:50100004:1
2:0:1:2:1:6200:60000040:0:60000041:0
2:0:1:2:1:6350:50000002:0
2:0:1:1:1:6350:50000002:0
3:0:1:1:1:6400:6400:0:1:2:1:6390:6500:8:-77
2:0:1:2:1:7000:60000020:1
1:2:2:1:2:9000:10000:0
1:0:1:2:1:9000:10000:9
2:2:1:2:1:9000:60000001:0
2:2:2:1:2:9000:60000001:2
2:1:1:1:1:10000:60000001:0
2:2:2:1:2:10000:60000001:0
";

#[test]
fn a_late_barrier_is_written_as_worked_out_by_hand() {
    let dir = tempfile::tempdir().unwrap();
    let run = late(&dir.path().join("run"));
    let prv = dir.path().join("late.prv");
    let export = export(&run, Format::Paraver, &prv);
    let text = fs::read_to_string(&prv).unwrap();
    assert_eq!(text, EXPECTED);
    assert_eq!(
        export.files[0].records,
        Some(EXPECTED.lines().count() as u64 - 2)
    );
    assert_eq!(export.files[0].bytes, EXPECTED.len() as u64);
    let Some(found) = checked(&prv) else { return };
    assert_eq!(matrix_of_trace(&found), matrix_of_run(&run));
    let rank0 = &found["matrix"]["rank 0 (100)"]["CPU 0"];
    assert_eq!((&rank0[0], &rank0[1]), (&8_500.into(), &2.into()));
    let kworker = &found["matrix"]["kworker/0:1 (7)"]["CPU 0"];
    assert_eq!((&kworker[0], &kworker[1]), (&1_500.into(), &1.into()));
    assert_eq!(
        found["states"]["rank 0 (100)"]["Ready: waits for a CPU"][0],
        1_500
    );
}

#[test]
fn names_of_everything_are_in_the_files_beside_the_trace() {
    let dir = tempfile::tempdir().unwrap();
    let run = late(&dir.path().join("run"));
    let prv = dir.path().join("late.prv");
    let export = export(&run, Format::Paraver, &prv);
    let pcf = fs::read_to_string(dir.path().join("late.pcf")).unwrap();
    for name in [
        "1      timer tick local_timer\n",
        "2      softirq TIMER\n",
        "8      MPI_Barrier\n",
        "1002      MPI_Foo\n",
        "1      solve, \"fast\"\n",
        "2      CPU 1\n",
    ] {
        assert!(pcf.contains(name), "{name}: {pcf}");
    }
    let row = fs::read_to_string(dir.path().join("late.row")).unwrap();
    assert!(row.contains("LEVEL THREAD SIZE 5\nrank 0 (100)\nrank 1 (101)\nidle CPU 0\nidle CPU 1\nkworker/0:1 (7)\n"), "{row}");
    let views = fs::read_dir(dir.path().join("late.cfgs")).unwrap().count();
    assert!(views >= 12, "{views}");
    assert_eq!(export.files.len(), 3 + views);
}

/// A view is what Paraver reads: every key is known, and every window that a table or a product
/// uses exists.
#[test]
fn views_name_windows_that_exist_and_types_that_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let run = late(&dir.path().join("run"));
    export(&run, Format::Paraver, &dir.path().join("late.prv"));
    let pcf = fs::read_to_string(dir.path().join("late.pcf")).unwrap();
    for file in fs::read_dir(dir.path().join("late.cfgs")).unwrap() {
        let path = file.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "#ParaverCFG", "{path:?}");
        let values = |key: &str| -> Vec<String> {
            let of = |l: &&str| l.strip_prefix(key).map(|v| v.trim().to_owned());
            lines.iter().filter_map(of).collect()
        };
        let ids: Vec<String> = values("window_id ");
        assert_eq!(values("ConfigFile.NumWindows: "), [ids.len().to_string()]);
        for used in ["Analyzer2D.ControlWindow: ", "Analyzer2D.DataWindow: "] {
            assert!(values(used).iter().all(|v| ids.contains(v)), "{path:?}");
        }
        for of in values("window_identifiers ") {
            assert!(
                of.split(' ').all(|v| ids.contains(&v.to_owned())),
                "{path:?}"
            );
        }
        for kind in values("window_filter_module evt_type 1 ") {
            assert!(
                pcf.contains(&format!("9    {kind}    ")),
                "{path:?}: {kind}"
            );
        }
        for open in ['{', '}'] {
            let count = |c: char| text.matches(c).count();
            assert_eq!(count(open), count('{'), "{path:?}");
        }
    }
}

#[test]
fn what_the_format_cannot_hold_is_in_the_ledger() {
    let dir = tempfile::tempdir().unwrap();
    let run = late(&dir.path().join("run"));
    let export = export(&run, Format::Paraver, &dir.path().join("late.prv"));
    let lost: Vec<(&str, u64)> = export
        .losses
        .entries()
        .iter()
        .map(|l| (l.what.as_str(), l.count))
        .collect();
    assert_eq!(
        lost,
        [
            ("times at which messages left", 1),
            ("wakers of threads", 1)
        ]
    );
}

#[test]
fn reading_the_trace_gives_the_run_back() {
    let dir = tempfile::tempdir().unwrap();
    let run = late(&dir.path().join("run"));
    let prv = dir.path().join("late.prv");
    export(&run, Format::Paraver, &prv);
    let to = dir.path().join("again");
    let losses = back(&prv, &to).unwrap().losses;
    let again = RunReader::open(&to).unwrap();
    assert_eq!(matrix_of_run(&again), matrix_of_run(&run));
    let shift = |ns| ns + 1_000_000;
    let mut bursts: Vec<Burst> = again.read::<Bursts>().unwrap().rows().collect();
    for row in &mut bursts {
        (row.begin_ns, row.end_ns) = (shift(row.begin_ns), shift(row.end_ns));
    }
    bursts.sort_by_key(|b| (b.begin_ns, b.cpu));
    let expected: Vec<Burst> = run.read::<Bursts>().unwrap().rows().collect();
    for (found, expected) in bursts.iter().zip(&expected) {
        // The idle thread's end reasons are not in the trace.
        let found = Burst {
            end_reason: if found.pid == Pid::IDLE {
                expected.end_reason
            } else {
                found.end_reason
            },
            ..found.clone()
        };
        assert_eq!(&found, expected);
    }
    let mut interrupts: Vec<Interrupt> = again.read::<Interrupts>().unwrap().rows().collect();
    for row in &mut interrupts {
        (row.begin_ns, row.end_ns) = (shift(row.begin_ns), shift(row.end_ns));
    }
    interrupts.sort_by_key(|i| i.begin_ns);
    assert_eq!(
        interrupts,
        run.read::<Interrupts>().unwrap().rows().collect::<Vec<_>>()
    );
    assert_eq!(
        again.read::<Sources>().unwrap(),
        run.read::<Sources>().unwrap()
    );
    let calls: Vec<Call> = again.read::<Calls>().unwrap().rows().collect();
    let barrier = calls.iter().find(|c| c.rank == Rank::new(0)).unwrap();
    assert_eq!(
        (shift(barrier.begin_ns), shift(barrier.end_ns)),
        (1_006_200, 1_006_350)
    );
    assert_eq!((barrier.comm, barrier.sequence), (Some(0), Some(0)));
    let operations = again.read::<Operations>().unwrap();
    assert_eq!(operations.name[barrier.operation as usize], "MPI_Barrier");
    assert!(operations.name.contains(&"MPI_Foo".to_owned()));
    let transfers: Vec<Transfer> = again.read::<Transfers>().unwrap().rows().collect();
    assert_eq!(transfers.len(), 2);
    assert_eq!(
        (transfers[0].tag, transfers[0].bytes),
        (-77, Some(Bytes::new(8)))
    );
    assert_eq!(transfers[1].completed_ns.map(shift), Some(1_006_500));
    let marks: Vec<String> = again
        .read::<Marks>()
        .unwrap()
        .rows()
        .map(|m| m.name)
        .collect();
    assert_eq!(marks, ["solve, \"fast\""; 2]);
    let manifest = again.manifest();
    assert_eq!(manifest.ranks.len(), 2);
    assert_eq!(manifest.ranks[1].threads, [Pid::new(101)]);
    assert_eq!(manifest.losses, losses);
    assert!(!losses.is_empty());
}

/// A trace as Extrae writes it: microseconds or nanoseconds, running states with CPUs, no event
/// 60000001, several pairs per line.
#[test]
fn a_trace_of_extrae_becomes_a_run_that_says_what_it_lacks() {
    let dir = tempfile::tempdir().unwrap();
    let prv = dir.path().join("app.prv");
    let text = "#Paraver (01/02/2026 at 10:20):2000_ns:2(1,1):1:2(1:1,1:2),1\nc:1:1:2:1:2\n\
        1:1:1:1:1:0:1000:1\n1:2:1:2:1:0:500:1\n2:1:1:1:1:1000:50000002:10:50100001:8:50100002:16:50100003:1:50100004:1\n\
        1:1:1:1:1:1000:1500:9\n2:2:1:2:1:500:50000001:1:42000050:9\n3:1:1:1:1:600:610:2:1:2:1:700:800:64:5\n2:1:1:1:1:1500:50000002:0\n2:2:1:2:1:900:50000001:0\n\
        1:2:1:1:1:900:950:1\n1:1:1:9:1:0:1:1\nnonsense\n2:1:1:1:1:2500:1:1\n";
    fs::write(&prv, text).unwrap();
    let to = dir.path().join("run");
    let losses = back(&prv, &to).unwrap().losses;
    let run = RunReader::open(&to).unwrap();
    let cells = matrix_of_run(&run);
    assert_eq!(
        cells.values().copied().collect::<Vec<_>>(),
        [(1_000, 1), (500, 1)]
    );
    let calls: Vec<Call> = run.read::<Calls>().unwrap().rows().collect();
    let operations = run.read::<Operations>().unwrap();
    let of = |c: &Call| operations.name[c.operation as usize].clone();
    let allreduce = calls.iter().find(|c| of(c) == "MPI_Allreduce").unwrap();
    assert_eq!(
        (allreduce.sent, allreduce.received),
        (Some(Bytes::new(8)), Some(Bytes::new(16)))
    );
    assert_eq!(
        (allreduce.begin_ns, allreduce.end_ns, allreduce.comm),
        (1_000, 1_500, Some(0))
    );
    assert!(calls.iter().any(|c| of(c) == "MPI_Send"));
    let lost = |what: &str| {
        losses
            .entries()
            .iter()
            .find(|l| l.what.contains(what))
            .map(|l| l.count)
    };
    assert_eq!(lost("first in line 13"), Some(1));
    // Rank 0 is not on the node of CPU 2, and there is no task 9.
    assert_eq!(lost("does not declare"), Some(2));
    assert_eq!(lost("outside of the time"), Some(1));
    assert_eq!(lost("no table"), Some(1));
    assert_eq!(run.manifest().nodes.len(), 2);
    assert_eq!(run.manifest().started, "2026-02-01T10:20:00Z");
}

/// A program without MPI: its process with two threads, and a daemon beside it.
#[test]
fn a_program_without_mpi_comes_back_as_processes_not_as_ranks() {
    let dir = tempfile::tempdir().unwrap();
    let run = write(&dir.path().join("run"), empty_manifest(), |run| {
        let helper = Task {
            process: Some(Pid::new(100)),
            ..task(101, "helper", TaskKind::Program)
        };
        let tasks = [
            task(7, "crond", TaskKind::User),
            task(100, "solver", TaskKind::Program),
            helper,
        ];
        run.write_table(&table::<Tasks>(tasks)).unwrap();
        let bursts = [
            burst(0, 100, 0, 50, EndReason::Preempted),
            burst(0, 7, 50, 60, EndReason::Sleeping),
            burst(0, 101, 60, 90, EndReason::Sleeping),
        ];
        run.write_table(&table::<Bursts>(bursts)).unwrap();
    });
    let prv = dir.path().join("solver.prv");
    export(&run, Format::Paraver, &prv);
    let imported = back(&prv, &dir.path().join("again")).unwrap();
    let told = Subject::Told {
        name: "solver".to_owned(),
        ranks: 0,
        threads: 2,
    };
    assert_eq!(imported.program, told);
    let again = RunReader::open(&dir.path().join("again")).unwrap();
    assert_eq!(again.manifest().ranks, []);
    let mut tasks: Vec<Task> = again.read::<Tasks>().unwrap().rows().collect();
    tasks.sort_by_key(|task| task.pid);
    let kinds: Vec<_> = tasks.iter().map(|t| (t.pid.get(), t.kind)).collect();
    let expected = [
        (7, TaskKind::Unknown),
        (100, TaskKind::Program),
        (101, TaskKind::Program),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(tasks[2].process, Some(Pid::new(100)));
    assert_eq!(tasks_taken_for_ranks(&imported), None);

    // Without its names, the trace does not say what its tasks are, and the ledger says so.
    fs::remove_file(prv.with_extension("row")).unwrap();
    let imported = back(&prv, &dir.path().join("nameless")).unwrap();
    assert_eq!(tasks_taken_for_ranks(&imported), Some(1));
    let nameless = RunReader::open(&dir.path().join("nameless")).unwrap();
    assert_eq!(nameless.manifest().ranks.len(), 1);
}

fn tasks_taken_for_ranks(imported: &Imported) -> Option<u64> {
    let mut all = imported.losses.entries().iter();
    let entry = all.find(|loss| loss.what.starts_with("tasks taken for ranks"));
    entry.map(|loss| loss.count)
}

#[test]
fn a_run_without_times_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let run = write(&dir.path().join("run"), empty_manifest(), |_| ());
    let output = dir.path().join("x.prv");
    let job = idlewave_formats::export::Job {
        run: &run,
        output: &output,
        stop: &AtomicBool::new(false),
        progress: &|_| (),
    };
    let error = Format::Paraver.write(&job).unwrap_err().to_string();
    assert_eq!(error, "export to paraver: nothing in it has a time");
    assert!(!output.exists());
}

/// Bursts of random threads on random CPUs of two nodes; none overlap.
fn bursts() -> impl Strategy<Value = Vec<Burst>> {
    let one = (
        0_u32..2,
        0_u32..3,
        0_u32..5,
        0_u64..3,
        0_u64..1_000,
        0_u8..6,
    );
    proptest::collection::vec(one, 1..60).prop_map(|all| {
        let (mut cpu_free, mut thread_free) = ([0; 6], [0; 10]);
        let of = |(node, cpu, thread, gap, length, reason): (u32, u32, u32, u64, u64, u8)| {
            let (c, t) = ((3 * node + cpu) as usize, (5 * node + thread) as usize);
            let begin = cpu_free[c].max(if thread == 0 { 0 } else { thread_free[t] }) + gap;
            (cpu_free[c], thread_free[t]) = (begin + length, begin + length);
            Burst {
                node: NodeId::new(node),
                ..burst(
                    cpu,
                    thread,
                    500 + begin,
                    500 + begin + length,
                    EndReason::from_code(reason).unwrap(),
                )
            }
        };
        all.into_iter().map(of).collect()
    })
}

/// Wake-ups of these threads at any time, even while they run or after they have ended.
fn wakeups() -> impl Strategy<Value = Vec<Wakeup>> {
    let one = (0_u32..2, 1_u32..5, 400_u64..3_000);
    proptest::collection::vec(one, 0..60).prop_map(|mut all| {
        all.sort_by_key(|one| one.2);
        let of = |(node, thread, time_ns)| Wakeup {
            node: NodeId::new(node),
            time_ns,
            cpu: Cpu::new(0),
            waker: Pid::new(1),
            pid: Pid::new(thread),
            target_cpu: Cpu::new(0),
        };
        all.into_iter().map(of).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn any_bursts_give_equal_matrices_in_the_trace_and_after_reading(rows in bursts(), wakes in wakeups()) {
        let dir = tempfile::tempdir().unwrap();
        let mut manifest = empty_manifest();
        let mut other = manifest.nodes[0].clone();
        other.node = NodeId::new(1);
        other.host.name = "node1".to_owned();
        manifest.nodes.push(other);
        let run = write(&dir.path().join("run"), manifest, |run| {
            run.write_table(&table::<Bursts>(rows)).unwrap();
            run.write_table(&table::<Wakeups>(wakes)).unwrap();
        });
        let prv = dir.path().join("a.prv");
        export(&run, Format::Paraver, &prv);
        let total = |run: &RunReader| matrix_of_run(run);
        if let Some(found) = checked(&prv) {
            prop_assert_eq!(matrix_of_trace(&found), total(&run));
        }
        let to = dir.path().join("again");
        back(&prv, &to).unwrap();
        prop_assert_eq!(total(&RunReader::open(&to).unwrap()), total(&run));
    }

    #[test]
    fn no_bytes_are_too_strange(mut edits in proptest::collection::vec((0_usize..1_500, any::<u8>()), 1..8), cut in 0_usize..1_600) {
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = EXPECTED.as_bytes().to_vec();
        for (at, byte) in edits.drain(..) {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        bytes.truncate(cut);
        let prv = dir.path().join("a.prv");
        fs::write(&prv, bytes).unwrap();
        let to = dir.path().join("run");
        if back(&prv, &to).is_ok() {
            let run = RunReader::open(&to).unwrap();
            prop_assert!(run.read::<Bursts>().unwrap().rows().all(|b| b.begin_ns <= b.end_ns));
        }
    }
}
