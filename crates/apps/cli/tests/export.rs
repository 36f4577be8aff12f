//! `idlewave export`: what it writes and prints, and what it refuses.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Ended, bundle, idlewave, run};
use idlewave_formats::import::{Ask, Program, import};
use idlewave_mpi::testing::skip;
use idlewave_run::RunReader;
use idlewave_run::tables::{Bursts, Interrupts};
use idlewave_units::Nanos;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

fn export(dir: &TempDir, options: &[&str]) -> Ended {
    run(idlewave()
        .arg("export")
        .arg(bundle())
        .args(options)
        .current_dir(dir))
}

#[test]
fn a_run_becomes_a_paraver_trace_and_every_loss_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let ended = export(&dir, &["--to", "paraver", "-o", "before.prv"]);
    ended.succeeded();
    for part in [
        "EXPORT to paraver\n",
        "  before.prv: ",
        " records, ",
        "before.cfgs/",
        "\nLOST\n",
    ] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    for name in [
        "before.prv",
        "before.pcf",
        "before.row",
        "before.cfgs/who_ran_while_late.cfg",
    ] {
        assert!(fs::metadata(dir.path().join(name)).unwrap().len() > 0);
    }
    assert_eq!(
        fs::read_dir(&dir).unwrap().count(),
        4,
        "nothing is left beside"
    );
    // The same run gives the same bytes.
    export(&dir, &["--to", "paraver", "-o", "again.prv"]).succeeded();
    let bytes = |name: &str| fs::read(dir.path().join(name)).unwrap();
    assert_eq!(bytes("before.prv"), bytes("again.prv"));
    assert_eq!(bytes("before.pcf"), bytes("again.pcf"));
    export(&dir, &["--to", "paraver", "-o", "again.prv"]).failed(4);
}

#[test]
fn json_says_the_same_below_a_header() {
    let dir = tempfile::tempdir().unwrap();
    let ended = export(&dir, &["--to", "csv", "-o", "tables", "--json"]);
    ended.succeeded();
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert!(document["header"].is_object());
    assert_eq!(document["format"], "csv");
    let files = document["files"].as_array().unwrap();
    assert_eq!(
        fs::read_dir(dir.path().join("tables")).unwrap().count(),
        files.len()
    );
    for file in files {
        let path = dir.path().join(file["path"].as_str().unwrap());
        let text = fs::read_to_string(path).unwrap();
        assert_eq!(text.len() as u64, file["bytes"].as_u64().unwrap());
        assert_eq!(
            text.lines().count() as u64,
            file["records"].as_u64().unwrap() + 1
        );
    }
    assert_eq!(document["losses"], Value::Array(Vec::new()));
}

#[test]
fn exported_noise_can_be_fitted() {
    let dir = tempfile::tempdir().unwrap();
    export(&dir, &["--to", "selfish", "-o", "noise"]).succeeded();
    let mut fit = idlewave();
    fit.arg("fit").current_dir(&dir);
    for file in fs::read_dir(dir.path().join("noise")).unwrap() {
        fit.arg(file.unwrap().path());
    }
    run(fit.args(["-o", "noise.toml"])).succeeded();
}

#[test]
fn what_is_no_format_or_no_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let ended = export(&dir, &["--to", "otf9"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("paraver"), "{}", ended.stderr);
    let none = run(idlewave()
        .args(["export", "none", "--to", "csv"])
        .current_dir(&dir));
    none.failed(5);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
}

/// Time and number of bursts by thread and CPU.
fn matrix(run: &RunReader) -> BTreeMap<(u32, u32), (u64, u64)> {
    let mut matrix = BTreeMap::new();
    run.for_each::<Bursts>(|row| {
        let cell: &mut (u64, u64) = matrix.entry((row.pid.get(), row.cpu.get())).or_default();
        cell.0 += row.end_ns - row.begin_ns;
        cell.1 += 1;
    })
    .unwrap();
    matrix
}

/// Number of interrupts, and all their time.
fn interrupts(run: &RunReader) -> (u64, Nanos) {
    let (mut count, mut time) = (0, 0);
    run.for_each::<Interrupts>(|row| {
        count += 1;
        time += row.end_ns - row.begin_ns;
    })
    .unwrap();
    (count, Nanos::from_nanos(time))
}

#[test]
fn a_measured_run_read_back_from_its_trace_has_equal_matrices() {
    let dir = tempfile::tempdir().unwrap();
    export(&dir, &["--to", "paraver", "-o", "before.prv"]).succeeded();
    let prv = dir.path().join("before.prv");
    let to = dir.path().join("again");
    import(&Ask {
        input: &prv,
        output: &to,
        command: &[],
        started: "",
        program: &Program::Busiest,
        stop: &AtomicBool::new(false),
        progress: &|_| (),
    })
    .unwrap();
    let (run, again) = (
        RunReader::open(bundle()).unwrap(),
        RunReader::open(&to).unwrap(),
    );
    let expected = matrix(&run);
    assert_eq!(matrix(&again), expected);
    assert_eq!(interrupts(&again), interrupts(&run));

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../observe/formats/tests/prv.py");
    let Ok(output) = Command::new("python3").arg(script).arg(&prv).output() else {
        return skip("no python3");
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cells = found["matrix"].as_object().unwrap().values();
    let cells = cells.flat_map(|row| row.as_object().unwrap().values());
    let sum = cells.fold((0, 0), |sum, cell| {
        (
            sum.0 + cell[0].as_u64().unwrap(),
            sum.1 + cell[1].as_u64().unwrap(),
        )
    });
    let all = expected
        .values()
        .fold((0, 0), |sum, cell| (sum.0 + cell.0, sum.1 + cell.1));
    assert_eq!(sum, all);
}
