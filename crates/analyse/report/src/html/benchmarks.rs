//! Benchmarks, ping-pongs and series over numbers of ranks: what they reported, and the efficiency
//! against the number of ranks.
//!
//! The figure is SVG drawn here from the manifest; it needs no script.

use super::markup::{barred, caption, cell, escape, number, section as in_section, table};
use crate::text::{benchmark_sentence, scaling_kind};
use idlewave_run::findings::{BenchmarkFindings, Findings};
use idlewave_run::{BenchmarkSheet, Manifest, PhaseKind, ScalingSheet};
use idlewave_units::Nanos;
use idlewave_units::show::{self, count, percent};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 44.0;
/// Most ranks in a table: those that computed longest.
const RANKS_SHOWN: usize = 64;

/// Everything of this kind in a run.
pub(super) fn section(manifest: &Manifest, findings: &Findings) -> String {
    let mut body = String::new();
    for (i, found) in findings.benchmarks.iter().enumerate() {
        body.push_str(&benchmark(i, found));
    }
    body.push_str(&ping_pong(manifest));
    for phase in &manifest.phases {
        if let PhaseKind::Scaling(sheet) = &phase.kind {
            body.push_str(&scaling(sheet));
        }
    }
    in_section("benchmarks", "Benchmarks", &body)
}

fn benchmark(i: usize, found: &BenchmarkFindings) -> String {
    let sheet = &found.sheet;
    let mut out = format!(
        "<h3>{}, {} {}</h3>\n<p>{}</p>\n",
        escape(&sheet.benchmark),
        sheet.ranks.len(),
        idlewave_units::named(sheet.ranks.len() as u64, "rank"),
        escape(&benchmark_sentence(sheet)),
    );
    out.push_str(&ranks(i, sheet));
    out.push_str("<div class=\"pair\">\n");
    out.push_str(&calls(sheet));
    out.push_str(&regions(sheet));
    out + "</div>\n"
}

fn ranks(i: usize, sheet: &BenchmarkSheet) -> String {
    let mut order: Vec<usize> = (0..sheet.ranks.len()).collect();
    let left_out = order.len().saturating_sub(RANKS_SHOWN);
    if left_out > 0 {
        order.sort_by_key(|&r| (std::cmp::Reverse(sheet.ranks[r].computation), r));
        order.truncate(RANKS_SHOWN);
    }
    let mut rows = String::new();
    for r in order {
        let rank = &sheet.ranks[r];
        let total = rank.total.as_f64().max(1.0);
        let part = |field: &str, time: Nanos, group: &str| {
            let path = format!("benchmarks.{i}.sheet.ranks.{r}.{field}");
            let shown = number(&path, time.get(), &time.to_string());
            cell(time.get(), &barred(group, time.as_f64() / total, &shown))
        };
        let mut row = format!("<tr>{}", cell(r, &r.to_string()));
        row.push_str(&cell(rank.total.get(), &rank.total.to_string()));
        row.push_str(&part("computation", rank.computation, "t-computing"));
        row.push_str(&part("collective", rank.collective, "t-waiting"));
        row.push_str(&part(
            "point_to_point",
            rank.point_to_point,
            "t-communicating",
        ));
        match &rank.iterations {
            Some(t) => {
                let slowest = t.slowest as f64 / t.count.max(1) as f64;
                for time in [t.median, t.tenth, t.ninetieth, t.computation] {
                    row.push_str(&cell(time.get(), &time.to_string()));
                }
                row.push_str(&cell(slowest, &percent(slowest)));
            }
            None => row.push_str(&cell(0, "-").repeat(5)),
        }
        rows.push_str(&(row + "</tr>\n"));
    }
    let header = [
        ("Rank", "Its number"),
        ("Total", "The timed part"),
        ("Computation", "The rest, interruptions included"),
        ("Collective", "In collectives, waiting included"),
        ("Point-to-point", "In sends and receives, waiting included"),
        ("Iteration", "Median"),
        ("10 %", "10th percentile of the iterations"),
        ("90 %", "90th percentile of the iterations"),
        (
            "Computation of one",
            "Median of an iteration without its calls",
        ),
        (
            "Slowest in",
            "Iterations in which this rank computed longest",
        ),
    ];
    let more = match left_out {
        0 => String::new(),
        n => format!(" {n} ranks that computed less are left out."),
    };
    caption(&format!(
        "Waiting is part of the call in which a rank waits: the last rank to reach a collective spends little time in it. \
         What delayed whom is below, under Jitter; there, a rank with more work than others is a slow rank too.{more}"
    )) + &table("sortable", &header, &rows)
}

