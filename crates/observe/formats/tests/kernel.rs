//! The same story, told in every format of kernel traces, must become the same run.

#![allow(clippy::unwrap_used)]

use crate::story::*;
use idlewave_formats::import::kernel::read_dat_head;
use idlewave_formats::import::{ImportError, Program, Rule};
use idlewave_ftrace::testing::write_capture;
use idlewave_run::{PhaseKind, RunReader, RunState};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

fn file(bytes: &[u8]) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    fs::write(&path, bytes).unwrap();
    (dir, path)
}

fn refused(bytes: &[u8]) -> ImportError {
    let (dir, path) = file(bytes);
    let error = import_file(&path, &Program::Busiest)
        .map(|_| ())
        .unwrap_err();
    assert_eq!(
        fs::read_dir(dir.path()).unwrap().count(),
        1,
        "half a run was left"
    );
    error
}

#[test]
fn every_container_of_sub_buffers_gives_the_tables_worked_out_by_hand() {
    let kinds = [(6, "none"), (7, "none"), (7, "zlib")];
    for (version, packing) in kinds {
        let dat = Dat {
            version,
            packing,
            ..Dat::default()
        };
        let (_dir, path) = file(&dat.write(&story_pages()));
        let (imported, run) = import_file(&path, &Program::Busiest).unwrap();
        assert_eq!(lines(&run), story_lines(), "{version} {packing}");
        assert_eq!(imported.events, 12);
        assert_eq!(imported.format, format!("trace.dat, version {version}"));
        let host = &run.manifest().nodes[0].host;
        assert_eq!((host.name.as_str(), host.kernel.as_str()), ("n17", "6.1.0"));
        assert_eq!(host.online.to_string(), "0-1");
    }
}

#[test]
fn a_finished_wake_up_stands_in_where_no_start_of_one_was_recorded() {
    let stands_in = |run: &RunReader| {
        let mut all = losses(run).into_iter();
        let entry = all.find(|(what, _)| what == "wake-ups known from sched_wakeup only");
        entry.map(|(_, count)| count)
    };
    let dat = |wakes| Dat::default().write(&story_pages_with(wakes));
    let text = story_text(Layout::Tracefs);
    let finished = text.replace("sched_waking", "sched_wakeup");
    let both: String = text
        .lines()
        .flat_map(|line| {
            [
                line.replace("sched_waking", "sched_wakeup"),
                line.to_owned(),
            ]
        })
        .map(|line| line + "\n")
        .collect();
    let cases = [
        (dat(Wakes::Finished), Some(1)),
        (dat(Wakes::Both), None),
        (finished.into_bytes(), Some(1)),
        (both.into_bytes(), None),
    ];
    for (bytes, expected) in cases {
        let (_dir, path) = file(&bytes);
        let (_, run) = import_file(&path, &Program::Busiest).unwrap();
        let wakes = |lines: Vec<String>| -> Vec<String> {
            let wakes = lines.into_iter().filter(|line| line.starts_with("wake "));
            wakes.collect()
        };
        assert_eq!(wakes(lines(&run)), wakes(story_lines()));
        assert_eq!(stands_in(&run), expected);
    }
}

#[test]
fn every_layout_of_text_gives_the_same_tables() {
    for layout in [Layout::Tracefs, Layout::Report, Layout::Perf] {
        let (_dir, path) = file(story_text(layout).as_bytes());
        let (imported, run) = import_file(&path, &Program::Busiest).unwrap();
        let expected = story_lines();
        let found = lines(&run);
        assert_eq!(found, expected, "{layout:?}");
        assert_eq!(imported.events, 12);
        let rounded = "times rounded to a microsecond or more".to_owned();
        assert!(losses(&run).contains(&(rounded, 12)));
        assert_eq!(run.manifest().nodes[0].clock.quantum_counts, 1000);
    }
}

