//! Limits that a machine has to keep.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Ended, bundle, copy, idlewave, run};
use serde_json::Value;

/// A run of its own: two commands at once do not explain the same one.
fn judged(words: &[&str]) -> Ended {
    let dir = tempfile::tempdir().unwrap();
    let copied = dir.path().join("run");
    copy(bundle(), &copied);
    run(idlewave().arg("explain").arg(&copied).args(words))
}

#[test]
fn a_limit_that_is_kept_is_said_and_nothing_fails() {
    let ended = judged(&["--limit", "noise=100%", "--limit", "work=1000000%"]);
    ended.succeeded();
    let (_, limits) = ended.stdout.split_once("LIMITS\n").unwrap();
    let passed = limits.lines().filter(|l| l.starts_with("  pass  ")).count();
    assert_eq!(passed, 2, "{limits}");
}

#[test]
fn a_limit_that_is_exceeded_has_a_code_and_a_test_case() {
    let dir = tempfile::tempdir().unwrap();
    let junit = dir.path().join("node.xml");
    let junit = junit.to_str().unwrap();
    // Every machine has detours.
    let ended = judged(&[
        "--limit",
        "detour=1ns",
        "--limit",
        "noise=100%",
        "--junit",
        junit,
        "--json",
    ]);
    let [what, next] = ended.failed(8);
    assert_eq!(what, "keep 1 of 2 limits");
    assert!(next.contains("idlewave report"), "{next}");
    let found: Value = serde_json::from_str(&ended.stdout).unwrap();
    let verdicts = found["limits"].as_array().unwrap().iter();
    let verdicts: Vec<_> = verdicts.map(|l| l["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["fail", "pass"]);
    assert!(found["limits"][0]["value"]["value"].as_f64() > Some(0.0));
    assert!(found["header"].is_object() && found["cpus"].is_array());
    let text = std::fs::read_to_string(junit).unwrap();
    assert!(
        text.contains("tests=\"2\" failures=\"1\" errors=\"0\""),
        "{text}"
    );
    // It is not overwritten.
    judged(&["--limit", "noise=100%", "--junit", junit]).failed(4);
    assert_eq!(std::fs::read_to_string(junit).unwrap(), text);
}

#[test]
fn what_cannot_be_decided_is_not_accepted() {
    // The prediction ends at a million ranks.
    let ended = judged(&["--limit", "slowdown@1e9=1000%"]);
    let [what, _] = ended.failed(7);
    assert_eq!(what, "decide 1 of 1 limits");
    assert!(ended.stdout.contains("not predicted"), "{}", ended.stdout);
    // An interval that ends above the limit and begins below it: the value itself.
    let found: Value = serde_json::from_str(&judged(&["--json"]).stdout).unwrap();
    let stolen = |cpu: &Value| cpu["detours"]["stolen"]["value"].as_f64().unwrap();
    let most = found["cpus"].as_array().unwrap().iter().map(stolen);
    let most = most.fold(0.0, f64::max) * 1.000_1;
    let ended = judged(&["--limit", &format!("noise={}%", 100.0 * most)]);
    let [_, next] = ended.failed(7);
    assert!(next.starts_with("measure "), "{next}");
}

#[test]
fn limits_that_are_none_are_refused_before_anything_is_done() {
    let ended = judged(&["--limit", "noise=1"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("noise=0.1%"), "{}", ended.stderr);
    let [what, _] = judged(&["--profile", "cloud", "--view", "daemons"]).failed(2);
    assert!(what.contains("--view"), "{what}");
    let [_, next] = judged(&["--junit", "x.xml"]).failed(2);
    assert!(next.contains("--limit"), "{next}");
}
