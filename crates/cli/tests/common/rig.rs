//! Nodes for tests: namespaces of this machine (tests/nodes/README.md).

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// Says why a test is left out, where it may be.
#[track_caller]
pub fn skip(why: &str) {
    assert!(
        std::env::var_os("IDLEWAVE_REQUIRE_ALL").is_none(),
        "not to be skipped: {why}"
    );
    println!("skipped: {why}");
}

/// Runs a shell script under a rig of tests/nodes with its options, with IDLEWAVE and these variables set, for so many seconds at most.
/// `None` if this machine cannot have nodes.
pub fn on_nodes(
    rig: &str,
    script: &str,
    seconds: u32,
    variables: &[(&str, &Path)],
) -> Option<Output> {
    let mut words = rig.split(' ');
    let out = Command::new("timeout")
        .args(["-k", "5", &seconds.to_string()])
        .arg(root().join("tests/nodes").join(words.next().unwrap()))
        .args(words)
        .args(["sh", "-c", script])
        .env("IDLEWAVE", env!("CARGO_BIN_EXE_idlewave"))
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&out.stderr);
    if out.status.code() == Some(77) {
        skip(words.trim());
        return None;
    }
    println!("{words}{}", String::from_utf8_lossy(&out.stdout));
    Some(out)
}
