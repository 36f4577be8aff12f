//! Rules of the import of PyTorch's traces, each shown by the smallest possible trace.

#![allow(clippy::unwrap_used)]

use crate::kineto_trace::*;
use idlewave_formats::import::Subject;
use idlewave_run::tables::*;
use serde_json::{Value, json};

/// The kernel of a collective of this process group.
fn kernel(ts: f64, args: &Value) -> Value {
    event("kernel", "ncclDevKernel_AllReduce(x)", 13, ts, 5.0, args)
}

/// The communicators of the calls of a trace with these groups.
fn comms(groups: &Value, events: &[Value]) -> Vec<Option<u32>> {
    let mut trace = trace(0, events);
    trace["distributedInfo"]["pg_config"] = groups.clone();
    let (_, run, _dir) = imported(&[trace.to_string()]).unwrap();
    run.read::<Calls>().unwrap().comm.clone()
}

#[test]
fn an_event_has_nothing_of_the_one_before() {
    let groups = json!([{"pg_name": "0", "ranks": [0, 1]}, {"pg_name": "1", "ranks": [0]}]);
    let kernels = [
        kernel(10.0, &json!({"Process Group Name": "1"})),
        kernel(20.0, &json!({})),
    ];
    assert_eq!(comms(&groups, &kernels), [Some(1), None]);
    let root = json!({"Concrete Inputs": ["", "", "1"]});
    let mut point = annotation("point", 70, 60.0, 1.0);
    point.as_object_mut().unwrap().remove("dur");
    let events = [
        event("cpu_op", "c10d::broadcast_", 70, 10.0, 2.0, &root),
        annotation("gloo:broadcast", 71, 11.0, 5.0),
        operator("c10d::broadcast_", 20.0, 2.0),
        annotation("gloo:broadcast", 71, 21.0, 5.0),
        point,
    ];
    let (told, run, _dir) = imported(&[trace(0, &events).to_string()]).unwrap();
    let rootless = "collectives whose root the trace does not name";
    assert_eq!(lost(&told, rootless), 1);
    let marks = run.read::<Marks>().unwrap();
    assert_eq!((marks.begin_ns[0], marks.end_ns[0]), (60_000, Some(60_000)));
}

#[test]
fn process_groups_are_communicators() {
    let of = |name: &str| json!({"Process Group Name": name});
    let kernels = [kernel(10.0, &of("0")), kernel(20.0, &of("1"))];
    // Two groups of all ranks are two communicators.
    let twice = json!([{"pg_name": "0", "ranks": [0, 1]}, {"pg_name": "1", "ranks": [0, 1]}]);
    assert_eq!(comms(&twice, &kernels), [Some(0), Some(1)]);
    // Groups without a name, and those with a rank that no program has, do not count.
    let gloo = [annotation("gloo:barrier", 71, 10.0, 1.0)];
    for odd in [
        json!({"pg_name": "", "ranks": [0]}),
        json!({"pg_name": "7", "ranks": [0, 1 << 20]}),
        json!({"pg_name": "7", "ranks": [0, "x"]}),
    ] {
        let groups = json!([odd, {"pg_name": "0", "ranks": [0, 1]}]);
        assert_eq!(comms(&groups, &gloo), [Some(0)], "{odd}");
    }
    // If the trace does not list the groups, the arguments of kernels do, except for long lists.
    let listed = |ranks: &str| {
        let args = json!({"Process Group Name": "5", "Process Group Ranks": ranks});
        comms(&json!([]), &[kernel(10.0, &args)])
    };
    assert_eq!(listed("[0, 1]"), [Some(0)]);
    assert_eq!(listed("[0, ...]"), [None]);
}

