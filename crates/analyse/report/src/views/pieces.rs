//! What several views show: names of threads, lengths, filters.

use crate::number::plain;
use crate::screen::{Screen, Style};
use idlewave_explain::views::{Filter, LengthSummary, Thread};
use idlewave_run::findings::Estimate;
use idlewave_units::show;

/// Width of a name and a number: the kernel's names have 15 characters, and most numbers have 7.
pub(super) const THREAD: usize = 23;

/// A table of threads: their names are cut last.
pub(super) fn table(screen: &mut Screen, header: &[&str], rows: &[Vec<String>]) {
    screen.table_keeping(THREAD, header, rows);
}

/// A thread in a table: its name and number, and its node if there are several.
pub(super) fn thread(thread: &Thread, several: bool) -> String {
    let mut text = match thread.rank {
        Some(rank) => format!("rank {rank}"),
        None => plain(&thread.name),
    };
    // A thread without a name is called by its number.
    if !text.starts_with("pid ") {
        text.push_str(&format!(" {}", thread.pid));
    }
    if several {
        text.push_str(&format!(" node {}", thread.node));
    }
    text
}

/// The program to which a thread belongs.
pub(super) fn program(thread: &Thread) -> String {
    let name = thread.program.as_ref().unwrap_or(&thread.name);
    plain(name)
}

/// A dash for what is not known.
pub(crate) fn dash() -> String {
    "-".to_owned()
}

/// The value of an estimate in nanoseconds.
pub(super) fn time(estimate: Option<&Estimate>) -> String {
    estimate.map_or_else(dash, |e| show::time(e.value))
}

/// The interval of an estimate in nanoseconds: `1.2..1.4 ms`.
pub(super) fn interval(estimate: Option<&Estimate>) -> String {
    let Some(e) = estimate else {
        return dash();
    };
    let (low, high) = (show::time(e.low), show::time(e.high));
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, a)), Some((_, b))) if a == b => format!("{number}..{high}"),
        _ => format!("{low}..{high}"),
    }
}

/// The longest of some lengths.
pub(super) fn longest(lengths: &LengthSummary) -> String {
    lengths.longest.map_or_else(dash, |l| l.to_string())
}

/// Upper edges, in nanoseconds, of the columns of a histogram on the terminal, with their headers.
pub(super) const DECADES: [(&str, u64); 7] = [
    ("1us", 1_000),
    ("10us", 10_000),
    ("100us", 100_000),
    ("1ms", 1_000_000),
    ("10ms", 10_000_000),
    ("100ms", 100_000_000),
    ("more", u64::MAX),
];

/// Counts by decade. A logarithmic bin counts where its lower edge lies.
pub(super) fn decades(lengths: &LengthSummary) -> [u64; DECADES.len()] {
    let mut out = [0; DECADES.len()];
    for &(edge, count) in &lengths.histogram {
        let place = DECADES.iter().position(|d| edge < d.1);
        out[place.unwrap_or(DECADES.len() - 1)] += count;
    }
    out
}

/// A count for a histogram: nothing is a dot, so that the shape shows.
pub(super) fn cell(count: u64) -> String {
    match count {
        0 => ".".to_owned(),
        _ => show::count(count),
    }
}

/// What a view is restricted to; `None` if it is not restricted.
pub(super) fn filter(filter: &Filter) -> Option<String> {
    restrictions(filter).map(|all| format!("only {all}"))
}

/// Says below a table of counters what they do not resolve; nothing if the filter asks for none of it.
pub(super) fn not_restricted(screen: &mut Screen, unresolved: &Filter) {
    if let Some(all) = restrictions(unresolved) {
        let text = format!(
            "these counters are of the whole measurement: they cannot be restricted to `{all}`."
        );
        screen.wrap(Style::Alarm, "! ", &text);
    }
}

fn restrictions(filter: &Filter) -> Option<String> {
    let mut parts = Vec::new();
    parts.extend(filter.from.map(|t| format!("from {t}")));
    parts.extend(filter.to.map(|t| format!("until {t}")));
    let process = filter.process.as_deref();
    parts.extend(process.map(|p| format!("process {}", plain(p))));
    parts.extend(filter.cpus.as_ref().map(|c| format!("CPUs {c}")));
    parts.extend(filter.node.map(|n| format!("node {n}")));
    parts.extend(filter.rank.map(|r| format!("rank {r}")));
    (!parts.is_empty()).then(|| parts.join(", "))
}
