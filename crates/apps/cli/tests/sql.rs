//! docs/sql.md: its blocks give the answers that it shows, and those are the numbers of `explain`.

#![allow(clippy::unwrap_used)]

mod common;

use common::{bundle, commands_of_page, idlewave, run};
use idlewave_mpi::testing::skip;
use idlewave_run::RunReader;
use idlewave_run::tables::{Calls, Operations, WaitKind, Waits};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// A command that executes the page. `None` if DuckDB is missing, which it reports.
fn page(options: &[&str]) -> Option<Command> {
    let python = root().join("target/test-sql/bin/python");
    if !python.exists() {
        skip("DuckDB and polars are not there: tests/sql/install");
        return None;
    }
    let mut command = Command::new(python);
    command
        .arg(root().join("tests/sql/page.py"))
        .arg(root().join("docs/sql.md"))
        .args(options);
    Some(command)
}

/// A directory with the runs of the page, made as it says.
fn runs() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    symlink(root().join("docs"), dir.path().join("docs")).unwrap();
    let text = fs::read_to_string(root().join("docs/sql.md")).unwrap();
    for command in commands_of_page(&text) {
        let words = command.strip_prefix("idlewave ").unwrap();
        run(idlewave().args(words.split(' ')).current_dir(&dir)).succeeded();
    }
    dir
}

/// The answers to the questions, by number.
struct Answers(BTreeMap<String, Vec<Value>>);

impl Answers {
    fn of(mut page: Command, dir: &Path) -> Self {
        let ended = run(page.current_dir(dir));
        ended.succeeded();
        let all: BTreeMap<String, Vec<Value>> = serde_json::from_str(&ended.stdout).unwrap();
        Self(all)
    }

    fn rows(&self, question: u32) -> &[Value] {
        let begin = format!("{question}. ");
        let mut found = self
            .0
            .iter()
            .filter(|(heading, _)| heading.starts_with(&begin));
        let (heading, rows) = found.next().unwrap();
        assert!(!rows.is_empty(), "{heading}");
        rows
    }
}

/// What `explain --json` with these options says about a run.
fn explained(run_dir: &Path, options: &[&str]) -> Value {
    let ended = run(idlewave()
        .arg("explain")
        .arg(run_dir)
        .args(options)
        .arg("--json"));
    ended.succeeded();
    serde_json::from_str(&ended.stdout).unwrap()
}

fn view(run_dir: &Path, name: &str) -> Value {
    explained(run_dir, &["--view", name])
}

fn text(row: &Value, column: &str) -> String {
    row[column].as_str().unwrap().to_owned()
}

fn whole(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// A column in units of `unit` nanoseconds as nanoseconds.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn nanos(row: &Value, column: &str, unit: f64) -> u64 {
    (row[column].as_f64().unwrap() * unit).round() as u64
}

fn items<'a>(document: &'a Value, field: &str) -> &'a [Value] {
    document[field].as_array().unwrap()
}

/// Rows of an answer by one of their columns, each with other columns.
fn by<K: Ord, V>(
    rows: &[Value],
    key: impl Fn(&Value) -> K,
    value: impl Fn(&Value) -> V,
) -> BTreeMap<K, V> {
    let all: BTreeMap<K, V> = rows.iter().map(|row| (key(row), value(row))).collect();
    assert_eq!(all.len(), rows.len(), "a key twice");
    all
}

