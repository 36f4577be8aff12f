//! Every document of `--json` begins with its header: what wrote it, and where and when it was
//! measured, if it was.

#![allow(clippy::unwrap_used)]

mod common;

use common::{idlewave, run};
use serde_json::Value;

fn document(words: &[&str]) -> Value {
    let ended = run(idlewave()
        .args(words)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../..")));
    ended.succeeded();
    let begin = ended.stdout.trim_start_matches(['{', '\n', ' ']);
    assert!(begin.starts_with("\"header\": {"), "{words:?}: {begin}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["header"]["idlewave"], env!("CARGO_PKG_VERSION"));
    assert!(document["header"]["schema"]["major"].is_u64(), "{words:?}");
    document
}

#[test]
fn what_is_computed_has_no_date() {
    for words in [
        "simulate stencil --noise poisson:10ms:50us --ranks 16 --json",
        "simulate goal docs/examples/pingpong.goal --json",
        "place topology docs/examples/fat-tree.toml --json",
        "place contention docs/examples/contention.csv --json",
        "place --pattern halo -n 8 --nodes 4 --cores 8 --json",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let document = document(&words);
        assert_eq!(document["header"]["measured"], Value::Null, "{words:?}");
    }
}

#[test]
fn what_is_measured_has_host_date_and_command() {
    let document = document(&["measure", "detour", "--duration", "100ms", "--json"]);
    let measured = &document["header"]["measured"];
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(measured["hosts"], serde_json::json!([host.trim()]));
    assert_eq!(measured["state"], "complete");
    assert_eq!(measured["command"][1], "measure");
    let started = measured["started"].as_str().unwrap();
    // RFC 3339 in UTC: 2026-11-23T13:00:00Z.
    assert!(
        started.len() == 20 && started.starts_with("20") && started.ends_with('Z'),
        "{started}"
    );
}

#[test]
fn findings_tell_which_run_they_are_of() {
    let run = common::bundle();
    let path = run.to_str().unwrap();
    let header = document(&["explain", path, "--json"])["header"].clone();
    let manifest = std::fs::read_to_string(run.join("run.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!(header["measured"]["started"], manifest["started"]);
    assert_eq!(header["measured"]["command"], manifest["command"]);
    assert_eq!(
        header["measured"]["hosts"][0],
        manifest["nodes"][0]["host"]["name"]
    );
    let calls = document(&["explain", path, "--calls", "--json"]);
    assert!(calls["calls"].is_array());
    assert_eq!(calls["header"], header);
    for view in [
        "processes",
        "matrix",
        "states",
        "daemons",
        "interrupts",
        "latency",
        "wakeups",
        "mpi",
    ] {
        let found = document(&["explain", path, "--view", view, "--json"]);
        assert_eq!((&found["view"], &found["header"]), (&view.into(), &header));
        assert_eq!(found["filter"], Value::Null);
    }
    let filtered = document(&[
        "explain",
        path,
        "--view",
        "processes",
        "--to",
        "1s",
        "--json",
    ]);
    assert_eq!(filtered["filter"]["to"], 1_000_000_000);
    let versus = document(&["compare", path, path, "--json"]);
    assert_eq!((&versus["header"], &versus["versus"]), (&header, &header));
    assert!(versus["sources"].is_array());
}

#[test]
fn times_of_two_files_are_analysed_and_compared() {
    let [off, on] = ["docs/examples/smt-off.csv", "docs/examples/smt-on.csv"];
    let found = document(&["measure", "step", off, on, "--json"]);
    assert_eq!(found["header"]["measured"], Value::Null);
    assert_eq!(found["inputs"].as_array().unwrap().len(), 2);
    let slowest = &found["inputs"][0]["jitter"][0]["slowest"];
    assert_eq!(
        (&slowest["rank"], &slowest["step"]),
        (&7.into(), &86.into())
    );
    let rows = found["comparison"]["rows"].as_array().unwrap();
    let verdicts: Vec<_> = rows
        .iter()
        .map(|row| (&row["quantity"], &row["verdict"]))
        .collect();
    assert_eq!(verdicts[3], (&"efficiency".into(), &"more".into()));
    let alone = document(&["measure", "step", on, "--json"]);
    assert_eq!(
        (&alone["comparison"], &alone["inputs"][0]),
        (&Value::Null, &found["inputs"][1])
    );

    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let narrow = write("narrow", "rank,step,duration_ms\n0,0,1\n0,1,2\n");
    let wrong = write("wrong", "rank,step,duration_ms\n0,0,-1\n");
    let refused = |words: &[&str], code: i32, why: &str| {
        let ended = run(idlewave()
            .args(["measure", "step"])
            .args(words)
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../..")));
        let [what, _] = ended.failed(code);
        assert!(what.contains(why), "{what}");
    };
    refused(&[&wrong], 5, "line 2: a duration is not");
    refused(&[off, &narrow], 2, "of 8 ranks and 100 steps against");
}
