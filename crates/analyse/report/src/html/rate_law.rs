//! What a step costs against the rate of the noise, on logarithmic scales. The figure is SVG drawn
//! here from the findings; it needs no script.

use super::markup::{caption, escape};
use crate::facts::{
    EXCHANGE, amplified_sentence, measured_rates, measured_rates_sentence, rate_law_sentence,
};
use idlewave_run::findings::{Findings, MeasuredRate, RateLaw};
use idlewave_units::named;
use idlewave_units::show::{self, count};

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 44.0;

/// A logarithmic scale.
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn at(&self, value: f64) -> f64 {
        let share = (value / self.low).ln() / (self.high / self.low).ln();
        self.from + share * (self.to - self.from)
    }

    fn decades(&self) -> impl Iterator<Item = f64> {
        let (first, last) = (self.low.log10().ceil(), self.high.log10().floor());
        (first as i32..=last as i32).map(|d| 10_f64.powi(d))
    }
}

/// The run measured here: its ranks and what a step cost beyond an undisturbed one, in nanoseconds.
struct Measured {
    ranks: u32,
    extra: [f64; 3],
}

fn measured(findings: &Findings) -> Option<Measured> {
    let run = findings.lockstep.iter().find(|l| l.name == EXCHANGE)?;
    let (slow, step) = (&run.slowdown, run.step.as_f64());
    let known = slow.value > 0.0 && run.slowdown_not_known.is_none();
    known.then(|| Measured {
        ranks: run.ranks,
        extra: [slow.low, slow.value, slow.high].map(|s| s * step),
    })
}

/// The figure with its sentence; empty with fewer than two points.
pub(super) fn figure(findings: &Findings, law: &RateLaw) -> String {
    if law.points.len() < 2 {
        return String::new();
    }
    let here = measured(findings);
    let beside = here.as_ref().map_or(String::new(), |m| {
        format!(
            " The diamond was measured here, with {} {}: fewer ranks pay less.",
            m.ranks,
            named(m.ranks, "rank")
        )
    });
    let last = law.points.last().map_or(0.0, |p| p.strikes);
    let absorbed = match last > 1.0 {
        true => {
            " At the upright line every rank is struck once in a step: from there on waiting for one absorbs strikes of others."
        }
        false => "",
    };
    let dashes = match law.square_root {
        Some(_) => " Dashes: the square-root law.",
        None => "",
    };
    let groups = measured_rates(findings).map_or(&[][..], |(_, found)| &found.groups[..]);
    let sentences: Vec<String> = std::iter::once(rate_law_sentence(law))
        .chain(amplified_sentence(law))
        .chain(measured_rates_sentence(findings))
        .map(|text| format!("{}.", capital(&text)))
        .collect();
    let squares = match groups.is_empty() {
        true => "",
        false => {
            " Squares: measured here, in stretches of the run with more strikes and with fewer. With few ranks soon all pay for \
             every strike, and the cost rises in proportion to the rate. Stretches with more strikes may have longer ones: the \
             measured power allows for their mean length, the squares do not. Groups without a measurable cost are not drawn."
        }
    };
    format!(
        "<div class=\"figure\"><h3>By the rate of the noise, {} ranks in a ring</h3>{}{}{}</div>\n",
        count(law.ranks),
        drawing(law, here.as_ref(), groups),
        caption(&escape(&sentences.join(" "))),
        caption(&format!(
            "The same noise, striking more rarely or more often; the ring marks the measured rate.{dashes} Dots: \
             what strikes take from one rank; the distance above them is what waiting for others adds.{absorbed}{beside}{squares}"
        ))
    )
}

