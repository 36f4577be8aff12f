//! idlewave in a PID namespace, as in most containers: the kernel trace uses the machine's thread
//! numbers, /proc and system calls those of the namespace.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/culprit.rs"]
mod culprit;

use common::{idlewave, is_root, run, study};
use culprit::{Culprit, two_cpus};
use idlewave_mpi::testing::{Installation, installation, skip};
use idlewave_run::tables::{Bursts, Table, TaskKind, Tasks};
use idlewave_run::{RunReader, TraceMode};
use idlewave_sys::owner::Owner;
use idlewave_sys::pid_namespace::PidNamespace;
use idlewave_units::Pid;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A command as the first process of a PID namespace with its own /proc; `None`, with the reason
/// printed, if not possible.
fn inside(command: &Command) -> Option<Command> {
    inside_with(&["--mount-proc"], command)
}

fn inside_with(options: &[&str], command: &Command) -> Option<Command> {
    let mut unshare = Command::new("unshare");
    unshare.args(["-mpf"]).args(options);
    let mut probe = Command::new("unshare");
    let probed = probe.args(["-mpf", "--mount-proc", "true"]).output();
    let why = match probed {
        _ if !is_root() => "making PID namespaces needs root".to_owned(),
        Err(error) => format!("there is no unshare (package util-linux): {error}"),
        Ok(output) if !output.status.success() => {
            String::from_utf8_lossy(&output.stderr).into_owned()
        }
        Ok(_) => {
            unshare.arg(command.get_program()).args(command.get_args());
            for (name, value) in command.get_envs() {
                match value {
                    Some(value) => unshare.env(name, value),
                    None => unshare.env_remove(name),
                };
            }
            return Some(unshare);
        }
    };
    println!("skipped: {why}");
    None
}

/// The bundle, if it has a kernel trace.
fn traced(run: &Path) -> Option<RunReader> {
    let reader = RunReader::open(run).unwrap();
    let mode = reader.manifest().nodes[0].trace.mode;
    if mode != TraceMode::Tracefs {
        println!("skipped: no kernel trace, but {mode:?}");
        return None;
    }
    Some(reader)
}

/// Asserts that the threads of all ranks are those in the trace.
#[track_caller]
fn ranks_are_seen(reader: &RunReader) {
    let tasks = reader.read::<Tasks>().unwrap();
    let ran: BTreeSet<Pid> = reader.read::<Bursts>().unwrap().pid.into_iter().collect();
    for rank in &reader.manifest().ranks {
        assert!(!rank.threads.is_empty(), "{rank:?}");
        for thread in &rank.threads {
            let task = tasks.rows().find(|task| task.pid == *thread);
            let task = task.unwrap_or_else(|| panic!("no task of {rank:?}"));
            assert_eq!(task.kind, TaskKind::Rank, "{task:?}");
            assert!(ran.contains(thread), "{task:?} never ran");
        }
    }
}

#[test]
fn a_study_in_a_pid_namespace_names_who_took_the_cpu() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let Some(mut command) = inside(&study(&path)) else {
        return;
    };
    let Some(cpus) = two_cpus() else {
        println!("skipped: a study needs two CPUs");
        return;
    };
    // As long as the study takes.
    let knave = Culprit::start("knave", 20_000, 25_000, 600, &cpus[..1]);
    run(&mut command).succeeded();
    drop(knave);
    let Some(reader) = traced(&path) else { return };
    ranks_are_seen(&reader);
    let findings = reader.findings().unwrap().unwrap();
    let knave = findings.sources.iter().find(|s| s.name == "knave");
    // At least one of the culprit's stretches.
    let stolen = knave.map_or(0, |source| source.stolen.get());
    assert!(stolen > 10_000_000, "{stolen} ns of knave");
}

/// A program, compiled with Open MPI 4, and its installation.
fn compiled(source: &str, dir: &Path) -> Option<(Installation, PathBuf)> {
    let mpi = installation("openmpi4")?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let program = dir.join("program");
    match mpi.compile_c(&source, &program) {
        Some(()) => Some((mpi, program)),
        None => {
            skip("openmpi4 has no C compiler");
            None
        }
    }
}

/// `mpirun -n 2` with these words before the program. Its files are in `dir`: elsewhere, the files
/// of two jobs would have the same names if their launchers had the same PID in two namespaces.
fn launcher(mpi: &Installation, dir: &Path, command: &mut Command) {
    mpi.prepare(command);
    for place in ["orte_tmpdir_base", "btl_vader_backing_directory"] {
        command.env(format!("OMPI_MCA_{place}"), dir);
    }
    command.env("OMPI_MCA_mpi_yield_when_idle", "1");
    command.arg(&mpi.mpirun).args(&mpi.options);
    command.args(["-n", "2"]);
}

