//! Nodes for tests of any crate: namespaces of this machine (README.md).

// Every test program uses a part of it.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../..")
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

/// A turn of one of two tests at a time: each has half a dozen processes, which wait for each other most of the time.
pub fn turn() -> MutexGuard<'static, ()> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    static TURNS: [Mutex<()>; 2] = [Mutex::new(()), Mutex::new(())];
    let next = NEXT.fetch_add(1, Ordering::Relaxed) % TURNS.len();
    TURNS[next].lock().unwrap_or_else(|e| e.into_inner())
}

/// Seconds after which a rig is ended: far above what a script takes, also beside a load, and a
/// minute before the test program is (tests/limited).
fn limit() -> u64 {
    let whole = std::env::var("IDLEWAVE_TEST_SECONDS").ok();
    let whole = whole.and_then(|text| text.parse::<u64>().ok());
    whole.map_or(500, |whole| whole.saturating_sub(60).max(500))
}

/// Runs a shell script under a rig of tests/nodes with its options, with these variables set, and with IDLEWAVE in tests of the command. `None` if this machine
/// cannot have nodes.
pub fn on_nodes(rig: &str, script: &str, variables: &[(&str, &Path)]) -> Option<Output> {
    let mut words = rig.split(' ');
    let out = Command::new("timeout")
        .args(["-k", "5"])
        .arg(limit().to_string())
        .arg(root().join("tests/nodes").join(words.next().unwrap()))
        .args(words)
        .args(["sh", "-c", script])
        .envs(option_env!("CARGO_BIN_EXE_idlewave").map(|program| ("IDLEWAVE", program)))
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