fn calls(sheet: &BenchmarkSheet) -> String {
    let all: f64 = sheet.ranks.iter().map(|r| r.total.as_f64()).sum();
    let mut rows = String::new();
    for calls in sheet.calls() {
        let share = calls.time.as_f64() / all.max(1.0);
        let each = calls.time.as_f64() / calls.count.max(1) as f64;
        rows.push_str(&format!(
            "<tr>{}{}{}{}{}</tr>\n",
            cell(escape(&calls.call), &escape(&calls.call)),
            cell(calls.count, &count(calls.count)),
            cell(calls.bytes.get(), &calls.bytes.to_string()),
            cell(each, &show::time(each)),
            cell(share, &barred("t-waiting", share, &percent(share))),
        ));
    }
    let header = [
        ("Call", "Which"),
        ("Count", "Of all ranks"),
        ("Bytes", "Passed to the calls, or received"),
        ("Each", "Mean time, waiting included"),
        ("Share", "Of the time of all ranks"),
    ];
    figure("Calls", &table("sortable", &header, &rows))
}

fn regions(sheet: &BenchmarkSheet) -> String {
    let all: f64 = sheet.ranks.iter().map(|r| r.total.as_f64()).sum();
    let mut rows = String::new();
    for name in sheet.regions() {
        let of = |rank: &idlewave_run::BenchmarkRank| {
            let region = rank.regions.iter().find(|region| region.name == name);
            region.map_or(Nanos::ZERO, |region| region.time)
        };
        let times: Vec<Nanos> = sheet.ranks.iter().map(of).collect();
        let least = times.iter().min().copied().unwrap_or(Nanos::ZERO);
        let most = times.iter().max().copied().unwrap_or(Nanos::ZERO);
        let share = times.iter().map(|t| t.as_f64()).sum::<f64>() / all.max(1.0);
        rows.push_str(&format!(
            "<tr>{}{}{}{}</tr>\n",
            cell(escape(name), &escape(name)),
            cell(least.get(), &least.to_string()),
            cell(most.get(), &most.to_string()),
            cell(share, &barred("t-computing", share, &percent(share))),
        ));
    }
    let header = [
        ("Region", "As the benchmark names it"),
        ("Least", "Time of the rank that spent the least in it"),
        ("Most", "Time of the rank that spent the most in it"),
        ("Share", "Of the time of all ranks, calls included"),
    ];
    match rows.is_empty() {
        true => String::new(),
        false => figure("Regions", &table("sortable", &header, &rows)),
    }
}

fn figure(title: &str, body: &str) -> String {
    format!("<div class=\"figure\"><h4>{title}</h4>{body}</div>\n")
}

fn ping_pong(manifest: &Manifest) -> String {
    let mut rows = String::new();
    for phase in &manifest.phases {
        if let PhaseKind::PingPong {
            bytes,
            pairs,
            rounds,
            latency,
        } = &phase.kind
        {
            let range = format!("{}..{}", show::time(latency.low), show::time(latency.high));
            rows.push_str(&format!(
                "<tr>{}{}{}{}{}</tr>\n",
                cell(bytes, &count(*bytes)),
                cell(pairs, &pairs.to_string()),
                cell(rounds, &count(*rounds)),
                cell(latency.value, &show::time(latency.value)),
                cell(latency.low, &range),
            ));
        }
    }
    let header = [
        ("Bytes", "Of a message"),
        ("Pairs", "At the same time"),
        ("Round trips", "Of each pair"),
        ("Latency", "Median of half a round trip"),
        ("95 %", "Interval of the median"),
    ];
    match rows.is_empty() {
        true => String::new(),
        false => format!("<h3>Ping-pong</h3>\n{}", table("sortable", &header, &rows)),
    }
}

