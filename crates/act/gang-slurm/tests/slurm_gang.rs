//! What tests/nodes/slurm_gang makes of the files of ranks whose times are known.

#![allow(clippy::unwrap_used)]

mod common;

use common::rig::{root, skip};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Writes periods, in milliseconds, as the ranks write them.
fn write(dir: &Path, name: &str, stretches: &[(u64, u64)]) {
    let line = |(begin, end): &(u64, u64)| format!("{}000000 {}000000\n", begin, end);
    let text: String = stretches.iter().map(line).collect();
    fs::write(dir.join(name), text).unwrap();
}

fn table(dir: &Path) -> Option<Output> {
    let mut command = Command::new("python3");
    command
        .arg(root().join("tests/nodes/slurm_gang"))
        .arg("--from")
        .arg(dir);
    match command.output() {
        Ok(out) => Some(out),
        Err(e) => {
            skip(&format!("python3: {e}"));
            None
        }
    }
}

/// Two gangs that alternate every 5 s from 100 s on. Each stops `late` ms after the other starts;
/// the second node is 3 ms behind when it stops, and 1 ms when it starts.
fn alternate(dir: &Path, case: &str, late: i64) {
    for (gang, first) in [("a", 0), ("b", 1)] {
        for node in [0_u64, 1] {
            let stretches: Vec<(u64, u64)> = (first..7)
                .step_by(2)
                .map(|slice: u64| {
                    let begin = 100_000 + 5_000 * slice;
                    let end = (begin + 5_000).checked_add_signed(late).unwrap();
                    (begin + node, end + 3 * node)
                })
                .collect();
            write(dir, &format!("{case}-{gang}.{node}"), &stretches);
        }
    }
}

#[test]
fn the_table_says_what_the_ranks_saw() {
    let dir = tempfile::tempdir().unwrap();
    alternate(dir.path(), "default", -10);
    alternate(dir.path(), "ignore", 2_000);
    // A gap too short to be a stop.
    let slices = [
        (105_000, 106_000),
        (106_015, 112_000),
        (115_000, 122_000),
        (125_000, 132_000),
    ];
    write(dir.path(), "ignore-b.0", &slices);
    let Some(out) = table(dir.path()) else { return };
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let text = String::from_utf8(out.stdout).unwrap();
    let told: Vec<Vec<String>> = text
        .lines()
        .skip(1)
        .map(|l| {
            l.split("  ")
                .filter(|w| !w.is_empty())
                .map(|w| w.trim().to_owned())
                .collect()
        })
        .collect();
    // The start of b's first period and the end of its last are those of its program, so four
    // switches count, from 110 s to 125 s: two slices of a and one of b. Where they overlap, they
    // do so for three times 2 s.
    let expected = [
        ["switches", "4", "4"],
        [
            "from start to start",
            "5.000 (5.000..5.000) s",
            "5.000 (5.000..5.000) s",
        ],
        [
            "both gangs run, per switch",
            "0.000 (0.000..0.000) s",
            "2.002 (2.002..2.002) s",
        ],
        [
            "neither runs, per switch",
            "10.0 (10.0..10.0) ms",
            "0.0 (0.0..0.0) ms",
        ],
        [
            "between the nodes, stop",
            "3.0 (3.0..3.0) ms",
            "3.0 (3.0..3.0) ms",
        ],
        [
            "between the nodes, start",
            "1.0 (1.0..1.0) ms",
            "1.0 (1.0..1.0) ms",
        ],
        ["only a runs", "66.5 %", "40.0 %"],
        ["only b runs", "33.3 %", "20.0 %"],
        ["both run", "0.0 %", "40.0 %"],
        ["neither runs", "0.2 %", "0.0 %"],
        ["gaps within slices", "0", "1, the longest 15 ms"],
    ];
    assert_eq!(told, expected.map(|row| row.map(str::to_owned).to_vec()));
}

#[test]
fn files_that_do_not_fit_are_one_line_of_complaint() {
    let dir = tempfile::tempdir().unwrap();
    alternate(dir.path(), "default", 0);
    alternate(dir.path(), "ignore", 0);
    write(dir.path(), "ignore-b.1", &[(100, 200)]);
    let Some(out) = table(dir.path()) else { return };
    let words = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1));
    assert!(
        words.contains("the ranks of gang b saw [3, 1] slices, of which only 0 are the same"),
        "{words}"
    );
    assert_eq!(words.lines().count(), 1);
}
