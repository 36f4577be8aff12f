//! For a recorded program: the longest waits with the timeline of the ranks, and the idle waves.

use super::explorer::Explorer;
use super::markup::{absent, caption, cell, escape, number, section as in_section, table};
use super::ranks;
use crate::story::{self, Event};
use idlewave_run::Manifest;
use idlewave_run::findings::{Findings, ProgramFindings, WaveFinding};
use idlewave_units::show::{self, count, percent};

/// The list of waits, the parts of the selected one, and the timeline.
pub(super) fn section(
    manifest: &Manifest,
    findings: &Findings,
    program: &ProgramFindings,
    lanes: bool,
    explorer: Option<&Explorer>,
) -> String {
    let mut body = ranks::waits(program);
    let events = story::events(program);
    if events.is_empty() {
        body.push_str(&absent(&format!(
            "No rank waited for another one long enough to be listed. If the program is slow all the same, look at \
             what it computes, and at {} for slow messages.",
            ranks::operations_heading(program)
        )));
    } else {
        body.push_str(&list(manifest, findings, program, &events, explorer));
    }
    if lanes {
        body.push_str(TIMELINE);
    } else {
        body.push_str(&absent("No rank is known, so there is no time line."));
    }
    in_section("waits", "Waits and time line", &body)
}

const TIMELINE: &str = "<div class=\"figure\" id=\"lanes\">\
<div class=\"tools\"><output id=\"lanes-range\"></output>\
<button type=\"button\" data-zoom=\"in\" aria-label=\"Zoom in\">+</button>\
<button type=\"button\" data-zoom=\"out\" aria-label=\"Zoom out\">&minus;</button>\
<button type=\"button\" data-zoom=\"all\">Whole program</button>\
<button type=\"button\" data-zoom=\"step\">Chosen wait</button></div>\
<canvas id=\"lanes-canvas\" class=\"pane\" tabindex=\"0\" role=\"img\" aria-label=\"Time line of the ranks\"></canvas>\
<p class=\"legend\" id=\"lanes-legend\"></p></div>\n\
<p class=\"caption\">One row per rank. Its upper strip: what ran on its CPU; grey is the rank itself, any colour took the \
CPU from it. Below: what the rank did. The dashed edges enclose the chosen wait; the rank that was waited for stands in bold, \
and what took its CPU is framed. Wheel or + and - zoom, drag or arrow keys pan, 0 shows the whole program.</p>\n";

