//! Golden timelines and properties of whole captures.

use super::*;
use crate::testing::{PageWriter, Payload, pages, task, write_capture};
use crate::{CpuStats, RawTask};
use idlewave_run::tables::{Sources, Tasks};
use idlewave_run::testing::empty_manifest;
use idlewave_run::{RunReader, SourceKind};
use idlewave_units::Pid;
use std::cell::RefCell;
use std::path::PathBuf;

type Events = Vec<(u64, Payload)>;

/// A decoded capture, its tables as lines that can be compared by eye.
struct Decoded {
    summary: DecodeSummary,
    run: RunReader,
    /// Keeps the directory until the tables have been read.
    _dir: tempfile::TempDir,
}

impl Decoded {
    fn bursts(&self) -> Vec<String> {
        let table = self.run.read::<Bursts>().unwrap();
        let line = |b: idlewave_run::tables::Burst| {
            let mark = if b.certain { "" } else { " ?" };
            let (cpu, pid, reason) = (b.cpu, b.pid, b.end_reason);
            format!(
                "cpu{cpu} {pid}: {}..{} r{reason}{mark}",
                b.begin_ns, b.end_ns
            )
        };
        table.rows().map(line).collect()
    }
    fn interrupts(&self) -> Vec<String> {
        let sources = self.run.read::<Sources>().unwrap();
        let table = self.run.read::<Interrupts>().unwrap();
        let line = |i: idlewave_run::tables::Interrupt| {
            let mark = if i.certain { "" } else { " ?" };
            let name = &sources.name[i.source as usize];
            format!(
                "{name}@{} {}..{} d{}{mark}",
                i.pid, i.begin_ns, i.end_ns, i.depth
            )
        };
        table.rows().map(line).collect()
    }
    fn losses(&self) -> Vec<(String, u64)> {
        let entries = self.summary.losses.entries().iter();
        entries.map(|l| (l.what.clone(), l.count)).collect()
    }
}

fn decode_with(change: impl FnOnce(&Path, &mut RawCapture), cpus: &[Vec<u8>]) -> Decoded {
    let (result, dir) = try_decode(change, cpus, &AtomicBool::new(false));
    let run = RunReader::open(&dir.path().join("run")).unwrap();
    Decoded {
        summary: result.unwrap(),
        run,
        _dir: dir,
    }
}

fn try_decode(
    change: impl FnOnce(&Path, &mut RawCapture),
    cpus: &[Vec<u8>],
    stop: &AtomicBool,
) -> (Result<DecodeSummary, FtraceError>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let mut out = RunWriter::create(&dir.path().join("run"), empty_manifest()).unwrap();
    let raw = out.path().join("raw");
    fs::create_dir(&raw).unwrap();
    let mut capture = write_capture(&raw, (100, Some(10_000)), cpus, vec![task(7, "rank")]);
    change(&raw, &mut capture);
    capture.save(&raw).unwrap();
    let result = decode_capture(&raw, NodeId::new(0), &mut out, stop, &|_| {});
    out.close(None).unwrap();
    (result, dir)
}

fn decode(cpus: &[Events]) -> Decoded {
    let cpus: Vec<_> = cpus.iter().map(|events| pages(4096, events)).collect();
    decode_with(|_, _| {}, &cpus)
}

fn switch(time: u64, prev: u32, state: u64, next: u32) -> (u64, Payload) {
    let name = |pid| if pid == 0 { "swapper/0" } else { "thread" };
    (
        time,
        Payload::switch((prev, name(prev)), state, (next, name(next))),
    )
}

fn number(time: u64, pid: u32, event: &str, number: u32) -> (u64, Payload) {
    (time, Payload::number(event, pid, number))
}

fn damaged(at: usize, mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[at..at + 4].copy_from_slice(&28_u32.to_le_bytes());
    bytes
}

