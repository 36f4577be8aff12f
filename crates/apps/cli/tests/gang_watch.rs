//! `idlewave gang watch`: programs that hang, programs that end, and programs without MPI.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Ended, idlewave, run};
use idlewave_mpi::testing::{Installation, installation, launcher_failed, skip};
use idlewave_sys::owner::Owner;
use idlewave_sys::pid_namespace::PidNamespace;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The program of the tests of `idlewave-hangs`, under each family of libraries.
fn each(check: impl Fn(&Installation, &Path)) {
    let dir = tempfile::tempdir().unwrap();
    for name in ["openmpi4", "mpich4"] {
        let Some(mpi) = installation(name) else {
            continue;
        };
        let source =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../act/hangs/tests/programs/hangs.c");
        let program = dir.path().join(name);
        match mpi.compile_c(&source, &program) {
            Some(()) => check(&mpi, &program),
            None => skip(&format!("{name} has no C compiler")),
        }
    }
}

/// Watches two ranks of the program; once more if their launcher failed.
fn watch(mpi: &Installation, options: &[&str], program: &Path, what: &[&str]) -> Ended {
    let mut command = idlewave();
    mpi.prepare(&mut command);
    command.env("OMPI_MCA_mpi_yield_when_idle", "1");
    command.args(["gang", "watch"]).args(options).arg("--");
    command
        .arg(&mpi.mpirun)
        .args(&mpi.options)
        .args(["-n", "2"]);
    command.arg(program).args(what);
    let done = run(&mut command);
    match launcher_failed(&done.stderr) {
        true => run(&mut command),
        false => done,
    }
}

/// Existing directories of state pages whose watching process has ended, in this PID namespace.
fn left() -> Vec<PathBuf> {
    let own = PidNamespace::current().unwrap().inode();
    let entries = std::fs::read_dir("/dev/shm")
        .into_iter()
        .flatten()
        .flatten();
    let of = entries.filter(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = Owner::parse("idlewave-watch", &name);
        name.starts_with(&format!("idlewave-watch-{own}-"))
            && owner.is_some_and(|owner| owner.has_ended())
    });
    of.map(|entry| entry.path()).collect()
}

#[test]
fn a_deadlock_is_told_once_and_ends_the_job_if_that_is_asked_for() {
    each(|mpi, program| {
        let done = watch(mpi, &["--kill", "--timeout", "500s"], program, &["receive"]);
        assert_eq!(done.code, Some(6), "{}: {done:?}", mpi.name);
        let cycle = "rank 0 waits in MPI_Recv for rank 1 (tag 7, MPI_COMM_WORLD)";
        assert_eq!(
            done.stderr.matches(cycle).count(),
            1,
            "{}: {done:?}",
            mpi.name
        );
        assert!(done.stderr.contains(": 1 deadlock was seen"), "{done:?}");
        assert_eq!(left(), Vec::<PathBuf>::new());
    });
}

#[test]
fn a_rank_that_crashed_is_no_deadlock_while_its_launcher_ends_the_others() {
    /// How long the launcher is given.
    const GIVEN: Duration = Duration::from_secs(3);
    each(|mpi, program| {
        // On a busy machine it may take longer, and the deadlock is told.
        let in_time = (0..4).any(|_| {
            let begun = Instant::now();
            let done = watch(mpi, &["--kill", "--timeout", "500s"], program, &["crash"]);
            if done.stderr.contains("deadlock:") {
                assert!(begun.elapsed() >= GIVEN, "{}: {done:?}", mpi.name);
                return false;
            }
            assert!(
                !matches!(done.code, Some(0 | 6 | 124)),
                "{}: {done:?}",
                mpi.name
            );
            true
        });
        assert!(in_time, "{}: a deadlock was told each time", mpi.name);
    });
}

#[test]
fn without_kill_the_job_goes_on_until_its_time_is_over() {
    each(|mpi, program| {
        let words = "rank 1 waits in MPI_Barrier for rank 0";
        // On a busy machine, the program may not yet hang by then.
        for time in [4, 16, 64, 256_u16] {
            let timeout = format!("{time}s");
            let done = watch(mpi, &["--timeout", &timeout], program, &["mismatch"]);
            assert_eq!(done.code, Some(124), "{}: {done:?}", mpi.name);
            let Some((_, end)) = done.stderr.split_once("ending the job after ") else {
                panic!("{done:?}");
            };
            let after: f64 = end.split(' ').next().unwrap().parse().unwrap();
            assert!(after >= f64::from(time), "{done:?}");
            match done.stderr.matches(words).count() {
                0 => continue,
                told => assert_eq!(told, 1, "{}: {done:?}", mpi.name),
            }
            // Once with the deadlock, and again at the end.
            let [what, rank0, rank1] = [1, 2, 3].map(|line| end.lines().nth(line).unwrap());
            assert_eq!(what, "where the ranks are:", "{done:?}");
            assert!(rank0.contains("in MPI_Recv from rank 1"), "{done:?}");
            assert!(rank1.contains("in MPI_Barrier"), "{done:?}");
            return;
        }
        panic!("{}: nothing was told", mpi.name);
    });
}

