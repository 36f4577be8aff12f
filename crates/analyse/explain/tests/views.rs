//! Views of runs made up from bursts, wake-ups and interrupts with known times.

#![allow(clippy::unwrap_used)]

use idlewave_explain::explain;
use idlewave_explain::views::{Filter, SyscallRow, View, ViewKind, view};
use idlewave_run::tables::*;
use idlewave_run::testing::empty_manifest;
use idlewave_run::{Phase, PhaseKind, RankSheet, RunReader, RunWriter};
use idlewave_units::{Cpu, CpuSet, Nanos, NodeId, Pid, Rank};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

const NODE: NodeId = NodeId::new(0);
/// Start of the run; times below count from there.
const START: u64 = 1_000_000_000;

/// A run being made up. Bursts are given CPU by CPU, as the kernel's decoder writes them.
#[derive(Default)]
struct Made {
    tasks: Tasks,
    bursts: Vec<Burst>,
    wakeups: Vec<Wakeup>,
    interrupts: Vec<Interrupt>,
    syscalls: Syscalls,
    sources: Sources,
    end: u64,
    rank: Option<u32>,
    hz: Option<u32>,
}

impl Made {
    fn task(&mut self, pid: u32, name: &str, kind: TaskKind) {
        self.tasks.push(Task {
            node: NODE,
            pid: Pid::new(pid),
            process: Some(Pid::new(pid)),
            name: name.to_owned(),
            kind,
        });
    }

    fn burst(&mut self, cpu: u32, pid: u32, begin: u64, end: u64, end_reason: EndReason) {
        self.end = self.end.max(end);
        self.bursts.push(Burst {
            node: NODE,
            cpu: Cpu::new(cpu),
            pid: Pid::new(pid),
            begin_ns: START + begin,
            end_ns: START + end,
            end_reason,
            certain: true,
        });
    }

    fn wakeup(&mut self, cpu: u32, waker: u32, pid: u32, time: u64) {
        self.wakeups.push(Wakeup {
            node: NODE,
            time_ns: START + time,
            cpu: Cpu::new(cpu),
            waker: Pid::new(waker),
            pid: Pid::new(pid),
            target_cpu: Cpu::new(cpu),
        });
    }

    fn source(&mut self, kind: SourceKind, name: &str) -> u32 {
        let id = self.sources.len() as u32;
        let name = name.to_owned();
        self.sources.push(Source { id, kind, name });
        id
    }

    fn interrupt(&mut self, cpu: u32, source: u32, begin: u64, end: u64, depth: u8) {
        self.interrupts.push(Interrupt {
            node: NODE,
            cpu: Cpu::new(cpu),
            source,
            pid: Pid::IDLE,
            begin_ns: START + begin,
            end_ns: START + end,
            depth,
            certain: true,
        });
    }

    fn syscall(&mut self, cpu: u32, pid: u32, time: u64, number: Option<u32>, returned: bool) {
        self.syscalls.push(Syscall {
            node: NODE,
            time_ns: START + time,
            cpu: Cpu::new(cpu),
            pid: Pid::new(pid),
            number,
            returned,
        });
    }

    fn written(mut self) -> (tempfile::TempDir, RunReader) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let mut manifest = empty_manifest();
        manifest.nodes[0].host.hz = self.hz;
        manifest.nodes[0].host.architecture = "x86_64".to_owned();
        manifest.phases.push(Phase {
            kind: PhaseKind::Recorded {
                library: None,
                exit_code: Some(0),
            },
            begin_ns: START,
            end_ns: START + self.end,
        });
        if let Some(pid) = self.rank {
            manifest.ranks.push(RankSheet {
                rank: Rank::new(0),
                node: NODE,
                cpu: None,
                threads: vec![Pid::new(pid)],
                process: Some(Pid::new(pid)),
                priority: None,
            });
        }
        let mut out = RunWriter::create(&path, manifest).unwrap();
        self.bursts.sort_by_key(|b| (b.cpu, b.begin_ns));
        self.wakeups.sort_by_key(|w| (w.cpu, w.time_ns));
        self.interrupts
            .sort_by_key(|i| (i.cpu, i.begin_ns, i.depth));
        let mut bursts = Bursts::default();
        self.bursts.into_iter().for_each(|b| bursts.push(b));
        let mut wakeups = Wakeups::default();
        self.wakeups.into_iter().for_each(|w| wakeups.push(w));
        let mut interrupts = Interrupts::default();
        self.interrupts.into_iter().for_each(|i| interrupts.push(i));
        out.write_table(&self.tasks).unwrap();
        out.write_table(&self.sources).unwrap();
        out.write_table(&bursts).unwrap();
        out.write_table(&wakeups).unwrap();
        out.write_table(&interrupts).unwrap();
        out.write_table(&self.syscalls).unwrap();
        out.close(None).unwrap();
        (dir, RunReader::open(&path).unwrap())
    }
}

