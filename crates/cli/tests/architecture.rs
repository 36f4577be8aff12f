//! One way through the house: a crate imports only crates above it in this list.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// From upstream to downstream; docs/design/0001 explains the order.
const ORDER: [&str; 33] = [
    "idlewave-units",
    "idlewave-topology",
    "idlewave-run",
    "idlewave-stats",
    "idlewave-clock",
    "idlewave-ftrace",
    "idlewave-mpi",
    "idlewave-interpose",
    "idlewave-fabric",
    "idlewave-freeze",
    "idlewave-link",
    "idlewave-slurm",
    "idlewave-workloads",
    "idlewave-capture",
    "idlewave-explain",
    "idlewave-noise",
    "idlewave-fit",
    "idlewave-simulate",
    "idlewave-simulated",
    "idlewave-replay",
    "idlewave-network",
    "idlewave-place",
    "idlewave-gang",
    "idlewave-agent",
    "idlewave-watch",
    "idlewave-report",
    "idlewave-recording",
    "idlewave-study",
    "idlewave-measure",
    "idlewave-record",
    "idlewave-trial",
    "idlewave",
    "idlewave-xtask",
];

/// The packages of the workspace, as `cargo metadata` tells them.
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs this test, so it can be run");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    match metadata["packages"].take() {
        Value::Array(packages) => packages,
        other => panic!("no packages: {other}"),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Crates of the workspace with the workspace crates that they import (tests' needs aside).
fn imports() -> BTreeMap<String, Vec<String>> {
    packages()
        .iter()
        .map(|package| {
            let imports = package["dependencies"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|d| d["kind"].as_str() != Some("dev") && !d["path"].is_null())
                .map(|d| text(&d["name"]))
                .collect();
            (text(&package["name"]), imports)
        })
        .collect()
}

#[test]
fn every_crate_imports_only_what_is_upstream_of_it() {
    let place = |name: &str| ORDER.iter().position(|n| *n == name);
    let imports = imports();
    assert!(imports.len() >= 13, "only {} crates found", imports.len());
    for (name, imported) in &imports {
        let own = place(name).unwrap_or_else(|| panic!("{name} has no place in the order"));
        for other in imported {
            let theirs =
                place(other).unwrap_or_else(|| panic!("{other} has no place in the order"));
            assert!(
                theirs < own,
                "{name} imports {other}, which is not upstream of it"
            );
        }
    }
}

/// Rust files below a directory.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|e| e.unwrap().path());
    let (directories, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let rust = |path: &PathBuf| path.extension().is_some_and(|e| e == "rs");
    let below = directories.iter().flat_map(|d| sources(d));
    files.into_iter().filter(rust).chain(below).collect()
}

/// Whether a source has an example in a comment that `cargo test --doc` would run.
fn has_example(source: &str) -> bool {
    let comments = source.lines().map(str::trim_start);
    let comments = comments.filter_map(|l| l.strip_prefix("///").or_else(|| l.strip_prefix("//!")));
    // Every second fence closes one.
    let fences = comments.filter_map(|l| l.trim().strip_prefix("```"));
    fences.step_by(2).any(|language| language != "text")
}

/// Looking for examples takes a second for each crate, so it is left out where there are none.
#[test]
fn examples_in_comments_are_run() {
    assert!(has_example(
        "//! ```text\n//! ```\n    /// ```\n    /// 1\n    /// ```"
    ));
    assert!(!has_example(
        "//! ```text\n//! ```\nlet fence = \"/// ```\";"
    ));
    let (mut run, mut libraries) = (0, 0);
    for package in packages() {
        let targets = package["targets"].as_array().unwrap();
        let Some(library) = targets.iter().find(|t| text(&t["kind"][0]) == "lib") else {
            continue;
        };
        libraries += 1;
        let root = PathBuf::from(text(&library["src_path"]));
        let mut files = sources(root.parent().unwrap()).into_iter();
        let with = files.find(|file| has_example(&fs::read_to_string(file).unwrap()));
        let runs = library["doctest"].as_bool().unwrap();
        run += usize::from(runs);
        assert_eq!(with.is_some(), runs, "{}: {with:?}", package["name"]);
    }
    assert!(run >= 1 && libraries >= 30, "{run} of {libraries}");
}
