//! Every process, its matrix by CPU, its states.

use super::pieces::{
    DECADES, cell, decades, longest, not_restricted, program, table, thread, time,
};
use crate::screen::{Screen, Style};
use idlewave_explain::views::{
    CoarseTask, Filter, LengthSummary, Matrix, MatrixCell, Process, Processes, States, StatesRow,
};
use idlewave_run::tables::TaskKind;
use idlewave_units::show::{count, percent};
use idlewave_units::{Cpu, Nanos, counted};

/// What a thread is, in a word.
fn class(kind: TaskKind) -> &'static str {
    match kind {
        TaskKind::Idle => "idle",
        TaskKind::Kernel => "kernel",
        TaskKind::User => "user",
        TaskKind::Rank => "rank",
        TaskKind::Own => "idlewave",
        TaskKind::Program => "program",
        TaskKind::Unknown => "-",
    }
}

/// Every process.
pub(super) fn processes(screen: &mut Screen, found: &Processes, filter: &Filter, several: bool) {
    if !found.threads.is_empty() || found.coarse.is_empty() {
        let title = match found.coarse.is_empty() {
            true => "EVERY PROCESS AND KERNEL THREAD",
            false => "THREADS WHOSE SWITCHES WERE SEEN: those of the measurement itself",
        };
        screen.line(Style::Heading, title);
        let used: Nanos = found.threads.iter().map(|p| p.time).sum();
        let share = used.as_f64() / found.cpu_time.as_f64().max(1.0);
        let text = format!(
            "{} ran for {used} together, {} of the CPUs' {} (in {})",
            counted(found.threads.len(), "thread"),
            percent(share),
            found.cpu_time,
            found.watched,
        );
        screen.wrap(Style::Plain, "  ", &text);
        let rows: Vec<Vec<String>> = found.threads.iter().map(|p| row(p, several)).collect();
        table(
            screen,
            &[
                "thread",
                "time",
                "bursts",
                "average",
                "waited",
                "preempted",
                "slept",
                "in disk",
                "exited",
                "moves",
                "of a CPU",
                "longest",
                "class",
                "CPUs",
                "program",
            ],
            &rows,
        );
        screen.wrap(
            Style::Quiet,
            "  ",
            "waited: ready, but not on a CPU. Bursts ended because the thread was preempted or \
             yielded, slept, slept uninterruptibly (in disk), or exited.",
        );
    }
    coarse(screen, &found.coarse, filter, several);
}

fn row(p: &Process, several: bool) -> Vec<String> {
    let ends = &p.ended;
    vec![
        thread(&p.thread, several),
        p.time.to_string(),
        count(p.bursts),
        p.average.to_string(),
        p.waited.to_string(),
        count(ends.preempted),
        count(ends.blocked),
        count(ends.uninterruptible),
        count(ends.exited),
        count(p.migrations),
        percent(p.share),
        p.longest.to_string(),
        class(p.thread.kind).to_owned(),
        p.cpus.to_string(),
        program(&p.thread),
    ]
}

/// CPU time from the counters of /proc.
fn coarse(screen: &mut Screen, tasks: &[CoarseTask], filter: &Filter, several: bool) {
    if tasks.is_empty() {
        return;
    }
    screen.line(
        Style::Heading,
        "CPU TIME BY THE COUNTERS OF /proc (coarse: how much, not when)",
    );
    let rows: Vec<Vec<String>> = tasks
        .iter()
        .map(|t| {
            let share = t.ran.as_f64() / t.watched.as_f64().max(1.0);
            vec![
                thread(&t.thread, several),
                t.ran.to_string(),
                percent(share),
                t.waited.to_string(),
                count(t.slices),
                class(t.thread.kind).to_owned(),
            ]
        })
        .collect();
    table(
        screen,
        &["thread", "time", "of a CPU", "waited", "slices", "class"],
        &rows,
    );
    screen.wrap(
        Style::Quiet,
        "  ",
        "read once before and once after all phases; threads that ended in between are missing. \
         waited: runnable, but not on a CPU. slices: how often it was put on one.",
    );
    let unresolved = Filter {
        from: filter.from,
        to: filter.to,
        cpus: filter.cpus.clone(),
        ..Filter::default()
    };
    not_restricted(screen, &unresolved);
}

/// The matrix of threads by CPU: three tables.
pub(super) fn matrix(screen: &mut Screen, found: &Matrix, several: bool) {
    type Show = fn(&MatrixCell) -> String;
    let tables: [(&str, Show); 3] = [
        ("TIME BY CPU", |c| c.time.to_string()),
        ("AVERAGE BURST BY CPU", |c| c.average.to_string()),
        ("BURSTS BY CPU", |c| count(c.bursts)),
    ];
    let cpus: Vec<Cpu> = found.cpus.iter().collect();
    let heads: Vec<String> = cpus.iter().map(|cpu| format!("CPU {cpu}")).collect();
    let mut header = vec!["thread"];
    header.extend(heads.iter().map(String::as_str));
    for (title, show) in tables {
        screen.line(Style::Heading, title);
        let rows: Vec<Vec<String>> = found
            .threads
            .iter()
            .map(|row| {
                let at = |cpu: &Cpu| row.cells.iter().find(|c| c.cpu == *cpu);
                let mut cells = vec![thread(&row.thread, several)];
                cells.extend(
                    cpus.iter()
                        .map(|cpu| at(cpu).map_or_else(|| ".".to_owned(), show)),
                );
                cells
            })
            .collect();
        table(screen, &header, &rows);
    }
}

/// The histograms of states.
pub(super) fn states(screen: &mut Screen, found: &States, several: bool) {
    type Pick = fn(&StatesRow) -> &LengthSummary;
    let tables: [(&str, Pick); 3] = [
        ("RUNNING: stays by length", |r| &r.running),
        (
            "READY (woken or preempted, not on a CPU): stays by length",
            |r| &r.ready,
        ),
        ("BLOCKED (asleep until woken): stays by length", |r| {
            &r.blocked
        }),
    ];
    let mut header = vec!["thread", "time"];
    header.extend(DECADES.iter().map(|d| d.0));
    header.extend(["median", "longest"]);
    for (title, pick) in tables {
        screen.line(Style::Heading, title);
        let mut rows: Vec<&StatesRow> = found.threads.iter().collect();
        rows.retain(|r| pick(r).count > 0);
        rows.sort_by_key(|r| std::cmp::Reverse(pick(r).total));
        let rows: Vec<Vec<String>> = rows
            .into_iter()
            .map(|r| {
                let stays = pick(r);
                let mut cells = vec![thread(&r.thread, several), stays.total.to_string()];
                cells.extend(decades(stays).map(cell));
                cells.push(time(stays.median.as_ref()));
                cells.push(longest(stays));
                cells
            })
            .collect();
        match rows.is_empty() {
            true => screen.line(Style::Plain, "  none seen"),
            false => table(screen, &header, &rows),
        }
    }
    screen.wrap(
        Style::Quiet,
        "  ",
        "time: all stays together. Then how many lasted less than 1 us, less than 10 us, and so \
         on.",
    );
}
