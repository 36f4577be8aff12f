//! A kernel trace joined with the traces of the program: threads, clocks, and what is refused. The
//! end-to-end test with a real recording is crates/apps/cli/tests/import_joined.rs.

#![allow(clippy::unwrap_used)]

use idlewave_formats::import::{Ask, ImportError, Imported, Program, import};
use idlewave_run::tables::*;
use idlewave_run::testing::empty_manifest;
use idlewave_run::{RunReader, RunWriter};
use idlewave_units::Pid;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// How far the program's clock lags behind the kernel's: the kernel's trace begins at 1 s.
const OFFSET_NS: i64 = 995_000_000;

/// Thread 100 has CPU 0 and thread 101 has CPU 1, each for 20 ms from 1 s on. In microseconds from
/// then, a daemon has CPU 0 from 10,000 to 12,000. Another program is busier.
fn kernel(daemon: bool) -> String {
    let mut out = "# tracer: nop\n".to_owned();
    let mut switch = |cpu: u32, us: u64, from: (&str, u32), to: (&str, u32)| {
        writeln!(
            out,
            "  {}-{} [00{cpu}] d..2. 1.{us:06}: sched_switch: prev_comm={} prev_pid={} prev_prio=120 \
             prev_state=R ==> next_comm={} next_pid={} next_prio=120",
            from.0, from.1, from.0, from.1, to.0, to.1
        )
        .unwrap();
    };
    let (idle, first, second) = (("swapper", 0), ("solver", 100), ("solver", 101));
    for cpu in 2..5 {
        switch(cpu, 0, idle, ("other", 298 + cpu));
    }
    switch(0, 0, idle, first);
    switch(1, 0, idle, second);
    if daemon {
        switch(0, 10_000, first, ("daemon", 200));
        switch(0, 12_000, ("daemon", 200), first);
    }
    switch(0, 20_000, first, idle);
    switch(1, 20_000, second, idle);
    for cpu in 2..5 {
        switch(cpu, 20_000, ("other", 298 + cpu), idle);
    }
    out
}

/// The trace of a rank: regions that begin and end a microsecond inside the bursts of its thread,
/// and a barrier. Times are in microseconds from the kernel's 1 s.
fn program(rank: u32, pid: u32, regions: &[(f64, f64)], barrier: (f64, f64), host: &str) -> Value {
    let at = |us: f64| us + 5_000.0;
    let event = |category: &str, name: &str, tid: u32, begin: f64, end: f64| {
        json!({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": at(begin),
            "dur": end - begin, "args": {}})
    };
    let name = json!({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "ts": 0.0,
        "args": {"name": "solver"}});
    let mut events = vec![name];
    for (begin, end) in regions {
        events.push(event("user_annotation", "work", pid, *begin, *end));
    }
    events.push(event(
        "cpu_op",
        "c10d::barrier",
        pid,
        barrier.0,
        barrier.0 + 1.0,
    ));
    events.push(event(
        "user_annotation",
        "gloo:barrier",
        7_000 + rank,
        barrier.0 + 0.5,
        barrier.1,
    ));
    json!({
        "schemaVersion": 1,
        "distributedInfo": {"backend": "gloo", "rank": rank, "world_size": 2,
            "pg_config": [{"pg_name": "0", "ranks": [0, 1]}]},
        "host_name": host,
        "baseTimeNanoseconds": 1_700_000_000_000_000_000_u64,
        "traceEvents": events,
    })
}

const FIRST: &[(f64, f64)] = &[(1.0, 5_000.0), (6_000.0, 9_999.0), (12_001.0, 13_000.0)];
const SECOND: &[(f64, f64)] = &[(1.0, 3_000.0), (16_000.0, 19_999.0)];

fn both(first: u32, second: u32) -> Vec<Value> {
    vec![
        program(0, first, FIRST, (14_000.0, 15_000.0), "node1"),
        program(1, second, SECOND, (4_000.0, 15_000.0), "node1"),
    ]
}

struct Case {
    dir: tempfile::TempDir,
    offset: Option<i64>,
    asked: Program,
}

