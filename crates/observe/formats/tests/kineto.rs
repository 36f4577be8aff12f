//! Traces of PyTorch's profiler: an independent reader must find the same in them. Also what
//! becomes of collectives, process groups, ranks and hosts.

#![allow(clippy::unwrap_used)]

use crate::common::skip;
use crate::kineto_trace::*;
use flate2::read::GzDecoder;
use idlewave_run::tables::*;
use idlewave_run::{PhaseKind, RunReader};
use idlewave_units::{Pid, Rank};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The example: three ranks of PyTorch 2.15 with gloo, as the profiler wrote them.
fn example() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/examples/kineto");
    [0, 1, 2]
        .map(|rank| dir.join(format!("rank{rank}.json.gz")))
        .into()
}

/// What the independent reader finds.
fn oracle(files: &[PathBuf]) -> Option<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kineto.py");
    match Command::new("python3").arg(script).args(files).output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.is_empty(), "{said}");
            Some(serde_json::from_slice(&output.stdout).unwrap())
        }
        Err(error) => {
            skip(&format!("there is no python3: {error}"));
            None
        }
    }
}

#[test]
fn calls_and_marks_are_those_that_the_json_module_finds() {
    let dir = tempfile::tempdir().unwrap();
    let files = example();
    let imported = import_all(&files, dir.path()).unwrap();
    let run = RunReader::open(dir.path()).unwrap();
    let Some(found) = oracle(&files) else { return };
    let names: Vec<String> = run.read::<Operations>().unwrap().name;
    let calls: Vec<Call> = run.read::<Calls>().unwrap().rows().collect();
    let marks: Vec<Mark> = run.read::<Marks>().unwrap().rows().collect();
    let mut events = 0;
    for file in found.as_array().unwrap() {
        let rank = Rank::new(file["rank"].as_u64().unwrap() as u32);
        let process = Pid::new(file["process"].as_u64().unwrap() as u32);
        events += file["events"].as_u64().unwrap();
        // Each of them blocked the thread that launched it.
        let mut ours: Vec<Value> = calls
            .iter()
            .filter(|call| call.rank == rank)
            .inspect(|call| assert_eq!(call.thread, process))
            .map(|c| json!([names[c.operation as usize], c.begin_ns, c.end_ns]))
            .collect();
        let mut theirs = file["collectives"].as_array().unwrap().clone();
        assert_eq!(theirs.len(), 16);
        let time = |row: &Value| row[1].as_u64();
        ours.sort_by_key(time);
        theirs.sort_by_key(time);
        assert_eq!(ours, theirs);
        let ours = marks.iter().filter(|mark| mark.rank == Some(rank));
        let ours: Vec<Value> = ours
            .map(|m| json!([m.name, m.thread.get(), m.begin_ns, m.end_ns]))
            .collect();
        let mut theirs = file["marks"].as_array().unwrap().clone();
        let time = |row: &Value| (row[2].as_u64(), row[3].as_u64().map(std::cmp::Reverse));
        let mut ours = ours;
        ours.sort_by_key(time);
        theirs.sort_by_key(time);
        assert_eq!(ours, theirs);
    }
    assert_eq!(imported.events, events);
    let waited = "collectives whose thread seems to have waited for them";
    assert_eq!(lost(&imported, waited), 48);
}

