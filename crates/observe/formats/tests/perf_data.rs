//! perf.data: recorded files compared with what `perf script` prints of them; the same cut short
//! and altered.

#![allow(clippy::unwrap_used)]

use crate::perf_file::imported::{import, story_perf, tasks};
use crate::perf_file::swap::big_endian;
use crate::perf_file::{PerfFile, recorded};
use crate::story::losses;
use idlewave_formats::import::ImportError;
use idlewave_run::RunReader;
use idlewave_run::tables::*;
use std::path::Path;
use std::process::Command;

/// All rows of a run but the threads, in order.
fn rows(run: &RunReader) -> Vec<String> {
    fn of<T: Table<Row: std::fmt::Debug>>(run: &RunReader) -> Vec<String> {
        let rows = run.read::<T>().unwrap();
        rows.rows().map(|row| format!("{row:?}")).collect()
    }
    [
        of::<Bursts>(run),
        of::<Interrupts>(run),
        of::<Wakeups>(run),
        of::<Migrations>(run),
        of::<Sources>(run),
    ]
    .concat()
}

/// The tables of a perf.data and of its text must be the same, row by row. In the text, some
/// threads have no process, no name or another kind, for lack of parents.
fn assert_same(data: &RunReader, text: &RunReader) {
    assert_eq!(rows(data), rows(text));
    let (found, expected) = (tasks(data), tasks(text));
    assert!(found.keys().eq(expected.keys()));
    for (pid, task) in &expected {
        let found = &found[pid];
        assert!(
            task.name.is_empty() || task.name == found.name,
            "{task:?} {found:?}"
        );
        assert!(
            task.process.is_none() || task.process == found.process,
            "{task:?} {found:?}"
        );
    }
}

#[test]
fn recorded_files_give_the_tables_of_their_text_row_by_row() {
    let files = recorded();
    for name in ["file", "packed", "piped"] {
        let (imported, data) = import(&files[&format!("{name}.data")]).unwrap();
        let text = &files[&format!("{name}.txt")];
        let (of_text, text_run) = import(text).unwrap();
        assert_same(&data, &text_run);
        let count = text.iter().filter(|b| **b == b'\n').count() as u64;
        assert_eq!((imported.events, imported.missed), (count, Some(0)));
        // perf script does not print lost events.
        assert_eq!(of_text.missed, None);
        let loss = "lost events, which perf script leaves out";
        assert!(losses(&text_run).iter().any(|(what, _)| what == loss));
        assert_eq!(imported.span, of_text.span);
        let through = if name == "piped" {
            ", through a pipe"
        } else {
            ""
        };
        assert_eq!(
            imported.format,
            format!("perf.data of perf 6.1.187{through}")
        );
        // What perf's text does not say.
        let node = &data.manifest().nodes[0];
        assert_eq!(
            (node.host.name.as_str(), node.clock.counter.as_str()),
            ("vm", "mono")
        );
        assert_eq!(node.host.kernel, "6.18.44-generic");
        assert_eq!(node.host.online.to_string(), "0-1");
        let what = |run: &RunReader| losses(run).into_iter().map(|(what, _)| what);
        let clock = "a trace clock that programs can read".to_owned();
        assert!(what(&text_run).any(|w| w == clock) && what(&data).all(|w| w != clock));
    }
}

#[test]
fn each_event_comes_as_often_as_perf_prints_it() {
    let files = recorded();
    let text = String::from_utf8(files["file.txt"].clone()).unwrap();
    let count = |event: &str| text.matches(&format!(":{event}: ")).count();
    let (_, run) = import(&files["file.data"]).unwrap();
    assert_eq!(run.read::<Wakeups>().unwrap().len(), count("sched_waking"));
    assert_eq!(
        run.read::<Migrations>().unwrap().len(),
        count("sched_migrate_task")
    );
    let unknown = (
        "kernel trace events of unknown kind".to_owned(),
        count("softirq_raise") as u64,
    );
    assert!(losses(&run).contains(&unknown));
    let bursts = run.read::<Bursts>().unwrap();
    // Each switch ends a burst, except the first on each CPU, because it is not known since when
    // that had run.
    let ended = bursts.rows().filter(|b| b.end_reason != EndReason::Unknown);
    let missing = count("sched_switch") - ended.count();
    assert!(missing <= 2, "{missing}");
}

#[test]
fn losses_are_counted_as_perf_counts_them_and_cut_the_bursts() {
    let files = recorded();
    let (imported, run) = import(&files["lost.data"]).unwrap();
    assert_eq!(imported.missed, Some(44 + 3 + 86 + 99));
    let expected = [
        ("kernel trace events lost on CPU 0".to_owned(), 44 + 86),
        ("kernel trace events lost on CPU 1".to_owned(), 3 + 99),
    ];
    let found = losses(&run);
    assert!(
        expected.iter().all(|loss| found.contains(loss)),
        "{found:?}"
    );
    // The text has the same events, and nothing about those that are missing.
    let (of_text, text) = import(&files["lost.txt"]).unwrap();
    assert_eq!(of_text.events, imported.events);
    let certain = |run: &RunReader| {
        let bursts = run.read::<Bursts>().unwrap();
        bursts.rows().filter(|b| b.certain).count()
    };
    assert!(certain(&run) < certain(&text));
    // perf was stopped for 60 ms: no burst lasts over that on either CPU.
    let longest = |run: &RunReader| {
        let bursts = run.read::<Bursts>().unwrap();
        bursts.rows().map(|b| b.end_ns - b.begin_ns).max().unwrap()
    };
    assert!(longest(&run) < 60_000_000 && longest(&text) > 60_000_000);
}