impl Case {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            offset: None,
            asked: Program::Busiest,
        }
    }

    fn run(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    fn import(&self, kernel: &str, program: &[Value]) -> Result<Imported, ImportError> {
        let file = self.dir.path().join("kernel.txt");
        fs::write(&file, kernel).unwrap();
        let app: Vec<PathBuf> = (0..program.len())
            .map(|at| self.dir.path().join(format!("rank{at}.json")))
            .collect();
        for (file, trace) in app.iter().zip(program) {
            fs::write(file, trace.to_string()).unwrap();
        }
        let to = self.run();
        let command = ["idlewave", "import", "kernel.txt"].map(str::to_owned);
        import(&Ask {
            app: &app,
            command: &command,
            program: &self.asked,
            app_offset: self.offset,
            progress: &|share| assert!((0.0..=1.0).contains(&share), "{share}"),
            ..Ask::new(&file, &to)
        })
    }

    #[track_caller]
    fn refused(&self, kernel: &str, program: &[Value]) -> (String, String) {
        let error = self.import(kernel, program).unwrap_err();
        assert!(!self.run().exists());
        let text = error.to_string();
        let text = text.replace(&self.dir.path().display().to_string(), "");
        assert!(!text.contains('\n'), "{text}");
        (text, error.next_step())
    }
}

#[test]
fn threads_with_equal_numbers_are_the_same_and_clocks_are_aligned_by_their_bursts() {
    let case = Case::new();
    let imported = case.import(&kernel(true), &both(100, 101)).unwrap();
    let joined = imported.joined.unwrap();
    assert!(joined.by_number);
    // The regions leave 1 us before and after the daemon, and the kernel's times are whole
    // microseconds.
    let error = joined.error.unwrap().get();
    assert!((2_000..=4_000).contains(&error), "{error}");
    assert!(
        joined.offset_ns.abs_diff(OFFSET_NS) <= error,
        "{}",
        joined.offset_ns
    );
    let run = RunReader::open(&case.run()).unwrap();
    assert!(!case.run().join("application").exists());
    assert!(run.manifest().nodes[0].trace.unavailable.is_empty());
    let kinds: Vec<_> = run.read::<Tasks>().unwrap().rows().collect();
    let kind = |pid: u32| kinds.iter().find(|t| t.pid == Pid::new(pid)).unwrap().kind;
    assert_eq!([100, 101].map(kind), [TaskKind::Rank; 2]);
    assert_eq!([200, 300].map(kind), [TaskKind::User; 2]);
    let sheets: Vec<_> = run
        .manifest()
        .ranks
        .iter()
        .map(|r| r.threads.clone())
        .collect();
    assert_eq!(sheets, [vec![Pid::new(100)], vec![Pid::new(101)]]);
    let calls: Vec<Call> = run.read::<Calls>().unwrap().rows().collect();
    let moved = |us: i64| (us * 1_000 + 1_000_000_000 + joined.offset_ns - OFFSET_NS) as u64;
    let found: Vec<_> = calls
        .iter()
        .map(|c| (c.rank.get(), c.thread.get(), c.begin_ns, c.end_ns))
        .collect();
    let expected = [
        (0, 100, moved(14_000), moved(15_000)),
        (1, 101, moved(4_000), moved(15_000)),
    ];
    assert_eq!(found, expected);
    assert_eq!(
        run.read::<Bursts>()
            .unwrap()
            .rows()
            .filter(|b| b.pid == Pid::new(200))
            .count(),
        1
    );
    assert_eq!(run.read::<Communicators>().unwrap().len(), 2);
    // From the start of the first region to the end of the last one.
    let phase = &run.manifest().phases[0];
    assert_eq!((phase.begin_ns, phase.end_ns), (moved(1), moved(19_999)));
}

#[test]
fn ranks_without_numbers_are_bound_in_order_to_the_processes_of_their_name() {
    let case = Case::new();
    // A helper of the same name ran less.
    let mut text = kernel(true);
    for (at, from, to) in [
        (100, "swapper:0", "solver:90"),
        (200, "solver:90", "swapper:0"),
    ] {
        let ((from, pid), (to, next)) =
            (from.split_once(':').unwrap(), to.split_once(':').unwrap());
        writeln!(
            text,
            "  {from}-{pid} [006] d..2. 1.000{at}: sched_switch: prev_comm={from} prev_pid={pid} prev_prio=120 \
             prev_state=S ==> next_comm={to} next_pid={next} next_prio=120"
        )
        .unwrap();
    }
    let imported = case.import(&text, &both(5, 6)).unwrap();
    assert!(!imported.joined.unwrap().by_number);
    let run = RunReader::open(&case.run()).unwrap();
    let calls = run.read::<Calls>().unwrap();
    let threads: Vec<u32> = calls.rows().map(|c| c.thread.get()).collect();
    assert_eq!(threads, [100, 101]);
    let sheets = run.manifest().ranks.iter().map(|sheet| sheet.process);
    assert!(sheets.eq([100, 101].map(|pid| Some(Pid::new(pid)))));
    let losses = run.manifest().losses.entries();
    let entry = losses
        .iter()
        .find(|l| l.what == "ranks bound to processes by name and order");
    assert_eq!(entry.unwrap().count, 2);
    // One number in common may be chance.
    let imported = Case::new().import(&kernel(true), &both(101, 6)).unwrap();
    assert!(!imported.joined.unwrap().by_number);
    let mut three = both(5, 6);
    three.push(program(2, 7, SECOND, (4_000.0, 15_000.0), "node1"));
    let (text, _) = Case::new().refused(&kernel(true), &three);
    let what = "it has 2 processes named solver, the program's trace has 3 ranks, and the numbers of their threads differ";
    assert_eq!(text, format!("import /kernel.txt: {what}"));
}

