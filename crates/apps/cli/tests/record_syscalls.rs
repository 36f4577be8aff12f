//! `idlewave record --syscalls`: the system calls of real MPI programs, counted.

#![allow(clippy::unwrap_used)]

mod common;

use common::{idlewave, instances_of, is_root, run, run_recording, wait};
use idlewave_mpi::testing::{Installation, installation, launcher_failed, skip};
use idlewave_run::RunReader;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const RANKS: u64 = 2;
/// What the program does on each rank.
const GETPPID: u64 = 1_000;
const SLEEPS: u64 = 50;

/// The program `syscalls`; `None`, with the reason printed, if it cannot be compiled or traced.
fn compiled(dir: &Path) -> Option<(Installation, PathBuf)> {
    if !is_root() || !Path::new("/sys/kernel/tracing/events/raw_syscalls").exists() {
        skip(
            "system calls cannot be traced here: that needs root and the kernel's events for them",
        );
        return None;
    }
    let mpi = installation("openmpi4")?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/syscalls.c");
    let program = dir.join("syscalls");
    if mpi.compile_c(&source, &program).is_none() {
        skip("openmpi4 has no C compiler");
        return None;
    }
    Some((mpi, program))
}

fn recorder(mpi: &Installation, options: &[&str], run: &Path, program: &[&Path]) -> Command {
    let mut command = idlewave();
    command.args(["record", "--no-report"]).args(options);
    command.arg("-o").arg(run).arg("--");
    mpi.prepare(&mut command);
    command.arg(&mpi.mpirun).args(&mpi.options);
    command.args(["-n", &RANKS.to_string()]).args(program);
    command
}

/// What one read of a file returns: the kernel returns a filter only to the first read.
fn first_read(file: &Path) -> String {
    let mut text = vec![0; 4096];
    let length = fs::File::open(file).and_then(|mut file| file.read(&mut text));
    text.truncate(length.unwrap_or(0));
    String::from_utf8_lossy(&text).into_owned()
}

/// Waits until the recorder traces system calls of as many threads as there are ranks, or has
/// ended.
fn await_watched(recorder: &mut Child) {
    let deadline = Instant::now() + Duration::from_secs(300);
    let event = |instance: PathBuf| instance.join("events/raw_syscalls/sys_exit");
    let watches = |event: PathBuf| {
        let filter = first_read(&event.join("filter"));
        let words = filter.split_whitespace();
        let numbers = words.filter_map(|w| w.trim_end_matches(')').parse::<u32>().ok());
        let threads: BTreeSet<u32> = numbers.collect();
        first_read(&event.join("enable")).starts_with('1') && threads.len() as u64 == RANKS
    };
    let watched = |pid| instances_of(pid).into_iter().map(event).any(watches);
    while !watched(recorder.id()) && recorder.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "system calls are not traced");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Records the program; false if the launcher failed, or events of the kernel were lost, as on a
/// machine where the recorder gets no CPU for seconds.
fn is_recorded_whole(mpi: &Installation, bundle: &Path, program: &Path, go: &Path) -> bool {
    let mut command = recorder(mpi, &["--syscalls"], bundle, &[program, go]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut recording = command.spawn().unwrap();
    await_watched(&mut recording);
    fs::write(go, "").unwrap();
    let ended = wait(recording);
    if launcher_failed(&ended.stderr) {
        return false;
    }
    ended.succeeded();
    let run = RunReader::open(bundle).unwrap();
    let lost = run.manifest().nodes[0].trace.cost.lost;
    println!("{lost} events of the kernel were lost");
    lost == 0
}

/// The row of a call.
fn row(rows: &Value, call: &str) -> Value {
    let rows = rows.as_array().unwrap();
    let row = rows.iter().find(|row| row["call"] == call);
    row.unwrap_or_else(|| panic!("no {call} in {rows:?}"))
        .clone()
}

#[test]
fn every_system_call_of_the_ranks_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let Some((mpi, program)) = compiled(dir.path()) else {
        return;
    };
    let bundle = (0..5).find_map(|n| {
        let bundle = dir.path().join(format!("run{n}"));
        let go = dir.path().join(format!("go{n}"));
        is_recorded_whole(&mpi, &bundle, &program, &go).then_some(bundle)
    });
    let bundle = bundle.expect("a whole recording");

    let view = |bundle: &Path, more: &[&str]| {
        let mut command = idlewave();
        command.arg("explain").arg(bundle);
        let shown = run(command.args(["--view", "syscalls", "--json"]).args(more));
        shown.succeeded();
        serde_json::from_str::<Value>(&shown.stdout).unwrap()
    };
    for rank in ["0", "1"] {
        let found = view(&bundle, &["--rank", rank])["calls"].clone();
        let ppid = row(&found, "getppid");
        assert_eq!(ppid["lengths"]["count"], GETPPID, "{ppid}");
        assert_eq!(ppid["not_returned"], 0);
        let sleep = row(&found, "nanosleep");
        assert_eq!(sleep["lengths"]["count"], SLEEPS, "{sleep}");
        let time = sleep["lengths"]["total"].as_u64().unwrap();
        // The thread slept for as long as it asked, so it was not on a CPU during that time.
        assert!(time >= SLEEPS * 1_000_000, "{sleep}");
        let asleep = time - sleep["on_cpu"].as_u64().unwrap();
        assert!(asleep >= SLEEPS * 1_000_000, "{sleep}");
    }
    let all = view(&bundle, &[])["calls"].clone();
    let ppid = row(&all, "getppid");
    assert_eq!(ppid["lengths"]["count"], RANKS * GETPPID, "{ppid}");

    // The same through trace-cmd's format.
    let (file, back) = (dir.path().join("all.trace.dat"), dir.path().join("back"));
    let mut command = idlewave();
    command
        .arg("export")
        .arg(&bundle)
        .args(["--to", "trace.dat", "-o"]);
    run(command.arg(&file)).succeeded();
    let mut command = idlewave();
    command
        .arg("import")
        .arg(&file)
        .args(["--program", "syscalls", "-o"]);
    run(command.arg(&back)).succeeded();
    assert_eq!(view(&back, &[])["calls"], all);
}

#[test]
fn without_the_option_no_system_call_is_recorded_and_the_view_says_how() {
    let dir = tempfile::tempdir().unwrap();
    let Some((mpi, program)) = compiled(dir.path()) else {
        return;
    };
    let bundle = dir.path().join("run");
    let go = dir.path().join("go");
    fs::write(&go, "").unwrap();
    run_recording(&mut recorder(&mpi, &[], &bundle, &[&program, &go]), &bundle).succeeded();
    assert!(!bundle.join("syscalls.arrow").exists());
    let mut command = idlewave();
    let shown = run(command
        .arg("explain")
        .arg(&bundle)
        .args(["--view", "syscalls"]));
    shown.succeeded();
    assert!(
        shown.stdout.contains("record --syscalls"),
        "{}",
        shown.stdout
    );
}
