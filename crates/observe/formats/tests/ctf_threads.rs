//! What a CTF trace says about threads: names, processes, parents and kinds.

#![allow(clippy::unwrap_used)]

use crate::ctf_trace::{Lttng, Value, noted, switch, unpack, written};
use crate::perf_file::imported::tasks;
use crate::story::{import_file, lines, losses, story_lines};
use idlewave_formats::import::Program;
use idlewave_run::Table;
use idlewave_run::tables::{Syscalls, TaskKind};
use idlewave_units::Pid;
use std::fs;

/// In a fork, LTTng calls threads tid and processes pid.
#[test]
fn a_new_thread_is_known_by_its_own_number_and_its_process() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    unpack("plain", &trace, true);
    let (_, run) = import_file(&trace, &Program::Busiest).unwrap();
    let tasks = tasks(&run);
    for pid in 1000..1040 {
        let process = tasks[&Pid::new(pid)].process;
        assert_eq!(process, Some(Pid::new(70)), "{pid}");
    }
}

#[test]
fn threads_that_lttng_notes_have_process_parent_and_kind() {
    let lttng = Lttng {
        more: vec![
            noted(1_000_100, 0, (70, 70, 1), "solver", false),
            noted(1_000_100, 0, (71, 70, 1), "solver", false),
            noted(1_000_100, 0, (5, 5, 2), "kworker/1:0", true),
            // A user thread that is named like a kernel thread.
            noted(1_000_100, 0, (9, 9, 1), "kworker/u:1", false),
            (
                1_000_200,
                0,
                "sched_stat_runtime",
                vec![Value::Text("x".to_owned()), Value::Number(70)],
            ),
        ],
        ..Lttng::default()
    };
    let (_dir, result) = written(&lttng);
    let (imported, run) = result.unwrap();
    assert_eq!(imported.events, 12 + 5);
    assert_eq!(lines(&run), story_lines());
    let tasks = tasks(&run);
    let of = |pid| &tasks[&Pid::new(pid)];
    assert_eq!(of(71).process, Some(Pid::new(70)));
    assert_eq!(of(9).kind, TaskKind::User);
    assert_eq!(of(5).kind, TaskKind::Kernel);
    let inferred = |(what, _): &(String, u64)| what.starts_with("threads whose kind");
    assert!(!losses(&run).iter().any(inferred));
    let unknown = ("kernel trace events of unknown kind".to_owned(), 1);
    assert!(losses(&run).contains(&unknown));
}

#[test]
fn system_calls_have_the_numbers_of_their_names() {
    let call = |time, name, values: &[i64]| {
        let values = values.iter().map(|value| Value::Number(*value)).collect();
        (time, 0, name, values)
    };
    let lttng = Lttng {
        more: vec![
            call(1_000_500, "syscall_entry_newfstat", &[3]),
            call(1_000_600, "syscall_exit_newfstat", &[0, 5]),
            call(1_000_700, "syscall_entry_unknown", &[600, 0]),
            // From a 32-bit program.
            call(1_000_800, "compat_syscall_entry_read", &[3]),
        ],
        ..Lttng::default()
    };
    let (_dir, result) = written(&lttng);
    let (_, run) = result.unwrap();
    let calls: Vec<_> = run.read::<Syscalls>().unwrap().rows().collect();
    let seen = calls
        .iter()
        .map(|c| (c.time_ns, c.pid.get(), c.number, c.returned));
    let expected = [
        (1_000_500, 70, Some(5), false),
        (1_000_600, 70, Some(5), true),
        (1_000_700, 70, Some(600), false),
    ];
    assert_eq!(seen.collect::<Vec<_>>(), expected);
    assert_eq!(run.manifest().nodes[0].host.architecture, "x86_64");
    let unknown = ("kernel trace events of unknown kind".to_owned(), 1);
    assert!(losses(&run).contains(&unknown), "{:?}", losses(&run));
    assert_eq!(lines(&run), story_lines());
}

#[test]
fn children_of_kernel_threads_that_lttng_notes_are_kernel_threads() {
    use Value::{Number, Text};
    let values = |name: &str, tid| [Text(name.to_owned()), Number(tid), Number(tid)];
    let fork = [values("kworker/1:0", 5), values("its child", 31)].concat();
    let lttng = Lttng {
        more: vec![
            noted(1_000_100, 0, (5, 5, 2), "kworker/1:0", true),
            (1_000_200, 0, "sched_process_fork", fork),
        ],
        ..Lttng::default()
    };
    let (_dir, result) = written(&lttng);
    let (_, run) = result.unwrap();
    assert_eq!(tasks(&run)[&Pid::new(31)].kind, TaskKind::Kernel);
}

#[test]
fn a_name_that_no_event_tells_is_the_one_that_lttng_noted() {
    let (idle, nameless) = ((0, "swapper/0"), (80, ""));
    let lttng = Lttng {
        more: vec![
            noted(800_000, 0, (80, 80, 1), "noted", false),
            switch(900_000, 0, idle, 0, nameless),
            switch(950_000, 0, nameless, 1, idle),
        ],
        ..Lttng::default()
    };
    let (_dir, result) = written(&lttng);
    let (_, run) = result.unwrap();
    assert_eq!(tasks(&run)[&Pid::new(80)].name, "noted");
}

#[test]
fn contexts_tell_the_processes_of_threads() {
    let lttng = Lttng {
        contexts: true,
        ..Lttng::default()
    };
    let (_dir, result) = written(&lttng);
    let (_, run) = result.unwrap();
    let tasks = tasks(&run);
    let process = |pid| tasks[&Pid::new(pid)].process.map(Pid::get);
    assert_eq!([70, 71, 9].map(process), [Some(70), Some(70), Some(9)]);
}

/// In a PID namespace, perf and the tracepoint number threads differently.
#[test]
fn a_process_is_taken_from_numbers_of_the_same_namespace_only() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    unpack("perf/file", &trace, false);
    let path = trace.join("metadata");
    let metadata = fs::read_to_string(&path).unwrap();
    // Another number, which is hardly ever the thread's.
    let other = metadata.replace("common_pid", "common_other");
    fs::write(&path, other.replace("common_preempt_count", "common_pid")).unwrap();
    let (_, run) = import_file(&trace, &Program::Busiest).unwrap();
    for (pid, task) in tasks(&run) {
        assert!(pid == Pid::IDLE || task.process.is_none(), "{task:?}");
    }
}