#[test]
fn a_collective_of_nccl_lasts_as_long_as_its_kernel_and_its_launch_is_another_call() {
    let args = json!({
        "Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000,
        "Group size": 2, "dtype": "BFloat16", "Process Group Name": "0",
        "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1]",
    });
    let broadcast = json!({
        "Collective name": "broadcast", "In msg nelems": 8, "Out msg nelems": 8, "dtype": "Float",
        "Process Group Name": "0",
    });
    let of_rank = |rank: u32, late: f64| {
        let kernel = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
        let events = [
            operator("c10d::allreduce_", 10.0, 20.0),
            event("cpu_op", "record_param_comms", 70, 11.0, 15.0, &args),
            annotation("nccl:all_reduce", 70, 12.0, 10.0),
            event("kernel", "gemm", 7, 20.0, 30.0, &json!({"stream": 7})),
            event("kernel", kernel, 13, 50.125 + late, 100.5 - late, &args),
            event(
                "gpu_user_annotation",
                "nccl:all_reduce",
                13,
                50.125,
                100.5,
                &json!({}),
            ),
            event(
                "kernel",
                "ncclDevKernel_Broadcast_RING_LL(x)",
                13,
                200.0,
                9.0,
                &broadcast,
            ),
            annotation("ProfilerStep#7", 70, 5.0, 300.0),
        ];
        trace(rank, &events).to_string()
    };
    let (told, run, _dir) = imported(&[of_rank(0, 0.0), of_rank(1, 60.001)]).unwrap();
    let operations: Vec<Operation> = run.read::<Operations>().unwrap().rows().collect();
    let of = |name: &str| operations.iter().find(|o| o.name == name).unwrap();
    assert_eq!(of("nccl:all_reduce").class, OperationClass::AllToAll);
    assert_eq!(of("nccl:broadcast").class, OperationClass::FromRoot);
    assert_eq!(of("launch of nccl:all_reduce").class, OperationClass::Other);
    let calls: Vec<Call> = run.read::<Calls>().unwrap().rows().collect();
    let of_kernel = calls
        .iter()
        .filter(|c| c.operation == of("nccl:all_reduce").id);
    let found: Vec<_> = of_kernel
        .map(|c| {
            (
                c.rank.get(),
                c.begin_ns,
                c.end_ns,
                c.comm,
                c.sequence,
                c.sent.map(|b| b.get()),
            )
        })
        .collect();
    let expected = [
        (0, 50_125, 150_625, Some(0), Some(0), Some(2_000)),
        (1, 110_126, 150_625, Some(0), Some(0), Some(2_000)),
    ];
    assert_eq!(found, expected);
    let launches: Vec<_> = calls
        .iter()
        .filter(|c| c.operation == of("launch of nccl:all_reduce").id)
        .map(|c| (c.rank.get(), c.begin_ns, c.end_ns, c.comm))
        .collect();
    assert_eq!(
        launches,
        [(0, 11_000, 26_000, None), (1, 11_000, 26_000, None)]
    );
    // The stream is a thread of the rank, with a number that no thread of the kernel can have.
    let tasks: Vec<Task> = run.read::<Tasks>().unwrap().rows().collect();
    let names: Vec<&str> = tasks.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "thread 70",
            "GPU 0 stream 13",
            "thread 70",
            "GPU 0 stream 13"
        ]
    );
    assert!(tasks[1].pid.get() > 1 << 22);
    let marks: Vec<Mark> = run.read::<Marks>().unwrap().rows().collect();
    assert_eq!(
        (marks[0].name.as_str(), marks[0].begin_ns),
        ("ProfilerStep", 5_000)
    );
    assert_eq!(lost(&told, "kernels that are no collectives"), 2);
    assert_eq!(
        lost(&told, "collectives whose root the trace does not name"),
        2
    );
    let PhaseKind::Recorded { library, .. } = &run.manifest().phases[0].kind else {
        panic!("a recorded phase");
    };
    assert_eq!(library.as_deref(), Some("nccl"));
}

#[test]
fn a_collective_beside_other_work_is_the_workers_call() {
    let gloo = |tid: u32, ts: f64, dur: f64| annotation("gloo:all_reduce", tid, ts, dur);
    let launch = |ts: f64| operator("c10d::allreduce_", ts, 2.0);
    let events = [
        gloo(71, 11.0, 100.0),
        gloo(72, 201.0, 99.0),
        launch(10.0),
        // Beside the first collective, and as the second one ends, whose worker notes that later.
        addition(13.0),
        launch(200.0),
        addition(299.0),
    ];
    let (told, run, _dir) = imported(&[trace(0, &events).to_string()]).unwrap();
    let calls = run.read::<Calls>().unwrap();
    let calls: Vec<_> = calls
        .rows()
        .map(|c| (c.thread.get(), c.begin_ns, c.end_ns, c.sequence))
        .collect();
    let expected = [
        (71, 11_000, 111_000, Some(0)),
        (70, 200_000, 299_000, Some(1)),
    ];
    assert_eq!(calls, expected);
    assert_eq!(
        lost(
            &told,
            "collectives that ran beside other work of their thread"
        ),
        1
    );
    assert_eq!(lost(&told, "ranks without a trace"), 1);
    assert_eq!(run.manifest().ranks.len(), 2);
    assert_eq!(run.read::<Communicators>().unwrap().rank.len(), 2);
}

#[test]
fn a_broadcasts_root_is_a_rank_of_its_group() {
    let with = |inputs: &Value| {
        let args = json!({"Concrete Inputs": inputs});
        let events = [
            event("cpu_op", "c10d::broadcast_", 70, 10.0, 2.0, &args),
            annotation("gloo:broadcast", 71, 11.0, 5.0),
        ];
        let mut trace = trace(3, &events);
        trace["distributedInfo"]["world_size"] = json!(4);
        trace["distributedInfo"]["pg_config"] = json!([{"pg_name": "7", "ranks": [1, 3]}]);
        let (told, run, _dir) = imported(&[trace.to_string()]).unwrap();
        let calls = run.read::<Calls>().unwrap();
        (
            calls.root[0],
            lost(&told, "collectives whose root the trace does not name"),
            calls.comm[0],
        )
    };
    let none = with(&json!([]));
    assert_eq!(none.1, 1);
    let first = with(&json!(["", "", "0", "0", "False", "-1"]));
    let second = with(&json!(["", "", "1", "0", "False", "-1"]));
    assert_eq!((first.0, first.1), (Some(Rank::new(1)), 0));
    assert_eq!((second.0, second.1), (Some(Rank::new(3)), 0));
    // The group is not the whole program, which is communicator 0.
    assert_eq!(first.2, Some(1));
    // Not a member of the group.
    assert_eq!(with(&json!(["", "", "2"])).1, 1);
}