#[test]
fn a_trace_without_loss_becomes_a_gapless_timeline() {
    let run = decode(&[
        vec![
            switch(1000, 7, 0, 9),
            switch(1400, 9, 1, 7),
            switch(2000, 7, 0x100, 9),
            switch(2500, 9, 2, 0),
            switch(3000, 0, 0, 8),
            switch(3001, 8, 0x20, 7),
            switch(3500, 7, 0x40, 0),
            switch(3600, 0, 0, 2),
            switch(3700, 2, 0x80, 7),
        ],
        vec![switch(5000, 0, 0, 6)],
    ]);
    assert_eq!(
        run.bursts(),
        [
            "cpu0 7: 100..1000 r0 ?",
            "cpu0 9: 1000..1400 r1",
            "cpu0 7: 1400..2000 r0",
            "cpu0 9: 2000..2500 r2",
            "cpu0 0: 2500..3000 r0",
            "cpu0 8: 3000..3001 r4",
            "cpu0 7: 3001..3500 r3",
            "cpu0 0: 3500..3600 r0",
            "cpu0 2: 3600..3700 r1",
            "cpu0 7: 3700..10000 r5 ?",
            "cpu1 0: 100..5000 r0 ?",
            "cpu1 6: 5000..10000 r5 ?",
        ]
    );
    assert!(run.summary.losses.is_empty(), "{:?}", run.losses());
    let s = &run.summary;
    assert_eq!((s.cpus, s.pages, s.events, s.bursts), (2, 2, 10, 12));
    assert_eq!((s.missed, s.interrupts, s.stopped), (0, 0, false));
    let tasks = run.run.read::<Tasks>().unwrap();
    assert_eq!(tasks.pid, [0, 2, 6, 7, 8, 9].map(Pid::new));
    assert_eq!(tasks.name[3], "thread");
}

