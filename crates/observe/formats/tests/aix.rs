//! A report of AIX's trcrpt, worked out by hand.
//!
//! All reports here are synthetic: written from IBM's published description of the format, since no
//! report from a real machine was available.

#![allow(clippy::unwrap_used)]

use crate::story::{import_file, lines, losses};
use idlewave_formats::import::{ImportError, Imported, Program, Rule};
use idlewave_run::RunReader;
use idlewave_run::tables::{Bursts, Table, Tasks};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Four tasks on four CPUs compute and meet in a barrier, twice. In the first barrier they wait for
/// up to 14 us. In the second, a daemon has the CPU of the fourth task for 25 us, and the others
/// idle for up to 41 us.
fn report() -> String {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/examples");
    fs::read_to_string(examples.join("trcrpt.txt")).unwrap()
}

fn try_import(report: &[u8]) -> Result<(Imported, RunReader, TempDir), ImportError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("report");
    fs::write(&path, report).unwrap();
    let (imported, run) = import_file(&path, &Program::Busiest)?;
    Ok((imported, run, dir))
}

fn read(report: &str) -> (Imported, Vec<String>, Vec<(String, u64)>) {
    let (imported, run, _dir) = try_import(report.as_bytes()).unwrap();
    let losses = losses(&run);
    (imported, lines(&run), losses)
}

/// The scene's bursts and interrupts as CPU, start, end and thread; its wake-ups as CPU, time,
/// waker, and thread and CPU woken. Reasons: 0 preempted, 1 asleep, 4 ended, 5 unknown.
fn expected() -> Vec<String> {
    let mut lines = [
        // Computation on each CPU, in the first round and in the second.
        "burst 0 100000 200000 30001 r1 true",
        "burst 0 214000 300000 30001 r1 true",
        "burst 1 100500 201000 30002 r1 true",
        "burst 1 214500 305000 30002 r1 true",
        "burst 2 101000 202000 30003 r1 true",
        "burst 2 215000 302000 30003 r1 true",
        // Waiting in the barriers, 14.0, 13.5 and 13.0 us, then 41.0, 36.5 and 40.0 us.
        "burst 0 200000 214000 0 r0 true",
        "burst 1 201000 214500 0 r0 true",
        "burst 2 202000 215000 0 r0 true",
        "burst 0 300000 341000 0 r0 true",
        "burst 1 305000 341500 0 r0 true",
        "burst 2 302000 342000 0 r0 true",
        // The fourth task, and the daemon's 25 us.
        "burst 3 101500 281500 30004 r0 true",
        "burst 3 281500 306500 4321 r1 true",
        // The third ends, and its child follows.
        "burst 2 342000 352600 30003 r4 true",
        // What ran last has no known end.
        "burst 0 341000 359000 30001 r5 false",
        "burst 2 352600 357500 33000 r5 false",
        "burst 3 306500 330400 30004 r5 false",
        "timer tick 0 250000 252000 30001 d0 true",
        "timer tick 0 358000 359000 30001 d0 true",
        "timer tick 2 356000 357500 33000 d0 true",
        // This one ends with the dispatch of the daemon.
        "timer tick 3 280000 281500 30004 d0 true",
        "I/O INTERRUPT 1 260000 264000 30002 d0 true",
        "ssapin 1 261000 263500 30002 d1 true",
        "page fault 2 345000 346200 30003 d0 true",
        "wake 3 203000 30004 30001 0",
        "wake 3 203200 30004 30002 1",
        "wake 3 203400 30004 30003 2",
        "wake 3 280800 30004 4321 3",
        "wake 3 330000 30004 30001 0",
        "wake 3 330200 30004 30002 1",
        "wake 3 330400 30004 30003 2",
        "wake 2 350500 30003 33000 2",
        "task 0 idle 0",
        "task 4321 syncd 2",
        "task 30001 solver 6",
        "task 30002 solver 6",
        "task 30003 solver 6",
        "task 30004 solver 6",
        "task 33000 ls 6",
    ]
    .map(str::to_owned)
    .to_vec();
    lines.sort();
    lines
}

