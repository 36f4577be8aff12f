//! Run-queue latency.

use super::pieces::{self, DECADES, cell, decades, longest, thread, time};
use crate::screen::{Screen, Style};
use idlewave_explain::views::{Latency, LengthSummary, Ready};
use idlewave_units::show::{self, count};

/// Latency of all, by CPU and by thread.
pub(super) fn latency(screen: &mut Screen, found: &Latency, several: bool) {
    screen.line(Style::Heading, "RUN-QUEUE LATENCY: ready, but not on a CPU");
    let header = ["ready after", "times", "median", "p99", "longest", "time"];
    let all = kinds(&found.all);
    let all = all.map(|(name, lengths)| cells(vec![name.to_owned()], lengths));
    screen.table(&header, &all);
    histogram(screen, &found.all);
    let by_cpu = found.cpus.iter().flat_map(|c| {
        let name = match several {
            true => format!("CPU {} node {}", c.cpu, c.node),
            false => format!("CPU {}", c.cpu),
        };
        rows(name, &c.ready)
    });
    section(
        screen,
        "BY THE CPU ON WHICH IT RAN THEN",
        "CPU",
        by_cpu.collect(),
    );
    let by_thread = found.threads.iter();
    let by_thread = by_thread.flat_map(|t| rows(thread(&t.thread, several), &t.ready));
    section(
        screen,
        "BY THREAD, most time ready first",
        "thread",
        by_thread.collect(),
    );
}

/// What a thread may be ready after.
fn kinds(ready: &Ready) -> [(&'static str, &LengthSummary); 2] {
    [
        ("a wake-up", &ready.woken),
        ("a preemption", &ready.preempted),
    ]
}

/// How often each latency occurred, one line per decade.
fn histogram(screen: &mut Screen, all: &Ready) {
    let (woken, preempted) = (decades(&all.woken), decades(&all.preempted));
    let name = |i: usize| match DECADES.get(i + 1) {
        Some(_) => format!("less than {}", show::time(DECADES[i].1 as f64)),
        None => "more".to_owned(),
    };
    let rows: Vec<Vec<String>> = (0..DECADES.len())
        .map(|i| vec![name(i), cell(woken[i]), cell(preempted[i])])
        .collect();
    screen.table(&["ready for", "woken", "preempted"], &rows);
}

fn section(screen: &mut Screen, title: &str, first: &str, rows: Vec<Vec<String>>) {
    if rows.is_empty() {
        return;
    }
    screen.line(Style::Heading, title);
    let header = [
        first,
        "ready after",
        "times",
        "median",
        "p99",
        "longest",
        "time",
    ];
    pieces::table(screen, &header, &rows);
}

/// A row for wake-ups and one for preemptions, where there are any.
fn rows(name: String, ready: &Ready) -> Vec<Vec<String>> {
    let seen = kinds(ready).into_iter().filter(|(_, all)| all.count > 0);
    seen.map(|(after, lengths)| cells(vec![name.clone(), after.to_owned()], lengths))
        .collect()
}

/// Appends what is known about these lengths.
fn cells(mut row: Vec<String>, lengths: &LengthSummary) -> Vec<String> {
    row.extend([
        count(lengths.count),
        time(lengths.median.as_ref()),
        time(lengths.p99.as_ref()),
        longest(lengths),
        lengths.total.to_string(),
    ]);
    row
}
