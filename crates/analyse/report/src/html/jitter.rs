//! Computations that all ranks repeat: the tail of their distribution against a Gaussian, and which
//! rank was slowest when.
//!
//! Both figures are SVG drawn here from the findings; they need no script.

use super::markup::{caption, cell, escape, number, section as in_section, table};
use crate::text::{jitter_sentences, not_extrapolated, with_interval};
use idlewave_run::findings::{Findings, JitterFindings, JitterMap};
use idlewave_units::named;
use idlewave_units::show::{self, count, efficiency};

/// Size of the tail's figure in its own units.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 34.0;
/// Levels of colour in the map.
const TONES: usize = 5;

/// One block for each computation.
pub(super) fn section(findings: &Findings) -> String {
    let mut body = caption(
        "The same computation by every rank in every step, with nothing communicated in it: what it varies by is what the \
         machine does. The slowest rank sets the pace of all.",
    );
    for (i, found) in findings.jitter.iter().enumerate() {
        body.push_str(&format!(
            "<h3>{}, {} {}, {} {}</h3>\n<ul>\n",
            escape(&found.name),
            count(found.ranks.into()),
            named(found.ranks, "rank"),
            count(found.steps),
            named(found.steps, "step")
        ));
        for sentence in jitter_sentences(&findings.sources, found) {
            body.push_str(&format!("<li>{}</li>\n", escape(&sentence)));
        }
        body.push_str("</ul>\n<div class=\"pair\">\n");
        body.push_str(&format!(
            "<div class=\"figure\"><h4>Share of durations longer than</h4>{}{}</div>\n",
            tail(found),
            caption(
                "Line: measured; dashes: the Gaussian core alone. Where the line leaves the dashes the tail begins; the upright line \
                 is the limit of outliers. The share is logarithmic."
            )
        ));
        if found.ranks > 1 {
            body.push_str(&format!(
                "<div class=\"figure\"><h4>Slowest rank of every step</h4>{}{}</div>\n",
                map(&found.map, found.steps, found.ranks),
                caption(
                    "Left to right the steps, top to bottom the ranks. An even tone: no rank is slower than the others. A \
                     strong row is a busy CPU or more work, a diagonal something that goes round the ranks; whether there is one is tested above."
                )
            ));
        }
        body.push_str("</div>\n");
        body.push_str(&scale(i, found));
    }
    in_section("jitter", "Jitter", &body)
}

/// Share of durations longer than each, on a logarithmic scale.
fn tail(found: &JitterFindings) -> String {
    let (Some(first), Some(last)) = (found.distribution.first(), found.distribution.last()) else {
        return String::new();
    };
    let all = last.count.max(1) as f64;
    let low = first.duration.get() as f64;
    let high = (last.duration.get() as f64).max(low + 1.0);
    let floor = (0.5 / all).log10();
    let x = |ns: f64| LEFT + (ns - low) / (high - low) * (WIDTH - LEFT - RIGHT);
    let y = |share: f64| {
        let up = 1.0 - share.max(0.5 / all).log10() / floor;
        TOP + (1.0 - up) * (HEIGHT - TOP - BOTTOM)
    };
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Share of durations longer than a given one\" \
         style=\"width:100%;height:auto;font:12px system-ui,sans-serif\">\n"
    );
    let mut decade = 0;
    while f64::from(decade) > floor {
        let (share, at) = (10_f64.powi(decade), y(10_f64.powi(decade)));
        out.push_str(&format!(
            "<path d=\"M{LEFT} {at:.1}H{:.1}\" stroke=\"var(--line)\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"var(--soft)\">{} %</text>\n",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0,
            show::digits(share * 100.0)
        ));
        decade -= 1;
    }
    for k in 0..4 {
        let ns = low + (high - low) * f64::from(k) / 3.0;
        let anchor = ["start", "middle", "middle", "end"][k as usize];
        out.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" fill=\"var(--soft)\">{}</text>\n",
            x(ns),
            HEIGHT - 10.0,
            escape(&show::time(ns))
        ));
    }
    if let Some(core) = &found.core {
        // The core over its own range, even where no duration was measured.
        let z_end = (high - core.mean.value) / core.deviation.value;
        let until = z_end.min(8.0);
        let begin = ((low - core.mean.value) / core.deviation.value).max(-8.0);
        let points: Vec<String> = (0..=60)
            .map(|k| begin + (until - begin) * f64::from(k) / 60.0)
            .map(|z| {
                let share = upper_tail(z);
                let ns = core.mean.value + z * core.deviation.value;
                format!("{:.1},{:.1}", x(ns), y(share))
            })
            .collect();
        out.push_str(&format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"var(--soft)\" stroke-width=\"1.5\" stroke-dasharray=\"6 4\"/>\n",
            points.join(" ")
        ));
        let from = core.outlier_from.get() as f64;
        if from < high {
            out.push_str(&format!(
                "<path d=\"M{:.1} {TOP}V{:.1}\" stroke=\"var(--alarm)\" stroke-dasharray=\"2 3\"/>\n",
                x(from),
                HEIGHT - BOTTOM
            ));
        }
    }
    // A step down at every duration.
    let mut path = format!("M{:.1} {:.1}", x(low), y(1.0));
    for p in &found.distribution {
        let longer = (all - p.count as f64) / all;
        path.push_str(&format!(
            "H{:.1}V{:.1}",
            x(p.duration.get() as f64),
            y(longer)
        ));
    }
    out.push_str(&format!(
        "<path d=\"{path}\" fill=\"none\" stroke=\"var(--accent)\" stroke-width=\"2\"/>\n</svg>\n"
    ));
    out
}

