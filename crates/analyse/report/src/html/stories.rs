//! The story of every listed late step: what is normal, who was late, what took its CPU, who waited.

use super::explorer::Explorer;
use super::markup::prose;
use super::windows::Window;
use crate::number::{capitalised, plain};
use crate::story::{did, rank_list};
use idlewave_run::SourceKind;
use idlewave_run::findings::{Findings, LateFinding, LatePartFinding, LockstepFindings};
use idlewave_units::{Nanos, Rank, counted, grouped};

/// Parts of the lateness are told one by one if they are at least this share of it.
const TOLD: f64 = 0.01;

/// All stories, in the order of the late steps; the script shows the chosen one.
pub(super) fn stories(
    findings: &Findings,
    windows: &[Window],
    explorer: Option<&Explorer>,
) -> String {
    let listed = findings.latest.iter().zip(windows).enumerate();
    let all: String = listed
        .map(|(i, (late, window))| {
            let run = findings.lockstep.iter().find(|l| l.phase == late.phase);
            let told = [
                normal(late, run),
                blame(findings, late),
                waiting(late, run, window),
            ];
            let paragraphs: String = told
                .iter()
                .map(|text| format!("<p>{}</p>\n", prose(text)))
                .collect();
            let link = explorer.map_or_else(String::new, |explorer| {
                let to = explorer.moment(late.begin_ns, late.end_ns);
                format!("<p><a href=\"{to}\">Show it in the whole run</a></p>\n")
            });
            format!("<article class=\"story\" id=\"late-{i}\">\n{paragraphs}{link}</article>\n")
        })
        .collect();
    format!("<div class=\"stories words\" aria-live=\"polite\">\n{all}</div>\n")
}

/// What a step takes, and how long this one took.
fn normal(late: &LateFinding, run: Option<&LockstepFindings>) -> String {
    let took = Nanos::from_nanos(late.end_ns.saturating_sub(late.begin_ns));
    let place = late
        .cpu
        .map_or_else(String::new, |cpu| format!(" on CPU {cpu}"));
    let last = format!(
        "Step {} took {took}, because rank {}{place} arrived {} late.",
        grouped(late.iteration),
        late.last_rank,
        late.lateness
    );
    let Some(run) = run else {
        return last;
    };
    let compute = run.compute.get(late.last_rank.get() as usize);
    let compute = compute.map_or_else(String::new, |c| format!(", {c} of that to compute"));
    format!(
        "An undisturbed step of the {} takes {}{compute}. {last}",
        plain(&run.name),
        run.step
    )
}

/// What kept the last rank, the largest part first.
fn blame(findings: &Findings, late: &LateFinding) -> String {
    let share = |p: &&LatePartFinding| p.time.as_f64() >= TOLD * late.lateness.as_f64();
    let told: Vec<&LatePartFinding> = late.parts.iter().filter(share).collect();
    let mut text = String::new();
    for (n, part) in told.iter().enumerate() {
        let source = findings.sources.get(part.source as usize);
        let is_named = source.is_some_and(|s| s.kind != SourceKind::Unexplained);
        let amount = match (n, late.parts.len()) {
            (0, 1) => format!("all {}", part.time),
            _ => part.time.to_string(),
        };
        let since = late.charged.iter().filter(|c| c.source == part.source);
        let since = since.max_by_key(|c| c.end_ns.saturating_sub(c.begin_ns));
        // If most of it is in one piece, the story says when that began.
        let since =
            since.filter(|c| 10 * c.end_ns.saturating_sub(c.begin_ns) >= 9 * part.time.get());
        let since = since.map_or_else(String::new, |c| {
            let after = Nanos::from_nanos(c.begin_ns.saturating_sub(late.begin_ns));
            format!(", from {after} into the step on")
        });
        text.push_str(&match (n, is_named) {
            (0, true) => format!("For {amount} of the delay it {}{since}", did(source)),
            (0, false) => format!("For {amount} of the delay no record names a cause"),
            (_, true) => format!("; for {amount} it {}{since}", did(source)),
            (_, false) => format!("; for {amount} no record names a cause"),
        });
    }
    match text.is_empty() {
        true => "Nothing recorded explains the delay.".to_owned(),
        false => text + ".",
    }
}

/// Who waited for it in this step, and for how long.
fn waiting(late: &LateFinding, run: Option<&LockstepFindings>, window: &Window) -> String {
    if run.is_some_and(|r| r.ranks == 1) {
        return "There is no other rank that could wait for it.".to_owned();
    }
    let others = run.map_or_else(Vec::new, |run| longer_than_usual(late, run, window));
    if others.is_empty() {
        return "Who waited for it is not known.".to_owned();
    }
    let half = Nanos::from_nanos(late.lateness.get() / 2);
    let waited: Vec<(Rank, Nanos)> = others.iter().copied().filter(|w| w.1 >= half).collect();
    let beyond = run.map_or(0, |r| (r.ranks as usize).saturating_sub(others.len() + 1));
    let only = match beyond {
        0 => String::new(),
        _ => format!(
            " Of the ranks, {} nearest by number are counted here.",
            others.len()
        ),
    };
    let times = || waited.iter().map(|w| w.1);
    let (Some(least), Some(most)) = (times().min(), times().max()) else {
        return format!(
            "No other rank waited for even half of the delay: what they had left to do absorbed it.{only}"
        );
    };
    let long = match least.to_string() == most.to_string() {
        true => most.to_string(),
        false => format!("{least} to {most}"),
    };
    let total: Nanos = times().sum();
    let (each, sum) = match waited.len() {
        1 => ("", String::new()),
        _ => (" each", format!(", {total} in all")),
    };
    let rest = match others.len() - waited.len() {
        0 => String::new(),
        n => format!(
            " {} waited for less than half of the delay.",
            counted(n, "other rank")
        ),
    };
    let ranks: Vec<Rank> = waited.iter().map(|w| w.0).collect();
    format!(
        "{} waited for it, {long}{each} longer than usual{sum}.{rest}{only}",
        capitalised(&rank_list(&ranks))
    )
}

/// How much longer each of the other ranks communicated than in an undisturbed step.
fn longer_than_usual(
    late: &LateFinding,
    run: &LockstepFindings,
    window: &Window,
) -> Vec<(Rank, Nanos)> {
    let all = window.communicated(late.iteration).into_iter();
    let others = all.filter(|(rank, _)| *rank != late.last_rank.get());
    let longer = others.filter_map(|(rank, time)| {
        let compute = run.compute.get(rank as usize)?;
        let usual = run.step.get().saturating_sub(compute.get());
        let longer = Nanos::from_nanos(time.saturating_sub(usual));
        Some((Rank::new(rank), longer))
    });
    longer.collect()
}