#[test]
fn processes_are_those_of_the_kernel_trace() {
    let mut text = kernel(true);
    for (thread, process) in [
        ("swapper-0", "-----"),
        ("solver-100", "99"),
        ("solver-101", "101"),
        ("daemon-200", "99"),
        ("other-", "300"),
    ] {
        let with = |line: &str| {
            let (first, rest) = line.split_once(" [").unwrap_or((line, ""));
            match first.trim().starts_with(thread) {
                true => format!("{first} ({process:>7}) [{rest}\n"),
                false => format!("{line}\n"),
            }
        };
        text = text.lines().map(with).collect();
    }
    let case = Case::new();
    case.import(&text, &both(100, 101)).unwrap();
    let run = RunReader::open(&case.run()).unwrap();
    let sheets = run.manifest().ranks.iter().map(|sheet| sheet.process);
    assert!(sheets.eq([99, 101].map(|pid| Some(Pid::new(pid)))));
    let tasks = run.read::<Tasks>().unwrap();
    let kind = |pid: u32| tasks.rows().find(|t| t.pid == Pid::new(pid)).unwrap().kind;
    // Another thread of rank 0's process.
    assert_eq!(kind(200), TaskKind::Program);
    assert_eq!([100, 101].map(kind), [TaskKind::Rank; 2]);
}

#[test]
fn a_thread_that_the_kernel_trace_lacks_stays_one_of_its_rank() {
    let mut traces = both(100, 101);
    let events = traces[0]["traceEvents"].as_array_mut().unwrap();
    events.push(
        json!({"ph": "X", "cat": "user_annotation", "name": "unseen", "pid": 100, "tid": 555,
        "ts": 6_000.0, "dur": 1.0, "args": {}}),
    );
    let case = Case::new();
    let imported = case.import(&kernel(true), &traces).unwrap();
    let what = "threads of ranks that the kernel trace does not have";
    let mut losses = imported.losses.entries().iter();
    assert_eq!(losses.find(|l| l.what == what).unwrap().count, 1);
    let run = RunReader::open(&case.run()).unwrap();
    // A number that no thread of the kernel can have.
    let number = Pid::new((1 << 23) + 555);
    assert_eq!(run.manifest().ranks[0].threads, [Pid::new(100), number]);
    let tasks: Vec<Task> = run.read::<Tasks>().unwrap().rows().collect();
    let unseen = tasks.iter().find(|t| t.pid == number).unwrap();
    assert_eq!(
        (unseen.kind, unseen.process),
        (TaskKind::Rank, Some(Pid::new(100)))
    );
}

#[test]
fn an_offset_that_the_traces_leave_open_is_refused() {
    // Nothing distinguishes the regions' ends from any other moment of the only burst.
    let few = |mut all: Vec<Value>| {
        for trace in &mut all {
            let events = trace["traceEvents"].as_array_mut().unwrap();
            let work = events.iter_mut().filter(|e| e["name"] == "work");
            for (at, event) in work.enumerate() {
                event["ts"] = json!(10_000 + 20 * at);
                event["dur"] = json!(10.0);
            }
        }
        all
    };
    let (text, next) = Case::new().refused(&kernel(false), &few(both(100, 101)));
    let known =
        "import /rank0.json: the offset of its clock from the kernel's is not known better than";
    assert!(text.starts_with(known), "{text}");
    assert!(next.contains("--app-offset"), "{next}");
    // A region longer than every burst.
    let mut all = both(100, 101);
    all[1]["traceEvents"][1]["dur"] = json!(900_000.0);
    for event in all[0]["traceEvents"].as_array_mut().unwrap() {
        event["dur"] = json!(900_000.0);
    }
    let (text, _) = Case::new().refused(&kernel(true), &all);
    assert!(text.contains("fits the kernel's at no offset"), "{text}");
    let mut all = both(100, 101);
    for trace in &mut all {
        trace["traceEvents"]
            .as_array_mut()
            .unwrap()
            .retain(|e| e["name"] != "work");
    }
    let (text, _) = Case::new().refused(&kernel(true), &all);
    assert!(text.contains("it has 2 calls and regions"), "{text}");
}

