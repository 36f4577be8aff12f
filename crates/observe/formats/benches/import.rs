//! Events per second and core, from a file to the tables of a run.

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use idlewave_formats::import::kernel::read_text_line;
use idlewave_formats::import::{Ask, import};
use idlewave_ftrace::testing::{Payload, pages, write_capture};
use std::path::Path;

fn main() {
    divan::main();
}

const EVENTS: u64 = 400_000;

/// Ticks with softirqs, wake-ups and switches among 60 threads: lines of text.
fn text() -> String {
    let mut out = String::new();
    let (mut now, mut pid) = (1_000_000_000_u64, 1000);
    let mut lines = 0;
    while lines < EVENTS {
        let next = 1000 + (pid * 7 + 3) % 60;
        let mut line = |by: u32, delta: u64, event: String| {
            now += delta;
            let (s, us) = (now / 1_000_000_000, now % 1_000_000_000 / 1000);
            out += &format!(
                "{:>16}-{by:<7} [001] d..2. {s:5}.{us:06}: {event}\n",
                "worker"
            );
            lines += 1;
        };
        line(pid, 90_000, "local_timer_entry: vector=236".to_owned());
        let wake = format!("sched_waking: comm=worker pid={next} prio=120 target_cpu=001");
        line(pid, 1_000, wake);
        line(pid, 1_000, "local_timer_exit: vector=236".to_owned());
        line(pid, 1_000, "softirq_entry: vec=1 [action=TIMER]".to_owned());
        line(pid, 1_000, "softirq_exit: vec=1 [action=TIMER]".to_owned());
        for (from, state, to) in [(pid, "R", next), (next, "S", pid)] {
            let switch = format!(
                "sched_switch: prev_comm=worker prev_pid={from} prev_prio=120 prev_state={state} \
                 ==> next_comm=worker next_pid={to} next_prio=120"
            );
            line(from, 20_000, switch);
        }
        pid = next;
    }
    out
}

fn imports(bencher: Bencher<'_, '_>, input: &Path) {
    bencher
        .with_inputs(|| tempfile::tempdir().expect("a temporary directory"))
        .bench_refs(|dir| {
            import(&Ask::new(input, &dir.path().join("run"))).expect("it is a trace")
        });
}

#[divan::bench(sample_count = 20)]
fn text_lines_only(bencher: Bencher) {
    let text = text();
    bencher
        .counter(ItemsCount::new(text.lines().count()))
        .counter(BytesCount::of_str(&text))
        .bench(|| {
            text.as_bytes()
                .split(|b| *b == b'\n')
                .filter(|l| read_text_line(l))
                .count()
        });
}

#[divan::bench(sample_count = 20)]
fn text_to_tables(bencher: Bencher) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("trace.txt");
    let text = text();
    std::fs::write(&path, &text).expect("it is new");
    let lines = ItemsCount::new(text.lines().count());
    imports(bencher.counter(lines), &path);
}

#[divan::bench(sample_count = 20)]
fn sub_buffers_to_tables(bencher: Bencher) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let raw = dir.path().join("raw");
    std::fs::create_dir(&raw).expect("it is new");
    let mut events = Vec::new();
    let (mut now, mut pid) = (1_000_000, 1000);
    while (events.len() as u64) < EVENTS {
        let next = 1000 + (pid * 7 + 3) % 60;
        for (delta, payload) in [
            (90_000, Payload::number("local_timer_entry", pid, 236)),
            (700, Payload::waking(pid, next, "worker", 0)),
            (300, Payload::number("local_timer_exit", pid, 236)),
            (150, Payload::number("softirq_entry", pid, 1)),
            (900, Payload::number("softirq_exit", pid, 1)),
            (200, Payload::switch((pid, "rank"), 0, (next, "worker"))),
            (20_000, Payload::switch((next, "worker"), 1, (pid, "rank"))),
        ] {
            now += delta;
            events.push((now, payload));
        }
        pid = next;
    }
    let count = ItemsCount::new(events.len());
    write_capture(
        &raw,
        (0, None),
        &[pages(4096, &events)],
        vec![idlewave_ftrace::testing::task(1000, "rank")],
    );
    imports(bencher.counter(count), &raw);
}