fn shown(run: &RunReader, kind: ViewKind, filter: &Filter) -> View {
    let stop = AtomicBool::new(false);
    let findings = explain(run, &stop).unwrap().findings;
    view(run, &findings, kind, filter, &stop).unwrap()
}

fn all(run: &RunReader, kind: ViewKind) -> View {
    shown(run, kind, &Filter::default())
}

/// Three threads on two CPUs, worked out by hand:
/// - 10 runs 0..100 on CPU 0, is preempted, goes on at 150..200 there and sleeps.
/// - 20 preempts it: woken at 90 by 10, runs 100..150 and sleeps.
/// - 10 is woken at 260 by the idle task, runs on CPU 1 from 290 and exits at 320.
/// - 20 is woken at 300 by 10 and runs on CPU 1 at 320..330.
fn small() -> Made {
    let mut made = Made::default();
    made.task(0, "swapper", TaskKind::Idle);
    made.task(10, "app", TaskKind::User);
    made.task(20, "daemon", TaskKind::User);
    made.burst(0, 10, 0, 100, EndReason::Preempted);
    made.burst(0, 20, 100, 150, EndReason::Sleeping);
    made.burst(0, 10, 150, 200, EndReason::Sleeping);
    made.burst(0, 0, 200, 400, EndReason::Unknown);
    made.burst(1, 0, 0, 290, EndReason::Preempted);
    made.burst(1, 10, 290, 320, EndReason::Exited);
    made.burst(1, 20, 320, 330, EndReason::Uninterruptible);
    made.wakeup(0, 10, 20, 90);
    made.wakeup(1, 0, 10, 260);
    made.wakeup(1, 10, 20, 300);
    made
}

#[test]
fn losses_are_those_of_recording_and_analysis_and_know_no_filter() {
    let mut made = Made::default();
    made.task(7, "app", TaskKind::User);
    made.burst(0, 7, 0, 100, EndReason::Sleeping);
    let (dir, run) = made.written();
    let stop = AtomicBool::new(false);
    let mut findings = explain(&run, &stop).unwrap().findings;
    // Entered into the run after it was explained, as when an import is joined to it.
    let mut out = run.into_writer();
    let late = &mut out.manifest.losses;
    late.enter("of the recording", 20, "none", "none needed");
    out.save().unwrap();
    let run = RunReader::open(&dir.path().join("run")).unwrap();
    findings.losses.enter("few", 2, "none", "none needed");
    findings.losses.enter("many", 30, "none", "none needed");
    let shown = |filter: &Filter| view(&run, &findings, ViewKind::Losses, filter, &stop);
    let View::Losses(found) = shown(&Filter::default()).unwrap() else {
        panic!()
    };
    let names: Vec<&str> = found.losses.iter().map(|loss| &*loss.what).collect();
    let of = |name: &str| names.iter().position(|what| *what == name).unwrap();
    let places = ["many", "of the recording", "few"].map(of);
    assert!(places.is_sorted(), "{names:?}");
    assert_eq!(found.unavailable, findings.trace.unavailable);
    let filter = Filter {
        process: Some("app".to_owned()),
        ..Filter::default()
    };
    let error = shown(&filter).unwrap_err().to_string();
    assert!(error.contains("of the whole run"), "{error}");
}

