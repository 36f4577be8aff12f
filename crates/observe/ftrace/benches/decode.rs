//! Events per second and core, from bytes in memory to rows in memory and to tables on disk.
//!
//! The floor: the mix below takes 34 bytes per event (switch 68, waking 40, entry or exit 16) and
//! gives 5 rows of some 40 bytes for 7 events, so about 65 bytes move per event; at 10 GB/s that is
//! 6.5 ns. An event needs about 60 instructions (header word 8, number and shape 10, fields 10,
//! state 15, one half row of 8 columns 20), or 5 to 10 ns. Names cost a hash look-up per switch and
//! wake-up, some 10 ns each. Together 15 to 20 ns: 50 to 65 million events a second.

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use idlewave_ftrace::event::Decoder;
use idlewave_ftrace::format::HeaderPage;
use idlewave_ftrace::page::Page;
use idlewave_ftrace::testing::{Payload, decode_pages, formats, pages, task, write_capture};
use idlewave_run::RunWriter;
use idlewave_run::testing::empty_manifest;
use idlewave_units::NodeId;
use std::sync::atomic::AtomicBool;

fn main() {
    divan::main();
}

const PAGE: usize = 4096;
const EVENTS: u64 = 1_000_000;

/// What a busy CPU records: ticks with softirqs, wake-ups, switches among 60 threads.
fn trace() -> Vec<u8> {
    let mut events = Vec::new();
    let mut pid = 1000;
    let mut now = 1_000_000;
    while (events.len() as u64) < EVENTS {
        let next = 1000 + (pid * 7 + 3) % 60;
        let mut add = |delta, payload| {
            now += delta;
            events.push((now, payload));
        };
        add(90_000, Payload::number("local_timer_entry", pid, 236));
        add(700, Payload::waking(pid, next, "worker", 0));
        add(300, Payload::number("local_timer_exit", pid, 236));
        add(150, Payload::number("softirq_entry", pid, 1));
        add(900, Payload::number("softirq_exit", pid, 1));
        add(200, Payload::switch((pid, "rank"), 0, (next, "worker")));
        add(20_000, Payload::switch((next, "worker"), 1, (pid, "rank")));
        pid = next;
    }
    events.truncate(EVENTS as usize);
    pages(PAGE, &events)
}

#[divan::bench(sample_count = 30)]
fn records_only(bencher: Bencher) {
    let bytes = trace();
    let counted = bencher.counter(ItemsCount::new(EVENTS));
    counted.counter(BytesCount::of_slice(&bytes)).bench(|| {
        let records = |page| {
            let page = Page::parse::<true>(page, PAGE, &HeaderPage::LONG64);
            page.map_or(0, |p| {
                p.records::<true>().flatten().map(|r| r.time_ns & 1).sum()
            })
        };
        bytes.chunks(PAGE).map(records).sum::<u64>()
    });
}

#[divan::bench(sample_count = 30)]
fn rows_in_memory(bencher: Bencher) {
    let bytes = trace();
    let (decoder, _) = Decoder::new(&formats());
    let counted = bencher.counter(ItemsCount::new(EVENTS));
    counted
        .counter(BytesCount::of_slice(&bytes))
        .bench(|| decode_pages::<true>(&decoder, &HeaderPage::LONG64, PAGE, &bytes, (0, None)));
}

#[divan::bench(sample_count = 30)]
fn tables_on_disk(bencher: Bencher) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let raw = dir.path().join("raw");
    std::fs::create_dir(&raw).expect("it is new");
    let tasks = (1000..1060).map(|pid| task(pid, "worker")).collect();
    write_capture(&raw, (0, None), &[trace()], tasks);
    bencher
        .counter(ItemsCount::new(EVENTS))
        .with_inputs(|| tempfile::tempdir().expect("a temporary directory"))
        .bench_refs(|run| {
            let mut out = RunWriter::create(run.path(), empty_manifest()).expect("it is empty");
            let stop = AtomicBool::new(false);
            idlewave_ftrace::decode_capture(&raw, NodeId::new(0), &mut out, &stop, &|_| {})
                .expect("it is a capture")
        });
}