#[test]
fn raw_sub_buffers_give_the_same_bursts_with_their_known_start_and_end() {
    let dir = tempfile::tempdir().unwrap();
    let raw = dir.path().join("raw");
    fs::create_dir(&raw).unwrap();
    write_capture(&raw, (900_000, Some(2_500_000)), &story_pages(), Vec::new());
    let (imported, run) = import_file(&raw, &"solver".parse().unwrap()).unwrap();
    assert_eq!(imported.chosen().unwrap().rule, Rule::Asked);
    let found = lines(&run);
    assert!(
        found.contains(&"burst 0 900000 1000000 0 r0 false".to_owned()),
        "{found:#?}"
    );
    assert!(found.contains(&"burst 0 2000000 2500000 0 r5 false".to_owned()));
    let certain: Vec<_> = story_lines();
    let certain = certain.iter().filter(|l| !l.starts_with("task"));
    for line in certain {
        assert!(found.contains(line), "{line}");
    }
    let phase = &run.manifest().phases[0];
    assert_eq!((phase.begin_ns, phase.end_ns), (900_000, 2_500_000));
}

#[test]
fn the_run_is_like_that_of_a_recorded_program_and_says_what_it_lacks() {
    let (_dir, path) = file(&Dat::default().write(&story_pages()));
    let (imported, run) = import_file(&path, &Program::Busiest).unwrap();
    assert_eq!(imported.chosen().unwrap().name, "solver");
    assert_eq!(imported.chosen().unwrap().rule, Rule::Busiest);
    // 1.0 ms of CPU 0, and 1.098 ms of CPU 1 less the daemon's 0.1 ms.
    assert_eq!(imported.chosen().unwrap().ran_ns, 1_998_000);
    assert_eq!(imported.chosen().unwrap().users_ns, 2_098_000);
    assert_eq!(imported.chosen().unwrap().others, ["my daemon"]);
    let manifest = run.manifest();
    assert_eq!(manifest.state, RunState::Complete);
    let phase = &manifest.phases[0];
    let expected = PhaseKind::Recorded {
        library: None,
        exit_code: None,
    };
    assert_eq!(phase.kind, expected);
    assert_eq!((phase.begin_ns, phase.end_ns), (1_000_000, 2_103_000));
    assert_eq!(manifest.command[2..], ["--program", "solver"]);
    assert_eq!(
        manifest.nodes[0].trace.unavailable[0].what,
        "ranks, MPI calls and regions"
    );
    let expected = [
        ("end of the recording not known", 1),
        (
            "threads whose kind is inferred from their names and parents",
            4,
        ),
    ];
    assert_eq!(losses(&run), expected.map(|(what, n)| (what.to_owned(), n)));
}

#[test]
fn a_clock_that_programs_cannot_read_is_a_loss_and_one_without_nanoseconds_is_refused() {
    let local = Dat {
        clock: "local",
        ..Dat::default()
    };
    let (_dir, path) = file(&local.write(&story_pages()));
    let (_, run) = import_file(&path, &Program::Busiest).unwrap();
    assert_eq!(
        clock_advice(&run),
        Some("record with trace-cmd record -C mono")
    );
    assert_eq!(run.manifest().nodes[0].clock.counter, "local");
    let counts = Dat {
        clock: "x86-tsc",
        version: 7,
        ..Dat::default()
    };
    let error = refused(&counts.write(&story_pages()));
    assert!(
        error
            .to_string()
            .contains("`x86-tsc` does not count nanoseconds")
    );
    assert!(error.next_step().contains("-C mono"));
}

#[test]
fn counts_of_a_clock_are_converted_by_its_rate() {
    let dat = Dat {
        clock: "x86-tsc",
        scale: Some((3 << 10, 11, 5)),
        version: 7,
        ..Dat::default()
    };
    let (_dir, path) = file(&dat.write(&story_pages()));
    let (_, run) = import_file(&path, &Program::Busiest).unwrap();
    // 3072 / 2048 ns for each count, plus 5.
    let found = lines(&run);
    let burst = "burst 1 2406005 2556005 9 r1 true".to_owned();
    assert!(found.contains(&burst), "{found:#?}");
}