/// The report without the columns from one name in the header up to another.
fn without(report: &str, from: &str, to: &str) -> String {
    let header = report.lines().find(|l| l.starts_with("ID ")).unwrap();
    let (begin, end) = (header.find(from).unwrap(), header.find(to).unwrap());
    let mut body = false;
    let cut = |line: &str| {
        body |= line == header;
        match body && line.len() > end {
            true => format!("{}{}\n", &line[..begin], &line[end..]),
            false => format!("{line}\n"),
        }
    };
    report.lines().map(cut).collect()
}

fn line_with(report: &str, part: &str) -> usize {
    report.lines().position(|l| l.contains(part)).unwrap()
}

#[test]
fn the_late_barrier_becomes_the_bursts_interrupts_and_wakeups_worked_out_by_hand() {
    let (imported, found, lost) = read(&report());
    assert_eq!(found, expected());
    assert_eq!(imported.format, "report of AIX's trcrpt");
    assert_eq!((imported.cpus, imported.missed), (4, Some(0)));
    let program = imported.chosen().unwrap();
    assert_eq!(
        (program.name.as_str(), program.rule),
        ("solver", Rule::Busiest)
    );
    assert_eq!(program.threads, 5);
    let counts = ["documentation alone", "without a hook", "cannot be read"]
        .map(|part| lost.iter().filter(|l| l.0.contains(part)).count());
    assert_eq!(counts, [1, 0, 0], "{lost:?}");
}

#[test]
fn machine_and_processes_come_from_the_report() {
    let (_, run, _dir) = try_import(report().as_bytes()).unwrap();
    let host = &run.manifest().nodes[0].host;
    assert_eq!(
        (host.name.as_str(), host.kernel.as_str()),
        ("n17", "AIX 5.3")
    );
    assert_eq!(host.online.to_string(), "0-3");
    let tasks = run.read::<Tasks>().unwrap();
    let processes: Vec<_> = tasks.rows().map(|t| t.process.map(|p| p.get())).collect();
    let expected = [
        None,
        Some(3140),
        Some(21001),
        Some(21002),
        Some(21003),
        Some(21004),
        Some(22000),
    ];
    assert_eq!(processes, expected);
}

#[test]
fn the_columns_may_be_others() {
    let full = report();
    let named = without(&full, "PROCESS NAME", "CPU");
    assert_eq!(read(&named).1, expected(), "without names");
    let called = without(&full, "I SYSTEM CALL", "   ELAPSED_SEC");
    assert_eq!(read(&called).1, expected(), "without system calls");
    let threads = without(&full, "TID", "I SYSTEM");
    assert_eq!(
        read(&threads).1,
        expected(),
        "without threads: the dispatches name them"
    );
    let deltas = without(&full, "   DELTA_MSEC", "   APPL");
    assert_eq!(read(&deltas).1, expected(), "without time differences");
}

#[test]
fn microseconds_are_taken_for_what_they_are() {
    // As `-O timestamp=1` prints: one column, microseconds.
    let short = without(&report(), "   DELTA_MSEC", "   APPL");
    let rounded: Vec<String> = short
        .lines()
        .map(|line| match line.find(" 0.000") {
            Some(at) => format!("{}{}", &line[..at + 9], &line[at + 12..]),
            None => line.replace("ELAPSED_SEC", "ELAPSED"),
        })
        .collect();
    let (_, found, lost) = read(&rounded.join("\n"));
    assert!(
        found.contains(&"burst 3 281000 306000 4321 r1 true".to_owned()),
        "{found:?}"
    );
    assert!(lost.iter().any(|l| l.0.contains("rounded")), "{lost:?}");
}

#[test]
fn without_a_column_of_cpus_the_hooks_say_theirs() {
    let (_, found, lost) = read(&without(&report(), "CPU", "PID"));
    // All bursts are there. Why a thread left is missing, because those hooks name no CPU.
    let bursts = |lines: &[String]| -> Vec<String> {
        let certain = lines
            .iter()
            .filter(|l| l.starts_with("burst") && l.ends_with("true"));
        certain
            .map(|l| l[..l.find(" r").unwrap()].to_owned())
            .collect()
    };
    assert_eq!(bursts(&found), bursts(&expected()));
    assert!(
        lost.iter().any(|l| l.0.contains("it names no CPU")),
        "{lost:?}"
    );
}

