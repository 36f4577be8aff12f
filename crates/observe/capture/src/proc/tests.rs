//! Differences on fake machines, and on this one.

use super::*;
use crate::host::fake::{FakeRoot, container};
use idlewave_run::tables::{Source, Sources};
use idlewave_run::{SourceKind, Table};
use idlewave_units::{CpuSet, NodeId, Pid};
use proptest::prelude::*;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A thread: process, number, name, flags, ticks used, start, schedstat.
type Thread<'a> = (u32, u32, &'a str, u64, u64, u64, &'a str);

fn write_threads(fake: &FakeRoot, threads: &[Thread<'_>]) {
    for (process, thread, name, flags, ticks, started, schedstat) in threads {
        let dir = format!("proc/{process}/task/{thread}");
        let line = format!(
            "{thread} ({name}) S 1 1 1 0 -1 {flags} 0 0 0 0 {ticks} 0 0 0 20 0 1 0 {started} 0 0\n"
        );
        fake.write(&format!("{dir}/stat"), line.as_bytes());
        fake.write(
            &format!("{dir}/schedstat"),
            format!("{schedstat}\n").as_bytes(),
        );
    }
}

fn two_cpus() -> CpuSet {
    "0-1".parse().unwrap()
}

fn before() -> FakeRoot {
    let fake = FakeRoot::new().with(&[
        ("proc/stat", "cpu0 100 0 100 1000 0 0 0 5\ncpu1 100 0 100 1000 0 0 0 5\n"),
        ("proc/self/stat", "50 (idlewave) R 1 50 50 0 -1 0 0 0 0 0 20 0 0 0 20 0 1 0 7 0 0\n"),
        ("proc/pressure/cpu", "some avg10=0 avg60=0 avg300=0 total=1000\n"),
        ("proc/interrupts", "  CPU0  CPU1\n 24: 10 4294967290 IO-APIC 5-edge eth0\nLOC: 5 5 Local timer interrupts\nERR: 0\n"),
        ("proc/softirqs", "  CPU0  CPU1  CPU2\n TIMER: 7 8 9\n"),
    ]);
    write_threads(
        &fake,
        &[
            (50, 50, "idlewave", 0, 20, 7, "1000 0 1"),
            (3, 3, "rcu_preempt", 0x20_0000, 0, 1, "500 10 4"),
            (60, 60, "gone", 0, 9, 9, "900 0 1"),
            (70, 70, "old", 0, 9, 100, "900 9 9"),
        ],
    );
    fake
}

/// Some time later: `gone` has ended, number 70 is reused, thread 81 is new.
fn after(fake: FakeRoot) -> FakeRoot {
    let fake = fake.without("proc/60").with(&[
        ("proc/stat", "cpu0 150 10 110 1020 0 0 0 15\ncpu1 110 0 100 1090 0 0 0 5\n"),
        ("proc/self/stat", "50 (idlewave) R 1 50 50 0 -1 0 0 0 0 0 60 0 0 0 20 0 1 0 7 0 0\n"),
        ("proc/interrupts", "  CPU0  CPU1\n 24: 10 4 IO-APIC 5-edge eth0\n 31: 0 2 IO-APIC 6-edge nvme\nLOC: 9 6 Local timer interrupts\n"),
        ("proc/softirqs", "  CPU0  CPU1  CPU2\n TIMER: 8 8 99\n"),
    ]);
    write_threads(
        &fake,
        &[
            (50, 50, "idlewave", 0, 60, 7, "9000 0 2"),
            (3, 3, "rcu_preempt", 0x20_0000, 0, 1, "700 15 6"),
            (70, 70, "new", 0, 9, 200, "300 1 1"),
            (80, 81, "new", 0, 9, 300, "50 1 1"),
        ],
    );
    fake
}

fn take(fake: &FakeRoot) -> ProcSnapshot {
    ProcSnapshot::take(fake.path(), &two_cpus())
}

#[test]
fn threads_are_charged_with_what_they_used_in_between() {
    let fake = before();
    let first = take(&fake);
    let second = take(&after(fake));
    let (times, _) = first.difference(&second, NodeId::new(4), 11, 22, &mut Sources::default());
    let rows: Vec<_> = times
        .rows()
        .map(|t| (t.pid.get(), t.name, t.ran.get(), t.waited.get(), t.slices))
        .collect();
    let expected = [
        (3, "rcu_preempt", 200, 5, 2),
        (50, "idlewave", 8000, 0, 1),
        (70, "new", 300, 1, 1),
        (81, "new", 50, 1, 1),
    ];
    assert_eq!(
        rows,
        expected.map(|(p, n, r, w, s)| (p, n.to_owned(), r, w, s))
    );
    let row = times.row(0);
    assert_eq!(
        (row.node, row.begin_ns, row.end_ns),
        (NodeId::new(4), 11, 22)
    );
}

#[test]
fn counters_rise_per_cpu_and_name_their_source() {
    let fake = before();
    let first = take(&fake);
    let second = take(&after(fake));
    let mut sources = Sources::default();
    let known = Source {
        id: 0,
        kind: SourceKind::Irq,
        name: "eth0".to_owned(),
    };
    sources.push(known);
    let (_, counters) = first.difference(&second, NodeId::new(0), 11, 22, &mut sources);
    let mut rows: Vec<_> = counters
        .rows()
        .map(|c| (sources.row(c.source as usize).name, c.cpu.get(), c.increase))
        .collect();
    rows.sort();
    let expected = [
        ("TIMER", 0, 1),
        ("eth0", 1, 10),
        ("local timer", 0, 4),
        ("local timer", 1, 1),
        ("nvme", 1, 2),
        ("steal", 0, 100_000_000),
    ];
    assert_eq!(
        rows,
        expected.map(|(name, cpu, n)| (name.to_owned(), cpu, n))
    );
    let ids: Vec<u32> = sources.rows().map(|s| s.id).collect();
    assert_eq!(ids, (0..5).collect::<Vec<_>>());
}

#[test]
fn a_snapshot_does_not_differ_from_itself() {
    let snapshot = take(&before());
    let mut sources = Sources::default();
    let (times, counters) = snapshot.difference(&snapshot, NodeId::new(0), 0, 1, &mut sources);
    assert!(times.is_empty() && counters.is_empty() && sources.is_empty());
}

#[test]
fn contamination_is_what_is_left_without_the_own_process() {
    let fake = before();
    let meter = ContaminationMeter::start(fake.path());
    let _fake = after(fake);
    let result = meter.finish();
    // Of 90 + 100 ticks 80 were used, 40 of them by this process, and 10 stolen.
    assert_eq!(result.cpus, 2);
    assert_eq!(result.others, Some(40.0 / 200.0));
    assert_eq!(result.steal, Some(10.0 / 200.0));
    let top = [("new", 350), ("rcu_preempt", 200)].map(|(n, ns)| (n.to_owned(), ns));
    assert_eq!(result.top_tasks, top);
    assert_eq!(result.cpu_pressure, Some(0.0));
    assert_eq!(result.throttled, None);
}

/// A line of /proc/PID/stat: number, parent, own ticks and those of children waited for.
fn process(pid: u32, parent: u32, ticks: u64, children: u64) -> String {
    format!("{pid} (app) R {parent} 1 1 0 -1 0 0 0 0 0 {ticks} 0 {children} 0 20 0 1 0 7 0 0\n")
}

/// Others' share of 200 ticks, 80 of them used, 40 of these by this process itself.
fn others_beside_a_program(children: u64, looks: &[(u32, u32, u64)]) -> Option<f64> {
    let fake = before();
    let mut meter = ContaminationMeter::start(fake.path());
    for &(pid, parent, ticks) in looks {
        fake.write(
            &format!("proc/{pid}/stat"),
            process(pid, parent, ticks, 0).as_bytes(),
        );
    }
    let pids: Vec<Pid> = looks.iter().map(|look| Pid::new(look.0)).collect();
    meter.look_at_program(&pids);
    let fake = after(fake);
    for &(pid, ..) in looks {
        std::fs::remove_file(fake.path().join(format!("proc/{pid}/stat"))).unwrap();
    }
    fake.write("proc/self/stat", process(50, 1, 60, children).as_bytes());
    meter.finish().others
}

#[test]
fn a_program_that_was_waited_for_is_not_others() {
    assert_eq!(others_beside_a_program(30, &[]), Some(10.0 / 200.0));
    assert_eq!(others_beside_a_program(90, &[]), Some(0.0));
    // A process of the program that was looked at is not counted twice, not even through its
    // parents.
    let looks = [(90, 50, 3), (91, 90, 20)];
    assert_eq!(others_beside_a_program(30, &looks), Some(10.0 / 200.0));
}

#[test]
fn a_program_that_others_have_started_is_not_others_either() {
    assert_eq!(
        others_beside_a_program(0, &[(91, 3, 25)]),
        Some(15.0 / 200.0)
    );
    // Both kinds at once, and one descendant that its parent did not wait for.
    let looks = [(90, 50, 10), (91, 3, 25)];
    assert_eq!(others_beside_a_program(0, &looks), Some(5.0 / 200.0));
    assert_eq!(others_beside_a_program(12, &looks), Some(3.0 / 200.0));
}

#[test]
fn what_a_process_of_the_program_had_used_before_is_not_of_the_time_measured() {
    let fake = before();
    fake.write("proc/91/stat", process(91, 3, 1_000, 0).as_bytes());
    let mut meter = ContaminationMeter::start(fake.path());
    // This process is always known.
    meter.set_running(&[Pid::new(50), Pid::new(91)]);
    let fake = after(fake);
    fake.write("proc/91/stat", process(91, 3, 1_025, 0).as_bytes());
    // Of 200 ticks 80 were used, 40 by this process and 25 by the program's.
    assert_eq!(meter.finish().others, Some(15.0 / 200.0));
}

#[test]
fn what_cannot_be_read_is_none_and_not_zero() {
    let fake = FakeRoot::new();
    let result = ContaminationMeter::start(fake.path()).finish();
    assert_eq!((result.cpus, result.others, result.steal), (0, None, None));
    assert_eq!((result.cpu_pressure, result.throttled), (None, None));
    assert!(result.top_tasks.is_empty() && !result.is_flagged());
}

#[test]
fn stops_of_the_group_are_counted() {
    let fake = container();
    let meter = ContaminationMeter::start(fake.path());
    fake.write("sys/fs/cgroup/pod/cpu.stat", b"nr_throttled 9\n");
    assert_eq!(meter.finish().throttled, Some(5));
}

#[test]
fn threads_are_listed_with_their_process_and_kind() {
    let fake = after(before());
    let list = tasks(fake.path());
    let of = |pid: u32| list.iter().find(|t| t.pid == Pid::new(pid)).unwrap();
    assert_eq!(list.len(), 4);
    assert!(of(3).kernel && !of(50).kernel);
    assert_eq!(
        (of(81).process, of(81).name.as_str()),
        (Pid::new(80), "new")
    );
}

/// A child that is killed however the test ends.
struct Child(std::process::Child);

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_busy_child_is_found_on_this_machine() {
    let meter = ContaminationMeter::start(Path::new("/"));
    // The loop ends eventually in case the test is killed.
    let script = "i=0; while [ $i -lt 30000000 ]; do i=$((i+1)); done";
    let child = Command::new("sh")
        .args(["-c", script])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let child = Child(child);
    let path = format!("/proc/{}/schedstat", child.0.id());
    let ran = || -> u64 {
        let text = std::fs::read_to_string(&path).unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    };
    let began = Instant::now();
    while ran() < 300_000_000 {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "the child does not run"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let result = meter.finish();
    println!("{result:?}");
    let top = &result.top_tasks;
    let busy = |(_, ns): &(String, u64)| *ns >= 300_000_000;
    match top.iter().find(|(name, _)| name == "sh") {
        Some(child) => assert!(busy(child), "{top:?}"),
        // Ten others were busier.
        None => assert!(top.len() == 10 && top.iter().all(busy), "{top:?}"),
    }
    assert!(result.others.unwrap() > 0.0);
}

#[test]
fn this_machine_has_threads_and_counters() {
    let root = Path::new("/");
    let cpus = crate::host::allowed_cpus().unwrap();
    let list = tasks(root);
    let own = Pid::new(std::process::id());
    assert!(
        list.iter()
            .any(|t| t.pid == own && t.process == own && !t.kernel)
    );
    let first = ProcSnapshot::take(root, &cpus);
    let began = Instant::now();
    let second = ProcSnapshot::take(root, &cpus);
    println!(
        "{} threads, {:?} for a snapshot",
        list.len(),
        began.elapsed()
    );
    let mut sources = Sources::default();
    let (times, counters) = first.difference(&second, NodeId::new(0), 0, 1, &mut sources);
    println!("{times:?}\n{counters:?}\n{sources:?}");
    assert!(times.rows().all(|t| !t.name.is_empty()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn foreign_bytes_in_any_file_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let fake = before();
        let meter = ContaminationMeter::start(fake.path());
        let first = take(&fake);
        for path in [
            "proc/stat", "proc/self/stat", "proc/interrupts", "proc/softirqs", "proc/pressure/cpu",
            "proc/3/task/3/stat", "proc/50/task/50/schedstat",
        ] {
            fake.write(path, &bytes);
            let second = take(&fake);
            first.difference(&second, NodeId::new(0), 0, 1, &mut Sources::default());
        }
        meter.finish();
    }
}
