//! A directory in the form of /proc, and the rig of tests/nodes.

#![allow(dead_code)]

use std::fs;
use std::path::Path;
use tempfile::TempDir;

#[path = "../../../../../tests/nodes/rig.rs"]
pub mod rig;

use rig::root;

/// Processes that are only files.
pub struct Proc(TempDir);

impl Proc {
    pub fn new() -> Self {
        let proc = Proc(tempfile::tempdir().unwrap());
        fs::create_dir(proc.root().join("sys")).unwrap();
        proc.add(1, 0, "init", 0, "/", &[]);
        proc
    }

    pub fn root(&self) -> &Path {
        self.0.path()
    }

    /// Adds a process with its parent, program, user, cgroup v2 group and variables.
    pub fn add(
        &self,
        pid: u32,
        parent: u32,
        name: &str,
        user: u32,
        group: &str,
        variables: &[&str],
    ) {
        self.add_with_users(pid, parent, name, [user; 3], group, variables);
    }

    pub fn add_with_users(
        &self,
        pid: u32,
        parent: u32,
        name: &str,
        users: [u32; 3],
        group: &str,
        variables: &[&str],
    ) {
        let dir = self.root().join(pid.to_string());
        fs::create_dir(&dir).unwrap();
        let zeros = "0 ".repeat(17);
        let stat = format!("{pid} ({name}) S {parent} {zeros}{}\n", 1000 + pid);
        fs::write(dir.join("stat"), stat).unwrap();
        let [real, effective, saved] = users;
        let status = format!("Name:\t{name}\nUid:\t{real}\t{effective}\t{saved}\t{effective}\n");
        fs::write(dir.join("status"), status).unwrap();
        fs::write(dir.join("cgroup"), format!("0::{group}\n")).unwrap();
        let block: String = variables.iter().map(|v| format!("{v}\0")).collect();
        fs::write(dir.join("environ"), block).unwrap();
    }

    /// Makes a process's variables unreadable, even for root, whom file modes do not stop.
    pub fn hide_variables(&self, pid: u32) {
        let file = self.root().join(pid.to_string()).join("environ");
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
    }
}

/// Runs a shell script on the first node of a cluster of tests/nodes/with_slurm, with ACT set to
/// this test program as its test `acts_on_a_node`, DIR to a directory that all nodes see, and NODE
/// to what runs a command on a node. Returns `None`, and prints why, if this machine cannot have
/// such a cluster.
pub fn on_cluster(options: &str, script: &str, dir: &Path) -> Option<String> {
    let act = format!(
        "{} --exact acts_on_a_node --ignored --nocapture --quiet",
        std::env::current_exe().unwrap().display()
    );
    let node = format!("{} --keep", root().join("tests/nodes/agent").display());
    let variables = [
        ("ACT", Path::new(&act)),
        ("NODE", Path::new(&node)),
        ("DIR", dir),
    ];
    let rig = format!("with_slurm {options}");
    let out = rig::on_nodes(&rig, &format!("set -eu\n{script}"), &variables)?;
    assert_eq!(out.status.code(), Some(0), "the script failed");
    Some(String::from_utf8_lossy(&out.stdout).into_owned())
}
