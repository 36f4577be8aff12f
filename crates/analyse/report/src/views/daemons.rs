//! Daemons.

use super::pieces::{dash, interval, longest, program, table, thread, time};
use crate::screen::{Screen, Style};
use idlewave_explain::views::{Daemon, Daemons};
use idlewave_units::show::{self, count, percent};

/// The table of daemons.
pub(super) fn daemons(screen: &mut Screen, found: &Daemons, several: bool) {
    screen.line(
        Style::Heading,
        "DAEMONS: threads that run again and again, most CPU time first",
    );
    if found.daemons.is_empty() {
        screen.line(Style::Plain, "  none: no thread but the ranks ran 5 times");
        return;
    }
    let rows: Vec<Vec<String>> = found.daemons.iter().map(|d| row(d, several)).collect();
    table(
        screen,
        &[
            "thread",
            "cost",
            "every",
            "on time",
            "run",
            "ready",
            "CPUs",
            "runs",
            "of a CPU",
            "longest run",
            "95 % of every",
            "95 % of run",
            "95 % of ready",
            "phase",
            "program",
        ],
        &rows,
    );
    screen.wrap(
        Style::Quiet,
        "  ",
        "every: period of its wake-ups; ~ is the median distance where they are not periodic. on \
         time: share of the wake-ups on the period. run: CPU time from wake-up to sleep, median. \
         ready: from wake-up to switch-in, median.",
    );
    screen.wrap(
        Style::Quiet,
        "  ",
        "next: who wakes one: --view wakeups --process NAME. What it delayed, and how to keep it \
         off the CPUs of the ranks: idlewave explain RUN.",
    );
}

fn row(d: &Daemon, several: bool) -> Vec<String> {
    let every = match &d.period {
        Some(p) => show::time(p.period.value),
        None => format!("~{}", time(d.between.median.as_ref())),
    };
    let of_every = d.period.as_ref().map(|p| &p.period);
    vec![
        thread(&d.thread, several),
        d.cost.to_string(),
        every,
        d.period.as_ref().map_or_else(dash, |p| percent(p.share)),
        time(d.length.median.as_ref()),
        time(d.ready.median.as_ref()),
        d.cpus.to_string(),
        count(d.runs),
        percent(d.share),
        longest(&d.length),
        interval(of_every.or(d.between.median.as_ref())),
        interval(d.length.median.as_ref()),
        interval(d.ready.median.as_ref()),
        d.phase.map_or_else(dash, |p| p.offset.to_string()),
        program(&d.thread),
    ]
}
