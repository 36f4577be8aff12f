//! `idlewave fit`: what it writes and prints, what it refuses, and how it ends.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Ended, bundle, idlewave, lockstep, run};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn example(cpu: u32) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/examples");
    root.join(format!("cpu{cpu}.selfish"))
}

fn fit(dir: &TempDir, from: &[&Path], options: &[&str]) -> Ended {
    run(idlewave()
        .arg("fit")
        .args(from)
        .args(options)
        .current_dir(dir))
}

#[track_caller]
fn json(ended: &Ended) -> Value {
    ended.succeeded();
    serde_json::from_str(&ended.stdout).unwrap()
}

/// Asserts that no line is wider than the terminal.
#[track_caller]
fn fits(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn a_run_becomes_a_model_and_a_table() {
    let dir = tempfile::tempdir().unwrap();
    let lockstep = lockstep();
    let recorded = lockstep.path().join("run");
    let ended = fit(&dir, &[&recorded], &[]);
    ended.succeeded();
    fits(&ended.stdout);
    for part in [
        "NOISE MODEL of",
        "stolen",
        "model: noise.toml",
        "idlewave simulate stencil --noise noise.toml",
    ] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    let model = fs::read_to_string(dir.path().join("noise.toml")).unwrap();
    assert!(model.starts_with("schema = 1\n"), "{model}");
    assert_eq!(
        fs::read_dir(&dir).unwrap().count(),
        1,
        "nothing is left beside"
    );
    // Byte for byte.
    let again = fit(&dir, &[&recorded], &["-o", "-"]);
    again.succeeded();
    assert_eq!(again.stdout, model);
}

#[test]
fn detours_of_another_tool_become_a_model() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (example(0), example(1));
    let report = json(&fit(&dir, &[&a, &b], &["--json", "-o", "two.toml"]));
    assert_eq!(report["model"], "two.toml");
    assert_eq!(report["cpus_per_node"], 2);
    assert_eq!(report["watched_ns"], 4_000_000_000_u64);
    let sources = report["sources"].as_array().unwrap();
    // The ticks, 250 per second, and what lies between them.
    let tick = sources.iter().find(|s| s["law"] == "periodic").unwrap();
    let period = tick["period_ns"][0].as_u64().unwrap();
    assert!(period.abs_diff(4_000_000) < 20, "{period}");
    assert_eq!(
        (tick["kind"].as_str(), tick["name"].as_str()),
        (Some("unexplained"), Some("detours"))
    );
    assert_eq!(sources.len(), 2);
    let rest = &sources[usize::from(sources[0]["law"] == "periodic")]["rate_per_s"];
    assert!(
        rest[1].as_f64() < Some(12.0) && rest[2].as_f64() > Some(12.0),
        "{rest}"
    );
    let table = fit(&dir, &[&a], &["-o", "one.toml"]);
    table.succeeded();
    fits(&table.stdout);
    assert!(table.stdout.contains("nobody is named"), "{}", table.stdout);
    assert!(
        fs::read_to_string(dir.path().join("one.toml"))
            .unwrap()
            .contains("period_ns = 4000")
    );
}

#[test]
fn the_seed_decides_what_is_simulated_only() {
    let dir = tempfile::tempdir().unwrap();
    let a = example(0);
    let of = |seed: &str, file: &str| {
        fit(&dir, &[&a], &["--seed", seed, "-o", file]).succeeded();
        fs::read_to_string(dir.path().join(file)).unwrap()
    };
    assert_eq!(of("7", "a"), of("7", "b"));
    assert_ne!(of("7", "c"), of("8", "d"));
}

#[test]
fn no_file_is_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("noise.toml");
    fs::write(&file, "mine").unwrap();
    let ended = fit(&dir, &[&example(0)], &[]);
    assert_eq!(ended.stdout, "");
    let [what, next] = ended.failed(4);
    assert!(what.contains("noise.toml: it already exists"), "{what}");
    assert!(next.contains("-o"), "{next}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    // Nor is a directory.
    fit(&dir, &[&example(0)], &["-o", "."]).failed(4);
    // A device is written to.
    fit(&dir, &[&example(0)], &["-o", "/dev/null"]).succeeded();
    let [what, _] = fit(&dir, &[&example(0)], &["-o", "/dev/full"]).failed(4);
    assert!(what.contains("/dev/full"), "{what}");
    let [_, next] = fit(&dir, &[&example(0)], &["-o", "no/such/place"]).failed(4);
    assert!(next.contains("parent directory"), "{next}");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
}

#[test]
fn what_cannot_be_fitted_is_refused_with_file_line_and_reason() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.selfish");
    for (text, said) in [
        ("", "line 1: no detours"),
        ("# Time\n5 1\n4 1\n", "line 3: the start 4 ns is before"),
        (
            "0 1\n9 1\n4 1\n",
            "line 3: it starts 5 ns before the detour above;",
        ),
        (
            "0 100\n50 1\n",
            "line 2: it starts 50 ns before the detour above ends",
        ),
        ("0 1\n\nseven 1\n", "line 3: 'seven' is not a number"),
        ("0 1\n10\n", "line 2: '10' is one number"),
    ] {
        fs::write(&file, text).unwrap();
        let ended = fit(&dir, &[&example(0), &file], &[]);
        assert_eq!(ended.stdout, "");
        let [what, next] = ended.failed(5);
        assert!(what.contains(said) && what.contains("x.selfish"), "{what}");
        assert!(next.contains("docs/noise-model.md"), "{next}");
        assert!(!dir.path().join("noise.toml").exists());
    }
    // An endless file is rejected at its first chunk that is not text.
    let [what, _] = fit(&dir, &[Path::new("/dev/zero")], &[]).failed(5);
    assert!(what.contains("/dev/zero: it is not text"), "{what}");
    // An event longer than any model can hold.
    fs::write(&file, "0 9000000000000000\n").unwrap();
    fit(&dir, &[&file], &[]).failed(5);
}

#[test]
fn what_is_not_there_or_no_run_is_said_to_be_so() {
    let dir = tempfile::tempdir().unwrap();
    let [what, _] = fit(&dir, &[Path::new("nowhere")], &[]).failed(4);
    assert!(what.contains("nowhere"), "{what}");
    let empty = tempfile::tempdir().unwrap();
    fit(&dir, &[empty.path()], &[]).failed(5);
    let [what, next] = fit(&dir, &[bundle(), &example(0)], &[]).failed(2);
    assert!(
        what.contains("directory") && next.contains("one run"),
        "{what} {next}"
    );
    fit(&dir, &[], &[]).failed(2);
    fit(&dir, &[&example(0)], &["--seed", "x"]).failed(2);
    let [what, next] = fit(&dir, &[&example(0)], &["-o", "-", "--json"]).failed(2);
    assert!(what.contains("JSON") && next.contains("-o"), "{what}");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
}
