//! The summary's parts on delays: verdict, sources, prediction, advice.

use crate::facts::{self, SHOWN_RANKS};
use crate::number::plain;
use crate::screen::{Screen, Style};
use crate::story;
use idlewave_run::findings::{
    Advice, Curve, Estimate, Findings, GranularityCurve, LockstepFindings, Prediction,
    SourceFinding, Topology,
};
use idlewave_run::{Manifest, SourceKind};
use idlewave_units::Nanos;
use idlewave_units::show::{self, count, percent};
use idlewave_units::{counted, grouped};
use std::collections::BTreeSet;

/// Most sources shown.
const SOURCES_SHOWN: usize = 8;
/// Most pieces of advice shown that save time.
const ADVICE_SHOWN: usize = 3;
/// Most other pieces of advice shown.
const OTHER_SHOWN: usize = 2;
/// A slow-down that most programs can live with: up to this, granularity absorbs the noise.
const TOLERABLE: f64 = 0.05;
/// An interval is narrow if it reaches no further from its value than this share of the value, or
/// this far.
const NARROW_SHARE: f64 = 0.2;
const NARROW_POINTS: f64 = 0.01;
/// Most wide intervals shown.
const WIDE_SHOWN: usize = 2;

/// Verdict on every lockstep run.
pub(super) fn lockstep(screen: &mut Screen, findings: &Findings) {
    let Some(first) = findings.lockstep.first() else {
        screen.line(Style::Heading, "LOCKSTEP RUNS");
        screen.line(Style::Plain, "  not measured");
        return;
    };
    if let Some(found) = &findings.ways {
        super::ways::ways(screen, found, first.ranks);
        screen.wrap(Style::Plain, "  ", &facts::blame_sentence(findings));
        return;
    }
    let ranks = if first.ranks == 1 {
        "1 rank".to_owned()
    } else {
        counted(first.ranks, "rank").to_string()
    };
    screen.line(Style::Heading, &format!("LOCKSTEP RUNS, {ranks}"));
    let rows: Vec<Vec<String>> = findings.lockstep.iter().map(run_row).collect();
    screen.table(
        &[
            "run",
            "step",
            "slow-down",
            "(95 %)",
            "late steps",
            "late by",
        ],
        &rows,
    );
    for run in &findings.lockstep {
        if let Some(why) = &run.slowdown_not_known {
            let text = format!("{}: slow-down {}", plain(&run.name), plain(why));
            screen.wrap(Style::Plain, "  ", &text);
        }
    }
    for text in findings
        .lockstep
        .iter()
        .filter_map(facts::slow_messages_sentence)
    {
        screen.wrap(Style::Plain, "  ", &text);
    }
    screen.wrap(Style::Plain, "  ", &facts::blame_sentence(findings));
    for run in findings
        .lockstep
        .iter()
        .filter(|r| !r.slow_ranks.is_empty())
    {
        let list: Vec<String> = run
            .slow_ranks
            .iter()
            .take(8)
            .map(ToString::to_string)
            .collect();
        let more = if run.slow_ranks.len() > 8 { ", .." } else { "" };
        let text = format!(
            "{}: last more often than by chance: rank {}{more}",
            plain(&run.name),
            list.join(", ")
        );
        screen.wrap(Style::Plain, "  ", &text);
    }
}

fn run_row(run: &LockstepFindings) -> Vec<String> {
    vec![
        plain(&run.name),
        run.step.to_string(),
        match run.slowdown_not_known {
            Some(_) => "not known".to_owned(),
            None => show::slowdown(run.slowdown.value),
        },
        show::slowdown_range(run.slowdown.value, run.slowdown.low, run.slowdown.high),
        format!("{} of {}", count(run.late_steps), count(run.iterations)),
        if run.late_steps == 0 {
            "-".to_owned()
        } else {
            run.lateness.to_string()
        },
    ]
}