/// Asserts that two tables are equal; names the rows that are not.
#[track_caller]
fn assert_same<K: Ord + Debug, V: PartialEq + Debug>(
    found: &BTreeMap<K, V>,
    expected: &BTreeMap<K, V>,
) {
    let keys: BTreeSet<&K> = found.keys().chain(expected.keys()).collect();
    let different: Vec<String> = keys
        .into_iter()
        .filter(|key| found.get(key) != expected.get(key))
        .map(|key| format!("{key:?}: {:?}, not {:?}", found.get(key), expected.get(key)))
        .collect();
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// Question 2: the steps that each cause delayed most.
#[track_caller]
fn check_late_steps(answers: &Answers, findings: &Value) {
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for source in items(findings, "sources") {
        *expected.entry(text(source, "name")).or_default() += whole(&source["late_steps"]);
    }
    expected.retain(|_, steps| *steps > 0);
    let found = by(
        answers.rows(2),
        |r| text(r, "cause"),
        |r| whole(&r["steps"]),
    );
    assert_same(&found, &expected);
}

/// Question 4: times ready, of every thread after wake-ups and after preemptions.
#[track_caller]
fn check_latency(answers: &Answers, latency: &Value) {
    let mut expected = BTreeMap::new();
    for thread in items(latency, "threads") {
        let pid = whole(&thread["thread"]["pid"]);
        for (what, field) in [("a wake-up", "woken"), ("a preemption", "preempted")] {
            let lengths = &thread[field];
            if whole(&lengths["count"]) > 0 {
                // In half nanoseconds. With many lengths, medians are those of histogram bins.
                let exact = whole(&lengths["count"]) <= 1024;
                let median = exact.then(|| nanos(&lengths["median"], "value", 2.0));
                let row = (whole(&lengths["count"]), median, whole(&lengths["longest"]));
                expected.insert((pid, what.to_owned()), row);
            }
        }
    }
    let found = by(
        answers.rows(4),
        |r| (whole(&r["pid"]), text(r, "after")),
        |r| {
            let times = whole(&r["times"]);
            let median = (times <= 1024).then(|| nanos(r, "median_us", 2e3));
            (times, median, nanos(r, "longest_us", 1e3))
        },
    );
    assert_same(&found, &expected);
}

/// Question 6: bursts and moves of every thread.
#[track_caller]
fn check_moves(answers: &Answers, processes: &Value) {
    let expected = by(
        items(processes, "threads"),
        |t| whole(&t["thread"]["pid"]),
        |t| (whole(&t["bursts"]), whole(&t["migrations"])),
    );
    let found = by(
        answers.rows(6),
        |r| whole(&r["pid"]),
        |r| (whole(&r["bursts"]), whole(&r["moves"])),
    );
    assert_same(&found, &expected);
}

/// Question 9: the time of every thread on every CPU.
#[track_caller]
fn check_matrix(answers: &Answers, matrix: &Value) {
    let mut found = BTreeMap::new();
    for row in answers.rows(9) {
        for (column, time) in row.as_object().unwrap() {
            // The names of the other columns are not numbers.
            if let (Ok(cpu), false) = (column.parse::<u64>(), time.is_null()) {
                found.insert((whole(&row["pid"]), cpu), nanos(row, column, 1e6));
            }
        }
    }
    let mut expected = BTreeMap::new();
    for thread in items(matrix, "threads") {
        for cell in items(thread, "cells") {
            let key = (whole(&thread["thread"]["pid"]), whole(&cell["cpu"]));
            expected.insert(key, whole(&cell["time"]));
        }
    }
    assert_same(&found, &expected);
}

/// Question 8: the longest waits are for the rank that the answer calls the last, and match in
/// length.
#[track_caller]
fn check_last(answers: &Answers, run_dir: &Path) {
    let run = RunReader::open(run_dir).unwrap();
    let mut names = BTreeMap::new();
    run.for_each::<Operations>(|o| {
        names.insert(o.id, o.name);
    })
    .unwrap();
    let mut calls = Vec::new();
    run.for_each::<Calls>(|call| calls.push(call)).unwrap();
    let mut expected: BTreeMap<(String, u64), (u64, u64)> = BTreeMap::new();
    run.for_each::<Waits>(|wait| {
        let call = &calls[usize::try_from(wait.call).unwrap()];
        let name = names[&call.operation].clone();
        // In a broadcast, ranks do not all wait for each other.
        if wait.kind == WaitKind::Collective && name != "MPI_Bcast" {
            let key = (name, u64::from(wait.culprit.get()));
            let (times, longest) = expected.entry(key).or_default();
            *times += 1;
            *longest = (*longest).max(wait.end_ns - wait.begin_ns);
        }
    })
    .unwrap();
    let rows = answers.rows(8);
    let found = by(
        rows,
        |r| (text(r, "name"), whole(&r["last"])),
        |r| whole(&r["times"]),
    );
    for (key, (times, longest)) in &expected {
        // If ranks arrive together, nobody waits.
        assert!(*times <= found[key], "{key:?}");
        let row = rows
            .iter()
            .find(|r| (text(r, "name"), whole(&r["last"])) == *key);
        assert_eq!(nanos(row.unwrap(), "longest_us", 1e3), *longest, "{key:?}");
    }
    assert_eq!(found.len(), expected.len());
}

/// Question 10: calls and bytes by function and communicator.
#[track_caller]
fn check_bytes(answers: &Answers, mpi: &Value) {
    let mut expected = BTreeMap::new();
    for call in items(mpi, "calls") {
        if let Some(comm) = call["communicator"].as_u64() {
            let row = [&call["calls"]["count"], &call["sent"], &call["received"]].map(whole);
            expected.insert((text(call, "function"), comm), row);
        }
    }
    for comm in items(mpi, "communicators") {
        if whole(&comm["messages"]) > 0 {
            let bytes = whole(&comm["message_bytes"]);
            let row = [whole(&comm["messages"]), bytes, bytes];
            expected.insert(("messages".to_owned(), whole(&comm["communicator"])), row);
        }
    }
    let found = by(
        answers.rows(10),
        |r| (text(r, "name"), whole(&r["comm"])),
        |r| [&r["calls"], &r["gave"], &r["got"]].map(whole),
    );
    assert_same(&found, &expected);
}

#[test]
fn every_block_gives_the_answer_on_the_page() {
    let Some(mut page) = page(&[]) else { return };
    let dir = runs();
    let ended = run(page.current_dir(&dir));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn the_answers_on_the_page_are_the_numbers_of_explain() {
    let Some(page) = page(&["--json"]) else {
        return;
    };
    let dir = runs();
    let answers = Answers::of(page, dir.path());
    let [lockstep, site, halo] = ["lockstep", "site", "halo"].map(|name| dir.path().join(name));

    let findings = explained(&lockstep, &[]);
    let strikes = items(&findings, "sources")
        .iter()
        .filter(|s| !s["events"].is_null());
    let expected: BTreeMap<String, (u64, u64)> = strikes
        .map(|s| (text(s, "name"), (whole(&s["events"]), whole(&s["stolen"]))))
        .collect();
    let taken = |r: &Value| (whole(&r["times"]), nanos(r, "ms", 1e6));
    assert_same(&by(answers.rows(1), |r| text(r, "name"), taken), &expected);
    check_late_steps(&answers, &findings);

    let daemons = view(&lockstep, "daemons");
    let expected = by(
        items(&daemons, "daemons"),
        |d| whole(&d["thread"]["pid"]),
        // In hundredths of a millisecond, as on the page.
        |d| {
            (
                whole(&d["runs"]),
                nanos(&d["between"]["median"], "value", 1e-4),
            )
        },
    );
    let runs = |r: &Value| (whole(&r["runs"]), nanos(r, "median_ms", 1e2));
    assert_same(&by(answers.rows(3), |r| whole(&r["pid"]), runs), &expected);

    check_latency(&answers, &view(&site, "latency"));
    check_moves(&answers, &view(&halo, "processes"));
    check_last(&answers, &halo);
    check_matrix(&answers, &view(&halo, "matrix"));
    check_bytes(&answers, &view(&halo, "mpi"));
}

#[test]
fn the_same_questions_about_a_study_get_the_numbers_of_explain() {
    let Some(page) = page(&["--json"]) else {
        return;
    };
    let study = bundle();
    let manifest = fs::read_to_string(study.join("run.json")).unwrap();
    if !manifest.contains(r#""mode": "tracefs""#) {
        return skip("the kernel was not traced: root's rights are missing");
    }
    // The study stands in for every run except that of an MPI program.
    let dir = runs();
    for name in ["lockstep", "site"] {
        fs::remove_dir_all(dir.path().join(name)).unwrap();
        symlink(study, dir.path().join(name)).unwrap();
    }
    let answers = Answers::of(page, dir.path());
    check_late_steps(&answers, &explained(study, &[]));
    check_latency(&answers, &view(study, "latency"));

    let processes = view(study, "processes");
    let mut expected: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for thread in items(&processes, "threads") {
        if ["user", "kernel"].contains(&thread["thread"]["kind"].as_str().unwrap()) {
            let sums = expected.entry(text(&thread["thread"], "name")).or_default();
            sums.0 += whole(&thread["bursts"]);
            sums.1 += whole(&thread["time"]);
        }
    }
    let threads = answers.rows(1).iter().filter(|r| r["class"] != "interrupt");
    let found: BTreeMap<String, (u64, u64)> = threads.fold(BTreeMap::new(), |mut all, row| {
        let sums: &mut (u64, u64) = all.entry(text(row, "name")).or_default();
        sums.0 += whole(&row["times"]);
        sums.1 += nanos(row, "ms", 1e6);
        all
    });
    assert_same(&found, &expected);
}
