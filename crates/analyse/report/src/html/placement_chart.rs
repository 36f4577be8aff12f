//! Bars of placements, stacked by what the time consists of, and bars of a study next to its
//! predictions. SVG in the style sheet's colours: it needs no script and prints.

use super::sheet::text;
use crate::placement::{PlacementRow, StudyRow};
use idlewave_run::findings::Estimate;
use idlewave_units::counted;
use idlewave_units::show::{self, percent};
use std::collections::BTreeMap;

/// Width of a bar's label.
const LABEL: f64 = 66.0;
const LEFT: f64 = 64.0;
const TOP: f64 = 14.0;
const HEIGHT: f64 = 260.0;
const BELOW: f64 = 46.0;
/// Most room for one bar.
const STEP: f64 = 130.0;
/// Width of a figure on a page that is not narrow.
const WIDTH: f64 = 1040.0;
/// Most bars, at 8 pixels each; if there are more placements, some are left out.
const MOST_BARS: usize = 120;

/// Vertical scale from 0 up, with its grid lines.
struct Scale {
    most: f64,
}

impl Scale {
    fn over(values: impl Iterator<Item = f64>) -> Option<Self> {
        let most = values.filter(|v| v.is_finite()).fold(0.0, f64::max);
        (most > 0.0).then_some(Self { most: most * 1.04 })
    }

    fn y(&self, value: f64) -> f64 {
        TOP + HEIGHT * (1.0 - (value / self.most).clamp(0.0, 1.0))
    }

    fn lines(&self, right: f64) -> String {
        let rough = self.most / 6.0;
        let decade = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|m| m * decade)
            .find(|s| *s >= rough)
            .unwrap_or(rough);
        let line = |i: u32| {
            let value = f64::from(i) * step;
            let y = self.y(value);
            let label = if i == 0 { "0".to_owned() } else { short(value) };
            format!(
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick end\" x=\"{:.1}\" y=\"{:.1}\">{label}</text>",
                LEFT - 8.0,
                y + 4.0
            )
        };
        let count = (self.most / step).floor() as u32;
        (0..=count.min(20)).map(line).collect()
    }
}

/// Seconds without trailing zeros.
fn short(s: f64) -> String {
    let shown = show::seconds(s);
    let (number, unit) = shown.split_once(' ').unwrap_or((&shown, ""));
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    format!("{number} {unit}")
}

fn svg(id: &str, label: &str, width: f64, content: &str) -> String {
    let height = TOP + HEIGHT + BELOW;
    format!(
        "<div class=\"figure drawn\"><svg id=\"{id}\" role=\"img\" aria-label=\"{label}\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\">{content}</svg></div>\n"
    )
}

/// A line from the lower to the upper end of an interval, with caps.
fn whisker(scale: &Scale, x: f64, wide: f64, e: &Estimate) -> String {
    if !(e.low.is_finite() && e.high.is_finite()) {
        return String::new();
    }
    let (low, high) = (scale.y(e.low), scale.y(e.high));
    let cap = wide.min(12.0);
    let from = x - cap / 2.0;
    format!(
        "<path class=\"whisker\" d=\"M{x:.1} {low:.1}V{high:.1}M{from:.1} {low:.1}h{cap:.1}M{from:.1} {high:.1}h{cap:.1}\"/>"
    )
}

fn interval(e: &Estimate) -> String {
    match e.value.is_finite() && e.low.is_finite() && e.high.is_finite() {
        true => format!(
            "{} ({} to {})",
            show::seconds(e.value),
            show::seconds(e.low),
            show::seconds(e.high)
        ),
        false => "not known".to_owned(),
    }
}