#[test]
fn what_cannot_be_read_is_counted_with_its_first_line() {
    let mut text: Vec<String> = report().lines().map(str::to_owned).collect();
    let line = line_with(&report(), "e_block_thread");
    text[line].truncate(60);
    let dispatch = line_with(&report(), "cmd=syncd pid=3140 tid=4321 priority=60 old");
    text[dispatch] = text[dispatch].replace(" tid=", " thread=");
    text.insert(dispatch, "                    and so on".to_owned());
    let (_, found, lost) = read(&text.join("\n"));
    let entry = |part: &str| lost.iter().find(|l| l.0.contains(part)).unwrap().clone();
    // The line inserted above moves it down by one; lines are counted from 1.
    let unread = format!(
        "line {}, hook 106 or 10C names no thread (tid=)",
        dispatch + 2
    );
    let (what, count) = entry("cannot be read");
    assert!(what.contains(&unread) && count == 2, "{what}: {count}");
    let foreign = format!("without a hook (the first: line {})", dispatch + 1);
    assert_eq!(entry("without a hook").1, 1);
    assert!(entry("without a hook").0.contains(&foreign), "{lost:?}");
    // The daemon is noticed by the next line of its CPU.
    let daemon = |l: &&String| l.contains(" 4321 ") && l.starts_with("burst 3");
    assert!(
        found.iter().any(|l| daemon(&l) && l.ends_with("false")),
        "{found:?}"
    );
}

#[test]
fn reports_that_cannot_become_a_run_are_refused_with_the_line_and_the_next_step() {
    let refused = |text: &str| {
        let error = try_import(text.as_bytes()).map(|_| ()).unwrap_err();
        (error.to_string(), error.next_step())
    };
    let apart = report().replace("CPU PID      TID ", "CPU X  PID   TID ");
    let (what, next) = refused(&apart);
    let header = line_with(&report(), "ID  PROCESS") + 1;
    assert!(
        what.contains(&format!("line {header}: the columns CPU, PID and TID")),
        "{what}"
    );
    assert!(
        next.contains("trcrpt -O exec=on,pid=on,tid=on,cpuid=on"),
        "{next}"
    );
    let lines = |keep: &dyn Fn(&str) -> bool| {
        let kept = report();
        let kept = kept.lines().filter(|l| keep(l));
        kept.map(|l| format!("{l}\n")).collect::<String>()
    };
    let (what, next) = refused(&lines(&|l| !l.starts_with("106") && !l.starts_with("10C")));
    assert!(what.contains("no dispatch (hook 106)"), "{what}");
    assert!(next.contains("106"), "{next}");
    let (what, _) = refused(&report().replace(" tid=", " thread="));
    assert!(what.contains("(the first: line 10, hook 106"), "{what}");
}

#[test]
fn a_wraparound_is_a_gap_on_every_cpu() {
    let mut text: Vec<String> = report().lines().map(str::to_owned).collect();
    let at = line_with(
        &report(),
        "dispatch:  idle process pid=516 tid=517 priority=255 old_tid=30001",
    );
    let wrap = "006 -1             0   -1       -1                        0.000199000        0.000000   TRACEBUFFER WRAPAROUND 0001 17 missed entries";
    text.insert(at, wrap.to_owned());
    let (imported, found, lost) = read(&text.join("\n"));
    assert_eq!(imported.missed, Some(17));
    assert!(lost.contains(&("kernel trace events lost on CPU 0".to_owned(), 17)));
    // Each CPU is known up to its last event, its dispatch, so its burst before the gap has no
    // length.
    for (cpu, begin) in [(0, 100_000), (1, 100_500), (2, 101_000), (3, 101_500)] {
        let burst = format!("burst {cpu} {begin} ");
        assert!(!found.iter().any(|l| l.starts_with(&burst)), "{found:?}");
    }
    assert!(found.contains(&"burst 0 200000 214000 0 r0 true".to_owned()));
}

