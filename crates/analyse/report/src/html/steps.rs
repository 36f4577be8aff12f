//! The late steps with their timeline, and the map of the slowest rank.

use super::explorer::Explorer;
use super::markup::{absent, caption, cell, escape, number, section as in_section, table};
use super::slowest::Slowest;
use super::stories::stories;
use super::windows::Window;
use idlewave_run::findings::{Findings, LateFinding};
use idlewave_units::named;
use idlewave_units::show::count;

/// The list of late steps, the parts of the selected one, and the timeline around it.
pub(super) fn section(
    findings: &Findings,
    windows: &[Window],
    explorer: Option<&Explorer>,
) -> String {
    if findings.latest.is_empty() {
        let why = if findings.lockstep.is_empty() {
            "No lockstep run was recorded, so there is no step to look at."
        } else {
            "No step was late enough to be explained one by one."
        };
        return in_section("late", "Late steps", &absent(why));
    }
    let total: u64 = findings.lockstep.iter().map(|l| l.late_steps).sum();
    let intro = caption(&format!(
        "The {} most delayed of {} late steps. Choose one: the timeline below shows it with the steps around \
         it, and the list beside it who made it late; the parts add up to its lateness exactly.",
        findings.latest.len(),
        count(total.max(findings.latest.len() as u64)),
    ));
    let rows: String = findings
        .latest
        .iter()
        .enumerate()
        .map(|(i, l)| row(i, l, findings, explorer))
        .collect();
    let mut header = vec![
        ("Late by", "What exceeds the undisturbed step"),
        ("Most of it", "The largest part"),
        ("Run", "Lockstep run"),
        ("Step", "Iteration, from 0"),
        ("Last rank", "The rank that set the pace"),
        ("CPU", "Where it was"),
    ];
    if explorer.is_some() {
        header.push(("At", "Start of the step, since the start of the recording"));
    }
    let body = format!(
        "{intro}<div class=\"split\"><div class=\"list\">{}</div><div class=\"parts\"><h3 id=\"parts-title\">&nbsp;</h3>\
         <div id=\"parts\"></div></div></div>\n{}{TIMELINE}",
        table("sortable choose", &header, &rows),
        stories(findings, windows, explorer),
    );
    in_section("late", "Late steps", &body)
}

const TIMELINE: &str = "<div class=\"figure\" id=\"timeline\">\
<div class=\"tools\"><output id=\"range\"></output>\
<button type=\"button\" data-zoom=\"in\" aria-label=\"Zoom in\">+</button>\
<button type=\"button\" data-zoom=\"out\" aria-label=\"Zoom out\">&minus;</button>\
<button type=\"button\" data-zoom=\"all\">Whole window</button>\
<button type=\"button\" data-zoom=\"step\">Late step</button></div>\
<canvas id=\"timeline-canvas\" tabindex=\"0\" role=\"img\" aria-label=\"Timeline of CPUs and ranks around the chosen late step\"></canvas>\
<p class=\"legend\" id=\"timeline-legend\"></p></div>\n\
<p class=\"caption\">Upper rows: what ran on each CPU, interrupts on top of it. Lower rows: what each rank did, \
detours seen by the rank itself on top. The row <em>charged</em> under the last rank (marked) shows what made the step late, where it was; \
hatched is what has a length only, as a share of the step. The shaded stretch is the late step. Wheel or + and - zoom, drag or arrow keys pan, 0 shows the whole window.</p>\n";

fn row(i: usize, late: &LateFinding, findings: &Findings, explorer: Option<&Explorer>) -> String {
    let path = |field: &str| format!("latest.{i}.{field}");
    let run = findings.lockstep.iter().find(|l| l.phase == late.phase);
    let run = run.map_or_else(|| format!("phase {}", late.phase), |l| l.name.clone());
    let cause = late
        .parts
        .first()
        .and_then(|p| findings.sources.get(p.source as usize));
    let cause = cause.map_or("not explained", |s| s.name.as_str());
    let lateness = number(
        &path("lateness"),
        late.lateness.get(),
        &late.lateness.to_string(),
    );
    let rank = number(
        &path("last_rank"),
        late.last_rank,
        &late.last_rank.to_string(),
    );
    let step = number(
        &path("iteration"),
        late.iteration,
        &late.iteration.to_string(),
    );
    let cpu = late.cpu.map_or_else(
        || cell(-1, "&ndash;"),
        |c| cell(c, &number(&path("cpu"), c, &c.to_string())),
    );
    let (begin, moment) = explorer.map_or_else(Default::default, |e| {
        let after = e.after(late.begin_ns);
        let link = format!(
            "<a href=\"{}\">{after}</a>",
            e.moment(late.begin_ns, late.end_ns)
        );
        (
            format!(" data-begin=\"{}\"", after.get()),
            cell(after.get(), &link),
        )
    });
    format!(
        "<tr data-late=\"{i}\"{begin}>{}<td data-key=\"{}\" class=\"text\">{}</td><td data-key=\"{}\" class=\"text\">{}</td>{}{}{cpu}{moment}</tr>\n",
        cell(
            late.lateness.get(),
            &format!("<button type=\"button\">{lateness}</button>")
        ),
        escape(&cause.to_lowercase()),
        escape(cause),
        escape(&run),
        escape(&run),
        cell(late.iteration, &step),
        cell(late.last_rank, &rank),
    )
}

/// One map per lockstep run with more than one rank.
pub(super) fn slowest(maps: &[Slowest], findings: &Findings) -> String {
    let shown: Vec<(usize, &Slowest)> = maps
        .iter()
        .enumerate()
        .filter(|(_, m)| m.steps > 0)
        .collect();
    if shown.is_empty() {
        let why = "There is nothing to map: no lockstep run of more than one rank was recorded.";
        return in_section("slowest", "Slowest rank of every step", &absent(why));
    }
    let mut body = caption(
        "Left to right the steps of a run, top to bottom the ranks; the stronger the colour, the more often that \
         rank arrived last there. An even tone means that no rank is slower than the others. A strong row is load \
         imbalance or a busy CPU, a spot a single disturbance, a diagonal something that goes round the ranks.",
    );
    for (i, map) in shown {
        let run = findings.lockstep.iter().position(|l| l.phase == map.phase);
        let name = run.map_or_else(
            || format!("phase {}", map.phase),
            |r| findings.lockstep[r].name.clone(),
        );
        let mut text = format!(
            "{} {}, {} {}",
            count(map.ranks.into()),
            named(map.ranks, "rank"),
            count(map.steps),
            named(map.steps, "step")
        );
        if let Some(l) = run.map(|r| &findings.lockstep[r]) {
            if l.iterations > map.steps {
                text.push_str(&format!(" (the first of {})", count(l.iterations)));
            }
            text.push_str(&match l.slow_ranks.as_slice() {
                [] => "; no rank was last more often than by chance".to_owned(),
                list => {
                    let names: Vec<String> =
                        list.iter().take(12).map(ToString::to_string).collect();
                    let more = if list.len() > 12 { ", ..." } else { "" };
                    format!(
                        "; last more often than by chance: rank {}{more}",
                        names.join(", ")
                    )
                }
            });
        }
        body.push_str(&format!(
            "<div class=\"figure\"><h3>{}</h3><p class=\"note\">{text}</p><canvas class=\"slowest\" data-map=\"{i}\" role=\"img\" \
             aria-label=\"Map of the slowest rank\"></canvas></div>\n",
            escape(&name)
        ));
    }
    in_section("slowest", "Slowest rank of every step", &body)
}