#[test]
fn what_a_tool_lost_is_a_gap() {
    let text = story_text(Layout::Tracefs);
    let (before, after) = text.split_at(text.find("     solver-71  ").unwrap());
    let text = format!("{before}CPU:1 [LOST 245 EVENTS]\n{after}");
    let (_dir, path) = file(text.as_bytes());
    let (imported, run) = import_file(&path, &Program::Busiest).unwrap();
    assert_eq!(imported.missed, Some(245));
    let loss = ("kernel trace events lost on CPU 1".to_owned(), 245);
    assert!(losses(&run).contains(&loss));
    // The burst is cut at its last event before the gap.
    assert!(!lines(&run).contains(&"burst 1 1002000 1604000 71 r0 true".to_owned()));
}

#[test]
fn other_lines_and_unreadable_events_are_counted_and_named() {
    let noise = "hello\n  sh-1 [000] d..2.  1.0000000: sched_switch: prev_comm=x\n\
                 sh-1 [000] d..2. 1.000000: kmem_alloc: x\n";
    let text = format!("{}{noise}", story_text(Layout::Tracefs));
    let (_dir, path) = file(text.as_bytes());
    let (_, run) = import_file(&path, &Program::Busiest).unwrap();
    let found = losses(&run);
    for (what, count) in [
        ("lines that are no events (the first: line 15)", 1),
        ("events whose fields could not be read", 1),
        ("kernel trace events of unknown kind", 1),
    ] {
        assert!(found.contains(&(what.to_owned(), count)), "{found:#?}");
    }
}

#[test]
fn files_that_are_no_trace_are_refused_with_a_next_step() {
    let next = |bytes: &[u8]| refused(bytes).next_step();
    assert!(next(b"PERFILE2\0\0").contains("copy the file again"));
    assert!(next(b"some text\n").contains("docs/import.md"));
    assert!(next(b"").contains("record again"));
    let version = b"\x17\x08\x44tracing9\0\0\x08\0\x10\0\0";
    assert!(refused(version).to_string().contains("version 9"));
    let switchless = "sh-1 [000] d.h.. 1.000000: local_timer_entry: vector=1\n";
    let error = refused(switchless.as_bytes());
    assert!(error.next_step().contains("sched_switch"), "{error}");
}

#[test]
fn a_program_that_is_not_there_is_refused_with_those_that_are() {
    let (_dir, path) = file(&Dat::default().write(&story_pages()));
    let wanted = "nobody".parse().unwrap();
    let error = import_file(&path, &wanted).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("`nobody`"));
    assert!(error.next_step().contains("solver, my daemon"));
}

#[test]
fn a_file_cut_short_keeps_what_is_there_or_names_the_place() {
    for (version, packing) in [(6, "none"), (7, "none"), (7, "zlib")] {
        let dat = Dat {
            version,
            packing,
            ..Dat::default()
        };
        let whole = dat.write(&story_pages());
        for length in (0..whole.len()).step_by(97) {
            let (_dir, path) = file(&whole[..length]);
            match import_file(&path, &Program::Busiest) {
                Ok((_, run)) => assert!(run.manifest().losses.entries().len() > 2),
                Err(ImportError::Damaged { offset, .. }) => assert!(offset <= length as u64),
                Err(ImportError::Format { .. } | ImportError::Lacks { .. }) => {}
                Err(other) => panic!("{length}: {other}"),
            }
        }
    }
}

#[test]
fn altered_bytes_are_refused_or_read_but_never_panic() {
    use proptest::prelude::*;
    let files: Vec<Vec<u8>> = [(6, "none"), (7, "none"), (7, "zlib")]
        .map(|(version, packing)| {
            let dat = Dat {
                version,
                packing,
                ..Dat::default()
            };
            dat.write(&story_pages())
        })
        .into_iter()
        .chain([story_text(Layout::Perf).into_bytes()])
        .collect();
    let flips = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6);
    let config = ProptestConfig::with_cases(80);
    proptest!(config, |(n in 0..files.len(), flips in flips)| {
        let mut bytes = files[n].clone();
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let (_dir, path) = file(&bytes);
        let _ = read_dat_head(&path);
        let _ = import_file(&path, &Program::Busiest);
    });
}
