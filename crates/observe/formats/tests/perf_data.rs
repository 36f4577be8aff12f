//! perf.data: recorded files against what `perf script` prints of them, and files written by hand.

#![allow(clippy::unwrap_used)]

mod common;
mod perf_file;
mod story;

use idlewave_formats::import::{ImportError, Imported, Program};
use idlewave_ftrace::testing::Payload;
use idlewave_run::RunReader;
use idlewave_run::tables::*;
use idlewave_units::{Bytes, Cpu, Pid};
use perf_file::swap::big_endian;
use perf_file::{PerfFile, recorded};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use story::{import_file, lines, losses, story_lines, story_payloads};
use tempfile::TempDir;

/// A run and its directory.
struct Run(
    RunReader,
    #[allow(dead_code, reason = "removes the run")] TempDir,
);

impl std::ops::Deref for Run {
    type Target = RunReader;
    fn deref(&self) -> &RunReader {
        &self.0
    }
}

fn import(bytes: &[u8]) -> Result<(Imported, Run), ImportError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("perf.data");
    std::fs::write(&path, bytes).unwrap();
    let (imported, run) = import_file(&path, &Program::Busiest)?;
    Ok((imported, Run(run, dir)))
}

/// The story in two rounds, in each of which perf emptied one CPU's buffer after the other.
fn story_perf(mut file: PerfFile) -> Vec<u8> {
    let story = story_payloads();
    for half in story.chunks(story.len() / 2) {
        for cpu in [1, 0] {
            for (time, _, payload) in half.iter().filter(|event| event.1 == cpu) {
                let thread = u32::from_le_bytes(payload.bytes()[4..8].try_into().unwrap());
                file.sample(*time, cpu, (thread, thread), payload);
            }
        }
        file.round();
    }
    file.write()
}

fn refused(bytes: &[u8]) -> ImportError {
    import(bytes).map(|_| ()).unwrap_err()
}

/// All rows of a run but the threads, in their order.
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

fn tasks(run: &RunReader) -> BTreeMap<Pid, Task> {
    let tasks = run.read::<Tasks>().unwrap();
    tasks.rows().map(|task| (task.pid, task)).collect()
}

/// The tables of a perf.data and of its text must be the same, row by row. In the text some threads
/// have no process, no name and another kind, for want of parents.
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
    // Each switch ends one, but for the first on each CPU: since when it had run is not known.
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
    // perf was stopped for 60 ms: no burst reaches over that on either CPU.
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
fn the_story_is_the_same_in_a_file_in_a_pipe_and_compressed() {
    for (pipe, packed, sized) in [
        (false, None, false),
        (true, None, false),
        (false, Some(7), false),
        (false, Some(5000), true),
        (true, Some(100), true),
    ] {
        let file = PerfFile {
            pipe,
            packed,
            sized,
            ..PerfFile::default()
        };
        let (imported, run) = import(&story_perf(file)).unwrap();
        assert_eq!(lines(&run), story_lines(), "{pipe} {packed:?} {sized}");
        assert_eq!(imported.events, 12);
        let host = &run.manifest().nodes[0].host;
        assert_eq!((host.name.as_str(), host.kernel.as_str()), ("n17", "6.1.0"));
        assert_eq!(
            (host.online.to_string().as_str(), host.smt),
            ("0-3", Some(true))
        );
        assert_eq!(host.memory, Some(Bytes::new(1 << 30)));
        let third = &host.topology[2];
        assert_eq!((third.core, third.package), (Some(0), Some(1)));
        assert_eq!(third.siblings, "2-3".parse().ok());
    }
}

#[test]
fn cpus_are_online_if_all_are_and_otherwise_those_with_events() {
    for (cpus, online) in [([4, 4], "0-3"), ([4, 3], "0-1")] {
        let file = PerfFile {
            cpus,
            ..PerfFile::default()
        };
        let (_, run) = import(&story_perf(file)).unwrap();
        let host = &run.manifest().nodes[0].host;
        assert_eq!(host.online.to_string(), online);
        assert_eq!(host.topology.len(), 4);
    }
}

