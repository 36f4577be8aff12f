//! The summary's parts on a recorded program.

use crate::facts::source_name;
use crate::number::plain;
use crate::screen::{Screen, Style};
use crate::story;
use idlewave_run::Manifest;
use idlewave_run::findings::{Findings, ProgramFindings, RankTime, WaveFinding};
use idlewave_units::show::{self, count, percent};
use idlewave_units::{Bytes, Nanos, counted};
use std::cmp::Reverse;

/// Most ranks shown individually; if there are more, those held back most and those that waited
/// most.
const RANKS_SHOWN: usize = 8;
const OPERATIONS_SHOWN: usize = 6;
const WAITS_SHOWN: usize = 4;
const WAVES_SHOWN: usize = 4;
const EVENTS_SHOWN: usize = 4;
const MARKS_SHOWN: usize = 5;
const PARTS_SHOWN: usize = 5;

/// What was recorded, and the headline.
pub(super) fn headline(screen: &mut Screen, manifest: &Manifest, findings: &Findings) {
    let Some(recorded) = story::recorded(manifest) else {
        return;
    };
    let wall = Nanos::from_nanos(recorded.end_ns.saturating_sub(recorded.begin_ns));
    screen.line(
        Style::Heading,
        &format!("PROGRAM {}", story::own_command(manifest)),
    );
    let mut facts = Vec::new();
    match (&findings.program, recorded.library) {
        (Some(p), _) => {
            facts.push(if p.ranks == 1 {
                "1 rank".to_owned()
            } else {
                counted(p.ranks, "rank").to_string()
            });
            facts.push(match manifest.nodes.len() {
                1 => "1 node".to_owned(),
                n => format!("{n} nodes"),
            });
            facts.extend(p.library.as_deref().map(story::library_name));
            facts.push(format!("{} {}", p.total, story::analysed(p)));
        }
        (None, Some(library)) => facts.push(format!(
            "{}, but no call of it was recorded",
            story::library_name(library)
        )),
        (None, None) => {
            let (fact, how) = match story::imported_fact(manifest) {
                Some(fact) => (fact, "traced"),
                None => ("no MPI program".to_owned(), "recorded"),
            };
            facts.push(fact);
            facts.push(format!("{how} for {wall}"));
        }
    }
    facts.extend(recorded.exit_code.map(|code| format!("exit code {code}")));
    screen.wrap(Style::Plain, "  ", &facts.join(", "));
    match &findings.program {
        Some(program) => {
            screen.wrap(
                Style::Alarm,
                "  ",
                &story::headline(manifest, findings, program),
            );
            let texts = [
                story::time_sentence(manifest, program),
                story::charged_sentence(program),
                story::priority_sentence(manifest, program),
                story::verdict_sentence(manifest, program).map(str::to_owned),
            ];
            for text in texts.into_iter().flatten() {
                screen.wrap(Style::Plain, "  ", &text);
            }
        }
        None => screen.wrap(Style::Plain, "  ", &story::threads_sentence(findings)),
    }
}

/// Everything known about an MPI program except its sources.
pub(super) fn ranks(screen: &mut Screen, manifest: &Manifest, program: &ProgramFindings) {
    screen.line(Style::Heading, "WHERE THE TIME OF THE RANKS WENT");
    if program.ranks_time.is_empty() {
        screen.line(
            Style::Plain,
            "  not known: no rank came from MPI_Init to MPI_Finalize",
        );
        return;
    }
    let several = manifest.nodes.len() > 1;
    let (shown, rest) = worst(&program.ranks_time);
    let rows: Vec<Vec<String>> = shown
        .iter()
        .map(|r| {
            let name = match story::node_of(manifest, r.rank).filter(|_| several) {
                Some(node) => format!("{} ({})", r.rank, plain(node)),
                None => r.rank.to_string(),
            };
            let s = story::shares(manifest, [*r]);
            let share = |pick: fn(&story::Shares) -> Option<f64>| {
                let share = s.as_ref().and_then(pick);
                share.map_or_else(|| "-".to_owned(), percent)
            };
            vec![
                name,
                share(|s| Some(s.computing)),
                share(|s| s.taken),
                share(|s| Some(s.waiting)),
                share(|s| Some(s.communicating)),
            ]
        })
        .collect();
    screen.table(
        &["rank", "computing", "taken", "waiting", "communicating"],
        &rows,
    );
    if let Some(s) = story::shares(manifest, rest.iter().copied()) {
        let text = format!(
            "{} more: computing {}, taken {}, waiting {}, communicating {} (mean)",
            rest.len(),
            percent(s.computing),
            s.taken.map_or_else(|| "-".to_owned(), percent),
            percent(s.waiting),
            percent(s.communicating),
        );
        screen.wrap(Style::Quiet, "  ", &text);
    }
}