#[test]
fn truncated_reports_are_read_up_to_the_cut() {
    let report = report();
    let header = report.find("ID  PROCESS").unwrap();
    for length in (0..report.len()).step_by(43) {
        match try_import(&report.as_bytes()[..length]) {
            Ok((_, run, _)) => assert!(!run.read::<Bursts>().unwrap().is_empty(), "{length}"),
            Err(ImportError::Format { .. }) => assert!(length < header + 90, "{length}"),
            Err(ImportError::Lacks { .. } | ImportError::NoProgram { .. }) => {}
            Err(other) => panic!("{length}: {other}"),
        }
    }
}

#[test]
fn altered_bytes_are_refused_or_read_but_never_panic() {
    use proptest::prelude::*;
    let report = report().into_bytes();
    let flips = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8);
    proptest!(ProptestConfig::with_cases(100), |(flips in flips)| {
        let mut bytes = report.clone();
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report");
        fs::write(&path, &bytes).unwrap();
        let _ = import_file(&path, &Program::Busiest);
    });
}

/// A report of one CPU, from microseconds, hooks and their texts.
fn small(hooks: &[(u64, &str, &str)]) -> String {
    let lines = hooks
        .iter()
        .map(|(us, hook, text)| format!("{hook} 0 0.{us:06} {text}\n"));
    format!("ID CPU ELAPSED APPL\n{}", lines.collect::<String>())
}

const TO_7: &str = "dispatch: cmd=solver pid=6 tid=7 old_tid=517 old_priority=255";
const TO_9: &str = "dispatch: cmd=syncd pid=8 tid=9 old_tid=7 old_priority=60";

#[test]
fn an_interrupt_inside_a_handler_ends_alone() {
    let (_, found, lost) = read(&small(&[
        (10, "106", TO_7),
        (20, "100", "I/O INTERRUPT iar=1"),
        (21, "102", "slih ssapin"),
        (22, "100", "DECREMENTER INTERRUPT iar=2"),
        (24, "200", "resume"),
        (27, "103", "return from slih"),
        (28, "200", "resume"),
        (29, "103", "return from slih"),
        (30, "106", TO_9),
    ]));
    for line in [
        "I/O INTERRUPT 0 20000 28000 7 d0 true",
        "ssapin 0 21000 27000 7 d1 true",
        "timer tick 0 22000 24000 7 d2 true",
        "burst 0 10000 30000 7 r5 true",
    ] {
        assert!(found.contains(&line.to_owned()), "{line} in {found:?}");
    }
    let count = |part: &str| lost.iter().find(|l| l.0.contains(part)).map(|l| l.1);
    assert_eq!(count("whose start is not in the report"), Some(1));
    assert_eq!(count("a reason that the report does not tell"), Some(1));
}

#[test]
fn a_resume_ends_handlers_whose_return_is_missing() {
    let (_, found, _) = read(&small(&[
        (10, "106", TO_7),
        (20, "100", "I/O INTERRUPT iar=1"),
        (21, "102", "slih ssapin"),
        (28, "200", "resume"),
        (30, "106", TO_9),
    ]));
    assert!(
        found.contains(&"ssapin 0 21000 28000 7 d1 true".to_owned()),
        "{found:?}"
    );
}

#[test]
fn a_thread_that_goes_on_after_all_did_not_go_to_sleep() {
    let sleeps = (20, "462", "e_block_thread: tid=7");
    let left = |hooks: &[(u64, &str, &str)]| {
        let (_, found, _) = read(&small(hooks));
        found
            .into_iter()
            .find(|l| l.starts_with("burst 0 10000"))
            .unwrap()
    };
    let (begin, end) = ((10, "106", TO_7), (30, "106", TO_9));
    assert_eq!(left(&[begin, sleeps, end]), "burst 0 10000 30000 7 r1 true");
    let goes_on = (25, "104", "return from kread");
    assert_eq!(
        left(&[begin, sleeps, goes_on, end]),
        "burst 0 10000 30000 7 r5 true"
    );
}