/// With a capital letter at the start.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn drawing(law: &RateLaw, here: Option<&Measured>, groups: &[MeasuredRate]) -> String {
    let groups = || {
        groups
            .iter()
            .filter(|g| g.extra.value > 0.0 && g.strikes > 0.0)
    };
    let shown = || law.points.iter().filter(|p| p.extra.value > 0.0);
    let costs = shown().flat_map(|p| [p.extra.value, p.extra.high].into_iter().chain(p.taken));
    let costs = costs.chain(here.into_iter().map(|m| m.extra[1]));
    let costs = costs.chain(groups().flat_map(|g| [g.extra.value, g.extra.high]));
    let (low, high) = costs
        .filter(|&ns| ns > 0.0)
        .fold((f64::INFINITY, 0.0_f64), |(l, h), ns| {
            (l.min(ns), h.max(ns))
        });
    let rates = || {
        shown()
            .map(|p| p.strikes)
            .chain(groups().map(|g| g.strikes))
    };
    let (first, last) = (
        rates().fold(f64::INFINITY, f64::min),
        rates().fold(0.0, f64::max),
    );
    if !(low < high && first < last) {
        return String::new();
    }
    let x = Scale {
        low: first / 1.3,
        high: last * 1.3,
        from: LEFT,
        to: WIDTH - RIGHT,
    };
    let y = Scale {
        low: low / 1.3,
        high: high * 1.3,
        from: HEIGHT - BOTTOM,
        to: TOP,
    };
    let inside = |ns: f64| y.at(ns.clamp(y.low, y.high));
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Cost of a step against the rate of the noise\" \
         style=\"width:100%;height:auto;font:12px system-ui,sans-serif\">\n"
    );
    for ns in y.decades() {
        out.push_str(&format!(
            "<path d=\"M{LEFT} {at:.1}H{:.1}\" stroke=\"var(--line)\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" \
             fill=\"var(--soft)\">{}</text>\n",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y.at(ns) + 4.0,
            escape(&show::time(ns)),
            at = y.at(ns),
        ));
    }
    for strikes in x.decades() {
        out.push_str(&format!(
            "<path d=\"M{at:.1} {TOP}V{:.1}\" stroke=\"var(--line)\"/><text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\" \
             fill=\"var(--soft)\">{strikes}</text>\n",
            HEIGHT - BOTTOM,
            HEIGHT - BOTTOM + 16.0,
            at = x.at(strikes),
        ));
    }
    out.push_str(&format!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"var(--soft)\">strikes per rank and step</text>\n",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 8.0
    ));
    if x.low < 1.0 && 1.0 < last {
        out.push_str(&format!(
            "<path d=\"M{:.1} {TOP}V{:.1}\" stroke=\"var(--alarm)\" stroke-dasharray=\"2 3\"/>\n",
            x.at(1.0),
            HEIGHT - BOTTOM
        ));
    }
    // Half a decade of cost per decade of rate, through the middle of where the law holds.
    if let Some((from, to)) = law.square_root {
        let middle = shown().min_by(|a, b| {
            let off = |s: f64| (s / (from * to).sqrt()).ln().abs();
            off(a.strikes).total_cmp(&off(b.strikes))
        });
        if let Some(p) = middle {
            let of = |strikes: f64| p.extra.value * (strikes / p.strikes).sqrt();
            out.push_str(&format!(
                "<path d=\"M{:.1} {:.1}L{:.1} {:.1}\" stroke=\"var(--soft)\" stroke-width=\"1.5\" stroke-dasharray=\"6 4\"/>\n",
                x.at(first),
                inside(of(first)),
                x.at(to),
                inside(of(to))
            ));
        }
    }
    let line = |values: Vec<(f64, f64)>, style: &str| {
        let points: Vec<String> = values
            .iter()
            .map(|&(strikes, ns)| format!("{:.1},{:.1}", x.at(strikes), inside(ns)))
            .collect();
        format!(
            "<polyline points=\"{}\" fill=\"none\" {style}/>\n",
            points.join(" ")
        )
    };
    let taken = shown().filter_map(|p| Some((p.strikes, p.taken?)));
    out.push_str(&line(
        taken.collect(),
        "stroke=\"var(--soft)\" stroke-width=\"1.5\" stroke-dasharray=\"1 4\" stroke-linecap=\"round\"",
    ));
    out.push_str(&line(
        shown().map(|p| (p.strikes, p.extra.value)).collect(),
        "stroke=\"var(--accent)\" stroke-width=\"2\"",
    ));
    for p in shown() {
        let (cx, cy) = (x.at(p.strikes), inside(p.extra.value));
        let measured = match p.factor == 1.0 {
            true => "r=\"5\" fill=\"none\" stroke=\"var(--ink)\" stroke-width=\"2\"",
            false => "r=\"2.5\" fill=\"var(--accent)\"",
        };
        out.push_str(&format!(
            "<path d=\"M{cx:.1} {:.1}V{:.1}\" stroke=\"var(--accent)\"/><circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" {measured}/>\n",
            inside(p.extra.low.max(y.low)),
            inside(p.extra.high)
        ));
    }
    for g in groups() {
        let (cx, cy) = (x.at(g.strikes), inside(g.extra.value));
        out.push_str(&format!(
            "<path d=\"M{cx:.1} {:.1}V{:.1}\" stroke=\"var(--ink)\"/>\
             <rect x=\"{:.1}\" y=\"{:.1}\" width=\"6\" height=\"6\" fill=\"var(--ink)\"/>\n",
            inside(g.extra.low.max(y.low)),
            inside(g.extra.high),
            cx - 3.0,
            cy - 3.0
        ));
    }
    let at_rate = law.points.iter().find(|p| p.factor == 1.0);
    if let Some((p, m)) = at_rate.zip(here) {
        let (cx, cy) = (x.at(p.strikes), inside(m.extra[1]));
        out.push_str(&format!(
            "<path d=\"M{cx:.1} {:.1}V{:.1}\" stroke=\"var(--ink)\"/>\
             <path d=\"M{:.1} {cy:.1}L{cx:.1} {:.1}L{:.1} {cy:.1}L{cx:.1} {:.1}z\" fill=\"var(--ink)\"/>\n",
            inside(m.extra[0].max(y.low)),
            inside(m.extra[2]),
            cx - 5.0,
            cy - 5.0,
            cx + 5.0,
            cy + 5.0
        ));
    }
    out + "</svg>\n"
}
