//! The outcome as text of 80 columns, or as JSON.

use crate::outcome::{Outcome, Results};
use crate::{CpuFindings, LockstepOutcome, PingPongFindings, Scaling, SeriesFindings};
use idlewave_run::Coupling;
use idlewave_run::findings::{Estimate, WarmUp};
use idlewave_units::Nanos;
use std::fmt::Write;

/// Text for people, or everything as JSON. The text ends with a line feed.
pub fn render(outcome: &Outcome, json: bool) -> String {
    if json {
        // Maps have text as keys, and no number is infinite: nothing here cannot be written.
        let text = serde_json::to_string_pretty(outcome);
        return text.unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}")) + "\n";
    }
    let mut out = String::new();
    // Writing to a String does not fail, here and below.
    let _ = place(&mut out, outcome);
    let _ = match &outcome.results {
        Results::Lockstep(found) => lockstep(&mut out, found),
        Results::PingPong(found) => ping_pong(&mut out, found),
        Results::MolecularDynamics(found) => crate::render_md::md(&mut out, found),
        Results::Benchmark(found) => crate::render_benchmark::benchmark(&mut out, found),
        Results::Cpus {
            method,
            threshold,
            cpus,
        } => per_cpu(&mut out, method, *threshold, cpus),
    };
    if outcome.interrupted {
        out.push_str("\nInterrupted: this is what was measured until then.\n");
    }
    if let Some(bundle) = &outcome.bundle {
        let _ = writeln!(
            out,
            "\nto see the causes: idlewave explain {}",
            bundle.display()
        );
    }
    out
}

fn place(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let place = &outcome.place;
    if matches!(outcome.results, Results::Cpus { .. }) {
        return writeln!(
            out,
            "{} CPUs of {}",
            place.cpus.len(),
            place.nodes.join(", ")
        );
    }
    let fabric = cut(&place.fabric, 76);
    writeln!(out, "{} ranks over {fabric}", place.cpus.len())?;
    let nodes = cut(&place.nodes.join(", "), 70);
    writeln!(out, "nodes: {nodes}")?;
    if place.shared_cpus {
        writeln!(out, "Ranks share CPUs: times include waits for the CPU.")?;
    }
    Ok(())
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}...", &text[..at]),
    }
}

