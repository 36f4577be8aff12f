//! perf.data: what the records mean, in files written by hand.

#![allow(clippy::unwrap_used)]

use crate::perf_file;
use crate::perf_file::PerfFile;
use crate::perf_file::imported::{import, story_perf, tasks};
use crate::story::{lines, losses, story_lines};
use idlewave_formats::import::ImportError;
use idlewave_ftrace::testing::Payload;
use idlewave_run::tables::*;
use idlewave_units::{Bytes, Cpu, Pid};

fn refused(bytes: &[u8]) -> ImportError {
    import(bytes).map(|_| ()).unwrap_err()
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
        // The feature names the clock of the time of day, which counts only if no clock was asked
        // for.
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
    // perf empties CPU 1 after CPU 0; what CPU 0 records meanwhile comes a round later.
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
    // Recorded before the event at 1.03 ms, with a later time.
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
    // 5 and then 4 more on CPU 0 by the final count; then 3 that a BPF program did not want.
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
    // No machine has such a CPU.
    let lost = [10_u64, 8].map(u64::to_le_bytes).concat();
    file.other(2, &lost, 1_040_000, 1 << 20);
    let (imported, run) = import(&file.write()).unwrap();
    let unplaced = (
        "events lost on CPUs that the perf.data does not name".to_owned(),
        17,
    );
    assert!(losses(&run).contains(&unplaced));
    assert_eq!(imported.missed, Some(17));
}

#[test]
fn compressed_records_cut_between_two_of_their_pieces_are_told() {
    // Pieces that end within a block, and pieces that end with a block but within a record.
    for size in [500, 6 + 3 + 1000] {
        let mut file = PerfFile {
            pipe: true,
            packed: Some(size),
            ..PerfFile::default()
        };
        turns(&mut file, 0..20);
        let whole = file.write();
        let piece = perf_file::record(81, &vec![0; size]);
        let begin = whole.windows(8).position(|w| *w == piece[..8]).unwrap();
        let cut = ("end of the perf.data cut short".to_owned(), 1);
        let (_, run) = import(&whole).unwrap();
        assert!(!losses(&run).contains(&cut), "{size}");
        // Less than a block cannot be read.
        let end = begin + piece.len() * 1009_usize.div_ceil(size);
        let (imported, run) = import(&whole[..end]).unwrap();
        assert!(losses(&run).contains(&cut), "{size}");
        assert!((1..20).contains(&imported.events));
    }
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
    // Only the list of names that tracefs keeps knows more about this one.
    file.sample(1_041_500, 0, (6, 6), &Payload::number("softirq_exit", 6, 1));
    // In a PID namespace, where perf's numbers differ from the payload's.
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
    // Its parent is that of all kernel threads.
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
    // After a hardware trace, which is skipped.
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
    // A Zstandard frame with a window of 256 MiB, bytes that are no frame, and a frame after
    // another.
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