#[test]
fn calls_are_those_of_the_threads_that_wait() {
    let calls = |events: &[Value]| {
        let (told, run, _dir) = imported(&[trace(0, events).to_string()]).unwrap();
        let calls = run.read::<Calls>().unwrap();
        let found = calls
            .rows()
            .map(|c| (c.thread.get(), c.begin_ns, c.end_ns, c.sequence));
        (found.collect::<Vec<_>>(), told)
    };
    // The thread idles, but goes on before the collective begins.
    let (found, _) = calls(&[
        operator("c10d::barrier", 10.0, 2.0),
        addition(90.0),
        annotation("gloo:barrier", 71, 100.0, 10.0),
    ]);
    assert_eq!(found, [(71, 100_000, 110_000, Some(0))]);
    // A message has no launch: only its worker knows it.
    let (found, told) = calls(&[
        operator("c10d::send", 10.0, 1.0),
        annotation("gloo:send", 71, 11.0, 10.0),
    ]);
    assert_eq!(found, [(71, 11_000, 21_000, None)]);
    assert_eq!(lost(&told, "sends and receives without a partner"), 1);
    // Launches are matched to runs in the order of their times, not of the file.
    let (found, told) = calls(&[
        operator("c10d::barrier", 50.0, 2.0),
        operator("c10d::barrier", 10.0, 2.0),
        annotation("gloo:barrier", 71, 11.0, 10.0),
        annotation("gloo:barrier", 71, 51.0, 10.0),
    ]);
    let expected = [(70, 10_000, 21_000, Some(0)), (70, 50_000, 61_000, Some(1))];
    assert_eq!(found, expected);
    assert_eq!(lost(&told, "events out of order"), 1);
    // Collectives of a group are numbered in the order of their launches, not as workers took them.
    let (found, _) = calls(&[
        operator("c10d::allreduce_", 10.0, 2.0),
        operator("c10d::barrier", 20.0, 2.0),
        annotation("gloo:barrier", 71, 21.0, 5.0),
        annotation("gloo:all_reduce", 72, 30.0, 5.0),
    ]);
    let sequences: Vec<_> = found.iter().map(|call| (call.1, call.3)).collect();
    assert_eq!(sequences, [(30_000, Some(0)), (20_000, Some(1))]);
}

#[test]
fn a_process_has_its_own_names_threads_and_events() {
    let metadata = |what: &str, pid: u32, name: &str| json!({"ph": "M", "name": what, "pid": pid, "tid": 70, "ts": 0, "args": {"name": name}});
    let mut foreign = addition(30.0);
    foreign["pid"] = json!(99);
    let launch = |tid: u32, ts: f64| event("cpu_op", "c10d::barrier", tid, ts, 1.0, &json!({}));
    let events = [
        metadata("process_name", 70, "trainer"),
        metadata("thread_name", 70, "thread 70 (main)"),
        metadata("process_name", 0, "of the GPU"),
        metadata("thread_name", 0, "stream"),
        launch(60, 10.0),
        launch(70, 20.0),
        launch(70, 40.0),
        foreign,
        annotation("mpi:barrier", 60, 10.5, 2.0),
        annotation("nccl:all_reduce", 70, 60.0, 1.0),
    ];
    let (told, run, _dir) = imported(&[trace(0, &events).to_string()]).unwrap();
    assert!(matches!(&told.program, Subject::Told { name, .. } if name == "trainer"));
    let tasks = run.read::<Tasks>().unwrap();
    // The thread that launches most comes first.
    assert_eq!(tasks.name, ["main", "thread 60"]);
    assert_eq!(run.read::<Operations>().unwrap().name, ["mpi:barrier"]);
    let second = "events of a second process in the file of a rank";
    assert_eq!(lost(&told, second), 1);
    let unseen = "collectives on a GPU whose kernels are not in the trace";
    assert_eq!(lost(&told, unseen), 1);
}

#[test]
fn progress_is_told_within_a_file() {
    // `import_all` asserts that each share is valid.
    let events: Vec<Value> = (0..40_000).map(|n| addition(f64::from(n))).collect();
    let (told, ..) = imported(&[trace(0, &events).to_string()]).unwrap();
    assert_eq!(told.events, 40_000);
}
