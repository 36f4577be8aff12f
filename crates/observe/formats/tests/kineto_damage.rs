//! Files of PyTorch's profiler that are damaged, cut short, hostile, or something else.

#![allow(clippy::unwrap_used)]

use crate::kineto_trace::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use idlewave_run::RunReader;
use idlewave_run::tables::{Calls, Table};
use proptest::prelude::*;
use serde_json::json;
use std::fs;
use std::io::Write as _;
use std::path::Path;

#[test]
fn what_is_no_such_trace_is_refused_in_a_line() {
    let good = trace(0, &[addition(1.0)]).to_string();
    let (text, next) = refused(&[good.clone(), good.clone()]);
    assert_eq!(text, "import /1.json: rank 0 is in /0.json too");
    assert!(next.contains("same cycle"), "{next}");
    let (text, _) = refused(&["{\"traceEvents\": [], \"otherData\": {}}".to_owned()]);
    assert_eq!(
        text,
        "import /0.json: it is JSON, but not of PyTorch's profiler"
    );
    let (text, _) = refused(&[trace(0, &[]).to_string()]);
    assert_eq!(
        text,
        "import /0.json: it holds no operators, annotations or kernels"
    );
    // A name has no length of its own: the line is that of the damage.
    let (text, _) = refused(&[good.replace("\"dur\":1.0", "\"dur\":NaN")]);
    let json = "it is not the JSON of PyTorch's profiler";
    assert_eq!(
        text,
        format!("import /0.json: line 1: {json}: expected value")
    );
    let (text, _) = refused(&[good.replace("\"dur\":1.0", "\"dur\":1e999")]);
    assert_eq!(
        text,
        format!("import /0.json: line 1: {json}: number out of range")
    );
    let mut many = trace(0, &[addition(1.0)]);
    many["distributedInfo"]["world_size"] = json!(u64::MAX);
    let (text, _) = refused(&[many.to_string()]);
    assert_eq!(
        text,
        format!("import /0.json: no program has a rank 0 of {}", u64::MAX)
    );
    many["distributedInfo"]["world_size"] = json!(2);
    many["distributedInfo"]["rank"] = json!(1_u64 << 20);
    let (text, _) = refused(&[many.to_string()]);
    assert_eq!(text, "import /0.json: no program has a rank 1048576 of 2");
    // A kernel trace does not come in several files, and is not a rank's.
    let kernel = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/examples/ftrace.txt"),
    );
    let (text, next) = refused(&[good, kernel.unwrap()]);
    assert_eq!(
        text,
        "import /1.json: it is a whole trace, and a run holds one"
    );
    assert!(next.contains("PyTorch"), "{next}");
}

#[test]
fn nesting_without_end_costs_neither_the_stack_nor_the_import() {
    let deep = |open: &str, close: &str| [open.repeat(100_000), close.repeat(100_000)].concat();
    let good = trace(0, &[addition(1.0)]).to_string();
    for (place, key) in [
        ("\"args\":{}", "\"args\":{\"x\":1,\"Concrete Inputs\""),
        ("\"pg_name\":\"0\"", "\"pg_name\""),
        ("\"traceName\":\"rank.json\"", "\"host_name\""),
    ] {
        let end = if place.ends_with('}') { "}" } else { "" };
        let text = good.replace(place, &format!("{key}:{}{end}", deep("[", "]")));
        assert_ne!(text, good);
        let (told, ..) = imported(&[text]).unwrap();
        assert_eq!(told.events, 1);
    }
}

#[test]
fn values_of_wrong_types_are_nobodys_events() {
    let mut events = vec![addition(1.0)];
    for (key, value) in [
        ("pid", json!("Spans")),
        ("tid", json!({"a": [1]})),
        ("tid", json!(-1)),
        ("ts", json!("1.0")),
        ("ts", json!(-5)),
        ("ts", json!(1e300)),
        ("dur", json!(1e300)),
        ("name", json!(["x"])),
        ("cat", json!(null)),
        ("ph", json!(true)),
    ] {
        let mut event = addition(2.0);
        event[key] = value;
        events.push(event);
    }
    events.push(json!({}));
    let (told, ..) = imported(&[trace(0, &events).to_string()]).unwrap();
    assert_eq!(told.events, 12);
    assert_eq!(lost(&told, "events without a time"), 4);
    assert_eq!(
        lost(&told, "events of kinds that a run has no table for"),
        6
    );
    assert_eq!(lost(&told, "operators that are no collectives"), 2);
}

#[test]
fn a_trace_that_is_cut_short_is_read_up_to_the_cut() {
    let text = trace(0, &[addition(1.0), addition(2.0), addition(3.0)]).to_string();
    let cut = &text[..text.rfind("aten::add").unwrap()];
    let (told, ..) = imported(&[cut.to_owned()]).unwrap();
    assert_eq!(
        (told.events, lost(&told, "files that are cut short")),
        (2, 1)
    );
    let (said, next) = refused(&[text[..text.find("\"ph\"").unwrap()].to_owned()]);
    let before = "it is cut short before its first operator, annotation or kernel";
    assert_eq!(said, format!("import /0.json: {before}"));
    assert!(next.contains("copy the file again"), "{next}");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rank0.json.gz");
    let mut packer = GzEncoder::new(Vec::new(), Compression::none());
    packer.write_all(text.as_bytes()).unwrap();
    let packed = packer.finish().unwrap();
    fs::write(&file, &packed[..packed.len() - 100]).unwrap();
    let told = import_all(&[file], &dir.path().join("run")).unwrap();
    assert_eq!(lost(&told, "files that are cut short"), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_are_too_strange(
        edits in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..8),
        cut in any::<usize>(),
    ) {
        let args = json!({
            "Collective name": "allreduce", "In msg nelems": 1000, "dtype": "Float",
            "Process Group Name": "0", "Process Group Ranks": "[0, 1]",
        });
        let events = [
            operator("c10d::allreduce_", 10.0, 20.0),
            annotation("gloo:all_reduce", 71, 12.0, 30.0),
            event("kernel", "ncclDevKernel_AllReduce(x)", 13, 50.125, 100.5, &args),
            annotation("ProfilerStep#7", 70, 5.0, 300.0),
        ];
        let mut bytes = trace(0, &events).to_string().into_bytes();
        for (at, byte) in edits {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        bytes.truncate(bytes.len() - cut % (bytes.len() / 4));
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.json");
        fs::write(&file, bytes).unwrap();
        let to = dir.path().join("run");
        match import_all(&[file], &to) {
            Ok(_) => {
                let run = RunReader::open(&to).unwrap();
                prop_assert!(run.read::<Calls>().unwrap().rows().all(|c| c.begin_ns <= c.end_ns));
            }
            Err(_) => prop_assert!(!to.exists()),
        }
    }
}
