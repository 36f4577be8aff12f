//! A limit on the size of files (`ulimit -f`) is reported like a full disk, and ends neither
//! idlewave nor the program.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Ended, again, has, idlewave, run};
use idlewave_mpi::testing::skip;
use idlewave_run::{Incomplete, PhaseKind, RunReader, RunState};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An idlewave command under a limit, as a shell sets it: the kernel sends SIGXFSZ to any process
/// that exceeds it.
fn limited(kib: u32, words: &[&str]) -> Command {
    let mut command = Command::new("sh");
    // In blocks of 512 bytes.
    let script = format!("ulimit -f {} && exec \"$@\"", kib * 2);
    command.args(["-c", &script, "sh"]);
    command.arg(idlewave().get_program()).args(words);
    command.env("IDLEWAVE_EFFORT", "0.0001");
    command
}

/// The program `marks`; `None` where there is no compiler.
fn marks(directory: &Path) -> Option<PathBuf> {
    if !has("cc") {
        skip("there is no cc");
        return None;
    }
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = directory.join("marks");
    let compiled = Command::new("cc")
        .arg("-I")
        .arg(crates.join("../../../include"))
        .arg(crates.join("tests/programs/marks.c"))
        .arg("-o")
        .arg(&program)
        .status();
    assert!(compiled.unwrap().success());
    Some(program)
}

/// Records the program, which makes marks until the spill of its run reaches the limit.
fn record(kib: u32, run_at: &Path, program: &[&str]) -> Ended {
    let words = ["record", "--no-report", "--no-trace", "-o"];
    let run_at = [run_at.to_str().unwrap(), "--"];
    run(&mut limited(kib, &[&words[..], &run_at, program].concat()))
}

fn losses(run: &RunReader) -> String {
    let entries = run.manifest().losses.entries();
    entries.iter().map(|l| format!("{}\n", l.what)).collect()
}

#[test]
fn a_study_is_told_that_its_files_may_not_be_so_long() {
    let dir = tempfile::tempdir().unwrap();
    for seconds in [2, 8, 32] {
        let study = dir.path().join(seconds.to_string());
        let duration = format!("--duration={seconds}s");
        let words = ["study", duration.as_str(), "--work=20us", "--no-trace"];
        let path = study.to_str().unwrap();
        let ended = run(&mut limited(48, &[&words[..], &["-o", path]].concat()));
        // Printed before the measurement, so it appears however the study ends.
        let told = ended.stderr.lines().next().unwrap();
        assert!(
            told.starts_with("the run takes up to ") && told.contains(" MiB per CPU and minute)"),
            "{told}"
        );
        // On a busy machine, so much may not be recorded in a short time.
        if ended.code == Some(0) {
            continue;
        }
        let [what, next] = ended.failed_at_last(4);
        assert!(what.contains("File too large"), "{what}");
        assert!(next.contains("ulimit -f"), "{next}");
        let explained = again("explain", &study);
        explained.succeeded();
        assert!(explained.stdout.contains("File too large"), "{explained:?}");
        return;
    }
    panic!("no file reached the limit");
}

#[test]
fn a_recorded_program_goes_on_and_what_was_recorded_until_then_is_kept() {
    const KIB: u32 = 2 << 10;
    let dir = tempfile::tempdir().unwrap();
    let Some(marks) = marks(dir.path()) else {
        return;
    };
    let path = dir.path().join("run");
    let spill = path.join("spill");
    let full = (KIB << 10).to_string();
    let program = [marks.to_str().unwrap(), spill.to_str().unwrap(), &full];
    let ended = record(KIB, &path, &program);
    assert_eq!(ended.code, Some(7), "{ended:?}");
    for words in ["the recording is incomplete", "File too large", "ulimit -f"] {
        assert!(ended.stderr.contains(words), "{words}: {ended:?}");
    }
    let open = RunReader::open(&path).unwrap();
    let manifest = open.manifest();
    assert_eq!(manifest.state, RunState::Incomplete);
    let Some(Incomplete::Error(why)) = &manifest.incomplete else {
        panic!("{:?}", manifest.incomplete);
    };
    assert!(why.starts_with("recording stopped after "), "{why}");
    assert!(why.contains("File too large"), "{why}");
    assert!(!losses(&open).contains("no process of the command called"));
    let PhaseKind::Recorded { exit_code, .. } = manifest.phases[0].kind else {
        panic!("{:?}", manifest.phases);
    };
    assert_eq!(exit_code, Some(7));
    let rows = |name| {
        manifest
            .tables
            .iter()
            .find(|t| t.name == name)
            .unwrap()
            .rows
    };
    assert!(rows("marks") > 1_000, "{:?}", manifest.tables);
    let explained = again("explain", &path);
    explained.succeeded();
    assert!(explained.stdout.contains("File too large"), "{explained:?}");
}

/// No ring fits into the program's limit, so nothing of it is recorded. This is reported, and the
/// program runs.
#[test]
fn a_program_whose_files_may_not_be_as_long_as_a_ring_runs_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let Some(marks) = marks(dir.path()) else {
        return;
    };
    let path = dir.path().join("run");
    let manifest = path.join("run.json");
    let script = format!(
        "ulimit -f 2; exec {} {} 0",
        marks.display(),
        manifest.display()
    );
    let ended = record(2 << 10, &path, &["sh", "-c", &script]);
    assert_eq!(ended.code, Some(7), "{ended:?}");
    let open = RunReader::open(&path).unwrap();
    let told = losses(&open);
    assert!(told.contains("but could not create a ring"), "{told}");
    assert!(!told.contains("MPI_Init"), "{told}");
}

#[test]
fn a_limit_below_the_recorder_s_own_files_is_told_before_the_program_starts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let here = dir.path().join("here");
    let script = format!("touch {}", here.display());
    let [what, next] = record(64, &path, &["sh", "-c", &script]).failed(4);
    assert!(what.contains("File too large"), "{what}");
    assert!(next.contains("ulimit -f"), "{next}");
    assert!(!path.exists() && !here.exists());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}
