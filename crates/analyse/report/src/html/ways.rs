//! Ways that took turns: a table, and how much longer each is than the first, with its interval.

use super::markup::{caption, cell, escape, number, section as in_section, table};
use crate::facts;
use idlewave_explain::way_change;
use idlewave_run::findings::{Estimate, Way, Ways};
use idlewave_units::counted;
use idlewave_units::show::{change, time};

const WIDTH: f64 = 640.0;
const LEFT: f64 = 110.0;
const RIGHT: f64 = 24.0;
const ROW: f64 = 30.0;
const BOTTOM: f64 = 26.0;

/// Its name in the links at the top.
pub(super) fn name(found: &Ways) -> &'static str {
    match facts::ways_column(found) {
        "siblings" => "Siblings",
        _ => "Ways",
    }
}

/// The table, the figure, and how to read them.
pub(super) fn section(found: &Ways) -> String {
    let Some(first) = found.ways.first() else {
        return String::new();
    };
    let rows: String = (0..).zip(&found.ways).map(|(i, way)| row(i, way)).collect();
    let against = format!("Against {}", first.name());
    let header = [
        (name(found), "What took turns"),
        ("Step", "Mean time of an iteration"),
        ("Exchange", "Undisturbed exchange"),
        (
            "Noise",
            "Mean step less undisturbed computation and exchange",
        ),
        (
            &against,
            "How much longer a step is than in the first row, with its 95 % interval",
        ),
    ];
    let body = format!(
        "{}{}{}",
        table("sortable", &header, &rows),
        figure(found),
        caption(&format!(
            "Medians over {} in which they took turns, forwards and backwards, so that whatever else changed on the machine concerned \
             all of them. In each round the mean step is divided by that of {} in the same round; the line is the 95 % interval of \
             the median ratio. An interval that contains 0 shows no difference.",
            counted(found.rounds, "round"),
            escape(first.name())
        ))
    );
    in_section("ways", facts::ways_heading(found), &body)
}

fn row(i: usize, way: &Way) -> String {
    let exact = |field: &str, e: &Estimate| {
        let path = format!("ways.ways.{i}.{field}.value");
        cell(e.value, &number(&path, e.value, &time(e.value)))
    };
    let longer = way.longer.as_ref().map_or_else(
        || cell(0, "&ndash;"),
        |e| {
            let path = format!("ways.ways.{i}.longer.value");
            cell(e.value, &number(&path, e.value, &way_change(way)))
        },
    );
    format!(
        "<tr><th scope=\"row\">{}</th>{}{}{}{longer}</tr>\n",
        escape(way.name()),
        exact("step", &way.step),
        exact("exchange", &way.exchange),
        exact("noise", &way.noise)
    )
}

/// A point with its interval for every way but the first, and the line of no difference.
fn figure(found: &Ways) -> String {
    let longer = || {
        found
            .ways
            .iter()
            .filter_map(|w| Some((w, w.longer.as_ref()?)))
    };
    let ends = longer().flat_map(|(_, e)| {
        let (low, high) = e.median_interval().unwrap_or((e.value, e.value));
        [low, e.value, high]
    });
    let ends: Vec<f64> = ends.filter(|v| v.is_finite()).chain([0.0]).collect();
    let low = ends.iter().copied().fold(f64::INFINITY, f64::min);
    let high = ends.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if low >= high {
        return String::new();
    }
    let margin = 0.08 * (high - low);
    let (low, high) = (low - margin, high + margin);
    let x = |share: f64| LEFT + (share - low) / (high - low) * (WIDTH - LEFT - RIGHT);
    let inside = |share: f64| x(share.clamp(low, high));
    let bottom = ROW * longer().count() as f64 + 6.0;
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"How much longer a step is in each way\" \
         style=\"width:100%;max-width:{WIDTH}px;height:auto;font:12px system-ui,sans-serif\">\n",
        bottom + BOTTOM
    );
    let mark = |share: f64, anchor: &str| {
        format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" fill=\"var(--soft)\">{}</text>\n",
            x(share),
            bottom + 18.0,
            escape(&change(share))
        )
    };
    out.push_str(&format!(
        "<path d=\"M{LEFT} {bottom:.1}H{:.1}\" stroke=\"var(--line)\"/>\
         <path d=\"M{at:.1} 0V{bottom:.1}\" stroke=\"var(--soft)\" stroke-dasharray=\"4 4\"/>\n",
        WIDTH - RIGHT,
        at = x(0.0)
    ));
    out.push_str(&mark(0.0, "middle"));
    // The ends of the scale, unless they would touch the 0.
    for (end, anchor) in [(low, "start"), (high, "end")] {
        if (x(end) - x(0.0)).abs() > 90.0 {
            out.push_str(&mark(end, anchor));
        }
    }
    for (i, (way, e)) in longer().enumerate() {
        let y = ROW * (i as f64 + 0.5);
        if let Some((low, high)) = e.median_interval() {
            out.push_str(&format!(
                "<path d=\"M{:.1} {y:.1}H{:.1}\" stroke=\"var(--accent)\" stroke-width=\"2\"/>\n",
                inside(low),
                inside(high)
            ));
        }
        out.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"var(--ink)\">{}</text>\
             <circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"var(--accent)\"/>\n",
            LEFT - 10.0,
            y + 4.0,
            escape(way.name()),
            inside(e.value)
        ));
    }
    out + "</svg>\n"
}
