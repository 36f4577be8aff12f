//! `idlewave measure` under real launchers. No assertion is about speed.

use idlewave_mpi::testing::installations;
use std::process::{Command, Output};

const IDLEWAVE: &str = env!("CARGO_BIN_EXE_idlewave");

fn json(output: &Output) -> serde_json::Value {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    serde_json::from_slice(&output.stdout).expect("one document: only rank 0 prints")
}

#[test]
fn every_measurement_runs_under_every_launcher() {
    for mpi in installations() {
        for ranks in [2, 4] {
            for what in ["exchange", "barrier", "allreduce", "reduce", "alltoall"] {
                let mut command = mpi.launch(ranks);
                let output = command
                    .args([IDLEWAVE, "measure", what, "--duration", "100ms", "--json"])
                    .output()
                    .expect("a launcher");
                let found = json(&output);
                let series = &found["results"]["series"][0];
                assert_eq!(series["ranks"], ranks, "{} {what}", mpi.name);
                assert!(series["iterations"].as_u64() > Some(0));
            }
        }
    }
}

#[test]
fn a_series_over_threads_has_a_row_for_each_number_of_ranks() {
    let args = [
        "measure",
        "exchange",
        "--scaling",
        "strong",
        "--ranks",
        "1,2,3",
        "--duration",
        "100ms",
        "--json",
    ];
    let output = Command::new(IDLEWAVE)
        .args(args)
        .output()
        .expect("idlewave");
    let found = json(&output);
    let series = found["results"]["series"].as_array().expect("a list");
    let ranks: Vec<_> = series.iter().filter_map(|s| s["ranks"].as_u64()).collect();
    assert_eq!(ranks, [1, 2, 3]);
    assert_eq!(series[0]["efficiency"]["value"], 1.0);
}

#[test]
fn options_that_cannot_be_carried_out_are_told_with_the_next_step() {
    for args in [
        &["exchange", "--dims", "4"][..],
        &["exchange", "--bytes", "8"],
        &["barrier", "--ranks", "2,4"],
        &["pingpong", "--pairs", "0"],
        &["pingpong", "--ranks", "2", "--pairs", "2"],
    ] {
        let mut command = Command::new(IDLEWAVE);
        let output = command
            .arg("measure")
            .args(args)
            .output()
            .expect("idlewave");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains("next step:"), "{args:?}: {error}");
    }
}