#[test]
fn ranks_in_a_pid_namespace_are_those_of_the_trace_wherever_the_recorder_is() {
    let dir = tempfile::tempdir().unwrap();
    let Some((mpi, program)) = compiled("tests/programs/known.c", dir.path()) else {
        return;
    };
    let mut bare = Command::new("true");
    let Some(_) = inside(&bare) else { return };
    // The recorder and the ranks in one namespace.
    let path = dir.path().join("inside");
    let mut command = idlewave();
    command
        .args(["record", "--no-report", "-o"])
        .arg(&path)
        .arg("--");
    launcher(&mpi, dir.path(), &mut command);
    command.arg(&program);
    let recorded = run(&mut inside(&command).unwrap());
    recorded.succeeded();
    run(idlewave().arg("explain").arg(&path)).succeeded();
    if let Some(reader) = traced(&path) {
        assert_eq!(reader.manifest().ranks.len(), 2, "{recorded:?}");
        ranks_are_seen(&reader);
    }
    // Only the ranks.
    let path = dir.path().join("outside");
    bare = idlewave();
    bare.args(["record", "--no-report", "-o"]).arg(&path);
    bare.args(["--", "unshare", "-mpf", "--mount-proc"]);
    launcher(&mpi, dir.path(), &mut bare);
    bare.arg(&program);
    let recorded = run(&mut bare);
    recorded.succeeded();
    run(idlewave().arg("explain").arg(&path)).succeeded();
    if let Some(reader) = traced(&path) {
        assert_eq!(reader.manifest().ranks.len(), 2, "{recorded:?}");
        ranks_are_seen(&reader);
    }
}

#[test]
fn threads_of_a_measurement_in_a_pid_namespace_are_those_of_the_trace() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let mut command = idlewave();
    command.args(["measure", "barrier", "--ranks=2", "--duration=200ms", "-o"]);
    let Some(mut command) = inside(command.arg(&path)) else {
        return;
    };
    run(&mut command).succeeded();
    run(idlewave().arg("explain").arg(&path)).succeeded();
    if let Some(reader) = traced(&path) {
        ranks_are_seen(&reader);
    }
}

#[test]
fn a_deadlock_in_a_pid_namespace_is_seen_and_ended() {
    let dir = tempfile::tempdir().unwrap();
    let source = "../../act/hangs/tests/programs/hangs.c";
    let Some((mpi, program)) = compiled(source, dir.path()) else {
        return;
    };
    let mut command = idlewave();
    command.args(["gang", "watch", "--kill", "--timeout", "500s", "--"]);
    launcher(&mpi, dir.path(), &mut command);
    command.arg(&program).arg("receive");
    let Some(mut command) = inside(&command) else {
        return;
    };
    let done = run(&mut command);
    assert_eq!(done.code, Some(6), "{done:?}");
}

/// Commands that need the machine's processes, each of which would leave something at `path`.
fn all_that_look(path: &Path) -> Vec<Command> {
    let path = path.to_str().unwrap();
    let words = [
        &["study", "--no-trace", "-o", path][..],
        &["study", "-o", path],
        &["record", "-o", path, "--", "true"],
        &["measure", "detour"],
        &["measure", "barrier", "-o", path],
        &["place", "calibrate", "-o", path],
        &["gang", "watch", "--", "true"],
        &["gang", "submit", "--", "true"],
        &["gang", "start", "--socket", path],
    ];
    let command = |words: &&[&str]| {
        let mut command = idlewave();
        command.args(*words);
        command
    };
    words.iter().map(command).collect()
}

#[test]
fn without_a_proc_of_its_own_a_command_says_so_and_does_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("made");
    for command in all_that_look(&path) {
        let mut without = Command::new("sh");
        without.args([
            "-c",
            "while umount -l /proc 2>&-; do :; done; exec \"$@\"",
            "sh",
        ]);
        without.arg(command.get_program()).args(command.get_args());
        let Some(mut without) = inside(&without) else {
            return;
        };
        let [what, next] = run(&mut without).failed(3);
        assert!(what.contains("/proc is not mounted"), "{what}");
        assert!(next.contains("mount -t proc"), "{next}");

        let [what, next] = run(&mut inside_with(&[], &command).unwrap()).failed(3);
        assert!(what.contains("another PID namespace"), "{what}");
        assert!(next.contains("--mount-proc"), "{next}");
        assert!(!path.exists(), "{command:?}");
    }
}