#[test]
fn samples_are_read_whatever_else_was_recorded_of_them() {
    use perf_file::{ADDR, ALL_COUNTS, CALLCHAIN, GROUP, ID, IDENTIFIER, READ, STREAM_ID, USUAL};
    let without = USUAL & !IDENTIFIER;
    for (sample_type, read_format) in [
        (USUAL | CALLCHAIN, 0),
        (USUAL | READ, 0),
        (USUAL | READ | CALLCHAIN, ALL_COUNTS),
        (USUAL | READ, GROUP),
        (USUAL | READ | CALLCHAIN, GROUP | ALL_COUNTS),
        (without | ID | ADDR | STREAM_ID, 0),
        (USUAL | ID | STREAM_ID | ADDR, 0),
    ] {
        let file = PerfFile {
            sample_type,
            read_format,
            ..PerfFile::default()
        };
        let (_, run) = import(&story_perf(file)).unwrap();
        assert_eq!(
            lines(&run),
            story_lines(),
            "{sample_type:x} {read_format:x}"
        );
    }
}

#[test]
fn the_clock_is_the_one_that_was_asked_for() {
    for (clock, name) in [
        (None, "perf"),
        (Some(1), "mono"),
        (Some(4), "mono_raw"),
        (Some(7), "boot"),
    ] {
        let file = PerfFile {
            clock,
            ..PerfFile::default()
        };
        let (_, run) = import(&story_perf(file)).unwrap();
        // The feature names that of the time of day, which counts only where none was asked for.
        let expected = if clock.is_none() { "realtime" } else { name };
        assert_eq!(run.manifest().nodes[0].clock.counter, expected);
        let loss = losses(&run)
            .iter()
            .any(|(what, _)| what.starts_with("a trace clock"));
        assert_eq!(loss, clock != Some(1));
    }
}

#[test]
fn rounds_bring_the_events_of_all_cpus_into_order() {
    let mut file = PerfFile::default();
    // perf empties CPU 1 after CPU 0; what is found late on CPU 0 comes a round later.
    let switch = |file: &mut PerfFile, cpu: u32, time, prev, next| {
        let payload = Payload::switch((prev, "a"), 1, (next, "a"));
        file.sample(time, cpu, (70, prev), &payload);
    };
    switch(&mut file, 0, 1_000, 70, 71);
    switch(&mut file, 1, 2_000, 80, 81);
    switch(&mut file, 1, 5_000, 81, 80);
    file.round();
    switch(&mut file, 0, 3_000, 71, 70);
    switch(&mut file, 0, 4_000, 70, 71);
    switch(&mut file, 1, 6_000, 80, 81);
    file.round();
    switch(&mut file, 0, 5_500, 71, 70);
    let (_, run) = import(&file.write()).unwrap();
    let bursts = run.read::<Bursts>().unwrap();
    let ends: Vec<_> = bursts.rows().map(|b| (b.end_ns, b.cpu)).collect();
    let cpu = Cpu::new;
    assert_eq!(
        ends,
        [
            (3_000, cpu(0)),
            (4_000, cpu(0)),
            (5_000, cpu(1)),
            (5_500, cpu(0)),
            (6_000, cpu(1))
        ]
    );
}

/// Threads 70 and 71 take turns on CPU 0, every 10 us from 1 ms on.
fn turns(file: &mut PerfFile, times: std::ops::Range<u64>) {
    for n in times {
        let (prev, next) = if n % 2 == 0 { (70, 71) } else { (71, 70) };
        let payload = Payload::switch((prev, "a"), 1, (next, "a"));
        file.sample(1_000_000 + n * 10_000, 0, (70, prev), &payload);
    }
}

#[test]
fn a_loss_lies_before_the_next_event_of_its_cpu_though_its_time_is_later() {
    let mut file = PerfFile::default();
    turns(&mut file, 0..3);
    // Recorded before the event at 1.03 ms, with a time behind it.
    file.lost(0, 17, 1_030_300);
    turns(&mut file, 3..5);
    let (_, run) = import(&file.write()).unwrap();
    let bursts = run.read::<Bursts>().unwrap();
    let found: Vec<_> = bursts
        .rows()
        .map(|b| (b.begin_ns, b.end_ns, b.pid.get(), b.certain))
        .collect();
    let expected = [
        (1_000_000, 1_010_000, 71, true),
        (1_010_000, 1_020_000, 70, true),
        (1_030_000, 1_040_000, 70, true),
    ];
    assert_eq!(found, expected);
    assert!(losses(&run).contains(&("kernel trace events lost on CPU 0".to_owned(), 17)));
}