/// The table of sources, most time lost first. The unexplained part is always shown.
pub(super) fn sources(screen: &mut Screen, manifest: &Manifest, findings: &Findings) {
    let (of_cpus, benchmarks) = (manifest.is_of_cpus(), manifest.is_of_benchmarks());
    let mut shown: Vec<&SourceFinding> = findings.sources.iter().take(SOURCES_SHOWN).collect();
    // Without a kernel trace, nobody is known to have taken time from a measuring loop.
    let nothing = |s: &&SourceFinding| s.stolen == Nanos::ZERO;
    if (of_cpus || benchmarks) && shown.iter().all(nothing) || shown.is_empty() {
        return;
    }
    let unnamed = findings
        .sources
        .iter()
        .find(|s| s.kind == SourceKind::Unexplained);
    if let Some(unnamed) = unnamed.filter(|u| !shown.contains(u)) {
        shown.pop();
        shown.push(unnamed);
    }
    let recorded = story::recorded(manifest).is_some();
    let heading = match (recorded, &findings.program) {
        _ if of_cpus => "WHO TAKES TIME (stolen = from the measuring loops of all CPUs)",
        _ if benchmarks => "WHO TAKES TIME (stolen = from the ranks, computing or in calls)",
        (false, _) => "WHO COSTS TIME (lost = by all ranks; ampl = lost per time stolen)",
        (true, Some(_)) => {
            "WHO COSTS TIME (lost = by all ranks; late = delays that ranks waited for)"
        }
        (true, None) => "WHO TAKES TIME (stolen = from the threads of the program)",
    };
    screen.line(Style::Heading, heading);
    if story::nobody_waits(manifest, findings) {
        let rows: Vec<Vec<String>> = shown.iter().map(|s| taking_row(s)).collect();
        screen.table(&["source", "stolen", "strikes", "length", "period"], &rows);
    } else {
        let rows: Vec<Vec<String>> = shown.iter().map(|s| source_row(s)).collect();
        let header = [
            "source", "lost", "late", "stolen", "ampl", "period", "length",
        ];
        screen.table(&header, &rows);
    }
    if findings.sources.len() > shown.len() {
        let place = match of_cpus {
            true => "--json shows all",
            false => "see the report page",
        };
        let more = findings.sources.len() - shown.len();
        let text = format!("  and {more} more: {place}");
        screen.line(Style::Quiet, &text);
    }
}

/// For a program without ranks: what was taken from its threads.
fn taking_row(source: &SourceFinding) -> Vec<String> {
    let dash = || "-".to_owned();
    vec![
        facts::source_name(source.kind, &source.name),
        source
            .events
            .map_or_else(dash, |_| source.stolen.to_string()),
        source.events.map_or_else(dash, count),
        source
            .length
            .as_ref()
            .map_or_else(dash, |l| show::time(l.value)),
        source
            .period
            .as_ref()
            .map_or_else(dash, |p| show::time(p.period.value)),
    ]
}

fn source_row(source: &SourceFinding) -> Vec<String> {
    let dash = || "-".to_owned();
    let has_events = source.events.is_some();
    vec![
        facts::source_name(source.kind, &source.name),
        source.lost.to_string(),
        count(source.late_steps),
        // A class without events (slow level, unexplained) steals nothing that could be counted.
        if has_events {
            source.stolen.to_string()
        } else {
            dash()
        },
        source.amplification.map_or_else(dash, show::factor),
        source
            .period
            .as_ref()
            .map_or_else(dash, |p| show::time(p.period.value)),
        source
            .length
            .as_ref()
            .map_or_else(dash, |l| show::time(l.value)),
    ]
}

/// Slow-down at scale, what removing a source saves, and where granularity absorbs the noise.
pub(super) fn prediction(screen: &mut Screen, findings: &Findings) {
    let Some(prediction) = &findings.prediction else {
        screen.line(Style::Heading, "AT SCALE");
        screen.wrap(Style::Plain, "  ", &facts::not_predicted_sentence(findings));
        return;
    };
    let heading = format!(
        "AT SCALE, {} of computation per step: slow-down",
        prediction.granularity
    );
    screen.line(Style::Heading, &heading);
    if let Some(misfit) = facts::misfit_sentence(findings) {
        screen.wrap(Style::Alarm, "  ", &misfit);
    }
    let mut header = vec!["ranks".to_owned()];
    header.extend(SHOWN_RANKS.map(grouped));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let curves = shown_curves(prediction);
    let rows: Vec<Vec<String>> = curves.iter().map(curve_row).collect();
    screen.table(&header, &rows);
    if let Some(text) = wide_intervals(&curves) {
        screen.wrap(Style::Plain, "  ", &text);
    }
    absorbed(screen, prediction);
    if let Some(law) = &prediction.by_rate {
        screen.wrap(Style::Plain, "  ", &facts::rate_law_sentence(law));
        if let Some(text) = facts::measured_rates_sentence(findings) {
            screen.wrap(Style::Plain, "  ", &text);
        }
    }
    if let Some(caveat) = prediction.caveats.first() {
        let more = match prediction.caveats.len() - 1 {
            0 => String::new(),
            n => format!(" ({n} more on the page)"),
        };
        screen.wrap(Style::Quiet, "  ", &format!("but {}{more}", plain(caveat)));
    }
}

/// A row of the table: its name and its curve.
type Row<'a> = (String, &'a Curve);

/// Each topology, and the worst of them without each source.
fn shown_curves(prediction: &Prediction) -> Vec<Row<'_>> {
    let all = Topology::ALL.into_iter().filter_map(|topology| {
        let curve = facts::curve(&prediction.curves, topology)?;
        Some((topology.label().to_owned(), curve))
    });
    let worst = facts::worst_point(prediction).map(|(topology, _)| topology);
    let without = prediction.without.iter().filter_map(|removed| {
        let curve = facts::curve(&removed.curves, worst?)?;
        let name = format!("{} without {}", worst?.label(), plain(&removed.name));
        Some((name, curve))
    });
    all.chain(without).collect()
}

