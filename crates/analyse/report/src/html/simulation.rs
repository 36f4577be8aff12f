//! The page of a simulation: slow-down over ranks, map over ranks and granularity, shares of the
//! finish time, amplification.

use super::document;
use super::markup::table as wide_table;
use super::markup::{absent, caption, cell, escape, json, number, section};
use super::sheet::{body, estimate, footer, list, text, tile, value};
use crate::number::plain;
use crate::simulation::{SimulatedPath, SimulationPoint, SimulationSheet};
use idlewave_units::show::{self, count, percent};
use idlewave_units::{grouped, named};
use std::collections::BTreeSet;

const SCRIPT: [&str; 5] = [
    include_str!("../../assets/vendor/uPlot.iife.min.js"),
    include_str!("../../assets/page.js"),
    include_str!("../../assets/lines.js"),
    include_str!("../../assets/simulation.js"),
    include_str!("../../assets/start_simulation.js"),
];

/// Renders the page of a simulation: one file that loads nothing. The same sheet gives the same
/// bytes.
///
/// Non-finite numbers are shown as not known.
pub fn simulation_page(sheet: &SimulationSheet) -> String {
    let parts = vec![
        ("verdict", "Verdict", verdict(sheet)),
        ("scale", "Slow-down", scale(sheet)),
        ("map", "Map", map(sheet)),
        ("shares", "Shares", shares(sheet)),
        ("amplification", "Amplification", amplification(sheet)),
        ("table", "All numbers", table(sheet)),
        ("simulation", "Simulation", details(sheet)),
    ];
    let remarks = [
        "Everything here is simulated; nothing was measured by this command.",
        "Intervals are over independent replications; the data of this page have them all, with their method.",
        "The same command gives the same numbers.",
    ];
    let version = format!("idlewave {}, seed {}.", sheet.idlewave, sheet.seed);
    let run = format!("simulated: {}", text(&sheet.what));
    let body = body(&run, parts) + &footer(&remarks, &sheet.command, &version);
    // Plain structs of texts, numbers and lists always encode as JSON.
    let data = json(sheet).expect("every field has a form in JSON");
    document("a simulation", &body, &data, "", &SCRIPT)
}

/// The point with the largest slow-down.
fn worst(sheet: &SimulationSheet) -> Option<(usize, &SimulationPoint)> {
    let all = sheet.points.iter().enumerate();
    all.filter(|(_, p)| p.slowdown.value.is_finite())
        .max_by(|a, b| a.1.slowdown.value.total_cmp(&b.1.slowdown.value))
}

fn verdict(sheet: &SimulationSheet) -> String {
    let mut body = format!(
        "<p class=\"alarm\" id=\"simulated\"><strong>SIMULATED:</strong> {}. Nothing here was measured by this command.</p>\n",
        text(&sheet.what)
    );
    let Some((i, point)) = worst(sheet) else {
        body.push_str(&absent("There is no answer: no point was simulated."));
        return section("verdict", "Verdict", &body);
    };
    let path = |field: &str| format!("points.{i}.{field}");
    let place = format!(
        "{}, {} {}, {} of computation per step",
        text(&point.layout),
        number(&path("ranks"), point.ranks, &grouped(point.ranks)),
        named(point.ranks, "rank"),
        number(
            &path("granularity_ns"),
            point.granularity_ns,
            &show::time(point.granularity_ns as f64)
        ),
    );
    body.push_str("<div class=\"tiles\">\n");
    let slow = value(
        &path("slowdown.value"),
        point.slowdown.value,
        show::slowdown,
    );
    body.push_str(&tile("Most slow-down", &slow, &place));
    if let Some(a) = &point.amplification {
        let a = value(&path("amplification.value"), a.value, show::factor);
        body.push_str(&tile(
            "Amplification there",
            &a,
            "slow-down over the share that the noise takes from a rank alone",
        ));
    }
    if let Some(first) = point.without.first() {
        let saved = value(&path("without.0.saved.value"), first.saved.value, |saved| {
            show::slowdown_part(point.slowdown.value, saved)
        });
        body.push_str(&tile(
            "Most to gain there",
            &saved,
            &format!("less slow-down without {}", text(&first.name)),
        ));
    }
    body.push_str("</div>\n");
    let count = |what: fn(&&SimulationPoint) -> bool| sheet.points.iter().filter(what).count();
    for (points, said) in [
        (
            count(|p| !p.precise),
            "have a wider interval than was asked for: more replications help",
        ),
        (
            count(|p| p.still_rises),
            "still rose while they were averaged: a longer warm-up gives more",
        ),
    ] {
        if points > 0 {
            body.push_str(&format!(
                "<p class=\"note\">{points} of {} points {said}.</p>\n",
                sheet.points.len()
            ));
        }
    }
    section("verdict", "Verdict", &body)
}

/// How many different values the points have.
fn different<T: Ord>(sheet: &SimulationSheet, of: impl Fn(&SimulationPoint) -> T) -> usize {
    sheet.points.iter().map(of).collect::<BTreeSet<T>>().len()
}

