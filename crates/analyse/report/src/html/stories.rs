//! The story of every listed late step: what is normal, who was late, what took its CPU, who waited.

use super::explorer::Explorer;
use super::markup::escape;
use super::windows::Window;
use crate::number::{kept, plain};
use crate::story::did;
use idlewave_run::SourceKind;
use idlewave_run::findings::{Findings, LateFinding, LatePartFinding, LockstepFindings};
use idlewave_units::{Nanos, Rank, counted, grouped};

/// Parts of the lateness that are told one by one, from this share of it on.
const TOLD: f64 = 0.01;
/// So many ranks are listed by number; more are counted.
const LISTED: usize = 4;

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
            let mut told = vec![normal(late, run), blame(findings, late)];
            told.push(waiting(late, run, window));
            let paragraphs: String = told
                .iter()
                .map(|text| format!("<p>{}</p>\n", escape(&kept(text, '\u{a0}'))))
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
        // Where most of it is in one piece, it has a moment.
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
    let usual = |rank: u32| {
        let compute = run.and_then(|r| {
            Some(
                r.step
                    .get()
                    .saturating_sub(r.compute.get(rank as usize)?.get()),
            )
        });
        compute.unwrap_or(0)
    };
    let others: Vec<(u32, u64)> = window
        .communicated(late.iteration)
        .into_iter()
        .filter(|(rank, _)| *rank != late.last_rank.get())
        .map(|(rank, time)| (rank, time.saturating_sub(usual(rank))))
        .collect();
    if others.is_empty() {
        return match run.is_some_and(|r| r.ranks == 1) {
            true => "There is no other rank that could wait for it.".to_owned(),
            false => "Who waited for it was not recorded.".to_owned(),
        };
    }
    let half = late.lateness.get() / 2;
    let waited: Vec<&(u32, u64)> = others.iter().filter(|(_, time)| *time >= half).collect();
    let beyond = run.map_or(0, |r| (r.ranks as usize).saturating_sub(others.len() + 1));
    let only = match beyond {
        0 => String::new(),
        _ => format!(
            " Of the ranks, {} nearest by number are counted here.",
            others.len()
        ),
    };
    let (Some(least), Some(most)) = (
        waited.iter().map(|w| w.1).min().map(Nanos::from_nanos),
        waited.iter().map(|w| w.1).max().map(Nanos::from_nanos),
    ) else {
        return format!(
            "No other rank waited for even half of it: what they had left to do absorbed the delay.{only}"
        );
    };
    let ranks: Vec<u32> = waited.iter().map(|w| w.0).collect();
    let long = match least.to_string() == most.to_string() {
        true => format!("{most}"),
        false => format!("{least} to {most}"),
    };
    let each = if ranks.len() == 1 { "" } else { " each" };
    let total: u64 = waited.iter().map(|w| w.1).sum();
    let sum = match ranks.len() {
        1 => String::new(),
        _ => format!(", {} in all", Nanos::from_nanos(total)),
    };
    let rest = match others.len() - ranks.len() {
        0 => String::new(),
        n => format!(
            " {} did not wait in this step.",
            capital(&counted(n, "other rank"))
        ),
    };
    format!(
        "{} waited for it, {long}{each} longer than usual{sum}.{rest}{only}",
        capital(&names(&ranks))
    )
}

/// "rank 1", "ranks 1, 2 and 5", "7 ranks".
fn names(ranks: &[u32]) -> String {
    match ranks {
        [] => "no rank".to_owned(),
        [one] => format!("rank {}", Rank::new(*one)),
        many if many.len() > LISTED => counted(many.len(), "rank"),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(u32::to_string).collect();
            format!("ranks {} and {last}", first.join(", "))
        }
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_uppercase().collect::<String>());
    first.unwrap_or_default() + letters.as_str()
}