#[test]
fn the_other_byte_order_gives_the_same_tables() {
    for name in ["file.data", "lost.data"] {
        let data = &recorded()[name];
        let swapped = big_endian(data);
        assert_eq!(&swapped[..8], b"2ELIFREP");
        let (_, expected) = import(data).unwrap();
        let (_, found) = import(&swapped).unwrap();
        assert_eq!(rows(&found), rows(&expected));
        assert_eq!(tasks(&found), tasks(&expected));
        let (found, expected) = (found.manifest(), expected.manifest());
        assert_eq!(found.losses, expected.losses);
        assert_eq!(found.nodes[0].clock, expected.nodes[0].clock);
        assert_eq!(found.nodes[0].host.memory, expected.nodes[0].host.memory);
        assert_eq!(found.nodes[0].host.name, expected.nodes[0].host.name);
    }
}

#[test]
fn a_pipe_cut_short_is_read_up_to_the_cut_and_a_file_is_refused_with_the_reason() {
    let files = recorded();
    let whole = &files["piped.data"];
    let (_, all) = import(whole).unwrap();
    let bursts = |run: &RunReader| -> Vec<Burst> {
        let bursts = run.read::<Bursts>().unwrap();
        bursts
            .rows()
            .filter(|b| b.end_reason != EndReason::Unknown)
            .collect()
    };
    let all = bursts(&all);
    let mut before = 0;
    for length in [whole.len() - 5000, whole.len() - 3000, whole.len() - 1] {
        let (_, run) = import(&whole[..length]).unwrap();
        let found = bursts(&run);
        assert!(found.len() >= before && found.iter().all(|b| all.contains(b)));
        before = found.len();
        let cut = ("end of the perf.data cut short".to_owned(), 1);
        assert!(losses(&run).contains(&cut), "{length}");
    }
    let whole = &files["file.data"];
    let (_, all) = import(whole).unwrap();
    let mut read = 0;
    for length in (0..whole.len()).step_by(1013) {
        match import(&whole[..length]).map(|(_, run)| run) {
            // What comes after the descriptions is not needed.
            Ok(run) => {
                assert_eq!(rows(&run), rows(&all));
                read += 1;
            }
            Err(ImportError::Damaged { offset, .. }) => assert!(offset <= length as u64),
            Err(error @ ImportError::Lacks { .. }) => {
                assert!(
                    error.to_string().contains("which perf writes last"),
                    "{error}"
                );
                assert!(error.next_step().contains("perf record -o -"));
            }
            Err(ImportError::Format { .. }) if length < 8 => {}
            Err(other) => panic!("{length}: {other}"),
        }
    }
    assert!((1..10).contains(&read), "{read}");
}

#[test]
fn altered_bytes_are_refused_or_read_but_never_panic() {
    use proptest::prelude::*;
    let mut files: Vec<Vec<u8>> = recorded()
        .into_iter()
        .filter(|(name, _)| name.ends_with(".data"))
        .map(|(_, data)| data)
        .collect();
    files.push(big_endian(&files[0]));
    for pipe in [false, true] {
        files.push(story_perf(PerfFile {
            pipe,
            packed: Some(300),
            ..PerfFile::default()
        }));
    }
    let flips = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6);
    let config = ProptestConfig::with_cases(100);
    proptest!(config, |(n in 0..files.len(), top in any::<bool>(), flips in flips)| {
        let mut bytes = files[n].clone();
        for (at, value) in flips {
            // Headers are a small part of a file.
            let at = at.index(if top { bytes.len().min(2500) } else { bytes.len() });
            bytes[at] = value;
        }
        let _ = import(&bytes);
    });
}

/// Records on this machine and compares.
#[test]
#[ignore = "needs perf, and the right to trace all CPUs"]
fn a_recording_of_this_machine_gives_the_tables_of_its_text() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("perf.data");
    let events = "sched:sched_switch,sched:sched_waking,sched:sched_wakeup_new,sched:sched_migrate_task,\
                  sched:sched_process_fork,irq:*,irq_vectors:local_timer_*,irq_vectors:reschedule_*";
    for options in [&[][..], &["-z"], &["-g"]] {
        let load = "for i in 1 2 3; do dd if=/dev/zero bs=64 count=300 | cat >/dev/null & done; sleep 0.3; wait";
        let recorded = Command::new("perf")
            .args([
                "record",
                "-a",
                "-k",
                "CLOCK_MONOTONIC",
                "-m",
                "4096",
                "-e",
                events,
            ])
            .args(options)
            .arg("-o")
            .arg(&data)
            .args(["sh", "-c", load])
            .output()
            .unwrap();
        assert!(recorded.status.success(), "{recorded:?}");
        let (imported, run) = import(&std::fs::read(&data).unwrap()).unwrap();
        let (of_text, text) = import(&script(&data)).unwrap();
        assert_eq!(imported.events, of_text.events);
        assert_eq!(imported.missed, Some(0), "the machine is too busy");
        assert_same(&run, &text);
    }
}

/// What perf prints of a file.
fn script(data: &Path) -> Vec<u8> {
    let fields = "comm,pid,tid,cpu,time,event,trace";
    let printed = Command::new("perf")
        .args(["script", "--ns", "-G", "-F", fields, "-i"])
        .arg(data)
        .output()
        .unwrap();
    assert!(printed.status.success(), "{printed:?}");
    printed.stdout
}