/// Nanoseconds with a unit, three digits.
pub(crate) fn time(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "us"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let value = if ns < 0.0 { -value } else { value };
    let digits = match value.abs() {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

pub(crate) fn with_interval(e: &Estimate) -> String {
    let share = match e.value {
        0.0 => 0.0,
        value => 100.0 * (e.high - e.low) / 2.0 / value,
    };
    format!("{} +-{share:.1}%", time(e.value))
}

/// A dash stands for what was not measured.
fn or_dash(value: Option<f64>, shown: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), shown)
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn lockstep(out: &mut String, found: &LockstepOutcome) -> std::fmt::Result {
    let what = match found.coupling {
        Coupling::Neighbours => format!("neighbour exchange, {}", found.variant.name()),
        other => other.name().to_owned(),
    };
    let bytes = match found.coupling {
        Coupling::Barrier => String::new(),
        _ => format!(", {} bytes", found.bytes),
    };
    let work = time(found.work.as_f64());
    let scaling = match found.scaling {
        Some(Scaling::Strong) => " in all (strong scaling)",
        Some(Scaling::Weak) => " per rank (weak scaling)",
        None => "",
    };
    writeln!(out, "{what}{bytes}; computation {work}{scaling}\n")?;
    writeln!(
        out,
        "{:>5} {:>8} {:>14} {:>9} {:>9} {:>9} {:>7} {:>11}",
        "ranks", "steps", "step", "compute", "exchange", "predicted", "error", "efficiency"
    )?;
    for s in &found.series {
        let compute = s.compute.iter().map(|c| c.value).fold(0.0, f64::max);
        let predicted = s.predicted.map_or_else(|| "-".to_owned(), time);
        let error = s
            .error
            .map_or_else(|| "-".to_owned(), |e| format!("{:+.1}%", 100.0 * e));
        let efficiency = s.efficiency.as_ref().map_or_else(
            || "-".to_owned(),
            |e| format!("{:.1}+-{:.1}%", 100.0 * e.value, 50.0 * (e.high - e.low)),
        );
        writeln!(
            out,
            "{:>5} {:>8} {:>14} {:>9} {:>9} {:>9} {:>7} {:>11}",
            s.ranks,
            s.iterations - s.skipped,
            with_interval(&s.step),
            time(compute),
            time(s.exchange.value),
            predicted,
            error,
            efficiency,
        )?;
    }
    writeln!(out)?;
    for s in &found.series {
        warm(out, s)?;
    }
    writeln!(
        out,
        "step: mean with 95 % interval; compute: median of the slowest rank; exchange:\n\
         median from the last arrival to the end of the wait; predicted: expected\n\
         maximum of the ranks' computations plus that exchange, of independent ranks\n\
         that all wait for each other; what misleads: docs/measure.md."
    )?;
    if found.several_nodes {
        several_nodes(out, &found.series)?;
    }
    Ok(())
}

/// How far the exchange between nodes can be trusted.
fn several_nodes(out: &mut String, series: &[SeriesFindings]) -> std::fmt::Result {
    let error = series.iter().map(|s| s.clock_error).max();
    let error = time(error.unwrap_or(Nanos::ZERO).as_f64());
    let coarse: Vec<String> = series
        .iter()
        .filter(|s| !s.one_clock)
        .map(|s| s.ranks.to_string())
        .collect();
    writeln!(
        out,
        "Ranks on several nodes: clocks compared by messages, at most {error} off."
    )?;
    match coarse.as_slice() {
        [] => Ok(()),
        which => writeln!(
            out,
            "Too coarse for the exchange of {} ranks: there it is the shortest wait of\n\
             each iteration, that of the rank that came last.",
            which.join(", ")
        ),
    }
}

fn warm(out: &mut String, s: &SeriesFindings) -> std::fmt::Result {
    let grid: Vec<String> = s.sides.iter().map(u32::to_string).collect();
    let grid = if grid.len() > 1 {
        format!(" ({})", grid.join(" x "))
    } else {
        String::new()
    };
    writeln!(
        out,
        "{} ranks{grid}: {}",
        s.ranks,
        warm_up(&s.warm_up, s.skipped, "iterations")
    )
}

fn warm_up(warm: &WarmUp, skipped: u64, what: &str) -> String {
    match warm.settled_after {
        Some(Nanos::ZERO) => format!("settled from the begin, no {what} left out"),
        Some(after) => {
            let after = time(after.as_f64());
            format!("settled after {after}, {skipped} {what} left out as warm-up")
        }
        None if warm.ratio == 1.0 => format!("too short to tell a warm-up, no {what} left out"),
        None => format!("never settled, no {what} left out"),
    }
}

fn ping_pong(out: &mut String, found: &PingPongFindings) -> std::fmt::Result {
    writeln!(out, "ping-pong of {} pairs at a time\n", found.pairs)?;
    writeln!(
        out,
        "{:>10} {:>10} {:>23} {:>14} {:>14}",
        "bytes", "latency", "95 % interval", "per pair", "all pairs"
    )?;
    for s in &found.sizes {
        let interval = format!("{} - {}", time(s.latency.low), time(s.latency.high));
        let rate = |bytes: f64| match bytes {
            0.0 => "-".to_owned(),
            bytes => format!("{:.1} MB/s", bytes / 1e6),
        };
        writeln!(
            out,
            "{:>10} {:>10} {:>23} {:>14} {:>14}",
            s.bytes,
            time(s.latency.value),
            interval,
            rate(s.bandwidth),
            rate(s.total_bandwidth),
        )?;
    }
    writeln!(
        out,
        "\nlatency: median of half round trips, all pairs together."
    )
}

fn per_cpu(
    out: &mut String,
    method: &str,
    threshold: Option<Nanos>,
    cpus: &[CpuFindings],
) -> std::fmt::Result {
    let detours = method == "detour";
    let (what, noise) = match detours {
        true => ("detours", "stolen"),
        false => ("quanta", "slow-down"),
    };
    writeln!(out)?;
    writeln!(
        out,
        "{:>5} {:>9} {:>10} {:>10} {:>10} {:>10}",
        "CPU", what, "median", "p99", "longest", noise
    )?;
    for c in cpus {
        writeln!(
            out,
            "{:>5} {:>9} {:>10} {:>10} {:>10} {:>10}",
            c.cpu.to_string(),
            c.count,
            or_dash(c.median.as_ref().map(|m| m.value), time),
            or_dash(c.p99.as_ref().map(|p| p.value), time),
            or_dash(c.longest.map(|l| l as f64), time),
            or_dash(c.noise, percent),
        )?;
    }
    for c in cpus.iter().filter(|c| c.not_kept > 0) {
        writeln!(
            out,
            "CPU {}: {} more {what} found no room",
            c.cpu, c.not_kept
        )?;
    }
    writeln!(out)?;
    if let Some(threshold) = threshold {
        let from = time(threshold.as_f64());
        return writeln!(
            out,
            "stolen: share of the time that detours from {from} on took."
        );
    }
    for c in cpus {
        if let Some(warm) = &c.warm_up {
            let said = match warm.settled_after {
                Some(Nanos::ZERO) => "settled from the begin".to_owned(),
                Some(after) => format!("settled after {}, left out", time(after.as_f64())),
                None => "did not settle, nothing left out".to_owned(),
            };
            writeln!(out, "CPU {}: {said}", c.cpu)?;
        }
    }
    writeln!(out, "slow-down: mean over the 1st percentile, minus 1.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank_run::RankRecord;
    use crate::series::findings;

    #[test]
    fn an_exchange_between_nodes_says_how_far_it_can_be_trusted() {
        let step = |clock_error| {
            let record = |begin| RankRecord {
                begins: vec![begin, begin + 100, begin + 200],
                arrivals: vec![begin + 60, begin + 160],
                ..RankRecord::default()
            };
            let error = Nanos::from_nanos(clock_error);
            findings(&[record(0), record(0)], Coupling::Barrier, &[], error).expect("iterations")
        };
        let said = |series: &[SeriesFindings]| {
            let mut out = String::new();
            several_nodes(&mut out, series).expect("a string takes all");
            out
        };
        let fine = said(&[step(0), step(4)]);
        assert!(
            fine.contains("at most 4.00 ns off") && !fine.contains("shortest"),
            "{fine}"
        );
        let coarse = said(&[step(0), step(5)]);
        assert!(
            coarse.contains("of 2 ranks") && coarse.contains("shortest wait"),
            "{coarse}"
        );
    }

    #[test]
    fn times_have_three_digits() {
        for (ns, text) in [
            (0.0, "0.00 ns"),
            (999.0, "999 ns"),
            (20_123.0, "20.1 us"),
            (9_996.0, "10.0 us"),
            (-1_500.0, "-1.50 us"),
            (2.5e9, "2.50 s"),
        ] {
            assert_eq!(time(ns), text);
        }
    }
}