fn list(
    manifest: &Manifest,
    findings: &Findings,
    program: &ProgramFindings,
    events: &[Event<'_>],
    explorer: Option<&Explorer>,
) -> String {
    let waits: u64 = program.waits.iter().map(|w| w.count).sum();
    let intro = caption(&format!(
        "The {} longest of {} waits; ranks that waited for the same rank until the same moment share a line. Choose one: \
         the time line below goes there, and beside the list stands what its time is charged to; the parts add up exactly.",
        program.latest.len(),
        count(waits.max(program.latest.len() as u64)),
    ));
    let rows: String = events
        .iter()
        .map(|e| row(manifest, findings, program, e, explorer))
        .collect();
    let header = [
        ("Waited", "The longest of the ranks that waited"),
        ("For", "The rank that was late"),
        ("Why", "The largest part, and where it began"),
        ("In", "Function in which it waited"),
        ("Ranks", "How many waited"),
        (
            "After",
            "Start of the wait, since the start of the recording",
        ),
    ];
    format!(
        "{intro}<div class=\"split\"><div class=\"list\">{}</div><div class=\"parts\"><h3 id=\"wait-title\">&nbsp;</h3>\
         <div id=\"wait-parts\"></div></div></div>\n",
        table("sortable choose", &header, &rows)
    )
}

fn row(
    manifest: &Manifest,
    findings: &Findings,
    program: &ProgramFindings,
    event: &Event<'_>,
    explorer: Option<&Explorer>,
) -> String {
    let (i, wait) = event.first;
    let path = |field: &str| format!("program.latest.{i}.{field}");
    let length = story::length(wait);
    let source = wait
        .parts
        .first()
        .and_then(|p| findings.sources.get(p.source as usize));
    let why = match wait.origin == wait.culprit {
        true => story::did(source),
        false => format!(
            "{} {}",
            story::rank_name(manifest, wait.origin),
            story::did(source)
        ),
    };
    let origin = match wait.hops {
        0 => String::new(),
        hops => format!(
            "<small>{} {} back</small>",
            number(&path("hops"), hops, &hops.to_string()),
            if hops == 1 { "hop" } else { "hops" }
        ),
    };
    let wave = story::wave_of(program, wait).map(|w| format!("<small>idle wave {}</small>", w + 1));
    let begin = story::recorded(manifest).map_or(0, |r| r.begin_ns);
    let after = wait.begin_ns.saturating_sub(begin);
    let said = idlewave_units::Nanos::from_nanos(after);
    let moment = explorer.map_or_else(
        || said.to_string(),
        |e| {
            format!(
                "<a href=\"{}\">{said}</a>",
                e.moment(wait.begin_ns, wait.end_ns)
            )
        },
    );
    format!(
        "<tr data-wait=\"{i}\">{}{}<td data-key=\"{why}\" class=\"text\">{why}{origin}</td>\
         <td data-key=\"{op}\" class=\"text\">{op}{}</td>{}{}</tr>\n",
        cell(
            length.get(),
            &format!("<button type=\"button\">{length}</button>")
        ),
        cell(
            wait.culprit,
            &format!(
                "rank {}{}",
                number(&path("culprit"), wait.culprit, &wait.culprit.to_string()),
                node_note(manifest, wait.culprit)
            )
        ),
        wave.unwrap_or_default(),
        cell(event.ranks.len(), &event.ranks.len().to_string()),
        cell(after, &moment),
        why = escape(&why),
        op = escape(&wait.operation),
    )
}

/// The node of a rank in small print, if there are several.
fn node_note(manifest: &Manifest, rank: idlewave_units::Rank) -> String {
    story::node_of(manifest, rank)
        .filter(|_| manifest.nodes.len() > 1)
        .map(|n| format!("<small>{}</small>", escape(n)))
        .unwrap_or_default()
}

/// Delays that travelled, with their picture.
pub(super) fn waves(manifest: &Manifest, findings: &Findings, program: &ProgramFindings) -> String {
    const TITLE: &str = "Idle waves";
    if program.waves.is_empty() {
        let why = "No delay went on from rank to rank. In programs whose ranks wait for all others (barrier, allreduce) \
                   none can: there each delay is a wait of all at once.";
        return in_section("waves", TITLE, &absent(why));
    }
    let rows: String = program
        .waves
        .iter()
        .enumerate()
        .map(|(i, w)| wave(manifest, findings, i, w))
        .collect();
    let header = [
        ("Lost", "Time that ranks waited in it, all together"),
        ("From", "Where the delay began"),
        ("By", "What most of it is charged to"),
        ("Ranks", "How many it made wait"),
        ("Hops", "Of the farthest"),
        ("Hops per second", "Its speed, with interval"),
        ("First wait", "One hop from the origin"),
        ("Loses per hop", "Share of its length; negative if it grew"),
    ];
    let body = caption(
        "A rank that is late makes its neighbours late, and they theirs. A fast wave that loses nothing per hop reaches all \
         ranks; what a wave loses per hop was absorbed by slack. Remove the source, or give ranks slack: post receives early, \
         send what is ready, wait late.",
    ) + &table("sortable choose", &header, &rows)
        + "<div class=\"figure\"><h3 id=\"wave-title\">&nbsp;</h3><canvas id=\"wave-canvas\" tabindex=\"0\" role=\"img\" \
           aria-label=\"Idle wave: ranks over time\"></canvas></div>\n"
        + &caption(
            "Time to the right, ranks downwards. Bars are waits, coloured by wave; the dot is where the chosen wave began, \
             the dashed line the speed fitted to it.",
        );
    in_section("waves", TITLE, &body)
}

fn wave(manifest: &Manifest, findings: &Findings, i: usize, w: &WaveFinding) -> String {
    let path = |field: &str| format!("program.waves.{i}.{field}");
    let dash = || cell(-1, "&ndash;");
    let source = findings.sources.get(w.source as usize);
    let source = source.map_or_else(
        || "not in the table of sources".to_owned(),
        |s| s.name.clone(),
    );
    let speed = w.speed.as_ref().map_or_else(dash, |s| {
        cell(
            s.value,
            &format!(
                "{} <small>{} to {}</small>",
                number(&path("speed.value"), s.value, &show::digits(s.value)),
                number(&path("speed.low"), s.low, &show::digits(s.low)),
                number(&path("speed.high"), s.high, &show::digits(s.high)),
            ),
        )
    });
    format!(
        "<tr data-wave=\"{i}\">{}{}<td class=\"text\" data-key=\"{by}\">{by}</td>{}{}{speed}{}{}</tr>\n",
        cell(
            w.lost.get(),
            &format!(
                "<button type=\"button\">{}</button>",
                number(&path("lost"), w.lost.get(), &w.lost.to_string())
            )
        ),
        cell(
            w.origin,
            &format!(
                "rank {}{}",
                number(&path("origin"), w.origin, &w.origin.to_string()),
                node_note(manifest, w.origin)
            )
        ),
        cell(
            w.ranks,
            &number(&path("ranks"), w.ranks, &count(w.ranks.into()))
        ),
        cell(
            w.hops,
            &number(&path("hops"), w.hops, &count(w.hops.into()))
        ),
        cell(
            w.first.get(),
            &number(&path("first"), w.first.get(), &w.first.to_string())
        ),
        w.decay
            .map_or_else(dash, |d| cell(d, &number(&path("decay"), d, &percent(d)))),
        by = escape(&source),
    )
}