fn scale(sheet: &SimulationSheet) -> String {
    let title = "Slow-down against ranks";
    if different(sheet, |p| p.ranks) < 2 {
        let why = "One number of ranks was simulated: there is no curve. Ask for several, as in --ranks 1e2..1e6.";
        return section("scale", title, &absent(why));
    }
    let body = caption(
        "Bands are the intervals. Both scales are logarithmic; what is below 0.01 % is drawn there. Look for the number of ranks at \
         which a curve leaves the floor: from there on somebody is always late.",
    ) + "<div class=\"figure\"><div class=\"chart\" id=\"chart-ranks\"></div></div>\n";
    section("scale", title, &body)
}

fn map(sheet: &SimulationSheet) -> String {
    let title = "Slow-down over ranks and granularity";
    if different(sheet, |p| p.ranks) < 2 || different(sheet, |p| p.granularity_ns) < 2 {
        let why = "A map needs several numbers of ranks and several granularities, as in --ranks 1e2..1e6 --granularity 10us..10ms.";
        return section("map", title, &absent(why));
    }
    let body = caption(
        "Left to right the ranks, bottom to top the computation between two waits. Choose a layout; point at a cell, or walk with the \
         arrow keys, for its numbers.",
    ) + "<div class=\"figure\" id=\"map-figure\"><div class=\"tools\"><select id=\"map-layout\" aria-label=\"Layout\"></select>\
         <output id=\"map-cell\"></output></div><canvas id=\"map-canvas\" tabindex=\"0\" role=\"img\" aria-label=\"Map of the \
         slow-down over ranks and granularity\"></canvas><p class=\"legend\" id=\"map-legend\"></p></div>\n";
    section("map", title, &body)
}

fn shares(sheet: &SimulationSheet) -> String {
    let title = "What the finish time is made of";
    let mut body = String::new();
    match &sheet.path {
        Some(path) => body.push_str(&finish(sheet, path)),
        None => body.push_str(&absent("No finish time was followed back to its sources.")),
    }
    let asked: Vec<usize> = (0..sheet.points.len())
        .filter(|&i| !sheet.points[i].without.is_empty())
        .collect();
    if !asked.is_empty() {
        body.push_str("<h3>What leaving out a source brings</h3>\n");
        body.push_str(&caption(
            "Each source was left out and everything else repeated under the same random numbers. What several sources hide behind \
             each other goes away only with all of them, so these need not add up.",
        ));
        let rows: String = asked
            .iter()
            .flat_map(|&i| costs(i, &sheet.points[i]))
            .collect();
        body.push_str(&wide_table(
            "sortable",
            &[
                ("Without", "The source, or all that a pattern names"),
                ("Point", "Layout, ranks and computation per step"),
                ("Saved", "Slow-down that goes away"),
                ("Left", "Slow-down that is left"),
            ],
            &rows,
        ));
    }
    section("shares", title, &body)
}

/// The critical path as one stacked bar, with its table.
fn finish(sheet: &SimulationSheet, path: &SimulatedPath) -> String {
    let mut parts = vec![
        (
            "computation".to_owned(),
            "path.work".to_owned(),
            &path.work,
            "data-part=\"work\"",
        ),
        (
            "messages and waiting for them".to_owned(),
            "path.communication".to_owned(),
            &path.communication,
            "data-part=\"communication\"",
        ),
    ];
    for (i, source) in path.noise.iter().enumerate() {
        let name = match source.kind {
            Some(kind) => crate::facts::source_name(kind, &source.name),
            None => plain(&source.name),
        };
        let place = format!("path.noise.{i}.share");
        parts.push((name, place, &source.share, "data-part=\"noise\""));
    }
    let mut noise = 0;
    let (mut bar, mut rows) = (String::new(), String::new());
    for (name, place, share, mark) in &parts {
        let mark = match mark.contains("noise") {
            true => {
                noise += 1;
                format!("{mark} data-palette=\"{}\"", noise - 1)
            }
            false => (*mark).to_owned(),
        };
        let width = 100.0 * share.value.clamp(0.0, 1.0);
        if width > 0.0 {
            bar.push_str(&format!(
                "<i {mark} style=\"width:{width:.3}%\" title=\"{}: {}\"></i>",
                escape(name),
                percent(share.value)
            ));
        }
        rows.push_str(&format!(
            "<tr><th scope=\"row\"><i class=\"swatch\" {mark}></i> {}</th>{}</tr>\n",
            escape(name),
            cell(share.value, &estimate(place, share, percent))
        ));
    }
    let point = match sheet.points.get(path.point) {
        Some(p) => format!(
            "Of {} at {} {}, {} of computation per step. ",
            text(&p.layout),
            grouped(p.ranks),
            named(p.ranks, "rank"),
            show::time(p.granularity_ns as f64)
        ),
        None => String::new(),
    };
    caption(&format!(
        "{point}The way back from the last finish through ranks and messages: all parts add up to the finish time. Noise that lies off \
         this way was waited out."
    )) + &format!("<div class=\"stack tall-stack\" id=\"finish-bar\">{bar}</div>\n")
        + &wide_table(
            "narrow",
            &[
                ("Part", "What the way was spent on"),
                ("Share", "Of the finish time, with its interval"),
            ],
            &rows,
        )
}

