//! The summary's part on benchmarks, ping-pongs and series over numbers of ranks.

use crate::number::plain;
use crate::screen::{Screen, Style};
use idlewave_run::findings::Findings;
use idlewave_run::{BenchmarkSheet, Manifest, PhaseKind, Scaling, ScalingSheet};
use idlewave_units::counted;
use idlewave_units::show::{self, count, digits, percent};

/// Most ranks and calls in a table.
const SHOWN: usize = 8;

/// A block for each.
pub(super) fn benchmarks(screen: &mut Screen, manifest: &Manifest, findings: &Findings) {
    for found in &findings.benchmarks {
        benchmark(screen, &found.sheet);
    }
    ping_pong(screen, manifest);
    for phase in &manifest.phases {
        if let PhaseKind::Scaling(sheet) = &phase.kind {
            scaling(screen, sheet);
        }
    }
}

/// What a benchmark did, in a sentence.
pub(crate) fn sentence(sheet: &BenchmarkSheet) -> String {
    let verified = match sheet.verified {
        true => "The result is right",
        false => "Interrupted, and so not verified",
    };
    let of = match sheet.iterations < sheet.all_iterations {
        true => format!(" of {}", count(sheet.all_iterations)),
        false => String::new(),
    };
    format!(
        "{verified}. {}{of} iterations in {}: {} {}, {} million per second.",
        count(sheet.iterations),
        sheet.total(),
        count(sheet.operations),
        sheet.operation,
        digits(sheet.rate)
    )
}

fn benchmark(screen: &mut Screen, sheet: &BenchmarkSheet) {
    let ranks = counted(sheet.ranks.len() as u64, "rank");
    let heading = format!("BENCHMARK {}, {ranks}", plain(&sheet.benchmark));
    screen.line(Style::Heading, &heading);
    screen.wrap(Style::Plain, "  ", &plain(&sentence(sheet)));
    let mut order: Vec<usize> = (0..sheet.ranks.len()).collect();
    if order.len() > SHOWN {
        order.sort_by_key(|&i| (std::cmp::Reverse(sheet.ranks[i].computation), i));
        order.truncate(SHOWN);
        screen.line(Style::Quiet, "  the ranks that computed longest:");
    }
    let rows: Vec<Vec<String>> = order
        .into_iter()
        .map(|i| {
            let rank = &sheet.ranks[i];
            let slowest = rank.iterations.as_ref().map_or("-".to_owned(), |t| {
                percent(t.slowest as f64 / t.count.max(1) as f64)
            });
            vec![
                i.to_string(),
                rank.total.to_string(),
                rank.computation.to_string(),
                rank.collective.to_string(),
                rank.point_to_point.to_string(),
                slowest,
            ]
        })
        .collect();
    let header = [
        "rank",
        "total",
        "computation",
        "collective",
        "point-to-point",
        "slowest in",
    ];
    screen.table(&header, &rows);
    let mut calls = sheet.calls();
    calls.sort_by_key(|calls| std::cmp::Reverse(calls.time));
    let total: f64 = sheet.ranks.iter().map(|r| r.total.as_f64()).sum();
    let rows: Vec<Vec<String>> = calls
        .iter()
        .take(SHOWN)
        .map(|calls| {
            vec![
                plain(&calls.call),
                count(calls.count),
                calls.bytes.to_string(),
                show::time(calls.time.as_f64() / calls.count.max(1) as f64),
                percent(calls.time.as_f64() / total.max(1.0)),
            ]
        })
        .collect();
    if !rows.is_empty() {
        screen.table(&["call", "count", "bytes", "each", "share"], &rows);
    }
}

fn ping_pong(screen: &mut Screen, manifest: &Manifest) {
    let rows: Vec<Vec<String>> = manifest
        .phases
        .iter()
        .filter_map(|phase| match &phase.kind {
            PhaseKind::PingPong {
                bytes,
                rounds,
                latency,
                ..
            } => Some(vec![
                count(*bytes),
                count(*rounds),
                show::time(latency.value),
                format!("{}..{}", show::time(latency.low), show::time(latency.high)),
            ]),
            _ => None,
        })
        .collect();
    if !rows.is_empty() {
        screen.line(Style::Heading, "PING-PONG");
        screen.table(&["bytes", "round trips", "latency", "(95 %)"], &rows);
    }
}

/// What a series is: `weak scaling`.
pub(crate) fn scaling_kind(sheet: &ScalingSheet) -> &'static str {
    match sheet.scaling {
        Scaling::Strong => "strong scaling",
        Scaling::Weak => "weak scaling",
    }
}

fn scaling(screen: &mut Screen, sheet: &ScalingSheet) {
    let kind = scaling_kind(sheet).to_uppercase();
    screen.line(
        Style::Heading,
        &format!("{kind} OF {}", plain(&sheet.program)),
    );
    let rows: Vec<Vec<String>> = sheet
        .points
        .iter()
        .map(|point| {
            let dash = || "-".to_owned();
            let efficiency = point.efficiency.as_ref();
            vec![
                point.ranks.to_string(),
                efficiency.map_or_else(dash, |e| percent(e.value)),
                point
                    .interval()
                    .map_or_else(dash, |(low, high)| show::percent_range(low, high)),
                point.predicted.map_or_else(dash, percent),
            ]
        })
        .collect();
    screen.table(&["ranks", "efficiency", "(95 %)", "predicted"], &rows);
    if let Some(why) = &sheet.not_predicted {
        screen.wrap(
            Style::Plain,
            "  ",
            &plain(&format!("No prediction: {why}.")),
        );
    }
}
