//! `idlewave record` with scripts as launchers: what the program gets from them, and what is
//! printed when they fail.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Ended, idlewave, run, wait};
use idlewave_sys::process::Signal;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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
            "was not kept: the launcher ended with exit code 213 before it started the program\nnext step: "
        ),
        "{done:?}"
    );
    // The launcher's output appears once: the second start must not repeat it.
    assert_eq!(done.stderr.matches("no such host").count(), 1, "{done:?}");
    assert_eq!(starts(dir.path()), 2);
    // The next attempt finds the directory free.
    assert!(!path.exists());
    let starts_it = launcher(dir.path(), &format!("{STARTS_IT}exec \"$@\""));
    record(&starts_it, path.as_os_str(), "exit 0").succeeded();
    assert!(path.join("run.json").is_file());
}

#[test]
fn a_program_that_is_not_there_is_recorded_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let starts_it = launcher(dir.path(), &format!("{STARTS_IT}exec \"$@\""));
    let path = dir.path().join("run");
    let mut command = idlewave();
    command.args(["record", "--no-trace", "-o"]);
    command.arg(&path).arg("--").arg(&starts_it);
    let done = run(command.args(["-n", "1", "/no/such/program"]));
    assert_eq!(done.code, Some(127), "{done:?}");
    assert!(
        done.stderr.contains("before it started the program"),
        "{done:?}"
    );
    assert!(!path.exists());
}

/// Waits for processes started by a test; the limit is far above their usual time.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(
            begun.elapsed() < Duration::from_secs(300),
            "in vain: {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn piped(command: &mut Command) -> Child {
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[test]
fn a_launcher_that_never_answers_when_bundles_are_fetched_is_left_at_a_signal() {
    let dir = tempfile::tempdir().unwrap();
    let asked = dir.path().join("asked");
    // The launcher ignores the request to end, and so do its children, which keep its output open.
    let script = format!(
        "case \"$*\" in *node-send*) trap '' TERM; touch '{}'; sleep 600; exit 0 ;; esac\nshift 2\nexec \"$@\"",
        asked.display()
    );
    let hangs = launcher(dir.path(), &script);
    let mut command = idlewave();
    command.args(["record", "--no-report", "--no-trace", "-o"]);
    command.arg(dir.path().join("run")).arg("--").arg(&hangs);
    let child = piped(command.args(["-n", "1", "sh", "-c", "exit 9"]));
    until("the second start", || asked.exists());
    common::signal(&child, Signal::TERM);
    let done = wait(child);
    assert_eq!(done.code, Some(9), "{done:?}");
}

#[test]
fn the_first_signal_reaches_all_of_a_script_and_the_second_one_kills_it() {
    let dir = tempfile::tempdir().unwrap();
    let run_at = dir.path().join("run");
    // Like a launcher's child: it handles the signal that the script ignores.
    let step = "env --default-signal=TERM sh -c 'touch \"$0\"; exec sleep 600'";
    let script = format!("trap '' TERM; {step} \"$1\"; {step} \"$2\"");
    let [first, second] = ["first", "second"].map(|name| dir.path().join(name));
    let mut command = idlewave();
    command.args(["record", "--no-report", "--no-trace", "-o"]);
    command.arg(&run_at).args(["--", "sh", "-c", &script, "sh"]);
    let mut child = piped(command.args([&first, &second]));
    until("the first step", || first.exists());
    common::signal(&child, Signal::TERM);
    until("the second step", || second.exists());
    // idlewave reports that it waits, and for what; the script prints something first.
    let stderr = child.stderr.take().unwrap();
    let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
    let waits = lines.find(|line| line.contains("a second signal kills it"));
    assert!(waits.is_some(), "it ended without that");
    common::signal(&child, Signal::TERM);
    assert_eq!(
        child.wait().unwrap().code(),
        Some(128 + Signal::KILL.as_raw())
    );
    let run = idlewave_run::RunReader::open(&run_at).unwrap();
    let why = Some(idlewave_run::Incomplete::Signal(Signal::TERM.as_raw()));
    assert_eq!(run.manifest().incomplete, why);
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
