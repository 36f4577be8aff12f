//! Two runs compared.

use super::pieces::dash;
use crate::number::plain;
use crate::screen::{Screen, Style};
use crate::text::machine::alarms;
use idlewave_explain::views::{SourceChange, Verdict, Versus};
use idlewave_run::Manifest;
use idlewave_run::findings::Estimate;
use idlewave_units::counted;
use idlewave_units::show::{self, percent, slowdown, slowdown_range};

const SECTIONS: [(Verdict, &str); 5] = [
    (Verdict::Appeared, "APPEARED"),
    (Verdict::Grew, "GREW"),
    (Verdict::Shrank, "SHRANK"),
    (Verdict::Vanished, "VANISHED"),
    (Verdict::NotSignificant, "NO SIGNIFICANT DIFFERENCE"),
];

/// The changes from the first run to the second.
pub(super) fn versus(screen: &mut Screen, runs: [(&str, &Manifest); 2], found: &Versus) {
    let [a, b] = runs.map(|(name, _)| plain(name));
    screen.wrap(Style::Heading, "", &format!("FROM A = {a} TO B = {b}"));
    for (letter, (_, manifest)) in ["A", "B"].into_iter().zip(runs) {
        let busy = manifest.busy_nodes().into_iter();
        let busy: Vec<String> = busy.map(|said| format!("{letter}: {said}")).collect();
        alarms(screen, &busy);
    }
    lockstep(screen, found);
    if let Some(why) = &found.not_comparable {
        screen.wrap(Style::Alarm, "! ", why);
        return;
    }
    if found.sources.is_empty() {
        screen.line(Style::Plain, "  no sources: neither run saw any noise");
        return;
    }
    let changed = found
        .sources
        .iter()
        .filter(|s| s.verdict != Verdict::NotSignificant);
    let changed = changed.count();
    let text = match changed {
        0 => format!(
            "Sources: none of {} differs significantly between the runs.",
            found.sources.len()
        ),
        _ => format!(
            "Sources: {changed} of {} differ significantly (all tests together err in 5 % of \
             comparisons).",
            found.sources.len()
        ),
    };
    screen.wrap(Style::Plain, "  ", &text);
    for (verdict, title) in SECTIONS {
        let rows: Vec<Vec<String>> = found
            .sources
            .iter()
            .filter(|s| s.verdict == verdict)
            .map(row)
            .collect();
        if !rows.is_empty() {
            screen.line(Style::Heading, title);
            let header = [
                "source",
                "per s, A",
                "per s, B",
                "stolen, A",
                "stolen, B",
                "95 % of A",
                "95 % of B",
                "95 % per s, A",
                "95 % per s, B",
            ];
            screen.table(&header, &rows);
        }
    }
    screen.wrap(
        Style::Quiet,
        "  ",
        "per s: strikes per second of one CPU's time. stolen: share of that time. A source that is \
         not in a run was watched there and never struck.",
    );
}

fn row(s: &SourceChange) -> Vec<String> {
    let rate = |e: &Estimate| {
        if e.n == 0 {
            dash()
        } else {
            show::digits(e.value)
        }
    };
    let share = |e: &Estimate| if e.n == 0 { dash() } else { percent(e.value) };
    let shares = |e: &Estimate| show::percent_range(e.low, e.high);
    let rates = |e: &Estimate| format!("{}..{}", show::digits(e.low), show::digits(e.high));
    vec![
        format!("{} ({})", plain(&s.name), s.kind.label()),
        rate(&s.a.rate),
        rate(&s.b.rate),
        share(&s.a.stolen),
        share(&s.b.stolen),
        shares(&s.a.stolen),
        shares(&s.b.stolen),
        rates(&s.a.rate),
        rates(&s.b.rate),
    ]
}

fn lockstep(screen: &mut Screen, found: &Versus) {
    if !found.lockstep.is_empty() {
        screen.line(Style::Heading, "LOCKSTEP RUNS: slow-down");
        let range = |e: &Estimate| slowdown_range(e.value, e.low, e.high);
        let rows: Vec<Vec<String>> = found
            .lockstep
            .iter()
            .map(|l| {
                vec![
                    format!("{}, {}", plain(&l.name), counted(l.ranks, "rank")),
                    slowdown(l.a.value),
                    slowdown(l.b.value),
                    match (l.significant, l.b.value > l.a.value) {
                        (false, _) => "no significant change".to_owned(),
                        (true, true) => "slower".to_owned(),
                        (true, false) => "faster".to_owned(),
                    },
                    range(&l.a),
                    range(&l.b),
                ]
            })
            .collect();
        screen.table(
            &["run", "A", "B", "verdict", "95 % of A", "95 % of B"],
            &rows,
        );
    }
    for name in &found.only_one {
        let text = format!("only one of the runs has: {}", plain(name));
        screen.wrap(Style::Plain, "  ", &text);
    }
}