#[test]
fn groups_of_other_ranks_do_not_make_a_collective_ambiguous() {
    let events = [
        event(
            "cpu_op",
            "c10d::reduce_",
            70,
            10.0,
            2.0,
            &json!({"Concrete Inputs": ["", "", "", "1"]}),
        ),
        annotation("gloo:reduce", 71, 11.0, 5.0),
    ];
    let mut whole = trace(0, &events);
    let groups = json!([{"pg_name": "1", "ranks": [1]}, {"pg_name": "0", "ranks": [0, 1]}]);
    whole["distributedInfo"]["pg_config"] = groups;
    let (_, run, _dir) = imported(&[whole.to_string()]).unwrap();
    let call = run.read::<Calls>().unwrap().rows().next().unwrap();
    assert_eq!((call.comm, call.root), (Some(0), Some(Rank::new(1))));
    // With two groups of its own, the threads of both must have been at work.
    whole["distributedInfo"]["pg_config"][0]["ranks"] = json!([0]);
    let (told, run, _dir) = imported(&[whole.to_string()]).unwrap();
    assert_eq!(run.read::<Calls>().unwrap().comm[0], None);
    let ungrouped = "collectives whose process group the trace does not name";
    assert_eq!(lost(&told, ungrouped), 1);
    let gloo = |tid, ts| annotation("gloo:barrier", tid, ts, 1.0);
    let events = whole["traceEvents"].as_array_mut().unwrap();
    events.extend([gloo(72, 30.0), gloo(80, 40.0), gloo(81, 50.0)]);
    let (told, run, _dir) = imported(&[whole.to_string()]).unwrap();
    let comms = run.read::<Calls>().unwrap().comm.clone();
    assert_eq!(comms, [Some(1), Some(1), Some(0), Some(0)]);
    assert_eq!(
        (
            lost(&told, ungrouped),
            lost(
                &told,
                "collectives whose process group follows from their threads"
            )
        ),
        (0, 4)
    );
}

#[test]
fn a_collective_that_was_launched_before_the_trace_is_its_workers_call() {
    let gloo = |ts: f64, dur: f64| annotation("gloo:barrier", 71, ts, dur);
    let events = [
        gloo(5.0, 4.0),
        gloo(12.0, 8.0),
        operator("c10d::barrier", 10.0, 2.0),
    ];
    let (_, run, _dir) = imported(&[trace(0, &events).to_string()]).unwrap();
    let calls = run.read::<Calls>().unwrap();
    let found: Vec<_> = calls
        .rows()
        .map(|c| (c.thread.get(), c.begin_ns, c.end_ns))
        .collect();
    assert_eq!(found, [(71, 5_000, 9_000), (70, 10_000, 20_000)]);
}

#[test]
fn ranks_come_from_the_trace_else_from_the_name_else_from_the_order() {
    let mut anonymous = trace(0, &[addition(1.0)]);
    anonymous.as_object_mut().unwrap().remove("distributedInfo");
    let dir = tempfile::tempdir().unwrap();
    let text = anonymous.to_string();
    let names = ["a.json", "worker_Rank-2_step.json"];
    let files = names.map(|name| {
        let file = dir.path().join(name);
        fs::write(&file, &text).unwrap();
        file
    });
    let run = dir.path().join("run");
    let told = import_all(&files, &run).unwrap();
    let sheets = RunReader::open(&run).unwrap().manifest().ranks.clone();
    let known: Vec<_> = sheets
        .iter()
        .filter(|s| s.process.is_some())
        .map(|s| s.rank.get())
        .collect();
    assert_eq!(known, [0, 2]);
    assert_eq!(lost(&told, "files that do not say their rank"), 2);
}

const UNCOMPARED: &str = "hosts whose clocks could not be compared with that of the first";
const APART: &str = "hosts whose clocks differed from that of the first one";

/// A trace of a rank on a host, with a collective that begins and ends at each of these times, us.
fn on_host(host: &str, rank: u32, name: &str, times: &[(f64, f64)]) -> Value {
    let calls = times.iter();
    let calls = calls.map(|&(begin, end)| annotation(name, 72, begin, end - begin));
    let mut trace = trace(rank, &calls.collect::<Vec<_>>());
    trace["host_name"] = json!(host);
    trace
}

