//! Views on the terminal.

#![allow(clippy::unwrap_used)]

use idlewave_explain::views::*;
use idlewave_report::render_view;
use idlewave_run::findings::{Estimate, Periodicity, WaitClass};
use idlewave_run::tables::TaskKind;
use idlewave_run::testing::empty_manifest;
use idlewave_run::{Ledger, Manifest, SourceKind, TraceMode, Unavailable};
use idlewave_units::{Bytes, Cpu, CpuSet, Nanos, NodeId, Pid, Rank};

fn estimate(value: f64) -> Estimate {
    Estimate {
        value,
        low: 0.9 * value,
        high: 1.1 * value,
        n: 100,
        method: "test".to_owned(),
    }
}

fn lengths(ns: u64) -> LengthSummary {
    LengthSummary {
        count: 202,
        total: Nanos::from_nanos(202 * ns),
        median: Some(estimate(ns as f64)),
        p99: Some(estimate(1.2 * ns as f64)),
        longest: Some(Nanos::from_nanos(2 * ns)),
        histogram: vec![(ns / 2, 101), (ns, 100), (40_000_000, 1)],
    }
}

fn thread(name: &str) -> Thread {
    Thread {
        node: NodeId::new(0),
        pid: Pid::new(500),
        process: Some(Pid::new(499)),
        name: name.to_owned(),
        program: Some("service\u{1b}[2J".to_owned()),
        kind: TaskKind::User,
        rank: None,
    }
}