#[test]
fn a_program_that_ends_has_no_deadlock_and_its_own_output() {
    each(|mpi, program| {
        // On a busy machine, a short program may be over before the first look at it.
        let programs = [&["slow"][..], &["pingpong", "8"], &["pingpong", "32"]];
        let seen = programs.iter().any(|what| {
            let done = watch(mpi, &["--interval", "20ms"], program, what);
            assert_eq!(done.code, Some(0), "{}: {done:?}", mpi.name);
            assert!(done.stdout.starts_with("begin "), "{done:?}");
            assert_eq!(done.stdout.lines().count(), 1, "{done:?}");
            let seen = !done.stderr.contains("no MPI program was watched");
            let well = done.stderr.contains("no deadlock was seen");
            assert!(!seen || well, "{done:?}");
            seen
        });
        assert!(seen, "{}: no look saw it", mpi.name);
        // A failing program: it exits with 2 for an unknown case.
        let done = watch(mpi, &[], program, &["unheard-of"]);
        assert_ne!(done.code, Some(0), "{}: {done:?}", mpi.name);
        assert_ne!(done.code, Some(6), "{}: {done:?}", mpi.name);
    });
}

/// Watches a program that polls for a file, which is created once a suspicion was reported; once
/// more if its launcher failed.
fn polls_for_a_file(mpi: &Installation, program: &Path, how: &str, options: &[&str]) -> String {
    let watched = || watched_polling(mpi, program, how, options);
    let (mut code, mut said) = watched();
    if launcher_failed(&said) {
        (code, said) = watched();
    }
    assert_eq!(code, Some(0), "{} {how}: {said}", mpi.name);
    said
}

/// The exit code, and what was said.
fn watched_polling(
    mpi: &Installation,
    program: &Path,
    how: &str,
    options: &[&str],
) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("go");
    let mut command = idlewave();
    mpi.prepare(&mut command);
    command.env("OMPI_MCA_mpi_yield_when_idle", "1");
    command.args(["gang", "watch", "--interval", "20ms", "--timeout", "500s"]);
    command.args(options).arg("--").arg(&mpi.mpirun);
    command.args(&mpi.options).args(["-n", "2"]);
    command.arg(program).args(["file", how]).arg(&file);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        said.push_str(&line);
        said.push('\n');
        // Any report ends the wait for it.
        if line.contains("polling") || line.contains("deadlock") {
            std::fs::write(&file, "").unwrap();
        }
    }
    (child.wait().unwrap().code(), said)
}

#[test]
fn loops_of_tests_that_wait_for_a_file_are_a_suspicion_that_is_taken_back() {
    each(|mpi, program| {
        for how in ["Iprobe", "Testsome"] {
            let said = polls_for_a_file(mpi, program, how, &["--kill"]);
            let who = format!("{} {how}: {said}", mpi.name);
            let first = "idlewave: suspicion: 2 of 2 ranks are stuck, but rank 0 is only polling and may be waiting for something else";
            assert_eq!(said.matches(first).count(), 1, "{who}");
            assert!(!said.contains("deadlock:"), "{who}");
            assert!(said.contains("withdrawn: rank "), "{who}");
            let last = said.lines().last().unwrap();
            assert!(last.contains("no deadlock was seen"), "{who}");
            assert!(last.contains("1 suspicion was withdrawn"), "{who}");
        }
        let said = polls_for_a_file(mpi, program, "Iprobe", &["--json"]);
        let events: Vec<serde_json::Value> = said
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let kinds: Vec<_> = events.iter().map(|of| of["event"].as_str()).collect();
        assert_eq!(
            kinds,
            [Some("suspicion"), Some("taken-back"), Some("end")],
            "{said}"
        );
        assert_eq!(events[0]["why"], "polling");
        assert_eq!(events[1]["was"], "suspicion");
        assert_eq!(events[2]["deadlocks"], 0);
        assert_eq!(events[2]["suspicions"], 0, "none stands");
        assert_eq!(events[2]["taken_back"], 1);
    });
}

#[test]
fn lines_of_json_say_the_same() {
    each(|mpi, program| {
        let done = watch(mpi, &["--json", "--kill"], program, &["rendezvous"]);
        assert_eq!(done.code, Some(6), "{}: {done:?}", mpi.name);
        let events: Vec<serde_json::Value> = done
            .stderr
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        assert_eq!(events[0]["event"], "deadlock", "{done:?}");
        assert_eq!(events[0]["ranks"], serde_json::json!([0, 1]));
        assert_eq!(events[1]["event"], "end");
        assert_eq!(events[1]["deadlocks"], 1);
        assert_eq!(events[1]["mpi"], true);
    });
}

#[test]
fn what_is_no_mpi_program_runs_as_ever() {
    let done = run(idlewave().args(["gang", "watch", "--", "sh", "-c", "echo out; exit 7"]));
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (Some(7), "out\n"),
        "{done:?}"
    );
    assert!(
        done.stderr.contains("no MPI program was watched"),
        "{done:?}"
    );
    let done = run(idlewave().args(["gang", "watch", "--", "sh", "-c", "kill -9 $$"]));
    assert_eq!(done.code, Some(137), "{done:?}");
}

#[test]
fn what_cannot_be_started_is_said_in_one_line() {
    let done = run(idlewave().args(["gang", "watch", "--", "no-such-command"]));
    assert_eq!(done.code, Some(127), "{done:?}");
    assert!(
        done.stderr
            .starts_with("idlewave: failed to start no-such-command"),
        "{done:?}"
    );
    for (option, value) in [
        ("--interval", "1ms"),
        ("--interval", "11s"),
        ("--timeout", "1us"),
    ] {
        let done = run(idlewave().args(["gang", "watch", option, value, "--", "true"]));
        assert_eq!(done.code, Some(2), "{option} {value}: {done:?}");
        assert!(done.stderr.contains("next step: give "), "{done:?}");
    }
}