/// The critical path.
pub(super) fn path(
    screen: &mut Screen,
    manifest: &Manifest,
    findings: &Findings,
    program: &ProgramFindings,
) {
    let path = &program.path;
    if path.ranks.is_empty() {
        return;
    }
    screen.line(
        Style::Heading,
        "WHAT THE RUN TIME IS MADE OF (critical path; what lies off it cost nothing)",
    );
    let row = |name: String, time: Nanos| {
        let share = time.as_f64() / program.total.as_f64().max(1.0);
        vec![name, time.to_string(), percent(share)]
    };
    let mut rows = vec![
        row(
            story::path_computing(manifest, program).to_owned(),
            path.computing,
        ),
        row("communicating".to_owned(), path.communicating),
    ];
    let (shown, rest) = path.sources.split_at(path.sources.len().min(PARTS_SHOWN));
    rows.extend(shown.iter().map(|&(source, time)| {
        let source = &findings.sources[source as usize];
        row(source_name(source.kind, &source.name), time)
    }));
    if !rest.is_empty() {
        let time = rest.iter().map(|&(_, time)| time).sum();
        rows.push(row(counted(rest.len(), "other source").to_string(), time));
    }
    screen.table(&["part", "time", "share"], &rows);
    screen.wrap(Style::Quiet, "  ", &story::path_ranks(program, path));
}

/// All ranks if there are few; otherwise the four from which most was taken and the four that
/// waited most.
fn worst(all: &[RankTime]) -> (Vec<&RankTime>, Vec<&RankTime>) {
    let mut order: Vec<&RankTime> = all.iter().collect();
    if all.len() <= RANKS_SHOWN {
        order.sort_by_key(|r| r.rank);
        return (order, Vec::new());
    }
    order.sort_by_key(|r| (Reverse(r.taken), r.rank));
    let mut rest = order.split_off(RANKS_SHOWN / 2);
    rest.sort_by_key(|r| (Reverse(r.waiting), r.rank));
    let last = rest.split_off(RANKS_SHOWN / 2);
    order.extend(rest);
    order.sort_by_key(|r| r.rank);
    (order, last)
}

/// Functions by time.
pub(super) fn operations(screen: &mut Screen, program: &ProgramFindings) {
    if program.operations.is_empty() {
        return;
    }
    let calls = story::calls(program).to_uppercase();
    let heading = format!("TIME IN {calls}, all ranks together");
    screen.line(Style::Heading, &heading);
    let rows: Vec<Vec<String>> = program
        .operations
        .iter()
        .take(OPERATIONS_SHOWN)
        .map(|o| {
            vec![
                plain(&o.name),
                o.time.to_string(),
                o.waiting.to_string(),
                count(o.calls),
                o.median.to_string(),
                o.max.to_string(),
                if o.bytes == 0 {
                    "-".to_owned()
                } else {
                    Bytes::new(o.bytes).to_string()
                },
            ]
        })
        .collect();
    screen.table(
        &[
            "function", "time", "waiting", "calls", "median", "longest", "bytes",
        ],
        &rows,
    );
    let left = program.operations.len().saturating_sub(OPERATIONS_SHOWN);
    if left > 0 {
        let text = format!("  and {left} more: idlewave explain RUN --calls");
        screen.line(Style::Quiet, &text);
    }
}

/// Every MPI function that the program called, longest total time first, with exact numbers of
/// calls and bytes, below a line for every busy node; as wide as needed.
pub fn render_calls(manifest: &Manifest, findings: &Findings) -> String {
    let Some(program) = &findings.program else {
        return "no call of an MPI library was recorded\n".to_owned();
    };
    let head = [
        "function", "calls", "bytes", "time", "waiting", "median", "longest",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(program.operations.iter().map(|o| {
        [
            plain(&o.name),
            o.calls.to_string(),
            o.bytes.to_string(),
            o.time.to_string(),
            o.waiting.to_string(),
            o.median.to_string(),
            o.max.to_string(),
        ]
    }));
    let widest = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..head.len()).filter_map(widest).collect();
    let busy = findings.busy_nodes(manifest).into_iter();
    let mut text: String = busy.map(|said| format!("! {}\n", plain(&said))).collect();
    for row in &rows {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            match column {
                0 => text.push_str(&format!("{cell:<width$}")),
                _ => text.push_str(&format!("  {cell:>width$}")),
            }
        }
        text.push('\n');
    }
    text
}