#[test]
fn a_watch_in_a_pid_namespace_leaves_living_ones_elsewhere_alone() {
    let mut command = idlewave();
    command.args(["gang", "watch", "--", "true"]);
    let Some(mut other) = inside(&command) else {
        return;
    };
    let mut watch = idlewave();
    watch.args(["gang", "watch", "--", "cat"]);
    watch.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut watch = watch.stderr(Stdio::null()).spawn().unwrap();
    let begin = Instant::now();
    let directory = loop {
        let owner = Owner::of(watch.id()).unwrap().name("idlewave-watch", 0);
        let places = [PathBuf::from("/dev/shm"), std::env::temp_dir()];
        let entries = places
            .iter()
            .flat_map(|place| fs::read_dir(place).into_iter().flatten());
        let found = entries.flatten().find(|entry| {
            let name = entry.file_name();
            name.to_string_lossy().starts_with(&owner)
        });
        if let Some(found) = found {
            break found.path();
        }
        assert!(begin.elapsed() < Duration::from_secs(300), "no directory");
        std::thread::sleep(Duration::from_millis(5));
    };
    run(&mut other).succeeded();
    let is_there = directory.exists();
    drop(watch.stdin.take());
    watch.wait().unwrap();
    assert!(is_there, "{} is gone", directory.display());
    assert!(!directory.exists());
}

/// Root outside sees which processes live in a PID namespace, and so what a killed one left there.
#[test]
fn what_was_left_in_a_pid_namespace_is_removed_from_outside_it() {
    if !PidNamespace::current().unwrap().is_initial() {
        println!("skipped: this is a PID namespace below another one, which does not show it all");
        return;
    }
    let mut watch = idlewave();
    watch.args(["gang", "watch", "--", "cat"]);
    let Some(mut watch) = inside_with(&["--mount-proc", "--kill-child"], &watch) else {
        return;
    };
    watch.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut watch = watch.stderr(Stdio::null()).spawn().unwrap();
    let begin = Instant::now();
    let waits = |what: &str| {
        assert!(begin.elapsed() < Duration::from_secs(300), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    };
    let own = PidNamespace::current().unwrap().inode();
    let directory = loop {
        // The namespace of this process until the child has made its own, and none until that has
        // a process.
        let Ok(inside) = fs::metadata(format!("/proc/{}/ns/pid_for_children", watch.id())) else {
            waits("no namespace");
            continue;
        };
        // Process 1 there. Others may be left of an earlier namespace with the same inode.
        let prefix = format!("idlewave-watch-{}-1-", inside.ino());
        let entries = fs::read_dir("/dev/shm").unwrap().flatten();
        let found = entries.into_iter().find(|entry| {
            inside.ino() != own && entry.file_name().to_string_lossy().starts_with(&prefix)
        });
        match found {
            Some(found) => break found.path(),
            None => waits("no directory"),
        }
    };
    let outside = || run(idlewave().args(["gang", "watch", "--", "true"])).succeeded();
    outside();
    assert!(directory.exists(), "{} is gone", directory.display());
    watch.kill().unwrap();
    watch.wait().unwrap();
    let name = directory.file_name().unwrap().to_string_lossy();
    let owner = Owner::parse("idlewave-watch", &name).unwrap();
    while !owner.has_ended() {
        waits("it lives");
    }
    outside();
    assert!(!directory.exists(), "{}", directory.display());
}

/// A service and two gangs that each need all CPUs, all in one namespace: they are switched.
#[test]
fn gangs_in_a_pid_namespace_are_switched() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"
        socket=$1/socket
        "$IDLEWAVE" gang start --socket "$socket" --slice 20ms --no-yield 2>"$1/log" &
        wait_for() { n=0; until "$@"; do n=$((n + 1)); [ $n -lt 3000 ] || { cat "$D/log"; exit 9; }; sleep 0.1; done; }
        wait_for test -S "$socket"
        for gang in a b; do
            "$IDLEWAVE" gang submit --socket "$socket" -- sh -c '
                export PMI_SIZE=$(nproc)
                for rank in $(seq 0 $((PMI_SIZE - 1))); do PMI_RANK=$rank sleep 900 & done
                wait' 2>>"$1/log" &
        done
        switched() { "$IDLEWAVE" gang status --socket "$socket" --json | grep -Eq '"switched": *[0-9]{2,}'; }
        wait_for switched"#;
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(dir.path());
    command.env("IDLEWAVE", env!("CARGO_BIN_EXE_idlewave"));
    command.env("D", dir.path());
    let Some(mut command) = inside(&command) else {
        return;
    };
    let done = run(&mut command);
    assert_eq!(done.code, Some(0), "{done:?}");
}