#[test]
fn every_process_has_its_time_bursts_moves_and_ends() {
    let (_dir, run) = small().written();
    let View::Processes(found) = all(&run, ViewKind::Processes) else {
        panic!();
    };
    assert_eq!(found.watched.get(), 330);
    assert_eq!(found.cpu_time.get(), 660);
    let row = |name: &str| {
        let of = |p: &&idlewave_explain::views::Process| p.thread.name == name;
        found.threads.iter().find(of).unwrap()
    };
    assert_eq!(found.threads.len(), 2, "idle tasks are left out");
    let app = row("app");
    assert_eq!(
        (app.time.get(), app.bursts, app.average.get()),
        (180, 3, 60)
    );
    assert_eq!((app.longest.get(), app.migrations), (100, 1));
    // Preempted for 50, and 30 from its wake-up to its switch-in.
    assert_eq!(app.waited.get(), 80);
    let ends = app.ended;
    assert_eq!((ends.preempted, ends.blocked, ends.exited), (1, 1, 1));
    assert_eq!(app.cpus.to_string(), "0-1");
    assert!((app.share - 180.0 / 330.0).abs() < 1e-12);
    let daemon = row("daemon");
    assert_eq!((daemon.time.get(), daemon.bursts), (60, 2));
    assert_eq!(daemon.migrations, 1);
    assert_eq!(daemon.waited.get(), 10 + 20);
    assert_eq!((daemon.ended.blocked, daemon.ended.uninterruptible), (1, 1));
}

#[test]
fn filters_cut_time_and_choose_processes_and_cpus() {
    let (_dir, run) = small().written();
    let times = |filter: &Filter| {
        let View::Processes(found) = shown(&run, ViewKind::Processes, filter) else {
            panic!();
        };
        let rows = found.threads.iter();
        rows.map(|p| (p.thread.pid.get(), p.time.get(), p.bursts))
            .collect::<Vec<_>>()
    };
    let stretch = Filter {
        from: Some(Nanos::from_nanos(50)),
        to: Some(Nanos::from_nanos(160)),
        ..Filter::default()
    };
    assert_eq!(times(&stretch), [(10, 60, 2), (20, 50, 1)]);
    let second = Filter {
        cpus: Some([Cpu::new(1)].into_iter().collect::<CpuSet>()),
        ..Filter::default()
    };
    assert_eq!(times(&second), [(10, 30, 1), (20, 10, 1)]);
    for name in ["daemon", "20"] {
        let daemon = Filter {
            process: Some(name.to_owned()),
            ..Filter::default()
        };
        assert_eq!(times(&daemon), [(20, 60, 2)]);
    }
    let stop = AtomicBool::new(false);
    let findings = explain(&run, &stop).unwrap().findings;
    let nobody = Filter {
        process: Some("nobody".to_owned()),
        ..Filter::default()
    };
    let error = view(&run, &findings, ViewKind::Processes, &nobody, &stop).unwrap_err();
    assert!(
        error.to_string().contains("no process or thread `nobody`"),
        "{error}"
    );
    let rank = Filter {
        rank: Some(Rank::new(3)),
        ..Filter::default()
    };
    let error = view(&run, &findings, ViewKind::Matrix, &rank, &stop).unwrap_err();
    assert!(error.to_string().contains("no rank 3"), "{error}");
}

#[test]
fn the_matrix_has_time_bursts_and_average_of_every_cell() {
    let (_dir, run) = small().written();
    let View::Matrix(found) = all(&run, ViewKind::Matrix) else {
        panic!();
    };
    let app = &found.threads[0];
    let cells = app.cells.iter();
    let cells: Vec<_> = cells
        .map(|c| (c.cpu.get(), c.time.get(), c.bursts, c.average.get()))
        .collect();
    assert_eq!(
        (app.thread.name.as_str(), cells),
        ("app", vec![(0, 150, 2, 75), (1, 30, 1, 30)])
    );
}