fn scaling(sheet: &ScalingSheet) -> String {
    let mut rows = String::new();
    for point in &sheet.points {
        let dash = || "-".to_owned();
        let efficiency = point.efficiency.as_ref();
        let interval = point.interval();
        let value = efficiency.map_or(0.0, |e| e.value);
        rows.push_str(&format!(
            "<tr>{}{}{}{}{}{}</tr>\n",
            cell(point.ranks, &count(point.ranks.into())),
            cell(escape(&point.program), &escape(&point.program)),
            cell(point.times.len(), &point.times.len().to_string()),
            cell(value, &efficiency.map_or_else(dash, |e| percent(e.value))),
            cell(
                value,
                &interval.map_or_else(dash, |(low, high)| show::percent_range(low, high))
            ),
            cell(
                point.predicted.unwrap_or(0.0),
                &point.predicted.map_or_else(dash, percent)
            ),
        ));
    }
    let header = [
        ("Ranks", "Their number"),
        ("Program", "At this number of ranks"),
        ("Rounds", "How often this number had its turn"),
        (
            "Efficiency",
            "Operations per second and rank over those at the first number, median",
        ),
        ("95 %", "Interval of the median"),
        ("Predicted", "What noise alone leaves"),
    ];
    let about = match &sheet.not_predicted {
        Some(why) => format!("No prediction: {}.", escape(why)),
        None => "Dashes: what noise alone leaves, from the computations at the first number of ranks; below them is what \
                 communication and shared memory cost."
            .to_owned(),
    };
    let mut title = format!("{} of {}", scaling_kind(sheet), sheet.program);
    if let Some(first) = title.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    format!(
        "<h3>{}</h3>\n<div class=\"figure\"><h4>Efficiency against the number of ranks</h4>{}{}</div>\n{}",
        escape(&title),
        drawing(sheet),
        caption(&format!(
            "Dots: median of the rounds, with its 95 % interval from six complete rounds on; the number of ranks is logarithmic. {about}"
        )),
        table("sortable", &header, &rows)
    )
}

