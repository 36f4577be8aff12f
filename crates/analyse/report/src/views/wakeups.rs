//! Wake-up chains.

use crate::number::plain;
use crate::screen::{Screen, Style};
use idlewave_explain::views::{Waker, Wakeups, Woken};
use idlewave_run::SourceKind;
use idlewave_units::counted;
use idlewave_units::show::{count, percent};

/// Who woke the culprits, and who woke their wakers.
pub(super) fn wakeups(screen: &mut Screen, found: &Wakeups) {
    screen.line(
        Style::Heading,
        "WHO WOKE THE CULPRITS, most time lost first",
    );
    if found.sources.is_empty() {
        screen.line(
            Style::Plain,
            "  nobody: no thread that made a step late was seen to be woken",
        );
        return;
    }
    for source in &found.sources {
        woken(screen, source, found.late);
    }
    screen.wrap(
        Style::Quiet,
        "  ",
        "late: wake-ups during a late step or an explained wait. A thread woken by the timer slept \
         for a set time; it wakes itself. Indented: who woke the waker, whatever for.",
    );
}

fn named(kind: SourceKind, name: &str) -> String {
    match kind {
        SourceKind::Rank => plain(name),
        _ => format!("{} ({})", plain(name), kind.label()),
    }
}

fn woken(screen: &mut Screen, source: &Woken, late: u64) {
    let mut text = format!(
        "{}: woken {}",
        named(source.kind, &source.name),
        counted(source.wakeups, "time"),
    );
    if late > 0 {
        text.push_str(&format!(
            ", {} late; cost all ranks {}",
            source.in_late, source.lost
        ));
    }
    screen.wrap(Style::Plain, "  ", &text);
    let mut rows = Vec::new();
    for waker in &source.wakers {
        rows.push(row(waker, source.wakeups));
        for back in &waker.woken_by {
            rows.push(vec![
                format!("    <- {}", named(back.kind, &back.name)),
                count(back.wakeups),
            ]);
        }
    }
    screen.table(&["  by", "wake-ups", "share", "late"], &rows);
    if source.more > 0 {
        let text = format!("    and {} that woke it less often", source.more);
        screen.line(Style::Quiet, &text);
    }
}

fn row(waker: &Waker, all: u64) -> Vec<String> {
    vec![
        format!("  {}", named(waker.kind, &waker.name)),
        count(waker.wakeups),
        percent(waker.wakeups as f64 / all.max(1) as f64),
        count(waker.in_late),
    ]
}