/// What the ranks waited for.
pub(super) fn waits(screen: &mut Screen, program: &ProgramFindings) {
    screen.line(Style::Heading, "WHAT RANKS WAITED FOR");
    if program.waits.is_empty() {
        screen.line(Style::Plain, "  nothing: no rank waited for another one");
        return;
    }
    // Total over waits of all kinds: those too short to be explained often make up most of it.
    let all: f64 = program.waits.iter().map(|w| w.time.as_f64()).sum();
    let all = all.max(1.0);
    let rows: Vec<Vec<String>> = program
        .waits
        .iter()
        .take(WAITS_SHOWN)
        .map(|w| {
            vec![
                plain(&w.name),
                w.time.to_string(),
                percent(w.time.as_f64() / all),
                count(w.count),
            ]
        })
        .collect();
    screen.table(&["wait", "time", "share", "waits"], &rows);
    more(screen, program.waits.len(), WAITS_SHOWN);
}

/// The longest waits, grouped by cause, each with its explanation.
pub(super) fn longest(
    screen: &mut Screen,
    manifest: &Manifest,
    findings: &Findings,
    program: &ProgramFindings,
) {
    // Of the waits of one wave, only the longest is shown.
    let mut waves = std::collections::BTreeSet::new();
    let mut events = story::events(program);
    events.retain(|e| story::wave_of(program, e.first.1).is_none_or(|w| waves.insert(w)));
    if events.is_empty() {
        return;
    }
    screen.line(Style::Heading, "LONGEST WAITS EXPLAINED");
    let begin = story::recorded(manifest).map_or(0, |r| r.begin_ns);
    for event in events.iter().take(EVENTS_SHOWN) {
        let at = Nanos::from_nanos(event.first.1.begin_ns.saturating_sub(begin));
        let text = format!(
            "after {at}: {}",
            story::event_sentence(manifest, findings, event)
        );
        screen.wrap(Style::Plain, "  ", &text);
    }
    more(screen, events.len(), EVENTS_SHOWN);
}

/// Delays that travelled.
pub(super) fn waves(
    screen: &mut Screen,
    manifest: &Manifest,
    findings: &Findings,
    program: &ProgramFindings,
) {
    if program.waves.is_empty() {
        return;
    }
    screen.line(
        Style::Heading,
        "IDLE WAVES (a delay that travels from rank to rank)",
    );
    let rows: Vec<Vec<String>> = program
        .waves
        .iter()
        .take(WAVES_SHOWN)
        .map(|w| wave(manifest, findings, w))
        .collect();
    screen.table(
        &[
            "from, by", "lost", "ranks", "hops", "speed", "first", "loses",
        ],
        &rows,
    );
    more(screen, program.waves.len(), WAVES_SHOWN);
}

fn wave(manifest: &Manifest, findings: &Findings, w: &WaveFinding) -> Vec<String> {
    let source = findings.sources.get(w.source as usize);
    let source = source.map_or_else(|| "not in the table".to_owned(), |s| plain(&s.name));
    let dash = || "-".to_owned();
    vec![
        format!("{}, {source}", story::rank_name(manifest, w.origin)),
        w.lost.to_string(),
        w.ranks.to_string(),
        w.hops.to_string(),
        w.speed
            .as_ref()
            .map_or_else(dash, |s| format!("{} /s", show::digits(s.value))),
        w.first.to_string(),
        w.decay
            .map_or_else(dash, |d| format!("{}/hop", percent(d).replace(' ', ""))),
    ]
}

/// Messages and bytes, and who exchanges most.
pub(super) fn messages(screen: &mut Screen, program: &ProgramFindings) {
    if program.messages == 0 {
        return;
    }
    let mut text = format!(
        "{} point-to-point messages, {} ({} B)",
        count(program.messages),
        Bytes::new(program.message_bytes),
        program.message_bytes,
    );
    if let Some((from, to, _, bytes)) = program
        .matrix
        .iter()
        .max_by_key(|p| (p.3, Reverse((p.0, p.1))))
    {
        text.push_str(&format!(
            "; most from rank {from} to rank {to}: {}",
            Bytes::new(*bytes)
        ));
    }
    screen.wrap(Style::Plain, "  ", &text);
}

/// Regions that the program marked.
pub(super) fn marks(screen: &mut Screen, program: &ProgramFindings) {
    if program.marks.is_empty() {
        return;
    }
    screen.line(
        Style::Heading,
        "REGIONS MARKED BY THE PROGRAM, all ranks together",
    );
    let rows: Vec<Vec<String>> = program
        .marks
        .iter()
        .take(MARKS_SHOWN)
        .map(|m| {
            vec![
                plain(&m.name),
                m.time.to_string(),
                m.waiting.to_string(),
                count(m.count),
                m.median.to_string(),
                m.max.to_string(),
            ]
        })
        .collect();
    screen.table(
        &["region", "time", "waiting", "times", "median", "longest"],
        &rows,
    );
    more(screen, program.marks.len(), MARKS_SHOWN);
}

fn more(screen: &mut Screen, all: usize, shown: usize) {
    if all > shown {
        screen.line(
            Style::Quiet,
            &format!("  and {} more: see the report page", all - shown),
        );
    }
}
