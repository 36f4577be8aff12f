//! A directory of the form of /proc, and the rig of tests/nodes.

#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Says why a test is left out, where it may be.
#[track_caller]
pub fn skip(why: &str) {
    assert!(
        std::env::var_os("IDLEWAVE_REQUIRE_ALL").is_none(),
        "not to be skipped: {why}"
    );
    println!("skipped: {why}");
}

/// The root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

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

    /// A process with its parent, program, user, group of cgroup v2 and variables.
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

    /// Takes the rights to read a process's variables away, also from root, for whom no mode counts.
    pub fn hide_variables(&self, pid: u32) {
        let file = self.root().join(pid.to_string()).join("environ");
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
    }
}