/// The sources left out at a point.
fn costs(i: usize, point: &SimulationPoint) -> Vec<String> {
    let place = point_name(point);
    let row = |(w, cost): (usize, &crate::simulation::SourceCost)| {
        let path = format!("points.{i}.without.{w}");
        format!(
            "<tr><th scope=\"row\" data-key=\"{name}\">{name}</th><td class=\"text\" data-key=\"{place}\">{place}</td>{}{}</tr>\n",
            cell(
                cost.saved.value,
                &estimate(&format!("{path}.saved"), &cost.saved, |s| {
                    show::slowdown_part(point.slowdown.value, s)
                })
            ),
            cell(
                cost.left.value,
                &estimate(&format!("{path}.left"), &cost.left, |s| {
                    show::slowdown_beside(cost.left.value, s)
                })
            ),
            name = text(&cost.name),
        )
    };
    point.without.iter().enumerate().map(row).collect()
}

fn point_name(point: &SimulationPoint) -> String {
    format!(
        "{}, {} {}, {}",
        text(&point.layout),
        grouped(point.ranks),
        named(point.ranks, "rank"),
        show::time(point.granularity_ns as f64)
    )
}

fn amplification(sheet: &SimulationSheet) -> String {
    let title = "Amplification";
    if sheet.points.iter().all(|p| p.amplification.is_none()) {
        return section(
            "amplification",
            title,
            &absent("There is no noise that could be amplified."),
        );
    }
    let mut body = caption(
        "How often the same noise is paid for: the slow-down over the share that the noise takes from a rank alone. 1: as much as one \
         rank loses; below 1: waits absorb it; above 1: ranks lose time that was taken from others.",
    );
    match different(sheet, |p| p.ranks) {
        0 | 1 => {
            for (i, p) in sheet.points.iter().enumerate() {
                if let Some(a) = &p.amplification {
                    let place = format!("points.{i}.amplification");
                    body.push_str(&format!(
                        "<p>{}: {}</p>\n",
                        point_name(p),
                        estimate(&place, a, show::factor)
                    ));
                }
            }
        }
        _ => body.push_str(
            "<div class=\"figure\"><div class=\"chart\" id=\"chart-amplification\"></div></div>\n",
        ),
    }
    section("amplification", title, &body)
}

fn table(sheet: &SimulationSheet) -> String {
    if sheet.points.is_empty() {
        return section("table", "All numbers", &absent("No point was simulated."));
    }
    let rows: String = sheet.points.iter().enumerate().map(row).collect();
    let header = [
        ("Layout", "How ranks wait for each other"),
        ("Ranks", "Number of ranks"),
        ("Computation", "Of each rank in each step"),
        ("Undisturbed step", "Computation and messages"),
        (
            "Slow-down",
            "Mean step over the undisturbed one, less 1, with its interval",
        ),
        (
            "Amplification",
            "Slow-down over the share that the noise takes from a rank alone",
        ),
        ("Replications", "Independent repetitions"),
    ];
    let class = if sheet.points.len() > 24 {
        "sortable tall"
    } else {
        "sortable"
    };
    section("table", "All numbers", &wide_table(class, &header, &rows))
}

fn row((i, p): (usize, &SimulationPoint)) -> String {
    let path = |field: &str| format!("points.{i}.{field}");
    let amplification = p.amplification.as_ref().map_or_else(
        || cell(-1, "&ndash;"),
        |a| cell(a.value, &estimate(&path("amplification"), a, show::factor)),
    );
    format!(
        "<tr><th scope=\"row\" data-key=\"{layout}\">{layout}</th>{}{}{}{}{amplification}{}</tr>\n",
        cell(p.ranks, &number(&path("ranks"), p.ranks, &grouped(p.ranks))),
        cell(
            p.granularity_ns,
            &number(
                &path("granularity_ns"),
                p.granularity_ns,
                &show::time(p.granularity_ns as f64)
            )
        ),
        cell(
            p.quiet_step_ns,
            &value(&path("quiet_step_ns"), p.quiet_step_ns, show::time)
        ),
        cell(
            p.slowdown.value,
            &estimate(&path("slowdown"), &p.slowdown, |s| {
                show::slowdown_beside(p.slowdown.value, s)
            })
        ),
        cell(
            p.slowdown.n,
            &number(&path("slowdown.n"), p.slowdown.n, &count(p.slowdown.n))
        ),
        layout = text(&p.layout),
    )
}

fn details(sheet: &SimulationSheet) -> String {
    section("simulation", "What was simulated", &list(&sheet.details))
}
