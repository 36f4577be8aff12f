//! Run-queue latency.

use super::pieces::{self, DECADES, cell, dash, decades, longest, thread, time};
use crate::screen::{Screen, Style};
use idlewave_explain::views::{Latency, LengthSummary, Ready};
use idlewave_units::show::{self, count};

/// Latency of all, by CPU and by thread.
pub(super) fn latency(screen: &mut Screen, found: &Latency, several: bool) {
    screen.line(Style::Heading, "RUN-QUEUE LATENCY: ready, but not on a CPU");
    let line = |name: &str, lengths: &LengthSummary| {
        vec![
            name.to_owned(),
            count(lengths.count),
            time(lengths.median.as_ref()),
            time(lengths.p99.as_ref()),
            longest(lengths),
            lengths.total.to_string(),
        ]
    };
    let all = [
        line("a wake-up", &found.all.woken),
        line("a preemption", &found.all.preempted),
    ];
    let header = ["ready after", "times", "median", "p99", "longest", "time"];
    screen.table(&header, &all);
    histogram(screen, &found.all);
    let by_cpu = found.cpus.iter().map(|c| {
        let name = match several {
            true => format!("CPU {} node {}", c.cpu, c.node),
            false => format!("CPU {}", c.cpu),
        };
        row(name, &c.ready)
    });
    section(
        screen,
        "BY THE CPU ON WHICH IT RAN THEN",
        "CPU",
        by_cpu.collect(),
    );
    let by_thread = found.threads.iter();
    let by_thread = by_thread.map(|t| row(thread(&t.thread, several), &t.ready));
    section(
        screen,
        "BY THREAD, most time ready first",
        "thread",
        by_thread.collect(),
    );
}

/// How often it took how long, one line per decade.
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
        "woken",
        "median",
        "p99",
        "longest",
        "preempted",
        "median",
        "p99",
        "longest",
        "time",
    ];
    pieces::table(screen, &header, &rows);
}

fn row(name: String, ready: &Ready) -> Vec<String> {
    let mut cells = vec![name];
    for lengths in [&ready.woken, &ready.preempted] {
        cells.push(if lengths.count == 0 {
            dash()
        } else {
            count(lengths.count)
        });
        cells.push(time(lengths.median.as_ref()));
        cells.push(time(lengths.p99.as_ref()));
        cells.push(longest(lengths));
    }
    cells.push((ready.woken.total + ready.preempted.total).to_string());
    cells
}
