//! `idlewave place topology`: what it prints and writes, what it refuses, and how it ends.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Ended, idlewave, run};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn sample(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../base/topology/samples");
    root.join(name)
}

fn place(dir: &TempDir, files: &[PathBuf], options: &[&str]) -> Ended {
    run(idlewave()
        .args(["place", "topology"])
        .args(files)
        .args(options)
        .current_dir(dir))
}

fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[track_caller]
fn fits(text: &str) {
    for line in text.lines() {
        // Only a path may be longer.
        assert!(line.chars().count() <= 80 || line.contains('/'), "{line}");
    }
}

#[test]
fn files_are_joined_and_summed_up() {
    let dir = directory();
    let files = [sample("topology.conf"), sample("scontrol-node.txt")];
    let ended = place(&dir, &files, &[]);
    ended.succeeded();
    fits(&ended.stdout);
    for part in [
        "TOPOLOGY of ",
        "nodes     8, 5 of them free",
        "cores     48 per node",
        "memory    186 GiB per node",
        "2             8             0             2   4 : 1",
        "Slurm does not say how many cables",
    ] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
}

#[test]
fn a_network_becomes_slurms_tree_in_a_new_file() {
    let dir = directory();
    let files = [sample("ibnetdiscover.txt")];
    let ended = place(&dir, &files, &["--topology-conf"]);
    ended.succeeded();
    assert!(
        ended.stdout.contains("written: topology.conf"),
        "{}",
        ended.stdout
    );
    let written = dir.path().join("topology.conf");
    let text = fs::read_to_string(&written).unwrap();
    assert!(
        text.contains("# ib-spine1 replaces ib-spine[1-2]\n"),
        "{text}"
    );
    // Existing files are not overwritten.
    let [what, next] = place(&dir, &files, &["--topology-conf"]).failed(4);
    assert_eq!(what, "write topology.conf: it already exists");
    assert!(next.contains("-o"), "{next}");
    let printed = place(&dir, &files, &["--topology-conf", "-o", "-"]);
    assert_eq!(printed.stdout, text);
    // It can be read again.
    place(&dir, &[written], &[]).succeeded();
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
}

#[test]
fn the_own_form_holds_what_slurms_cannot() {
    let dir = directory();
    let torus = dir.path().join("torus.toml");
    fs::write(
        &torus,
        "kind = \"torus\"\ndims = [3, 3]\ncapacity = \"5 GB/s\"\n",
    )
    .unwrap();
    let files = [torus];
    let [what, next] = place(&dir, &files, &["--topology-conf"]).failed(2);
    assert!(
        what.contains("are on the same level and connected"),
        "{what}"
    );
    assert!(next.contains(".toml"), "{next}");
    let ended = place(&dir, &files, &["-o", "again.toml"]);
    ended.succeeded();
    assert!(
        ended.stdout.contains("5.00 GB/s each in each direction"),
        "{}",
        ended.stdout
    );
    let again = place(&dir, &[dir.path().join("again.toml")], &["--json"]);
    let first = place(&dir, &files, &["--json"]);
    assert_eq!(again.stdout, first.stdout);
}

#[test]
fn json_has_nodes_switches_links_and_levels() {
    let dir = directory();
    let ended = place(&dir, &[sample("fat-tree.toml")], &["--json"]);
    ended.succeeded();
    let value: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(value["nodes"].as_array().unwrap().len(), 48);
    assert_eq!(value["nodes"][0]["leaf"], "leaf1");
    assert_eq!(value["nodes"][0]["cores"], 64);
    assert_eq!(value["nodes"][0]["free"], false);
    assert_eq!(value["switches"].as_array().unwrap().len(), 7);
    assert_eq!(value["links"].as_array().unwrap().len(), 2 * (48 + 12));
    assert_eq!(value["levels"][0]["oversubscription"], 2.0);
    assert_eq!(value["parts"], 1);
}

#[test]
fn a_topology_of_several_is_taken_by_name() {
    let dir = directory();
    let files = [sample("topology.yaml")];
    let ended = place(&dir, &files, &["--name", "gpus", "--json"]);
    ended.succeeded();
    let value: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(value["nodes"][0]["name"], "g01");
    let [what, _] = place(&dir, &files, &["--name", "moon"]).failed(5);
    assert!(what.contains("plain, racks, gpus"), "{what}");
}

#[test]
fn what_cannot_be_read_is_named_with_the_next_step() {
    let dir = directory();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let [what, next] = place(&dir, &[dir.path().join("none")], &[]).failed(4);
    assert!(what.contains("No such file"), "{what}");
    assert!(next.contains("may read"), "{next}");
    let [what, next] = place(&dir, &[file("a", "hello\n")], &[]).failed(5);
    assert!(
        what.contains("recognise the format") && what.contains("ibnetdiscover"),
        "{what}"
    );
    assert!(next.contains("docs/topologies.md"), "{next}");
    let twice = file("b", "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1\n");
    let [what, _] = place(&dir, &[twice], &[]).failed(5);
    assert!(
        what.ends_with("line 2: n1 is a child of b and of a, which makes it no tree"),
        "{what}"
    );
    let circle = "SwitchName=l Nodes=n1\nSwitchName=a Switches=b\nSwitchName=b Switches=c\nSwitchName=c Switches=a\n\
                  SwitchName=up Switches=l\n";
    let [what, _] = place(&dir, &[file("circle", circle)], &[]).failed(5);
    assert!(
        what.ends_with("line 2: a is above b is above c is above a, which is a cycle"),
        "{what}"
    );
    // Names from outside may contain anything, including terminal control characters.
    let odd = file("c", "SwitchName=a Switches=b\u{1b}c\n");
    let [what, _] = place(&dir, &[odd], &[]).failed(5);
    assert!(what.contains("the child b\\u001bc, which"), "{what}");
    let other = [sample("graph.toml"), sample("scontrol-node.txt")];
    let [what, next] = place(&dir, &other, &[]).failed(5);
    assert!(what.contains("n[001-007],login1"), "{what}");
    assert!(next.contains("of one cluster"), "{next}");
    let [what, _] = place(&dir, &other, &["-o", "-", "--json"]).failed(2);
    assert!(what.contains("both the topology"), "{what}");
    let directory = [dir.path().to_owned()];
    place(&dir, &directory, &[]).failed(4);
}

/// A line of 30 bytes with a million nodes once took 4.7 GB, and this fifth of them 0.9 GB.
#[test]
fn very_many_nodes_are_written_as_json_in_little_memory() {
    let dir = directory();
    let file = dir.path().join("topology.conf");
    fs::write(&file, "SwitchName=s Nodes=n[1-200000]\n").unwrap();
    let limited = "ulimit -v 600000; exec \"$@\"";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", limited, "sh", env!("CARGO_BIN_EXE_idlewave")]);
    shell.args(["place", "topology", "--json"]).arg(&file);
    let done = run(&mut shell);
    done.succeeded();
    let _: Value = serde_json::from_str(&done.stdout).unwrap();
    assert!(done.stdout.contains("n200000"));
}
