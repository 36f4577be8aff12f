//! Whole captures: killed recorders, damage, foreign files, stops, many batches.

use super::*;
use crate::{CpuStats, RawTask};
use idlewave_run::tables::Tasks;
use std::cell::RefCell;
use std::path::PathBuf;

fn damaged(at: usize, mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[at..at + 4].copy_from_slice(&28_u32.to_le_bytes());
    bytes
}

#[test]
fn a_capture_whose_recorder_was_killed_decodes_to_its_last_whole_record() {
    let mut bytes = pages(4096, &[switch(1000, 7, 0, 9), switch(2000, 9, 1, 7)]);
    bytes.truncate(16 + 68 + 30);
    let run = decode_with(
        |_, capture| {
            capture.off_ns = None;
            capture.stats.clear();
        },
        &[bytes],
    );
    assert_eq!(run.bursts(), ["cpu0 7: 100..1000 r0 ?"]);
    let expected = [
        ("end of the kernel trace of CPU 0 cut short", 1),
        ("end of the recording not known", 1),
    ];
    assert_eq!(run.losses(), expected.map(|(what, n)| (what.to_owned(), n)));
}

#[test]
fn damage_costs_one_sub_buffer_and_is_named() {
    let first = pages(4096, &[switch(1000, 7, 0, 9), switch(1200, 9, 1, 7)]);
    let second = pages(4096, &[switch(3000, 7, 0, 9)]);
    let bytes = [damaged(16 + 68, first), second].concat();
    let run = decode_with(|_, _| {}, &[bytes]);
    assert_eq!(
        run.bursts(),
        ["cpu0 7: 100..1000 r0 ?", "cpu0 9: 3000..10000 r5 ?"]
    );
    let (what, count) = &run.losses()[0];
    assert_eq!(*count, 1);
    assert!(
        what.contains("record at offset 84 reaches beyond"),
        "{what}"
    );
}

#[test]
fn a_missing_cpu_file_is_a_loss_and_a_missing_switch_event_too() {
    let run = decode_with(
        |raw, capture| {
            capture.cpus.push(Cpu::new(1));
            fs::remove_file(format_path(raw, "sched", "sched_switch")).unwrap();
        },
        &[pages(
            4096,
            &[switch(1000, 7, 0, 9), (1100, Payload::fault(9))],
        )],
    );
    let what: Vec<_> = run.losses().into_iter().map(|(what, _)| what).collect();
    assert_eq!(
        what,
        [
            "no kernel trace of CPU 1",
            "kernel trace events of unknown kind",
            "task switches not recorded"
        ]
    );
    assert_eq!(run.interrupts(), ["page fault@9 1100..1100 d0 ?"]);
}

#[test]
fn a_foreign_format_is_an_error_with_file_line_and_text() {
    let refuse = |change: &dyn Fn(&Path, &mut RawCapture)| {
        let (result, _dir) = try_decode(change, &[Vec::new()], &AtomicBool::new(false));
        result.unwrap_err().to_string()
    };
    let error = refuse(&|raw, _| {
        fs::write(
            format_path(raw, "irq", "softirq_exit"),
            "name: softirq_exit\nID: x\n",
        )
        .unwrap();
    });
    assert!(
        error.contains("formats/irq/softirq_exit, line 2"),
        "{error}"
    );
    assert!(error.ends_with("`ID: x`"), "{error}");
    let error = refuse(&|raw, _| {
        let path = |event| format_path(raw, "irq", event);
        fs::copy(path("softirq_entry"), path("softirq_exit")).unwrap();
    });
    assert!(
        error.contains("line 1: this is not the format of `softirq_exit`"),
        "{error}"
    );
    let error = refuse(&|raw, _| fs::write(header_page_path(raw), "rubbish").unwrap());
    assert!(error.contains("header_page, line 1"), "{error}");
    let error = refuse(&|_, capture| capture.clock = "local".to_owned());
    assert!(error.contains("the trace clock is `local`"), "{error}");
    assert!(refuse(&|_, capture| capture.page_size = 16).contains("size of 16 bytes"));
    assert!(refuse(&|_, capture| capture.cpus = vec![Cpu::new(0); 2]).contains("ascending"));
}

#[test]
fn a_stop_ends_the_tables_in_order() {
    let bytes = pages(4096, &[switch(1000, 7, 0, 9)]);
    let (result, dir) = try_decode(|_, _| {}, &[bytes], &AtomicBool::new(true));
    let summary = result.unwrap();
    assert!(summary.stopped);
    assert_eq!(summary.losses.entries().len(), 2);
    let run = RunReader::open(&dir.path().join("run")).unwrap();
    assert!(run.read::<Bursts>().unwrap().is_empty());
    assert_eq!(run.read::<Tasks>().unwrap().len(), 1);
}

/// Enough switches for several chunks, batches and progress steps.
fn long_trace(events: u32) -> Vec<u8> {
    let events: Events = (0..events)
        .map(|i| switch(200 + u64::from(i), i % 3, 0, (i + 1) % 3))
        .collect();
    pages(4096, &events)
}

#[test]
fn many_batches_add_up_and_the_bytes_are_the_same_each_time() {
    let dir = tempfile::tempdir().unwrap();
    let cpus = [long_trace(40_000), long_trace(20_000)];
    let mut files: Vec<Vec<Vec<u8>>> = Vec::new();
    for name in ["a", "b"] {
        let mut out = RunWriter::create(&dir.path().join(name), empty_manifest()).unwrap();
        let raw: PathBuf = out.path().join("raw");
        fs::create_dir(&raw).unwrap();
        let tasks: Vec<RawTask> = (1..200).map(|pid| task(pid, "t")).collect();
        write_capture(&raw, (0, Some(90_000)), &cpus, tasks);
        let steps = RefCell::new(Vec::new());
        let stop = AtomicBool::new(false);
        let progress = |share| steps.borrow_mut().push(share);
        let summary = decode_capture(&raw, NodeId::new(0), &mut out, &stop, &progress).unwrap();
        assert_eq!((summary.events, summary.bursts), (60_000, 60_002));
        let steps = steps.into_inner();
        assert!(steps.is_sorted() && steps.len() >= 4, "{steps:?}");
        assert_eq!(steps.last(), Some(&1.0));
        let read = |t: &idlewave_run::TableEntry| fs::read(out.path().join(&t.file)).unwrap();
        files.push(out.manifest.tables.iter().map(read).collect());
        out.close(None).unwrap();
        let bursts = RunReader::open(out.path())
            .unwrap()
            .read::<Bursts>()
            .unwrap();
        assert_eq!(bursts.len(), 60_002);
    }
    assert_eq!(files[0].len(), 6);
    assert!(files[0] == files[1]);
}

#[test]
fn statistics_of_a_cpu_count_all_its_losses() {
    let stats = CpuStats {
        cpu: Cpu::new(0),
        overrun: u64::MAX,
        commit_overrun: 1,
        dropped: 1,
        bytes: 0,
    };
    assert_eq!(stats.lost(), u64::MAX);
}