#[test]
fn states_are_running_ready_and_blocked() {
    let (_dir, run) = small().written();
    let View::States(found) = all(&run, ViewKind::States) else {
        panic!();
    };
    let app = &found.threads[0];
    // Asleep from 200 until it was woken at 260.
    assert_eq!((app.blocked.count, app.blocked.total.get()), (1, 60));
    assert_eq!((app.ready.count, app.ready.total.get()), (2, 80));
    assert_eq!((app.running.count, app.running.total.get()), (3, 180));
    let daemon = &found.threads[1];
    assert_eq!((daemon.blocked.count, daemon.blocked.total.get()), (1, 150));
    assert_eq!(daemon.unknown, Nanos::ZERO);
}

#[test]
fn latency_tells_wake_ups_from_preemptions() {
    let (_dir, run) = small().written();
    let View::Latency(found) = all(&run, ViewKind::Latency) else {
        panic!();
    };
    let sums = |r: &idlewave_explain::views::Ready| {
        (
            r.woken.count,
            r.woken.total.get(),
            r.preempted.count,
            r.preempted.total.get(),
        )
    };
    assert_eq!(sums(&found.all), (3, 30 + 10 + 20, 1, 50));
    assert_eq!(sums(&found.cpus[0].ready), (1, 10, 1, 50));
    assert_eq!(sums(&found.cpus[1].ready), (2, 50, 0, 0));
    assert_eq!(found.threads[0].thread.name, "app");
}

/// The daemon of the study with Paraver: every 46.4 ms it runs for 21 us, after it was ready for
/// 10.6 us, on three of four CPUs. A rank computes on every CPU; the kernel thread `busy` runs at
/// random.
fn planted() -> Made {
    let mut made = Made::default();
    made.task(500, "aixd", TaskKind::User);
    made.task(600, "busy", TaskKind::Kernel);
    for cpu in 0..4 {
        made.task(100 + cpu, "app", TaskKind::Rank);
    }
    made.rank = Some(100);
    // Who takes which CPU from its rank, from when to when.
    let mut taken: BTreeMap<u32, Vec<(u64, u64, u32)>> = BTreeMap::new();
    let mut random = 7_u64;
    let mut next = || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        random >> 33
    };
    for i in 0..200_u64 {
        // A jitter of up to 20 us.
        let woken = 3_000_000 + i * 46_400_000 + next() % 20_000;
        let cpu = [0, 1, 3][(i % 3) as usize];
        let ready = 10_100 + next() % 1_000;
        let length = 20_500 + next() % 1_000;
        made.wakeup(cpu, 100 + cpu, 500, woken);
        taken
            .entry(cpu)
            .or_default()
            .push((woken + ready, woken + ready + length, 500));
    }
    let mut now = 0;
    for _ in 0..60 {
        now += 1 + next() % 300_000_000;
        made.wakeup(2, 102, 600, now);
        taken
            .entry(2)
            .or_default()
            .push((now + 2_000, now + 9_000, 600));
        now += 10_000;
    }
    let end = 9_400_000_000;
    for cpu in 0..4 {
        let mut at = 0;
        for (begin, stop, pid) in taken.remove(&cpu).unwrap_or_default() {
            made.burst(cpu, 100 + cpu, at, begin, EndReason::Preempted);
            made.burst(cpu, pid, begin, stop, EndReason::Sleeping);
            at = stop;
        }
        made.burst(cpu, 100 + cpu, at, end.max(at + 1), EndReason::Unknown);
    }
    made
}