/// Upper tail of the standard normal distribution, to a relative 1.2e-7 (Numerical Recipes, 2nd
/// edition, section 6.2): for drawing only.
fn upper_tail(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.5 * x);
    const SERIES: [f64; 10] = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ];
    let power = SERIES.iter().rev().fold(0.0, |sum, c| sum * t + c);
    let upper = 0.5 * t * (power - x * x).exp();
    if z < 0.0 { 1.0 - upper } else { upper }
}

/// One path per tone; adjacent cells of a row with the same tone are one rectangle.
fn map(map: &JitterMap, steps: u64, ranks: u32) -> String {
    let columns = steps.div_ceil(map.steps_per_column.max(1)).max(1);
    let rows = ranks.div_ceil(map.ranks_per_row.max(1)).max(1);
    let most = map.cells.iter().map(|c| c.2).max().unwrap_or(1).max(1);
    let tone = |n: u64| ((n * TONES as u64).div_ceil(most) as usize).clamp(1, TONES) - 1;
    let mut cells: Vec<(u32, u32, usize)> =
        map.cells.iter().map(|c| (c.1, c.0, tone(c.2))).collect();
    cells.sort_unstable();
    let mut paths = vec![String::new(); TONES];
    let mut i = 0;
    while i < cells.len() {
        let (row, column, tone) = cells[i];
        let mut width = 1;
        while cells.get(i + width as usize) == Some(&(row, column + width, tone)) {
            width += 1;
        }
        paths[tone].push_str(&format!("M{column} {row}h{width}v1h-{width}z"));
        i += width as usize;
    }
    let mut out = format!(
        "<svg viewBox=\"0 0 {columns} {rows}\" preserveAspectRatio=\"none\" shape-rendering=\"crispEdges\" role=\"img\" \
         aria-label=\"Map of the slowest rank\" style=\"width:100%;height:{}px;background:var(--faint)\">\n",
        (rows * 24).clamp(48, 300)
    );
    for (k, path) in paths.iter().enumerate().filter(|(_, p)| !p.is_empty()) {
        out.push_str(&format!(
            "<path d=\"{path}\" fill=\"var(--accent)\" fill-opacity=\"{:.1}\"/>\n",
            (k + 1) as f64 / TONES as f64
        ));
    }
    out + "</svg>\n"
}

fn scale(i: usize, found: &JitterFindings) -> String {
    let rows: String = found
        .scale
        .iter()
        .enumerate()
        .map(|(k, s)| {
            let share = |field: &str, value: Option<f64>| {
                value.map_or_else(
                    || cell(-1, "&ndash;"),
                    |v| {
                        let path = format!("jitter.{i}.scale.{k}.{field}");
                        cell(v, &number(&path, v, &efficiency(v)))
                    },
                )
            };
            let beyond = s.extrapolated.as_ref().map_or_else(
                || cell(-1, "&ndash;"),
                |e| {
                    let path = format!("jitter.{i}.scale.{k}.extrapolated.value");
                    cell(e.value, &number(&path, e.value, &with_interval(e)))
                },
            );
            format!(
                "<tr><th scope=\"row\" data-key=\"{}\">{}</th>{}{}{beyond}</tr>\n",
                s.ranks,
                count(s.ranks),
                share("gaussian", s.gaussian),
                share("measured", s.measured)
            )
        })
        .collect();
    let header = [
        (
            "Ranks",
            "Number of ranks that wait for each other in every step",
        ),
        (
            "Gaussian alone",
            "Efficiency if durations were those of the core",
        ),
        (
            "As measured",
            "Efficiency if all ranks varied as those measured, independently; empty where the measurement is too short to say",
        ),
        (
            &format!(
                "Extrapolated from {} durations",
                count(u64::from(found.ranks) * found.steps)
            ),
            "Where the measurement is too short: its longest durations follow a generalised Pareto law, which is continued; with \
             95 % interval",
        ),
    ];
    let missing: String = not_extrapolated(found)
        .iter()
        .map(|sentence| caption(&escape(sentence)))
        .collect();
    caption("Efficiency at more ranks: time for work over time with waiting.")
        + &table("", &header, &rows)
        + &missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_a_gaussian_is_that_of_the_tables() {
        for (z, upper) in [
            (0.0, 0.5),
            (1.0, 0.158_655_25),
            (-1.0, 0.841_344_75),
            (3.0, 1.349_898e-3),
            (5.0, 2.866_516e-7),
        ] {
            assert!((upper_tail(z) / upper - 1.0).abs() < 1e-6, "{z}");
        }
    }

    #[test]
    fn neighbouring_cells_of_one_tone_are_one_rectangle() {
        let drawn = map(
            &JitterMap {
                steps_per_column: 1,
                ranks_per_row: 1,
                cells: vec![(0, 0, 5), (1, 0, 5), (2, 1, 5), (3, 0, 1)],
            },
            4,
            2,
        );
        assert!(drawn.contains("viewBox=\"0 0 4 2\""));
        assert!(drawn.contains("M0 0h2v1h-2zM2 1h1v1h-1z"), "{drawn}");
        assert!(drawn.contains("M3 0h1v1h-1z\" fill=\"var(--accent)\" fill-opacity=\"0.2\""));
    }
}