fn curve_row((name, curve): &Row) -> Vec<String> {
    let mut row = vec![name.clone()];
    row.extend(SHOWN_RANKS.map(|r| {
        facts::at_ranks(curve, r).map_or_else(|| "-".to_owned(), |p| facts::slowdown(&p.slowdown))
    }));
    row
}

/// Values of the table with wide intervals, the widest first, and of each curve only its widest;
/// `None` without any.
fn wide_intervals(curves: &[Row]) -> Option<String> {
    let mut wide = Vec::new();
    for (name, curve) in curves {
        for ranks in SHOWN_RANKS {
            let Some(point) = facts::at_ranks(curve, ranks) else {
                continue;
            };
            let Estimate {
                value, low, high, ..
            } = point.slowdown;
            let reach = (high - value).max(value - low);
            let known = point.slowdown.not_known_slowdown().is_none();
            if known && reach > NARROW_POINTS.max(NARROW_SHARE * value) {
                let range = show::slowdown_range(value, low, high);
                let text = format!("{name} at {} ranks: {range}", grouped(ranks));
                wide.push((reach / value, name, text));
            }
        }
    }
    wide.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut curves = BTreeSet::new();
    let widest = wide.iter().filter(|(_, name, _)| curves.insert(name));
    let named: Vec<&str> = widest.take(WIDE_SHOWN).map(|w| w.2.as_str()).collect();
    let more = match wide.len() - named.len() {
        0 => String::new(),
        n => format!(" and {n} more on the page"),
    };
    let text = format!("wide intervals (95 %): {}{more}", named.join("; "));
    (!wide.is_empty()).then_some(text)
}

/// The smallest granularity from which the slow-down stays tolerable.
fn absorbed(screen: &mut Screen, prediction: &Prediction) {
    let Some(ranks) = prediction.by_granularity.first().map(|c| grouped(c.ranks)) else {
        return;
    };
    let from = |c: &GranularityCurve| {
        c.points
            .iter()
            .rev()
            .take_while(|(_, s)| s.value <= TOLERABLE)
            .last()
            .map(|p| p.0)
    };
    let mut least: Vec<(Nanos, &str)> = prediction
        .by_granularity
        .iter()
        .filter_map(|c| Some((from(c)?, c.topology.label())))
        .collect();
    least.sort_by_key(|l| l.0);
    let limit = percent(TOLERABLE);
    let text = match (least.first(), least.last()) {
        (Some((low, _)), Some((high, _))) if low == high => {
            format!("below {limit} at {ranks} ranks with {low} or more of computation per step")
        }
        (Some((low, easy)), Some((high, hard))) => format!(
            "below {limit} at {ranks} ranks with {low} ({easy}) to {high} ({hard}) or more of computation per step"
        ),
        _ => format!("no tested step length keeps the slow-down below {limit} at {ranks} ranks"),
    };
    screen.wrap(Style::Plain, "  ", &text);
}

/// What to do next: what saves time, then what lets the next run show more.
pub(super) fn advice(screen: &mut Screen, manifest: &Manifest, findings: &Findings) {
    let (saving, other): (Vec<&Advice>, Vec<&Advice>) =
        findings.advice.iter().partition(|a| a.saves());
    // Measurements of CPUs alone hardly tell what a program could save.
    if !saving.is_empty() || !manifest.is_of_cpus() {
        screen.line(Style::Heading, "WHAT TO DO, what saves most first");
        if saving.is_empty() {
            screen.line(Style::Plain, "  nothing is known to save time");
        }
        listed(screen, findings, &saving, ADVICE_SHOWN);
    }
    if !other.is_empty() {
        screen.line(Style::Heading, "TO SEE MORE");
        listed(screen, findings, &other, OTHER_SHOWN);
    }
}

fn listed(screen: &mut Screen, findings: &Findings, all: &[&Advice], shown: usize) {
    for (i, advice) in all.iter().take(shown).enumerate() {
        let (action, reason) = (plain(&advice.action), plain(&advice.reason));
        let text = match facts::saves(findings, advice) {
            Some(saves) => format!("{action}: {saves}; {reason}"),
            None => format!("{action}: {reason}"),
        };
        screen.wrap(Style::Plain, &format!("  {}. ", i + 1), &text);
        if let Some(command) = &advice.command {
            screen.command(5, &plain(command));
        }
    }
    if all.len() > shown {
        let more = all.len() - shown;
        screen.line(
            Style::Quiet,
            &format!("  and {more} more: see the report page"),
        );
    }
}