#[test]
fn the_daemon_of_the_study_is_found_in_one_line() {
    let (_dir, run) = planted().written();
    let View::Daemons(found) = all(&run, ViewKind::Daemons) else {
        panic!();
    };
    let names: Vec<&str> = found
        .daemons
        .iter()
        .map(|d| d.thread.name.as_str())
        .collect();
    assert_eq!(
        names,
        ["aixd", "busy"],
        "ranks are no daemons; most CPU time first"
    );
    let d = &found.daemons[0];
    assert_eq!(d.runs, 200);
    let period = d.period.as_ref().unwrap();
    assert!(
        (period.period.value / 46.4e6 - 1.0).abs() < 1e-4,
        "{period:?}"
    );
    assert!(period.share > 0.95, "{period:?}");
    let length = d.length.median.as_ref().unwrap();
    assert!((length.value - 21_000.0).abs() < 200.0, "{length:?}");
    assert!(length.low <= length.value && length.value <= length.high);
    let ready = d.ready.median.as_ref().unwrap();
    assert!((ready.value - 10_600.0).abs() < 200.0, "{ready:?}");
    assert_eq!(d.cpus.to_string(), "0-1,3");
    assert_eq!(d.cost, d.length.total);
    let phase = d.phase.unwrap();
    assert!(phase.concentration > 0.99, "{phase:?}");
    assert!(
        (phase.offset.as_f64() - 3.01e6).abs() < 30_000.0,
        "{phase:?}"
    );
    // The other one has no regular period.
    assert_eq!(found.daemons[1].period, None);
    assert_eq!(
        (found.daemons[1].runs, found.daemons[1].cpus.to_string()),
        (60, "2".to_owned())
    );
}

#[test]
fn a_thread_of_idlewave_that_measures_is_no_daemon_but_its_recorder_is() {
    let mut made = Made::default();
    for (pid, name) in [(1, "iw-detour-0"), (2, "idlewave"), (3, "hog")] {
        let kind = [TaskKind::Own, TaskKind::User][usize::from(pid == 3)];
        made.task(pid, name, kind);
    }
    for i in 0..10_u64 {
        let at = i * 10_000;
        made.burst(0, 1, at, at + 9_000, EndReason::Sleeping);
        made.burst(0, 2, at + 9_000, at + 10_000, EndReason::Sleeping);
        made.burst(1, 3, at, at + 9_000, EndReason::Sleeping);
    }
    let (_dir, run) = made.written();
    let View::Daemons(found) = all(&run, ViewKind::Daemons) else {
        panic!();
    };
    let names = found.daemons.iter().map(|d| d.thread.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["hog", "idlewave"]);
}

#[test]
fn a_preempted_run_is_one_run() {
    let mut made = Made::default();
    made.task(1, "daemon", TaskKind::User);
    made.task(2, "other", TaskKind::User);
    for i in 0..10_u64 {
        let at = i * 10_000;
        made.wakeup(0, 0, 1, at);
        made.burst(0, 1, at + 10, at + 100, EndReason::Preempted);
        made.burst(0, 2, at + 100, at + 150, EndReason::Sleeping);
        made.burst(0, 1, at + 150, at + 200, EndReason::Sleeping);
    }
    let (_dir, run) = made.written();
    let View::Daemons(found) = all(&run, ViewKind::Daemons) else {
        panic!();
    };
    let d = &found.daemons[0];
    assert_eq!(
        (d.runs, d.length.count, d.length.total.get()),
        (10, 10, 1_400)
    );
    assert_eq!(d.length.median.as_ref().unwrap().value, 140.0);
    assert_eq!((d.ready.count, d.ready.total.get()), (10, 100));
    assert_eq!(d.between.median.as_ref().unwrap().value, 10_000.0);
}

