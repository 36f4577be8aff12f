//! `idlewave place --scotch`: orders from Scotch's gmap are judged like others. Any failure of gmap
//! is reported in one line, and nothing is left behind.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Ended, idlewave, run, wait};
use idlewave_mpi::testing::skip;
use idlewave_sys::process::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// 27 ranks in a cube. With up to 12 ranks on each of 3 nodes they are 12, 12 and 3; with 9 they
/// are 9, 9 and 9, as they would be with 12 if spread evenly.
const CUBE: [&str; 8] = [
    "--pattern=halo",
    "-n27",
    "--nodes=9",
    "--cores=12",
    "--per-node=9,12",
    "--work=10us",
    "--steps=2",
    "--json",
];

fn fake() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/gmap")
}

/// The command with the program that replaces gmap, and with its own directory for temporary files.
fn with_fake(dir: &TempDir, what: &str, options: &[&str]) -> Command {
    let mut command = idlewave();
    let temporary = dir.path().join("tmp");
    fs::create_dir_all(&temporary).unwrap();
    command
        .arg("place")
        .args(CUBE)
        .arg(format!("--scotch={}", fake().display()))
        .args(options)
        .env("FAKE_GMAP", what)
        .env("FAKE_GMAP_LOG", dir.path().join("log"))
        .env("TMPDIR", temporary);
    command
}

/// Lines that the replacement wrote about itself: process, arguments, threads.
fn log(dir: &TempDir) -> Vec<String> {
    let log = fs::read_to_string(dir.path().join("log")).unwrap_or_default();
    log.lines().map(str::to_owned).collect()
}

/// No file and no process is left.
#[track_caller]
fn nothing_left(dir: &TempDir) {
    let left: Vec<_> = fs::read_dir(dir.path().join("tmp")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    for line in log(dir) {
        let pid = line.split_whitespace().next().unwrap();
        // The PID may be another process's by now.
        let own = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap_or_default();
        assert!(!own.contains(&*dir.path().to_string_lossy()), "{line}");
    }
}

fn json(ended: &Ended) -> Value {
    ended.succeeded();
    serde_json::from_str(&ended.stdout).unwrap()
}

fn by_scotch(answer: &Value) -> Vec<&Value> {
    let rows = answer["rows"].as_array().unwrap().iter();
    let words = |row: &&Value| row["how"].as_str().unwrap().contains("as Scotch maps them");
    rows.filter(words).collect()
}

#[test]
fn orders_of_another_program_stand_beside_the_searchs_own() {
    let dir = tempfile::tempdir().unwrap();
    let answer = json(&run(&mut with_fake(&dir, "deal", &[])));
    nothing_left(&dir);
    // Each layout once.
    let log = log(&dir);
    assert_eq!(log.len(), 2, "{log:?}");
    for line in &log {
        assert!(line.contains(" /dev/null -b0 threads=1"), "{line}");
    }
    // On evenly filled nodes it is the cyclic order, which the search also tries.
    assert_eq!(by_scotch(&answer).len(), 1, "{answer}");
    let plain = json(&run(idlewave().arg("place").args(CUBE)));
    let rows = |answer: &Value| answer["rows"].as_array().unwrap().len();
    assert!(by_scotch(&plain).is_empty());
    assert!(rows(&answer) >= rows(&plain), "{answer}");
    let seconds = |answer: &Value| {
        let best = answer["best"].as_u64().unwrap() as usize;
        answer["rows"][best]["seconds"]["value"].as_f64().unwrap()
    };
    assert!(seconds(&answer) <= 1.005 * seconds(&plain));
    let details = answer["details"].to_string();
    assert!(details.contains("Scotch"), "{details}");
    assert!(!plain.to_string().contains("Scotch"));
}

#[test]
fn what_is_no_order_of_ranks_is_told_in_one_line() {
    for (what, said) in [
        (
            "fail",
            "it ended with code 1: gmap: ERROR: graphLoad: bad input (1)",
        ),
        ("crash", "signal 11 ended it"),
        ("nothing", "it wrote no mapping"),
        ("rubbish", "line 1: expected the number of ranks"),
        ("binary", "line 1"),
        ("missing", "there are fewer lines than ranks"),
        ("twice", "line 3: the rank already has a node"),
        ("unmapped", "line 3: expected a rank and a node"),
        ("fewer", "26 ranks instead of 27"),
        ("beyond", "rank 1 is on node 3, but there are 3"),
        ("piled", "27 ranks are on node 0"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let [failure, next] = run(&mut with_fake(&dir, what, &[])).failed(3);
        assert!(failure.contains(said), "{what}: {failure}");
        assert!(failure.contains("programs/gmap"), "{what}: {failure}");
        assert!(next.contains("omit --scotch"), "{what}: {next}");
        nothing_left(&dir);
    }
}

#[test]
fn a_program_that_hangs_is_killed_after_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let begin = Instant::now();
    let ended = run(&mut with_fake(&dir, "hang", &["--scotch-limit=300ms"]));
    let [failure, next] = ended.failed(3);
    assert!(failure.contains("it takes longer than 300"), "{failure}");
    assert!(next.contains("--scotch-limit"), "{next}");
    // Far below the five minutes that it sleeps.
    assert!(begin.elapsed() < Duration::from_secs(60));
    assert!(!log(&dir).is_empty());
    nothing_left(&dir);
}

#[test]
fn a_signal_ends_it_with_nothing_left() {
    for signal in [Signal::INT, Signal::TERM] {
        let dir = tempfile::tempdir().unwrap();
        let child = with_fake(&dir, "hang", &[])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let begin = Instant::now();
        while log(&dir).is_empty() {
            assert!(begin.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(5));
        }
        common::signal(&child, signal);
        let ended = wait(child);
        assert_eq!(ended.code, Some(128 + signal.as_raw()), "{ended:?}");
        assert!(ended.stderr.contains("interrupted"), "{ended:?}");
        nothing_left(&dir);
    }
}

#[test]
fn a_program_that_is_not_there_is_told_with_its_package() {
    let dir = tempfile::tempdir().unwrap();
    let place = |option: &str| {
        let mut command = idlewave();
        command.arg("place").args(CUBE).arg(option);
        run(command.env("PATH", dir.path()).current_dir(&dir))
    };
    for option in ["--scotch", "--scotch=gmap", "--scotch=./gmap"] {
        let [failure, next] = place(option).failed(3);
        assert!(failure.contains("gmap"), "{failure}");
        assert!(next.contains("apt install scotch"), "{next}");
    }
    // An existing file that is not executable is a different error: it is not searched for by name.
    let file = dir.path().join("gmap");
    fs::write(&file, "no program").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let [failure, _] = place("--scotch=./gmap").failed(3);
    assert!(failure.to_lowercase().contains("permission"), "{failure}");
    let [_, next] = place("--scotch").failed(3);
    assert!(next.contains("apt install scotch"), "{next}");
    place("--scotch-limit=1s").failed(2);
    // A missing directory for temporary files is reported before anything runs.
    let mut command = with_fake(&dir, "deal", &[]);
    let [failure, next] = run(command.env("TMPDIR", "/nowhere")).failed(4);
    assert!(
        failure.contains("files for Scotch") && next.contains("TMPDIR"),
        "{failure}"
    );
}

/// 128 ranks, each with messages to four others drawn by a fixed generator.
fn random_program() -> String {
    let mut state = 1_u64;
    let mut draw = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % 127
    };
    let mut of = vec![Vec::new(); 128];
    for from in 0..128 {
        for _ in 0..4 {
            let to = (from + 1 + draw()) % 128;
            of[from].push(format!("send 65536b to {to}"));
            of[to].push(format!("recv 65536b from {from}"));
        }
    }
    let ranks = of.iter().enumerate().map(|(rank, operations)| {
        let lines = operations.iter().enumerate();
        let lines: String = lines.map(|(at, what)| format!("o{at}: {what}\n")).collect();
        format!("rank {rank} {{\n{lines}}}\n")
    });
    format!("num_ranks 128\n{}", ranks.collect::<String>())
}