fn drawing(sheet: &ScalingSheet) -> String {
    let (Some(first), Some(last)) = (sheet.points.first(), sheet.points.last()) else {
        return String::new();
    };
    let (low, high) = (f64::from(first.ranks).ln(), f64::from(last.ranks).ln());
    let x = |ranks: u32| {
        let share = (f64::from(ranks).ln() - low) / (high - low).max(1e-9);
        LEFT + share * (WIDTH - LEFT - RIGHT)
    };
    let tops = sheet.points.iter().flat_map(|p| {
        let measured = p.efficiency.as_ref().map(|e| e.value);
        let high = p.interval().map(|(_, high)| high);
        measured.into_iter().chain(high).chain(p.predicted)
    });
    let most = tops.fold(1.0, f64::max);
    let y = |share: f64| TOP + (1.0 - share.max(0.0) / most) * (HEIGHT - TOP - BOTTOM);
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Efficiency against the number of ranks\" \
         style=\"width:100%;height:auto;font:12px system-ui,sans-serif\">\n"
    );
    for percent in [0, 25, 50, 75, 100] {
        let at = y(f64::from(percent) / 100.0);
        out.push_str(&format!(
            "<path d=\"M{LEFT} {at:.1}H{:.1}\" stroke=\"var(--line)\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"var(--soft)\">{percent} %</text>\n",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0
        ));
    }
    for point in &sheet.points {
        out.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"var(--soft)\">{}</text>\n",
            x(point.ranks),
            HEIGHT - BOTTOM + 18.0,
            point.ranks
        ));
    }
    out.push_str(&format!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"var(--soft)\">ranks</text>\n",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 8.0
    ));
    let line = |points: Vec<String>, style: &str| match points.len() {
        0 | 1 => String::new(),
        _ => format!(
            "<polyline points=\"{}\" fill=\"none\" {style}/>\n",
            points.join(" ")
        ),
    };
    let at = |ranks: u32, share: f64| format!("{:.1},{:.1}", x(ranks), y(share));
    let predicted = sheet.points.iter();
    let predicted = predicted.filter_map(|p| Some(at(p.ranks, p.predicted?)));
    out.push_str(&line(
        predicted.collect(),
        "stroke=\"var(--soft)\" stroke-width=\"1.5\" stroke-dasharray=\"6 4\"",
    ));
    let measured = sheet.points.iter();
    let measured = measured.filter_map(|p| Some(at(p.ranks, p.efficiency.as_ref()?.value)));
    out.push_str(&line(
        measured.collect(),
        "stroke=\"var(--accent)\" stroke-width=\"2\"",
    ));
    for point in &sheet.points {
        if let Some(e) = &point.efficiency {
            let x = x(point.ranks);
            if let Some((low, high)) = point.interval() {
                out.push_str(&format!(
                    "<path d=\"M{x:.1} {:.1}V{:.1}\" stroke=\"var(--accent)\" stroke-width=\"2\"/>",
                    y(low),
                    y(high)
                ));
            }
            out.push_str(&format!(
                "<circle cx=\"{x:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"var(--accent)\"/>\n",
                y(e.value)
            ));
        }
    }
    out + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_run::findings::Estimate;
    use idlewave_run::{Scaling, ScalingPoint};

    fn sheet(predicted: bool, rounds: u64) -> ScalingSheet {
        let point = |ranks, efficiency: f64| ScalingPoint {
            ranks,
            program: "halo:<8>".to_owned(),
            operations: vec![1.0],
            times: vec![Nanos::from_millis(1)],
            efficiency: Some(Estimate {
                value: efficiency,
                low: efficiency - 0.05,
                high: efficiency + 0.05,
                n: rounds,
                method: "median".to_owned(),
            }),
            predicted: predicted.then_some(0.9),
        };
        ScalingSheet {
            program: "halo:<8>".to_owned(),
            scaling: Scaling::Weak,
            operation: "cells updated".to_owned(),
            points: vec![point(1, 1.0), point(2, 0.8), point(4, 0.5)],
            not_predicted: (!predicted).then(|| "too few".to_owned()),
        }
    }

    #[test]
    fn measured_and_predicted_efficiency_are_drawn_over_the_number_of_ranks() {
        let drawn = scaling(&sheet(true, 6));
        assert_eq!(drawn.matches("<polyline").count(), 2);
        assert_eq!(drawn.matches("<circle").count(), 3);
        // Two of four ranks are half way on a logarithmic scale: 64 to 624.
        assert!(drawn.contains("cx=\"344.0\""), "{drawn}");
        assert!(drawn.contains("Weak scaling of halo:&lt;8&gt;"), "{drawn}");
        let without = scaling(&sheet(false, 6));
        assert_eq!(without.matches("<polyline").count(), 1);
        assert!(without.contains("No prediction: too few."), "{without}");
    }

    #[test]
    fn an_efficiency_of_few_rounds_has_no_interval() {
        let intervals = |rounds| {
            let drawn = scaling(&sheet(true, rounds));
            let lines = drawn.matches("stroke=\"var(--accent)\" stroke-width=\"2\"/><circle");
            (lines.count(), drawn.matches("..").count())
        };
        assert_eq!(intervals(6), (3, 3));
        assert_eq!(intervals(5), (0, 0));
    }
}