#[test]
fn nested_interrupts_have_own_time_and_the_clock_its_skew() {
    let mut made = Made {
        hz: Some(1000),
        ..Made::default()
    };
    made.task(0, "swapper", TaskKind::Idle);
    let tick = made.source(SourceKind::TimerTick, "timer tick");
    let disk = made.source(SourceKind::Irq, "disk");
    let soft = made.source(SourceKind::Softirq, "TIMER");
    for i in 0..100_u64 {
        let at = i * 1_000_000;
        // 5 us, of which 2 are a disk interrupt, of which 1 is a softirq.
        made.interrupt(0, tick, at, at + 5_000, 0);
        made.interrupt(0, disk, at + 1_000, at + 3_000, 1);
        made.interrupt(0, soft, at + 1_500, at + 2_500, 2);
        made.interrupt(1, tick, at + 250_000, at + 253_000, 0);
    }
    for cpu in 0..2 {
        made.burst(cpu, 0, 0, 100_000_000, EndReason::Unknown);
    }
    let (_dir, run) = made.written();
    let View::Interrupts(found) = all(&run, ViewKind::Interrupts) else {
        panic!();
    };
    let row = |name: &str, cpu: u32| {
        let of =
            |r: &&idlewave_explain::views::InterruptRow| r.name == name && r.cpu == Cpu::new(cpu);
        found.interrupts.iter().find(of).unwrap()
    };
    let sums = |r: &idlewave_explain::views::InterruptRow| {
        (r.count, r.net.total.get(), r.nested.get(), r.inner)
    };
    assert_eq!(sums(row("timer tick", 0)), (100, 300_000, 200_000, 0));
    assert_eq!(sums(row("disk", 0)), (100, 100_000, 100_000, 100));
    assert_eq!(sums(row("TIMER", 0)), (100, 100_000, 0, 100));
    assert_eq!(sums(row("timer tick", 1)), (100, 300_000, 0, 0));
    assert_eq!(
        row("timer tick", 0).net.median.as_ref().unwrap().value,
        3_000.0
    );
    let clock = &found.clocks[0];
    assert_eq!((clock.period_ns, clock.is_hz), (Some(1e6), true));
    assert_eq!(clock.cpus[1].offset_ns, Some(250_000));
    let skew = clock.skew.as_ref().unwrap();
    assert_eq!((skew.cpus, skew.groups), (2, 2));
    // Two groups of the longer length.
    assert_eq!((skew.length.get(), skew.cost.get()), (5_000, 10_000));
}