#[test]
fn the_real_gmap_is_asked_and_answers_the_same_each_time() {
    if ["scotch_gmap", "gmap"]
        .iter()
        .all(|name| Command::new(name).arg("-V").output().is_err())
    {
        skip("gmap of Scotch is not installed (package scotch)");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("random.goal"), random_program()).unwrap();
    let place = |options: &[&str]| {
        let mut command = idlewave();
        command.args(["place", "--goal", "random.goal", "--nodes=16", "--cores=16"]);
        command.args(["--per-node=8,11", "--scotch"]).args(options);
        run(command.current_dir(&dir))
    };
    let first = place(&["--json"]);
    let answer = json(&first);
    assert_eq!(first.stdout, place(&["--json"]).stdout);
    // For a random graph, no other order equals Scotch's.
    let rows = by_scotch(&answer);
    let of: Vec<&Value> = rows.iter().map(|row| &row["ranks_per_node"]).collect();
    assert!(
        of.contains(&&8.into()) && of.iter().any(|k| k.as_u64() > Some(8)),
        "{of:?}"
    );
    for row in rows {
        assert!(row["ranks_per_node"].as_u64() <= Some(11), "{row}");
    }
    // Table, JSON and page agree on whose order is used.
    let best = &answer["rows"][answer["best"].as_u64().unwrap() as usize];
    let taken = by_scotch(&answer).contains(&best);
    let said = match taken {
        true => "the order of ranks is Scotch's",
        false => "the fastest order by Scotch takes",
    };
    let table = place(&["--html", "page.html"]);
    table.succeeded();
    let page = fs::read_to_string(dir.path().join("page.html")).unwrap();
    let table = table
        .stdout
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    for text in [&table, &page, &answer["details"].to_string()] {
        assert!(
            text.contains(said) || text.contains(&said.replace('\'', "&#39;")),
            "{text}"
        );
    }
    let how = best["how"].as_str().unwrap();
    assert!(table.contains(how) && page.contains(how), "{how}");
}