#[test]
fn losses_at_the_end_and_on_no_known_cpu_are_told_too() {
    let mut file = PerfFile::default();
    turns(&mut file, 0..4);
    file.index(-1);
    // 5 and then 4 more on CPU 0 by the final count; 3 that a BPF program did not want.
    file.lost(0, 5, 1_040_000);
    file.other(13, &9_u64.to_le_bytes(), 0, 0);
    let (imported, _) = import(&file.write()).unwrap();
    assert_eq!(imported.missed, Some(9));
    file.other(13, &3_u64.to_le_bytes(), 0, 0);
    let unwanted = file.records.len() - perf_file::SIZE_OF_LOST_SAMPLES + 5;
    file.records[unwanted] = 0x80;
    let (imported, _) = import(&file.write()).unwrap();
    assert_eq!(imported.missed, Some(9));
    let mut file = PerfFile::default();
    turns(&mut file, 0..4);
    file.other(13, &9_u64.to_le_bytes(), 0, 0);
    let (_, run) = import(&file.write()).unwrap();
    let unplaced = (
        "events lost on CPUs that the perf.data does not name".to_owned(),
        9,
    );
    assert!(losses(&run).contains(&unplaced));
}

#[test]
fn what_perf_noted_of_threads_completes_what_the_events_say() {
    let numbers =
        |numbers: &[u32]| -> Vec<u8> { numbers.iter().flat_map(|n| n.to_le_bytes()).collect() };
    let mut file = PerfFile::default();
    file.other(
        3,
        &[numbers(&[70, 71]), b"other\0\0\0".to_vec()].concat(),
        0,
        0,
    );
    file.other(7, &[numbers(&[200, 2, 200, 2]), vec![0; 8]].concat(), 0, 0);
    turns(&mut file, 0..4);
    file.sample(
        1_041_000,
        0,
        (70, 70),
        &Payload::waking(70, 200, "strange", 0),
    );
    // Of this one only the list of names that tracefs keeps knows more.
    file.sample(1_041_500, 0, (6, 6), &Payload::number("softirq_exit", 6, 1));
    // In a PID namespace, where perf has other numbers than the payload.
    file.sample(
        1_042_000,
        0,
        (5, 5),
        &Payload::number("softirq_entry", 70, 1),
    );
    file.index(-1);
    let (_, run) = import(&file.write()).unwrap();
    let tasks = tasks(&run);
    let of = |pid: u32| &tasks[&Pid::new(pid)];
    assert_eq!(of(71).process, Some(Pid::new(70)));
    assert_eq!(of(70).process, Some(Pid::new(70)));
    // Its parent is the one of all kernel threads.
    assert_eq!(
        (of(200).kind, of(200).name.as_str()),
        (TaskKind::Kernel, "strange")
    );
    assert_eq!(of(6).name, "saved name");
    assert!(!tasks.contains_key(&Pid::new(5)));
    assert!(
        !losses(&run)
            .iter()
            .any(|(what, _)| what.contains("other programs"))
    );
    file.index(70);
    let (_, run) = import(&file.write()).unwrap();
    assert!(
        losses(&run)
            .iter()
            .any(|(what, _)| what.contains("other programs"))
    );
}

#[test]
fn hardware_traces_are_passed_over_and_pauses_are_told() {
    for size in [0, 24, 3 << 20] {
        let mut file = PerfFile::default();
        turns(&mut file, 0..2);
        file.record(71, &[&(size as u64).to_le_bytes()[..], &[0; 32]].concat());
        file.records.resize(file.records.len() + size, 0x55);
        turns(&mut file, 2..4);
        let throttle = [7_u64, 10, 0].map(u64::to_le_bytes).concat();
        file.other(5, &throttle, 1_035_000, 0);
        let (imported, run) = import(&file.write()).unwrap();
        assert_eq!(imported.events, 4);
        let paused = "times at which the kernel paused a tracepoint because it was too frequent";
        let inferred = "threads whose kind is inferred from their names and parents";
        let ended = "end of the recording not known";
        let expected = [(ended, 1), (paused, 1), (inferred, 2)];
        assert_eq!(losses(&run), expected.map(|(what, n)| (what.to_owned(), n)));
    }
}