#[test]
fn all_that_a_run_lacks_is_shown_with_what_to_do() {
    let unavailable = |what: &str| Unavailable {
        what: what.to_owned(),
        why: "no tracefs".to_owned(),
        allow: Some("sudo idlewave study".to_owned()),
    };
    let mut ledger = Ledger::default();
    ledger.enter("gaps", 2, "steps in them are marked", "larger buffers");
    ledger.enter("symbols\u{1b}[2J", 70_000, "none", "none needed");
    let found = View::Losses(Losses {
        unavailable: vec![unavailable("interrupts"), unavailable("names of tasks")],
        losses: ledger.entries().to_vec(),
    });
    let expected = "\
NOT RECORDED
  interrupts (no tracefs)
    $ sudo idlewave study
  names of tasks (no tracefs)
LOST OR UNCERTAIN, largest count first
  gaps (2): steps in them are marked
    larger buffers
  symbols\\u{1b}[2J (70,000): none
";
    assert_eq!(shown(&empty_manifest(), &found, 60), expected);
    let nothing = View::Losses(Losses {
        unavailable: Vec::new(),
        losses: Vec::new(),
    });
    assert_eq!(
        shown(&empty_manifest(), &nothing, 60),
        "everything was recorded, nothing was lost and nothing is\nuncertain\n"
    );
}

fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

/// The manifest of a run during which others used this share of the CPUs.
fn of_others(share: Option<f64>) -> Manifest {
    let mut manifest = empty_manifest();
    manifest.nodes[0].contamination.others = share;
    manifest
}

#[test]
fn every_view_of_a_busy_run_says_so_and_none_of_a_quiet_one() {
    for view in views() {
        let text = shown(&of_others(Some(0.5)), &view, 80);
        let said = text.starts_with("! BUSY MACHINE: others used 50.0 % of the CPUs");
        assert!(said, "{text}");
        assert!(!shown(&of_others(None), &view, 80).contains("BUSY"));
    }
}

fn daemons() -> View {
    View::Daemons(Daemons {
        watched: Nanos::from_secs(10),
        daemons: vec![Daemon {
            thread: thread("aixd"),
            runs: 203,
            period: Some(Periodicity {
                period: estimate(46_400_000.0),
                share: 0.985,
                power: 9.0,
                phase: None,
            }),
            phase: None,
            between: lengths(46_400_000),
            length: lengths(21_000),
            ready: lengths(10_600),
            cpus: cpus("0-1,3"),
            cost: Nanos::from_nanos(202 * 21_000),
            share: 0.000_424,
        }],
    })
}

/// One of each view.
fn views() -> Vec<View> {
    let ready = || Ready {
        woken: lengths(10_600),
        preempted: lengths(4_000_000),
    };
    let named = || "timer tick".to_owned();
    vec![
        View::Processes(Processes {
            watched: Nanos::from_secs(10),
            cpu_time: Nanos::from_secs(20),
            threads: vec![Process {
                thread: thread("a very long nam"),
                time: Nanos::from_secs(2),
                share: 0.2,
                bursts: 1234,
                average: Nanos::from_micros(21),
                longest: Nanos::from_micros(99),
                migrations: 3,
                cpus: cpus("0-1,3"),
                waited: Nanos::from_micros(10),
                ended: Ends {
                    preempted: 1,
                    blocked: 1230,
                    uninterruptible: 2,
                    stopped: 0,
                    exited: 1,
                    unknown: 0,
                },
            }],
            coarse: vec![CoarseTask {
                thread: thread("other"),
                watched: Nanos::from_secs(10),
                ran: Nanos::from_secs(1),
                waited: Nanos::from_secs(2),
                slices: 99,
            }],
        }),
        View::Matrix(Matrix {
            watched: Nanos::from_secs(10),
            cpus: cpus("0-31"),
            threads: vec![MatrixRow {
                thread: thread("aixd"),
                cells: vec![MatrixCell {
                    cpu: Cpu::new(3),
                    time: Nanos::from_micros(42),
                    bursts: 2,
                    average: Nanos::from_micros(21),
                }],
            }],
        }),
        View::States(States {
            watched: Nanos::from_secs(10),
            threads: vec![StatesRow {
                thread: thread("aixd"),
                running: lengths(21_000),
                ready: lengths(10_600),
                blocked: lengths(46_000_000),
                unknown: Nanos::ZERO,
            }],
        }),
        daemons(),
        View::Interrupts(Interrupts {
            watched: Nanos::from_secs(10),
            interrupts: vec![InterruptRow {
                node: NodeId::new(0),
                cpu: Cpu::new(1),
                kind: SourceKind::TimerTick,
                name: named(),
                count: 2500,
                rate: estimate(250.0),
                net: lengths(4_000),
                nested: Nanos::from_micros(7),
                inner: 0,
            }],
            clocks: vec![clock(1), clock(2)],
            coarse: vec![CoarseCounter {
                node: NodeId::new(0),
                cpu: Cpu::new(0),
                kind: SourceKind::Hypervisor,
                name: "steal".to_owned(),
                watched: Nanos::from_secs(10),
                increase: 10_000_000,
                rate: 1e6,
            }],
        }),
        View::Latency(Latency {
            all: ready(),
            threads: vec![ThreadLatency {
                thread: thread("aixd"),
                ready: ready(),
            }],
            cpus: vec![CpuLatency {
                node: NodeId::new(0),
                cpu: Cpu::new(0),
                ready: ready(),
            }],
        }),
        View::Wakeups(Wakeups {
            late: 5,
            sources: vec![Woken {
                kind: SourceKind::Task,
                name: "aixd".to_owned(),
                lost: Nanos::from_micros(500),
                wakeups: 203,
                in_late: 4,
                wakers: vec![Waker {
                    kind: SourceKind::TimerTick,
                    name: named(),
                    wakeups: 200,
                    in_late: 4,
                    woken_by: vec![Back {
                        kind: SourceKind::Task,
                        name: "other".to_owned(),
                        wakeups: 7,
                    }],
                }],
                more: 2,
            }],
        }),
        View::Syscalls(Syscalls {
            calls: vec![SyscallRow {
                call: "futex".to_owned(),
                lengths: lengths(4_000),
                on_cpu: Nanos::from_micros(30),
                not_returned: 1,
            }],
            threads: vec![CallingThread {
                thread: thread("aixd"),
                calls: 200,
                time: Nanos::from_micros(800),
                on_cpu: Nanos::from_micros(30),
            }],
        }),
        View::Mpi(mpi(2)),
        View::Mpi(mpi(64)),
    ]
}

fn clock(groups: u32) -> Clock {
    let cpu = |cpu| ClockCpu {
        cpu: Cpu::new(cpu),
        count: 2500,
        frequency: estimate(250.0),
        length: lengths(4_000),
        offset_ns: Some(-1_000_000),
        spread: Some(Nanos::from_nanos(100)),
        share: Some(0.93),
    };
    Clock {
        node: NodeId::new(0),
        period_ns: Some(4e6),
        is_hz: true,
        cpus: vec![cpu(0), cpu(1)],
        skew: Some(Skew {
            cpus: 2,
            groups,
            length: Nanos::from_micros(4),
            cost: Nanos::from_micros(4 * u64::from(groups)),
            share: 0.001 * f64::from(groups),
        }),
    }
}

fn mpi(ranks: u32) -> Mpi {
    let traffic = |from, to| Traffic {
        from: Rank::new(from),
        to: Rank::new(to),
        messages: 3,
        bytes: 1024.0,
    };
    Mpi {
        ranks,
        calls: vec![CallRow {
            function: "MPI_Neighbor_alltoallv_init".to_owned(),
            communicator: Some(0),
            calls: lengths(5_000),
            sent: Bytes::new(12),
            received: Bytes::new(0),
        }],
        communicators: vec![CommunicatorRow {
            communicator: 0,
            members: ranks,
            calls: 202,
            time: Nanos::from_micros(5),
            messages: 6,
            message_bytes: Bytes::new(6144),
            collective_bytes: Bytes::new(12),
        }],
        point_to_point: (0..ranks).map(|r| traffic(r, (r + 1) % ranks)).collect(),
        collective: (ranks < 64).then(Vec::new),
        waits: vec![WaitClass {
            name: "late sender".to_owned(),
            count: 3,
            time: Nanos::from_micros(9),
        }],
        unfinished: vec![UnfinishedRank {
            rank: Rank::new(1),
            last: "MPI_Bcast".to_owned(),
            left: Nanos::from_secs(1),
        }],
        open: 1,
        open_transfers: vec![OpenTransfer {
            rank: Rank::new(1),
            receives: true,
            peer: None,
            communicator: 0,
            tag: 5,
            posted: Nanos::from_secs(1),
        }],
    }
}

fn shown(manifest: &Manifest, view: &View, width: usize) -> String {
    render_view(manifest, &Filter::default(), view, width, false)
}

#[test]
fn the_daemon_of_the_study_is_one_line_of_eighty_columns() {
    let text = shown(&empty_manifest(), &daemons(), 80);
    let line = text.lines().find(|l| l.contains("aixd 500")).unwrap();
    for part in ["46.4 ms", "98.5 %", "21.0 us", "10.6 us", "0-1,3"] {
        assert!(line.contains(part), "{part}: {text}");
    }
    assert!(text.contains("columns left out at this width"), "{text}");
}

#[test]
fn calls_of_another_library_are_not_called_mpi() {
    let of = |function: &str| {
        let mut found = mpi(3);
        found.unfinished.clear();
        found.calls[0].function = function.to_owned();
        shown(&empty_manifest(), &View::Mpi(found), 80)
    };
    let text = of("MPI_Bcast");
    assert!(text.contains("MPI BY FUNCTION AND COMMUNICATOR"), "{text}");
    assert!(text.contains("(0 is MPI_COMM_WORLD)"), "{text}");
    let text = of("gloo:broadcast");
    assert!(
        text.contains("CALLS BY FUNCTION AND COMMUNICATOR"),
        "{text}"
    );
    assert!(!text.contains("MPI"), "{text}");
}

#[test]
fn latency_after_wake_ups_and_after_preemptions_are_rows_with_the_same_columns() {
    let views = views();
    let latency = views.iter().find(|v| matches!(v, View::Latency(_)));
    let text = shown(&empty_manifest(), latency.unwrap(), 80);
    let heads: Vec<&str> = text.lines().filter(|l| l.contains("median")).collect();
    assert_eq!(heads.len(), 3, "{text}");
    for head in heads {
        for column in ["ready after", "times", "median", "p99", "longest", "time"] {
            let words = format!("{head} ");
            assert_eq!(words.matches(&format!(" {column} ")).count(), 1, "{head}");
        }
    }
    for (after, median) in [("a wake-up", "10.6 us"), ("a preemption", "4.00 ms")] {
        let rows = text.lines().filter(|l| l.contains(after));
        assert_eq!(rows.filter(|l| l.contains(median)).count(), 3, "{text}");
    }
    assert!(!text.contains("left out"), "{text}");
}

#[test]
fn a_view_of_a_trace_with_holes_says_that_events_were_lost() {
    let mut manifest = empty_manifest();
    let lost = |manifest: &Manifest| {
        let text = shown(manifest, &daemons(), 80);
        text.lines().find(|l| l.contains("lost")).map(str::to_owned)
    };
    assert_eq!(lost(&manifest), None);
    manifest.nodes[0].trace.cost.lost = 1_234;
    assert!(lost(&manifest).is_some_and(|l| l.starts_with("! the kernel trace lost 1,234 events")));
}

#[test]
fn every_view_fits_every_width_and_says_what_it_leaves_out() {
    for view in views() {
        for width in [40, 60, 80, 100, 120] {
            let text = shown(&empty_manifest(), &view, width);
            assert!(text.lines().count() > 2, "{text}");
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
            assert!(
                text.bytes()
                    .all(|b| b == b'\n' || (b' '..=b'~').contains(&b)),
                "{text:?}"
            );
        }
        let narrow = shown(&empty_manifest(), &view, 40);
        let wide = shown(&empty_manifest(), &view, 120);
        let left_out = narrow.contains("columns left out");
        assert!(
            left_out || narrow.lines().count() >= wide.lines().count(),
            "{narrow}"
        );
    }
}

#[test]
fn clocks_say_what_they_cost_aligned_and_staggered() {
    let views = views();
    let text = shown(&empty_manifest(), &views[4], 80).replace("\n  ", " ");
    assert!(
        text.contains("Aligned: 2 CPUs are interrupted at once"),
        "{text}"
    );
    assert!(text.contains("up to 4.00 us per period, 0.10 %"), "{text}");
    assert!(
        text.contains("come in 2 groups one after the other"),
        "{text}"
    );
    assert!(text.contains("up to 8.00 us per period, 0.20 %"), "{text}");
}

#[test]
fn a_run_without_kernel_trace_says_so() {
    let mut manifest = empty_manifest();
    manifest.nodes[0].trace.mode = TraceMode::PerfSwitch;
    let text = shown(&manifest, &daemons(), 80);
    assert!(text.contains("the kernel was not traced"), "{text}");
    assert!(!shown(&empty_manifest(), &daemons(), 80).contains("not traced"));
    let text = shown(&manifest, &views()[0], 80);
    assert!(text.contains("coarse: how much, not when"), "{text}");
}

#[test]
fn counters_say_which_part_of_a_filter_they_cannot_follow() {
    let every = Filter {
        from: Some(Nanos::from_secs(1)),
        to: Some(Nanos::from_secs(2)),
        process: Some("aixd".to_owned()),
        cpus: Some(cpus("0-3")),
        node: Some(NodeId::new(0)),
        rank: None,
    };
    let resolved = Filter {
        node: every.node,
        ..Filter::default()
    };
    let of_views = views();
    let is_coarse = |v: &&View| matches!(v, View::Processes(_) | View::Interrupts(_));
    let said: Vec<Option<String>> = of_views
        .iter()
        .filter(is_coarse)
        .map(|view| {
            let shown = |filter| render_view(&empty_manifest(), filter, view, 200, false);
            assert!(!shown(&resolved).contains("cannot be restricted"));
            let text = shown(&every);
            let line = text
                .lines()
                .find(|l| l.contains("cannot be restricted to"))?;
            Some(line.split('`').nth(1)?.to_owned())
        })
        .collect();
    let expected = [
        "from 1.00 s, until 2.00 s, CPUs 0-3",
        "from 1.00 s, until 2.00 s, process aixd",
    ];
    assert_eq!(said, expected.map(|text| Some(text.to_owned())));
}

#[test]
fn filters_are_repeated_above_the_view() {
    let filter = Filter {
        from: Some(Nanos::from_secs(1)),
        process: Some("a\u{7}b".to_owned()),
        cpus: Some(cpus("0-3")),
        ..Filter::default()
    };
    let text = render_view(&empty_manifest(), &filter, &daemons(), 80, false);
    let first = text.lines().next().unwrap();
    assert_eq!(first, r"only from 1.00 s, process a\u{7}b, CPUs 0-3");
}