/// Names of the parts over all rows, in order of first appearance.
fn parts(rows: &[PlacementRow]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flat_map(|r| &r.parts) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

/// Indices of the rows to draw: all of them, or the fastest for each number of ranks per node
/// (evenly thinned if these are still too many), plus the best and the default.
fn drawn(rows: &[PlacementRow], best: usize, baseline: Option<usize>) -> Vec<usize> {
    if rows.len() <= MOST_BARS {
        return (0..rows.len()).collect();
    }
    let mut fastest: BTreeMap<u32, usize> = BTreeMap::new();
    for (i, row) in rows.iter().enumerate() {
        let least = fastest.entry(row.ranks_per_node).or_insert(i);
        if row.seconds.value < rows[*least].seconds.value {
            *least = i;
        }
    }
    let all: Vec<usize> = fastest.into_values().collect();
    let few = MOST_BARS.min(all.len());
    let even = (0..few).map(|n| all[n * all.len() / few]);
    let marked = [Some(best), baseline].into_iter().flatten();
    let mut drawn: Vec<usize> = even.chain(marked.filter(|&i| i < rows.len())).collect();
    drawn.sort_unstable();
    drawn.dedup();
    drawn
}

/// The distance between labelled bars: narrow bars have no room for every label.
fn every(step: f64) -> usize {
    (LABEL / step).ceil().max(1.0) as usize
}

/// Time of each placement, stacked by parts.
pub(super) fn times(rows: &[PlacementRow], best: usize, baseline: Option<usize>) -> String {
    let all = rows
        .iter()
        .flat_map(|r| [r.seconds.value, r.seconds.high, r.lower_bound_seconds]);
    let Some(scale) = Scale::over(all) else {
        return super::markup::absent("No time is known.");
    };
    let names = parts(rows);
    let drawn = drawn(rows, best, baseline);
    let step = ((WIDTH - LEFT) / drawn.len() as f64).min(STEP);
    let right = LEFT + step * drawn.len() as f64;
    let mut out = scale.lines(right);
    let place = |row: usize| drawn.iter().position(|&i| i == row);
    let marked = || {
        [Some(best), baseline]
            .into_iter()
            .flatten()
            .filter_map(place)
    };
    for (at, &i) in drawn.iter().enumerate() {
        let row = &rows[i];
        let (x, wide) = (LEFT + step * (at as f64 + 0.5), step * 0.56);
        out.push_str(&stack(row, &names, &scale, x - wide / 2.0, wide));
        out.push_str(&whisker(&scale, x, wide, &row.seconds));
        if row.lower_bound_seconds.is_finite() {
            let y = scale.y(row.lower_bound_seconds);
            out.push_str(&format!(
                "<line class=\"bound\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
                x - step * 0.38,
                x + step * 0.38
            ));
        }
        let class = if i == best { "tick best" } else { "tick" };
        let mark = match (i == best, baseline == Some(i)) {
            (true, _) => "best",
            (_, true) => "default",
            _ => "",
        };
        let every = every(step);
        let crowded = marked().any(|m| m != at && m.abs_diff(at) < every);
        if !mark.is_empty() || (at % every == 0 && !crowded) {
            let name = format!("{} x {}", row.nodes, row.ranks_per_node);
            out.push_str(&label(x, class, &name, mark));
        }
    }
    let legend: String = names
        .iter()
        .enumerate()
        .map(|(i, name)| {
            format!(
                "<span><i class=\"swatch p-{}\"></i>{}</span>",
                i % 8,
                text(name)
            )
        })
        .collect();
    svg(
        "chart-times",
        "Predicted time of each placement",
        right + 10.0,
        &out,
    ) + &format!(
        "<p class=\"legend\">{legend}<span>below the bars: nodes x processes per node{}</span></p>\n",
        match drawn.len() == rows.len() {
            true => String::new(),
            false => format!(
                "; {} of {} placements, the table has all",
                drawn.len(),
                rows.len()
            ),
        }
    )
}

fn label(x: f64, class: &str, first: &str, second: &str) -> String {
    let y = TOP + HEIGHT + 18.0;
    format!(
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{first}</text><text class=\"{class}\" x=\"{x:.1}\" y=\"{:.1}\">{second}</text>",
        y + 16.0
    )
}

/// The bar of one placement, from bottom to top.
fn stack(row: &PlacementRow, names: &[&str], scale: &Scale, x: f64, wide: f64) -> String {
    if !row.seconds.value.is_finite() {
        return String::new();
    }
    let mut title = format!(
        "{} per node on {}: {}",
        row.ranks_per_node,
        counted(row.nodes, "node"),
        interval(&row.seconds)
    );
    let (mut out, mut from) = (String::new(), 0.0);
    for (name, share) in row.parts.iter().filter(|p| p.1.is_finite() && p.1 > 0.0) {
        let to = from + share * row.seconds.value;
        let colour = names.iter().position(|n| n == name).unwrap_or(0) % 8;
        let (bottom, top) = (scale.y(from), scale.y(to));
        out.push_str(&format!(
            "<rect class=\"p-{colour}\" data-share=\"{share}\" x=\"{x:.1}\" y=\"{top:.2}\" width=\"{wide:.1}\" height=\"{:.2}\"/>",
            bottom - top
        ));
        title.push_str(&format!("\n{}: {}", text(name), percent(*share)));
        from = to;
    }
    if out.is_empty() {
        let top = scale.y(row.seconds.value);
        out = format!(
            "<rect class=\"p-0\" x=\"{x:.1}\" y=\"{top:.2}\" width=\"{wide:.1}\" height=\"{:.2}\"/>",
            scale.y(0.0) - top
        );
    }
    format!("<g data-tip>{out}<title>{title}</title></g>")
}

/// Measured and predicted times of a study side by side, with a gap between rank counts.
pub(super) fn measured(rows: &[StudyRow]) -> String {
    let all = rows.iter().flat_map(|r| {
        let p = r.predicted.as_ref();
        [
            r.total.value,
            r.total.high,
            p.map_or(0.0, |p| p.value),
            p.map_or(0.0, |p| p.high),
        ]
    });
    let Some(scale) = Scale::over(all) else {
        return super::markup::absent("No time was measured.");
    };
    let groups = rows.windows(2).filter(|w| w[0].ranks != w[1].ranks).count();
    let step = ((WIDTH - LEFT) / (rows.len() + groups) as f64).min(90.0);
    let right = LEFT + step * (rows.len() + groups) as f64;
    let mut out = scale.lines(right);
    let (mut x, mut before) = (LEFT + step / 2.0, None);
    // Narrow bars have no room for every label.
    let (mut unlabelled, mut named) = (0, None);
    for row in rows {
        if before.is_some_and(|b| b != row.ranks) {
            x += step;
            unlabelled += 1;
        }
        let wide = step * 0.36;
        for (e, class, at) in [
            (Some(&row.total), "measured", x - wide),
            (row.predicted.as_ref(), "predicted", x),
        ] {
            let Some(e) = e.filter(|e| e.value.is_finite()) else {
                continue;
            };
            let top = scale.y(e.value);
            out.push_str(&format!(
                "<g data-tip><rect class=\"{class}\" x=\"{at:.1}\" y=\"{top:.2}\" width=\"{wide:.1}\" height=\"{:.2}\"/>{}\
                 <title>{}, {} x {}\n{class}: {}</title></g>",
                scale.y(0.0) - top,
                whisker(&scale, at + wide / 2.0, wide, e),
                counted(row.ranks, "rank"),
                row.nodes,
                row.ranks_per_node,
                interval(e)
            ));
        }
        let class = if row.is_minimum { "tick best" } else { "tick" };
        if unlabelled == 0 || unlabelled >= every(step) {
            let first = match named == Some(row.ranks) {
                true => String::new(),
                false => counted(row.ranks, "rank").to_string(),
            };
            let name = format!("{} x {}", row.nodes, row.ranks_per_node);
            out.push_str(&label(x, class, &name, &first));
            named = Some(row.ranks);
            unlabelled = 0;
        }
        unlabelled += 1;
        before = Some(row.ranks);
        x += step;
    }
    svg(
        "chart-study",
        "Measured and predicted times",
        right + 10.0,
        &out,
    ) + "<p class=\"legend\"><span><i class=\"swatch measured\"></i>measured</span><span><i class=\"swatch predicted\"></i>predicted</span>\
           <span>below the bars: nodes x processes per node, the fastest in bold</span></p>\n"
}