#[test]
fn hosts_are_nodes_whose_clocks_stay_if_nothing_compares_them() {
    let mut other = trace(1, &[addition(2.0)]);
    other["host_name"] = json!("node2");
    // Its times count from another base.
    other["baseTimeNanoseconds"] = json!(1_700_000_000_000_001_000_u64);
    let (told, run, _dir) =
        imported(&[trace(0, &[addition(1.0)]).to_string(), other.to_string()]).unwrap();
    let hosts: Vec<&str> = run
        .manifest()
        .nodes
        .iter()
        .map(|n| n.host.name.as_str())
        .collect();
    assert_eq!(hosts, ["node1", "node2"]);
    let phase = &run.manifest().phases[0];
    assert_eq!((phase.begin_ns, phase.end_ns), (1_000, 4_000));
    assert_eq!(lost(&told, UNCOMPARED), 1);
}

#[test]
fn clocks_of_hosts_are_brought_together_by_collectives_that_wait_for_all() {
    // The second host is 5 ms behind. Each rank comes last once, 2 us before the end.
    let here = [(6_000.0, 6_010.0), (7_008.0, 7_010.0)];
    let there = [(1_008.0, 1_010.0), (2_000.0, 2_010.0)];
    let import = |name: &str, there: &[(f64, f64)]| {
        let traces = [
            on_host("node1", 0, name, &here).to_string(),
            on_host("node2", 1, name, there).to_string(),
        ];
        let (told, run, dir) = imported(&traces).unwrap();
        let calls: Vec<Call> = run.read::<Calls>().unwrap().rows().collect();
        let mut of: Vec<(u32, u64, u64)> = calls
            .iter()
            .map(|c| (c.rank.get(), c.begin_ns / 1_000, c.end_ns / 1_000))
            .collect();
        of.sort_unstable();
        drop(dir);
        (told, of, run.manifest().clone())
    };
    let (told, calls, manifest) = import("gloo:all_reduce", &there);
    assert_eq!(
        calls,
        [
            (0, 6_000, 6_010),
            (0, 7_008, 7_010),
            (1, 6_008, 6_010),
            (1, 7_000, 7_010)
        ]
    );
    assert_eq!((lost(&told, APART), lost(&told, UNCOMPARED)), (1, 0));
    let losses = told.losses.entries();
    let apart = losses.iter().find(|loss| loss.what == APART).unwrap();
    assert!(
        apart
            .consequence
            .starts_with("by up to 5.00 ms: corrected to about 2.00 us"),
        "{apart:?}"
    );
    let method = &manifest.nodes[1].clock.method;
    assert!(
        method.ends_with("aligned by collectives that wait for all"),
        "{method}"
    );

    // In a broadcast, the root does not wait.
    let (told, calls, _) = import("gloo:broadcast", &there);
    assert_eq!(calls[2], (1, 1_008, 1_010));
    assert_eq!((lost(&told, APART), lost(&told, UNCOMPARED)), (0, 1));
    // Clocks that may be right are compared and stay.
    let right = there.map(|(begin, end)| (begin + 5_001.0, end + 5_001.0));
    let (told, calls, _) = import("gloo:all_reduce", &right);
    assert_eq!(calls[2], (1, 6_009, 6_011));
    assert_eq!((lost(&told, APART), lost(&told, UNCOMPARED)), (0, 0));
}

#[test]
fn a_clock_that_was_moved_in_real_traces_is_moved_back() {
    const MOVED: u64 = 5_000_000;
    let import = |moved: u64| {
        let mut traces: Vec<Value> = example()
            .iter()
            .map(|file| serde_json::from_reader(GzDecoder::new(File::open(file).unwrap())).unwrap())
            .collect();
        let other = traces.last_mut().unwrap();
        other["host_name"] = json!("elsewhere");
        let base = other["baseTimeNanoseconds"].as_u64().unwrap();
        other["baseTimeNanoseconds"] = json!(base - moved);
        let texts: Vec<String> = traces.iter().map(Value::to_string).collect();
        let (told, run, _dir) = imported(&texts).unwrap();
        (told, run.read::<Calls>().unwrap())
    };
    let (told, as_recorded) = import(0);
    assert_eq!((lost(&told, APART), lost(&told, UNCOMPARED)), (0, 0));
    let (told, moved_back) = import(MOVED);
    assert_eq!(lost(&told, APART), 1);
    assert_eq!(moved_back.len(), as_recorded.len());
    let shift = moved_back.begin_ns.iter().zip(&as_recorded.begin_ns);
    let most = shift.map(|(now, then)| now.abs_diff(*then)).max().unwrap();
    // A collective of gloo takes half a millisecond here, so the clocks may be off by as much.
    let losses = told.losses.entries();
    let apart = losses.iter().find(|loss| loss.what == APART).unwrap();
    assert!(apart.consequence.contains("to about 275 us"), "{apart:?}");
    assert!(most < 275_000, "{most} ns");
}
