//! The summary's part on computations that all ranks repeat: how much they vary and what that
//! costs.

use crate::facts::source_name;
use crate::number::plain;
use crate::screen::{Screen, Style};
use idlewave_run::findings::{
    Estimate, Findings, JitterCore, JitterFindings, JitterOrder, JitterPattern, SourceFinding,
};
use idlewave_units::show::{self, count, efficiency, percent};
use idlewave_units::{counted, grouped, named};

/// Most marked regions shown.
const SHOWN: usize = 3;
/// A core farther than this from a Gaussian is reported as not Gaussian.
const MISFIT: f64 = 0.03;
/// Most culprits named.
const CULPRITS: usize = 3;

/// One block per computation. Those of lockstep runs appear on the page only: the summary gives
/// these runs their own verdict.
pub(super) fn jitter(screen: &mut Screen, findings: &Findings) {
    let own = |j: &&JitterFindings| !findings.lockstep.iter().any(|l| l.phase == j.phase);
    for found in findings.jitter.iter().filter(own).take(SHOWN) {
        block(screen, &findings.sources, found);
    }
}

/// Renders findings on computations that all ranks repeat, whose culprits are rows of `sources`; no
/// line is wider than `width` columns.
pub fn render_jitter(
    jitter: &[JitterFindings],
    sources: &[SourceFinding],
    width: usize,
    color: bool,
) -> String {
    let mut screen = Screen::new(width, color);
    for found in jitter {
        block(&mut screen, sources, found);
    }
    screen.into_text()
}

fn block(screen: &mut Screen, sources: &[SourceFinding], found: &JitterFindings) {
    let heading = format!(
        "JITTER OF {}, {}, {} {}",
        plain(&found.name),
        ranks_of(found.ranks),
        count(found.steps),
        named(found.steps, "step")
    );
    screen.line(Style::Heading, &heading);
    for sentence in sentences(sources, found) {
        screen.wrap(Style::Plain, "  ", &sentence);
    }
    let rows: Vec<Vec<String>> = found
        .scale
        .iter()
        .map(|s| {
            let share = |e: Option<f64>| e.map_or("-".to_owned(), efficiency);
            let beyond = s.extrapolated.as_ref();
            vec![
                grouped(s.ranks),
                share(s.gaussian),
                share(s.measured),
                beyond.map_or("-".to_owned(), with_interval),
            ]
        })
        .collect();
    let extrapolated = format!(
        "extrapolated from {} durations",
        count(u64::from(found.ranks) * found.steps)
    );
    let columns = ["efficiency at", "Gaussian", "as measured", &extrapolated];
    screen.table(&columns, &rows);
    for sentence in not_extrapolated(found) {
        screen.wrap(Style::Plain, "  ", &sentence);
    }
}

/// An efficiency with its interval.
pub(crate) fn with_interval(e: &Estimate) -> String {
    format!(
        "{} ({} to {})",
        efficiency(e.value),
        efficiency(e.low).trim_end_matches(" %"),
        efficiency(e.high)
    )
}

/// Why efficiencies are missing, each reason once, with the first number of ranks that it concerns.
pub(crate) fn not_extrapolated(found: &JitterFindings) -> Vec<String> {
    let mut told: Vec<&str> = Vec::new();
    let mut out = Vec::new();
    for point in &found.scale {
        let Some(why) = point.not_extrapolated.as_deref() else {
            continue;
        };
        if !told.contains(&why) {
            told.push(why);
            let ranks = grouped(point.ranks);
            out.push(format!("not extrapolated to {ranks} ranks or more: {why}"));
        }
    }
    out
}

fn ranks_of(n: u32) -> String {
    if n == 1 {
        "1 rank".to_owned()
    } else {
        counted(n, "rank")
    }
}

/// What to say, most important first.
pub(crate) fn sentences(sources: &[SourceFinding], found: &JitterFindings) -> Vec<String> {
    let mut out = vec![cost(found)];
    out.extend(found.core.as_ref().map(shape));
    out.push(slowest(found));
    out.extend(culprits(sources, found));
    out.extend(found.tail_shape.as_ref().and_then(heavy));
    out.push(who(found));
    out.extend(found.order.as_ref().map(order));
    out
}