#[test]
fn a_given_offset_is_used_and_held_against_the_traces() {
    let with = |offset: i64| {
        let case = Case {
            offset: Some(offset),
            ..Case::new()
        };
        let imported = case.import(&kernel(true), &both(100, 101)).unwrap();
        let run = RunReader::open(&case.run()).unwrap();
        let begin = run.read::<Calls>().unwrap().begin_ns[0];
        let what =
            "starts and ends of calls and regions at which the kernel has their thread off its CPU";
        let entries = imported.losses.entries().iter();
        let off = entries
            .filter(|l| l.what == what)
            .map(|l| l.count)
            .sum::<u64>();
        (begin, off, imported.joined.unwrap())
    };
    let (begin, off, joined) = with(OFFSET_NS);
    assert_eq!((begin, off, joined.error), (1_014_000_000, 0, None));
    assert_eq!(joined.moments, 12);
    // Then 9,999 us is within the daemon's time, and 19,999 us is after the end.
    assert_eq!(with(OFFSET_NS + 500_000).1, 2);
    let case = Case {
        offset: Some(-6_000_000),
        ..Case::new()
    };
    let (text, next) = case.refused(&kernel(true), &both(100, 101));
    assert!(text.contains("lie before that clock's zero"), "{text}");
    assert!(next.contains("--app-offset"), "{next}");
}

#[test]
fn traces_in_the_wrong_places_are_refused() {
    let case = Case::new();
    let file = case.dir.path().join("rank.json");
    fs::write(&file, both(100, 101)[0].to_string()).unwrap();
    let text = case.dir.path().join("kernel.txt");
    fs::write(&text, kernel(true)).unwrap();
    let to = case.run();
    let refused = |input: &Path, app: &[PathBuf]| {
        let error = import(&Ask {
            app,
            ..Ask::new(input, &to)
        })
        .unwrap_err();
        assert!(!to.exists());
        error.to_string()
    };
    assert!(refused(&file, std::slice::from_ref(&text)).contains("it is no kernel trace"));
    assert!(
        refused(&text, std::slice::from_ref(&text)).contains("not one of a program with ranks")
    );
    assert!(refused(&text, &[file, text.clone()]).contains("it is a whole trace"));
    let mut hosts = both(100, 101);
    hosts[1]["host_name"] = json!("node2");
    let (text, next) = case.refused(&kernel(true), &hosts);
    assert!(text.contains("ran on 2 hosts"), "{text}");
    assert!(next.contains("kernel trace's host"), "{next}");
}

#[test]
fn the_program_has_the_name_that_its_own_trace_gives_it() {
    // The kernel knows the program by the name of its threads.
    let kernel = kernel(true).replace("solver", "pt_main_thread");
    let command = |asked: Program| {
        let case = Case {
            asked,
            ..Case::new()
        };
        case.import(&kernel, &both(100, 101)).unwrap();
        let run = RunReader::open(&case.run()).unwrap();
        let told = run.manifest().command[3..].to_vec();
        let ranks = run.read::<Tasks>().unwrap();
        let ranks = ranks.rows().filter(|t| t.kind == TaskKind::Rank).count();
        (told, ranks)
    };
    let told = ["--program", "solver"].map(str::to_owned).to_vec();
    assert_eq!(command(Program::Busiest), (told, 2));
    // In this case, the command line already has those two words.
    let again = "solver".parse().unwrap();
    assert_eq!(command(again), (vec![], 2));
    let case = Case {
        asked: "other".parse().unwrap(),
        ..Case::new()
    };
    let (text, next) = case.refused(&kernel, &both(100, 101));
    assert!(text.contains("belongs to `other`"), "{text}");
    assert!(next.ends_with("--program: solver"), "{next}");
}

#[test]
fn a_run_that_exists_is_not_touched() {
    let case = Case::new();
    let writer = RunWriter::create(&case.run(), empty_manifest()).unwrap();
    drop(writer);
    let error = case.import(&kernel(true), &both(100, 101)).unwrap_err();
    assert!(matches!(error, ImportError::Run(_)), "{error}");
    assert!(case.run().join("run.json").exists());
}