#[test]
fn tracepoints_before_their_descriptions_are_counted() {
    let mut file = PerfFile {
        pipe: true,
        undescribed: true,
        ..PerfFile::default()
    };
    turns(&mut file, 0..4);
    file.round();
    file.round();
    let mut described = PerfFile {
        pipe: true,
        ..PerfFile::default()
    };
    turns(&mut described, 4..7);
    let whole = [file.write(), described.write()[16..].to_vec()].concat();
    let (imported, run) = import(&whole).unwrap();
    assert_eq!(imported.events, 3);
    let what = "tracepoints before their descriptions in the perf.data".to_owned();
    assert!(losses(&run).contains(&(what, 4)));
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
            // What stands behind the descriptions is not needed.
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
fn what_cannot_be_used_is_refused_with_the_next_step() {
    let mut file = PerfFile {
        undescribed: true,
        pipe: true,
        ..PerfFile::default()
    };
    turns(&mut file, 0..4);
    assert!(
        refused(&file.write())
            .to_string()
            .contains("descriptions of its tracepoints")
    );
    file.pipe = false;
    assert!(
        refused(&file.write())
            .to_string()
            .contains("descriptions of its tracepoints")
    );
    let file = PerfFile {
        sample_type: perf_file::USUAL & !perf_file::CPU,
        ..PerfFile::default()
    };
    let error = refused(&story_perf(file));
    assert!(error.to_string().contains("no time or no CPU"), "{error}");
    assert!(error.next_step().contains("perf record -a"));
    let error = refused(b"PERFILE2\x11\0\0\0\0\0\0\0");
    assert!(
        error.to_string().contains("header of 17 bytes at byte 16"),
        "{error}"
    );
    assert!(
        refused(b"PERFFILE")
            .next_step()
            .contains("perf script --ns")
    );
    let mut file = PerfFile {
        pipe: true,
        ..PerfFile::default()
    };
    turns(&mut file, 0..4);
    // Behind a hardware trace, which is passed over.
    let trace = [&(3_u64 << 20).to_le_bytes()[..], &[0; 32]].concat();
    file.record(71, &trace);
    file.records.resize(file.records.len() + (3 << 20), 0x55);
    let whole = [file.write(), vec![9, 0, 0, 0, 0, 0, 7, 0]].concat();
    let error = refused(&whole).to_string();
    assert!(
        error.contains(&format!("size of 7 bytes at byte {}", whole.len() - 8)),
        "{error}"
    );
}

#[test]
fn lengths_that_the_file_does_not_have_cost_nothing() {
    let mut file = PerfFile {
        pipe: true,
        ..PerfFile::default()
    };
    turns(&mut file, 0..4);
    let many = |kind: u32, body: &[u8]| [file.write(), perf_file::record(kind, body)].concat();
    // Descriptions of 4 GiB; hardware traces, callchains and counts of 2^64 bytes.
    assert!(
        refused(&many(66, &[0xff; 4]))
            .to_string()
            .contains("too long")
    );
    let (_, run) = import(&many(71, &[0xff; 40])).unwrap();
    assert!(
        losses(&run)
            .iter()
            .any(|(what, _)| what.contains("cut short"))
    );
    use perf_file::{CALLCHAIN, GROUP, READ, USUAL};
    for sample_type in [USUAL | CALLCHAIN, USUAL | READ] {
        let mut file = PerfFile {
            sample_type,
            read_format: GROUP,
            ..PerfFile::default()
        };
        turns(&mut file, 0..4);
        let id = 10_u64.to_le_bytes();
        file.record(9, &[&id[..], &[0; 40], &[0xff; 40]].concat());
        let (imported, run) = import(&file.write()).unwrap();
        assert_eq!(imported.events, 4);
        let garbled = (
            "records of the perf.data whose fields do not fit".to_owned(),
            1,
        );
        assert!(losses(&run).contains(&garbled), "{:?}", losses(&run));
    }
    // A Zstandard frame with a window of 256 MiB, one that is none, and one behind another.
    let frame = |head: &[u8]| [&b"\x28\xb5\x2f\xfd"[..], head].concat();
    let error = refused(&many(81, &[frame(&[0, 18 << 3]), vec![0; 20]].concat()));
    assert!(error.to_string().contains("larger than 128 MiB"), "{error}");
    let error = refused(&many(81, &[7; 20]));
    assert!(error.to_string().contains("cannot be unpacked"), "{error}");
    let ended = [frame(&[0, 0]), vec![1, 0, 0], frame(&[0, 0])].concat();
    assert!(
        refused(&many(81, &ended))
            .to_string()
            .contains("only Zstandard frame")
    );
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
    let config = ProptestConfig::with_cases(300);
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

/// Records this machine and compares.
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
