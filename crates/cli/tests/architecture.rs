//! One way through the house: a crate imports only crates above it in this list.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
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

/// Crates of the workspace with the workspace crates that they import (tests' needs aside).
fn imports() -> BTreeMap<String, Vec<String>> {
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
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |v: &serde_json::Value| v.as_str().unwrap().to_owned();
    metadata["packages"]
        .as_array()
        .unwrap()
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