#[test]
fn a_waker_is_the_interrupt_if_there_is_one_and_the_chain_goes_further_back() {
    let mut made = small();
    let tick = made.source(SourceKind::TimerTick, "timer tick");
    made.interrupt(1, tick, 255, 265, 0);
    let (_dir, run) = made.written();
    let daemon = Filter {
        process: Some("daemon".to_owned()),
        ..Filter::default()
    };
    let View::Wakeups(found) = shown(&run, ViewKind::Wakeups, &daemon) else {
        panic!();
    };
    assert_eq!(found.sources.len(), 1);
    let woken = &found.sources[0];
    assert_eq!((woken.name.as_str(), woken.wakeups), ("daemon", 2));
    assert_eq!(
        (woken.wakers[0].name.as_str(), woken.wakers[0].wakeups),
        ("app", 2)
    );
    let back = &woken.wakers[0].woken_by;
    assert_eq!((back[0].name.as_str(), back[0].wakeups), ("timer tick", 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]
    /// Whatever runs, on whatever CPU, the parts of a thread's life add up to the time from its
    /// first burst to its last.
    #[test]
    fn states_cover_the_life_of_a_thread(
        lives in prop::collection::vec((1_u64..1000, 0_u64..1000, 0_u64..1000, 0_u32..3, 0_u32..3), 2..40),
    ) {
        let mut made = Made::default();
        made.task(1, "life", TaskKind::User);
        let (mut at, mut ran, mut ready, mut blocked, mut unknown) = (0, 0, 0, 0, 0);
        let last = lives.len() - 1;
        for (i, &(runs, sleeps, waits, cpu, how)) in lives.iter().enumerate() {
            let reason = [EndReason::Preempted, EndReason::Sleeping, EndReason::Unknown][how as usize];
            made.burst(cpu, 1, at, at + runs, reason);
            (at, ran) = (at + runs, ran + runs);
            if i == last {
                break;
            }
            match how {
                0 => ready += waits,
                1 => {
                    made.wakeup(cpu, 0, 1, at + sleeps);
                    (blocked, ready, at) = (blocked + sleeps, ready + waits, at + sleeps);
                }
                _ => unknown += waits,
            }
            at += waits;
        }
        let (_dir, run) = made.written();
        let View::States(found) = all(&run, ViewKind::States) else {
            panic!();
        };
        let row = &found.threads[0];
        prop_assert_eq!(row.running.total.get(), ran);
        prop_assert_eq!(row.ready.total.get(), ready);
        prop_assert_eq!(row.blocked.total.get(), blocked);
        prop_assert_eq!(row.unknown.get(), unknown);
        prop_assert_eq!(ran + ready + blocked + unknown, at);
    }
}

/// The call, how often, nanoseconds, those on a CPU, and how often it was not seen to return.
fn called(run: &RunReader, filter: &Filter) -> Vec<(String, u64, u64, u64, u64)> {
    let View::Syscalls(found) = shown(run, ViewKind::Syscalls, filter) else {
        panic!("another view");
    };
    let all = found
        .calls
        .iter()
        .map(|c| (c.lengths.count, c.lengths.total.get(), c.on_cpu.get()));
    let by_thread = found
        .threads
        .iter()
        .map(|t| (t.calls, t.time.get(), t.on_cpu.get()));
    let sum = |a: (u64, u64, u64), b: (u64, u64, u64)| (a.0 + b.0, a.1 + b.1, a.2 + b.2);
    assert_eq!(
        all.reduce(sum).unwrap_or_default(),
        by_thread.reduce(sum).unwrap_or_default()
    );
    let row = |c: &SyscallRow| {
        let (count, total) = (c.lengths.count, c.lengths.total.get());
        (c.call.clone(), count, total, c.on_cpu.get(), c.not_returned)
    };
    found.calls.iter().map(row).collect()
}

#[test]
fn system_calls_have_their_time_and_what_of_it_was_on_a_cpu() {
    // Numbers of x86-64.
    const READ: u32 = 0;
    const WRITE: u32 = 1;
    const SIGRETURN: u32 = 15;
    const FUTEX: u32 = 202;
    let mut made = Made::default();
    made.task(10, "app", TaskKind::Rank);
    made.task(20, "other", TaskKind::User);
    // 10 sleeps in `read` and goes on elsewhere.
    made.burst(0, 10, 0, 100, EndReason::Sleeping);
    made.burst(1, 20, 0, 290, EndReason::Sleeping);
    made.burst(1, 10, 300, 400, EndReason::Unknown);
    let mut call =
        |cpu, pid, time, number, returned| made.syscall(cpu, pid, time, number, returned);
    call(0, 10, 20, Some(WRITE), true);
    call(0, 10, 50, Some(READ), false);
    call(1, 20, 100, Some(SIGRETURN), false);
    call(1, 20, 110, None, true);
    call(1, 20, 200, Some(WRITE), false);
    call(1, 20, 210, Some(READ), true);
    call(1, 20, 220, Some(9_999), false);
    call(1, 20, 250, Some(9_999), true);
    // Its return is where the trace does not show who ran.
    call(1, 20, 280, Some(READ), false);
    call(1, 20, 295, Some(READ), true);
    call(1, 10, 350, Some(READ), true);
    call(1, 10, 360, Some(WRITE), false);
    call(1, 10, 375, Some(WRITE), true);
    call(1, 10, 380, Some(FUTEX), false);
    call(1, 10, 390, Some(WRITE), false);
    let (_dir, run) = made.written();
    let row = |call: &str, count, time, on_cpu, lost| (call.to_owned(), count, time, on_cpu, lost);
    let everything = vec![
        row("read", 2, 315, 110, 0),
        row("call 9999", 1, 30, 30, 0),
        row("write", 1, 15, 15, 2),
        row("rt_sigreturn", 1, 10, 10, 0),
        row("futex", 0, 0, 0, 1),
    ];
    assert_eq!(called(&run, &Filter::default()), everything);
    let of_rank = Filter {
        process: Some("app".to_owned()),
        from: Some(Nanos::from_nanos(60)),
        ..Filter::default()
    };
    let last = vec![row("write", 1, 15, 15, 1), row("futex", 0, 0, 0, 1)];
    assert_eq!(called(&run, &of_rank), last);
    let there: CpuSet = "0".parse().unwrap();
    let on_cpu = Filter {
        cpus: Some(there),
        ..Filter::default()
    };
    assert_eq!(called(&run, &on_cpu), vec![row("read", 1, 300, 100, 0)]);
}