#[test]
fn interrupts_nest_and_come_in_order_of_their_begin() {
    let run = decode(&[vec![
        number(200, 7, "local_timer_exit", 236), // began before the trace
        number(1000, 7, "local_timer_entry", 236),
        number(1010, 7, "local_timer_exit", 236),
        number(1012, 7, "softirq_entry", 1),
        (1014, Payload::irq_entry(7, 24, "eth0")),
        (1016, Payload::nmi(7, 1)),
        number(1018, 7, "irq_handler_exit", 24),
        (1020, Payload::irq_entry(7, 24, "usb1")), // shares the number
        number(1021, 7, "irq_handler_exit", 24),
        number(1030, 7, "softirq_exit", 1),
        number(1100, 7, "reschedule_entry", 253),
        number(1101, 7, "reschedule_exit", 253),
        (1200, Payload::fault(7)),
        (1300, Payload::nmi(7, 1000)), // claims to have begun before the fault
    ]]);
    assert_eq!(
        run.interrupts(),
        [
            "timer tick@7 1000..1010 d0",
            "TIMER@7 1012..1030 d0",
            "eth0@7 1014..1018 d1",
            "NMI@7 1015..1016 d2",
            "usb1@7 1020..1021 d1",
            "reschedule@7 1100..1101 d0",
            "page fault@7 1200..1200 d0 ?",
            "NMI@7 1200..1300 d0",
        ]
    );
    assert!(run.summary.losses.is_empty(), "{:?}", run.losses());
    let sources = run.run.read::<Sources>().unwrap();
    assert_eq!(sources.id, [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(sources.kind[5], SourceKind::Ipi.code());
    assert_eq!(run.bursts(), ["cpu0 7: 100..10000 r5 ?"]);
}

#[test]
fn a_hole_without_reported_loss_closes_the_burst_at_its_last_witness() {
    let run = decode(&[vec![
        switch(1000, 7, 0, 9),
        (1100, Payload::waking(9, 7, "rank", 0)),
        switch(2000, 8, 1, 7),                  // nobody saw 9 leave and 8 come
        number(2100, 6, "reschedule_entry", 1), // nor 7 leave and 6 come
        number(2101, 6, "reschedule_exit", 1),
        switch(2200, 6, 1, 0),
    ]]);
    assert_eq!(
        run.bursts(),
        [
            "cpu0 7: 100..1000 r0 ?",
            "cpu0 9: 1000..1100 r5 ?",
            "cpu0 6: 2100..2200 r1 ?",
            "cpu0 0: 2200..10000 r5 ?",
        ]
    );
    assert_eq!(
        run.losses(),
        [(
            "switches missing from the kernel trace without reported loss".to_owned(),
            2
        )]
    );
}

#[test]
fn unmatched_entries_and_exits_are_tolerated_and_counted() {
    let run = decode(&[vec![
        switch(1000, 7, 0, 9),
        number(1100, 9, "softirq_exit", 3), // never entered
        number(1200, 9, "softirq_entry", 1),
        number(1210, 9, "local_timer_entry", 1), // never left
        number(1220, 9, "softirq_exit", 1),
        number(1300, 9, "irq_work_entry", 1), // cannot outlast a switch
        switch(1400, 9, 0, 7),
        number(9000, 7, "call_function_entry", 1), // the trace ends in it
    ]]);
    assert_eq!(
        run.interrupts(),
        [
            "TIMER@9 1200..1220 d0",
            "timer tick@9 1210..1220 d1 ?",
            "irq_work@9 1300..1400 d0 ?",
            "call_function@7 9000..9000 d0 ?",
        ]
    );
    let expected = [
        ("interrupts entered but not left in the kernel trace", 2),
        ("interrupts left but not entered in the kernel trace", 1),
    ];
    assert_eq!(run.losses(), expected.map(|(what, n)| (what.to_owned(), n)));
}

#[test]
fn reported_losses_break_the_timeline_and_are_counted_once() {
    let first = pages(
        4096,
        &[
            switch(1000, 7, 0, 9),
            number(1100, 9, "local_timer_entry", 1),
        ],
    );
    let mut second = PageWriter::new(4096, 2000);
    second.event(2000, number(2000, 9, "local_timer_exit", 1).1.bytes());
    second.event(2100, switch(2100, 9, 1, 7).1.bytes());
    let mut third = PageWriter::new(4096, 3000);
    third.event(3000, switch(3000, 7, 1, 0).1.bytes());
    let bytes = [
        first,
        second.missed(Some(50)).finish(),
        third.missed(None).finish(),
    ]
    .concat();
    let run = decode_with(
        |_, capture| {
            capture.stats[0].overrun = 70;
        },
        &[bytes],
    );
    assert_eq!(
        run.bursts(),
        [
            "cpu0 7: 100..1000 r0 ?",
            "cpu0 9: 1000..1100 r5 ?",
            "cpu0 9: 2000..2100 r1 ?",
            "cpu0 0: 3000..10000 r5 ?",
        ]
    );
    assert_eq!(run.interrupts(), ["timer tick@9 1100..1100 d0 ?"]);
    assert_eq!(run.summary.missed, 70);
    assert_eq!(
        run.losses(),
        [("kernel trace events lost on CPU 0".to_owned(), 70)]
    );
}

#[test]
fn events_lost_after_the_last_one_leave_the_end_open() {
    let bytes = pages(4096, &[switch(1000, 7, 0, 9), (1500, Payload::fault(9))]);
    let run = decode_with(|_, capture| capture.stats[0].dropped = 3, &[bytes]);
    assert_eq!(
        run.bursts(),
        ["cpu0 7: 100..1000 r0 ?", "cpu0 9: 1000..1500 r5 ?"]
    );
}

#[test]
fn a_wakeup_has_its_waker_and_the_cpu_that_was_chosen() {
    let run = decode(&[vec![
        (1000, Payload::waking(9, 7, "rank", 0)),
        (1001, Payload::migrate(9, 7, 0, 3)),
        (1100, Payload::waking(9, 8, "other", 1)),
        (1101, Payload::migrate(9, 6, 2, 4)), // another thread
        (1200, Payload::waking(9, 5, "third", 2)),
        number(1201, 9, "reschedule_entry", 1),
        (1202, Payload::migrate(9, 5, 2, 6)), // too late to belong to the wake-up
    ]]);
    let rows: Vec<_> = run.run.read::<Wakeups>().unwrap().rows().collect();
    let rows = rows
        .iter()
        .map(|w| (w.time_ns, w.waker.get(), w.pid.get(), w.target_cpu.get()));
    assert_eq!(
        rows.collect::<Vec<_>>(),
        [(1000, 9, 7, 3), (1100, 9, 8, 1), (1200, 9, 5, 2)]
    );
    let moved: Vec<_> = run.run.read::<Migrations>().unwrap().rows().collect();
    let moved = moved
        .iter()
        .map(|m| (m.time_ns, m.pid.get(), m.from.get(), m.to.get()));
    assert_eq!(
        moved.collect::<Vec<_>>(),
        [(1001, 7, 0, 3), (1101, 6, 2, 4), (1202, 5, 2, 6)]
    );
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

/// Switches enough for several chunks, batches and progress steps.
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
