//! `idlewave place study -- ./app` with real programs and launchers.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Ended, idlewave, run};
use idlewave_mpi::testing::{Installation, installations, launcher_failed, skip};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// `layouts N [FAIL]`: N steps of a message to the next rank and an allreduce; with FAIL ranks or
/// more it ends with 3.
fn program(mpi: &Installation, dir: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/layouts.c");
    let path = dir.join("layouts");
    mpi.compile_c(&source, &path).unwrap();
    path
}

fn with_compilers() -> Vec<Installation> {
    let mut found = installations();
    found.retain(|mpi| mpi.mpicc.is_some());
    if found.is_empty() {
        skip("no MPI library with a compiler");
    }
    found
}

/// `idlewave place study OPTIONS -- PROGRAM`, again if the launcher failed by itself.
fn study(mpi: &Installation, dir: &Path, options: &str, program: &[&str]) -> Ended {
    let once = || {
        let mut command = idlewave();
        mpi.prepare(&mut command);
        command.current_dir(dir).args(["place", "study"]);
        command.args(options.split_whitespace()).arg("--");
        run(command.args(program))
    };
    let ended = (0..3).map(|_| once());
    let mut good = ended.filter(|ended| !launcher_failed(&ended.stderr));
    good.next().unwrap_or_else(once)
}

#[test]
fn every_layout_of_a_program_is_measured_and_its_parts_are_at_most_the_total() {
    for mpi in with_compilers() {
        let dir = tempfile::tempdir().unwrap();
        let app = program(&mpi, dir.path());
        let options = "--ranks 1,2,3 --cores 3 --repeats 2 --json";
        let done = study(&mpi, dir.path(), options, &[app.to_str().unwrap(), "5"]);
        done.succeeded();
        let found: Value = serde_json::from_str(&done.stdout).unwrap();
        let layouts = found["measured"]["layouts"].as_array().unwrap();
        let of = |layout: &Value, name: &str| layout[name].as_u64().unwrap();
        let told: Vec<[u64; 3]> = layouts
            .iter()
            .map(|l| ["ranks", "nodes", "ranks_per_node"].map(|name| of(l, name)))
            .collect();
        assert_eq!(told, [[1, 1, 1], [2, 1, 2], [3, 1, 3]], "{}", mpi.name);
        for layout in layouts {
            let runs = layout["runs"].as_array().unwrap();
            assert_eq!(runs.len(), 2);
            for run in runs {
                let part = |name: &str| run[name].as_f64().unwrap();
                let parts = part("collective") + part("point_to_point") + part("computation");
                assert!(
                    part("collective") > 0.0 && part("point_to_point") > 0.0,
                    "{run}"
                );
                assert!(parts <= part("total") * (1.0 + 1e-9), "{run}");
            }
        }
        assert_eq!(found["rows"].as_array().unwrap().len(), 3);
        // Only the program is left.
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

#[test]
fn a_program_that_fails_is_told_with_its_own_words_after_what_was_measured() {
    for mpi in with_compilers() {
        let dir = tempfile::tempdir().unwrap();
        let app = program(&mpi, dir.path());
        let app = app.to_str().unwrap();
        let options = "--ranks 1,2 --repeats 2";
        let all = study(&mpi, dir.path(), options, &[app, "5", "1"]);
        let [what, _] = all.failed_at_last(3);
        assert!(
            what.ends_with("with 1 rank, 1 per node: it ended with exit code 3"),
            "{what}"
        );
        assert!(all.stderr.contains("  bad input: line 7\n"), "{all:?}");
        let later = study(&mpi, dir.path(), options, &[app, "5", "2"]);
        let [what, _] = later.failed_at_last(7);
        assert!(what.contains("with 2 ranks, 2 per node"), "{what}");
        assert!(later.stdout.contains("(one run)"), "{later:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

#[test]
fn what_cannot_be_started_or_measured_is_refused_with_the_next_step() {
    let Some(mpi) = with_compilers().into_iter().next() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let app = program(&mpi, dir.path());
    let app = app.to_str().unwrap();
    for (options, code, said) in [
        ("--launcher mpirun.no", 2, "no such command"),
        ("--launcher true", 2, "not a known launcher"),
        ("--network n.toml", 2, "only workloads are predicted here"),
        ("--repeats 0", 2, "--repeats 0"),
        (
            "--ranks 3 --cores 2",
            2,
            "no layout on 1 node with 2 cores each",
        ),
        ("--hosts n1,n1", 2, "given twice"),
    ] {
        let [what, _] = study(&mpi, dir.path(), options, &[app]).failed(code);
        assert!(what.contains(said), "{options}: {what}");
    }
    study(&mpi, dir.path(), "", &["./none"]).failed(127);
}

#[test]
fn the_launcher_of_another_library_is_named_as_such() {
    let all = with_compilers();
    let [first, second, ..] = all.as_slice() else {
        return skip("only one MPI library with a compiler");
    };
    let dir = tempfile::tempdir().unwrap();
    let app = program(first, dir.path());
    let options = format!("--ranks 2 --cores 2 --launcher {}", second.mpirun.display());
    let [what, next] = study(first, dir.path(), &options, &[app.to_str().unwrap(), "1"]).failed(2);
    assert!(
        what.contains("each process ran as a program of one rank"),
        "{what}"
    );
    assert!(next.contains("--launcher"), "{next}");
}
