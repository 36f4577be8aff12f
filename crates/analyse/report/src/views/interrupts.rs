//! Interrupts, and the clock interrupt.

use super::pieces::{dash, longest, not_restricted, time};
use crate::number::plain;
use crate::screen::{Screen, Style};
use idlewave_explain::views::{
    Clock, ClockCpu, CoarseCounter, Filter, InterruptRow, Interrupts, Skew,
};
use idlewave_run::SourceKind;
use idlewave_units::show::{self, count, percent};
use idlewave_units::{Cpu, Nanos, NodeId};

/// The longest usual name: call_function_single.
const NAME: usize = 20;

/// Interrupts by name and CPU.
pub(super) fn interrupts(screen: &mut Screen, found: &Interrupts, filter: &Filter, several: bool) {
    if !found.interrupts.is_empty() || found.coarse.is_empty() {
        screen.line(
            Style::Heading,
            "INTERRUPTS BY NAME AND CPU, most net time first",
        );
        let rows: Vec<Vec<String>> = found.interrupts.iter().map(|r| row(r, several)).collect();
        match rows.is_empty() {
            true => screen.line(Style::Plain, "  none recorded"),
            false => screen.table_keeping(
                NAME,
                &[
                    "interrupt",
                    "CPU",
                    "count",
                    "per s",
                    "net time",
                    "median",
                    "longest",
                    "nested",
                    "p99",
                    "was nested",
                    "class",
                ],
                &rows,
            ),
        }
        if !rows.is_empty() {
            screen.wrap(
                Style::Quiet,
                "  ",
                "net: without the interrupts nested in it; nested: theirs. A dash: only a point in \
                 time was recorded, no length.",
            );
        }
    }
    for of_node in &found.clocks {
        clock(screen, of_node, several);
    }
    coarse(screen, &found.coarse, filter, several);
}

fn place(node: NodeId, cpu: Cpu, several: bool) -> String {
    match several {
        true => format!("{cpu} node {node}"),
        false => cpu.to_string(),
    }
}

fn row(r: &InterruptRow, several: bool) -> Vec<String> {
    let known = r.net.count > 0;
    vec![
        plain(&r.name),
        place(r.node, r.cpu, several),
        count(r.count),
        show::digits(r.rate.value),
        if known {
            r.net.total.to_string()
        } else {
            dash()
        },
        time(r.net.median.as_ref()),
        longest(&r.net),
        r.nested.to_string(),
        time(r.net.p99.as_ref()),
        count(r.inner),
        r.kind.label().to_owned(),
    ]
}

fn clock(screen: &mut Screen, clock: &Clock, several: bool) {
    let on = match several {
        true => format!(" of node {}", clock.node),
        false => String::new(),
    };
    screen.line(Style::Heading, &format!("CLOCK INTERRUPT{on}"));
    let rows: Vec<Vec<String>> = clock.cpus.iter().map(clock_row).collect();
    screen.table(
        &[
            "CPU",
            "per s",
            "length",
            "behind CPU",
            "spread",
            "on time",
            "count",
        ],
        &rows,
    );
    screen.wrap(Style::Plain, "  ", &sentence(clock));
}

fn clock_row(c: &ClockCpu) -> Vec<String> {
    vec![
        c.cpu.to_string(),
        show::digits(c.frequency.value),
        time(c.length.median.as_ref()),
        c.offset_ns.map_or_else(dash, |o| show::time(o as f64)),
        c.spread.map_or_else(dash, |s| s.to_string()),
        c.share.map_or_else(dash, percent),
        count(c.count),
    ]
}

/// What the clock interrupts cost a step in which all ranks wait for all.
fn sentence(clock: &Clock) -> String {
    let Some(period) = clock.period_ns else {
        return "no period was found, so these interrupts are no regular clock".to_owned();
    };
    let every = format!(
        "period {}{}",
        show::time(period),
        if clock.is_hz {
            " (HZ of the kernel)"
        } else {
            " (estimated)"
        }
    );
    match &clock.skew {
        None => format!("{every}; fewer than two CPUs keep to it, so there is no skew to compare"),
        Some(skew) if skew.groups == 1 => format!(
            "{every}. Aligned: {} CPUs are interrupted at once, which costs a step that waits for \
             all one length: up to {} per period, {}. Staggered one after the other it would be up \
             to {}.",
            skew.cpus,
            skew.cost,
            percent(skew.share),
            staggered(skew),
        ),
        Some(skew) => format!(
            "{every}. Staggered: the interrupts of {} CPUs come in {} groups one after the other, \
             which costs a step that waits for all up to {} per period, {}. Aligned it would be \
             {}.",
            skew.cpus,
            skew.groups,
            skew.cost,
            percent(skew.share),
            skew.length,
        ),
    }
}

fn staggered(skew: &Skew) -> Nanos {
    Nanos::from_nanos(skew.length.get().saturating_mul(skew.cpus.into()))
}

fn coarse(screen: &mut Screen, counters: &[CoarseCounter], filter: &Filter, several: bool) {
    if counters.is_empty() {
        return;
    }
    screen.line(
        Style::Heading,
        "COUNTERS OF /proc (coarse: how many, not when or how long)",
    );
    let rows: Vec<Vec<String>> = counters
        .iter()
        .map(|c| {
            let steal = c.kind == SourceKind::Hypervisor;
            let share = || c.increase as f64 / c.watched.as_f64().max(1.0);
            vec![
                plain(&c.name),
                place(c.node, c.cpu, several),
                match steal {
                    true => Nanos::from_nanos(c.increase).to_string(),
                    false => count(c.increase),
                },
                match steal {
                    true => percent(share()),
                    false => show::digits(c.rate),
                },
                c.kind.label().to_owned(),
            ]
        })
        .collect();
    screen.table(&["counter", "CPU", "events", "per s", "class"], &rows);
    screen.wrap(
        Style::Quiet,
        "  ",
        "read once before and once after all phases. Steal is time that the hypervisor gave to \
         others, in steps of a clock tick.",
    );
    let unresolved = Filter {
        cpus: None,
        node: None,
        ..filter.clone()
    };
    not_restricted(screen, &unresolved);
}