fn cost(found: &JitterFindings) -> String {
    let e = &found.efficiency;
    let mut text = format!(
        "waiting for the slowest rank in every step leaves {} of the time for work ({} to {})",
        efficiency(e.value),
        efficiency(e.low),
        efficiency(e.high)
    );
    if let Some(gaussian) = found.scale.first().and_then(|s| s.gaussian) {
        text.push_str(&format!(
            "; a pure Gaussian would leave {}",
            efficiency(gaussian)
        ));
    }
    if let Some((core, share)) = found
        .core
        .as_ref()
        .and_then(|c| Some((c, c.outlier_share?)))
        .filter(|(c, _)| c.outliers > 0)
    {
        text.push_str(&format!(
            "; {} of the loss is {} outliers, longer than {}",
            percent(share),
            count(core.outliers),
            core.outlier_from
        ));
    }
    text
}

fn shape(core: &JitterCore) -> String {
    let mut text = format!(
        "core: mean {}, deviation {} ({} to {}), {} in the tail",
        show::time(core.mean.value),
        show::time(core.deviation.value),
        show::time(core.deviation.low),
        show::time(core.deviation.high),
        percent(core.tail.value)
    );
    if core.misfit > MISFIT {
        text.push_str(&format!(
            "; it is no Gaussian (off by {}): several speeds, or ranks with different work",
            percent(core.misfit)
        ));
    }
    text
}

fn slowest(found: &JitterFindings) -> String {
    let s = &found.slowest;
    let z = s.z.map_or(String::new(), |z| {
        format!(", {} deviations from the mean", show::digits(z))
    });
    format!(
        "slowest: {} on rank {} in step {}{z}; median {}",
        s.duration, s.rank, s.step, found.median
    )
}

/// What follows from a tail without a variance.
fn heavy(shape: &Estimate) -> Option<String> {
    const NO_VARIANCE: f64 = 0.5;
    let [value, low, high] = [shape.value, shape.low, shape.high].map(show::digits);
    (shape.value >= NO_VARIANCE).then(|| {
        format!(
            "the longest durations have a heavy tail (shape {value}, {low} to {high}) without a variance: the efficiency of another \
             run may differ much"
        )
    })
}

fn culprits(sources: &[SourceFinding], found: &JitterFindings) -> Option<String> {
    let named: Vec<String> = found
        .culprits
        .iter()
        .take(CULPRITS)
        .filter_map(|c| {
            let source = sources.get(c.source as usize)?;
            let name = source_name(source.kind, &source.name);
            Some(format!(
                "{} {} (most of {} {})",
                plain(&name),
                c.time,
                count(c.steps),
                named(c.steps, "step")
            ))
        })
        .collect();
    (!named.is_empty()).then(|| format!("taken in the outliers: {}", named.join(", ")))
}

/// Whether the slowest rank goes round the ranks.
fn order(found: &JitterOrder) -> String {
    let significant = |p: &&JitterPattern| p.is_significant();
    let moves = found.moves.as_ref();
    if let Some(p) = moves.filter(significant) {
        let way = if p.shift < 0 { "back" } else { "on" };
        let far = counted(p.shift.unsigned_abs(), "rank");
        let what = format!("the slowest rank moves {way} by {far} every");
        return pattern(&what, p);
    }
    if let Some(p) = Some(&found.returns).filter(significant) {
        return pattern("the same rank is the slowest again after", p);
    }
    // The smaller of two: Bonferroni.
    let p = moves.map_or(found.returns.p, |m| 2.0 * m.p.min(found.returns.p));
    format!(
        "ranks are the slowest in no order that repeats within {} steps (p = {:.3})",
        count(found.lags),
        p.min(1.0)
    )
}

fn pattern(what: &str, found: &JitterPattern) -> String {
    let lag = match found.lag {
        1 => "step".to_owned(),
        n => format!("{} steps", count(n)),
    };
    let one = if found.lag == 1 && found.shift == 0 {
        "1 "
    } else {
        ""
    };
    let share = &found.share;
    format!(
        "{what} {one}{lag}: so in {} of the steps ({} to {}), {} by chance (p = {:.3})",
        percent(share.value),
        percent(share.low),
        percent(share.high),
        percent(found.by_chance),
        found.p
    )
}

fn who(found: &JitterFindings) -> String {
    if found.ranks < 2 {
        return "one rank only: no other rank waits for it".to_owned();
    }
    let ranks = match found.slow_ranks.as_slice() {
        [] => "no rank is the slowest more often than by chance".to_owned(),
        list => {
            let names: Vec<String> = list.iter().take(8).map(ToString::to_string).collect();
            let more = if list.len() > 8 { ", .." } else { "" };
            format!(
                "slowest more often than by chance: rank {}{more}",
                names.join(", ")
            )
        }
    };
    format!(
        "{ranks}; the same one stays it for {} steps ({} by chance), at most {}",
        show::digits(found.run_length),
        show::digits(found.run_length_by_chance),
        count(found.longest_run)
    )
}
