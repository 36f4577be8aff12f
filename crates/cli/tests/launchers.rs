//! `idlewave record` of launchers that are scripts: what the program gets from them, and what is said when they fail.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Ended, idlewave, run};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A launcher that counts its starts in the file `starts` and then does what `script` says.
fn launcher(dir: &Path, script: &str) -> PathBuf {
    let path = dir.join("mpirun.openmpi");
    let starts = dir.join("starts");
    let text = format!("#!/bin/sh\necho start >>'{}'\n{script}\n", starts.display());
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn starts(dir: &Path) -> usize {
    let text = fs::read_to_string(dir.join("starts")).unwrap();
    text.lines().count()
}

/// Starts the program of `-n 1 PROGRAM`, and nothing on any other node.
const STARTS_IT: &str = "case \"$*\" in *node-send*) exit 0 ;; esac\nshift 2\n";

/// `idlewave record -o OUTPUT -- LAUNCHER -n 1 sh -c PROGRAM`
fn record(launcher: &Path, output: &OsStr, program: &str) -> Ended {
    let mut command = idlewave();
    command.args(["record", "--no-report", "--no-trace", "-o"]);
    command.arg(output).arg("--").arg(launcher);
    run(command.args(["-n", "1", "sh", "-c", program]))
}

#[test]
fn a_launcher_that_starts_nothing_is_said_to_have_started_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let fails = launcher(dir.path(), "echo 'no such host' >&2\nexit 213");
    let path = dir.path().join("run");
    let done = record(&fails, path.as_os_str(), "exit 0");
    assert_eq!(done.code, Some(213), "{done:?}");
    assert!(
        done.stderr.contains(
            "no MPI program was recorded: the launcher ended with exit code 213 before it started one"
        ),
        "{done:?}"
    );
    // Its own words come through, once: nobody is to read them again from the second start.
    assert_eq!(done.stderr.matches("no such host").count(), 1, "{done:?}");
    assert_eq!(starts(dir.path()), 2);
    assert!(path.join("run.json").is_file() && !path.join(".nodes").exists());
}

#[test]
fn a_program_that_fails_under_its_launcher_was_started_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let starts_it = launcher(dir.path(), &format!("{STARTS_IT}exec \"$@\""));
    let done = record(&starts_it, path.as_os_str(), "echo words; exit 9");
    assert_eq!((done.code, &*done.stdout), (Some(9), "words\n"), "{done:?}");
    assert!(!done.stderr.contains("before it started"), "{done:?}");
    assert!(done.stderr.contains("idlewave: recorded"), "{done:?}");
    assert!(!path.join(".nodes").exists());
}

#[test]
fn what_the_launcher_preloads_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let script = format!("{STARTS_IT}LD_PRELOAD=/no/such/library.so exec \"$@\"");
    let preloads = launcher(dir.path(), &script);
    let path = dir.path().join("run");
    let done = record(&preloads, path.as_os_str(), "echo \"$LD_PRELOAD\"");
    let (first, ours) = done.stdout.trim().split_once(':').expect(&done.stdout);
    assert_eq!(first, "/no/such/library.so");
    assert!(ours.ends_with("libidlewave_interpose.so"), "{ours}");
}

#[test]
fn a_bundle_s_path_that_no_token_can_hold_does_not_hinder_the_program() {
    let dir = tempfile::tempdir().unwrap();
    let mut path = dir.path().as_os_str().to_owned().into_vec();
    path.extend(b"/run\xff");
    let path = OsString::from_vec(path);
    let starts_it = launcher(dir.path(), &format!("{STARTS_IT}exec \"$@\""));
    let done = record(&starts_it, &path, "echo words");
    assert_eq!((done.code, &*done.stdout), (Some(0), "words\n"), "{done:?}");
    assert!(done.stderr.contains("is not UTF-8"), "{done:?}");
    assert!(!Path::new(&path).join(".nodes").exists());
}

#[test]
fn signals_that_are_ignored_are_ignored_by_the_program_too() {
    let dir = tempfile::tempdir().unwrap();
    let script = "trap '' HUP; exec \"$0\" record --no-report --no-trace -o \"$1\" -- \
                  sh -c 'kill -HUP $PPID; kill -HUP $$; sleep 0.2; echo alive'";
    let done = run(Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_idlewave")])
        .arg(dir.path().join("run")));
    assert_eq!((done.code, &*done.stdout), (Some(0), "alive\n"), "{done:?}");
}
