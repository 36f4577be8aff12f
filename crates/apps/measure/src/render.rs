//! Renders the outcome as text of 80 columns.

use crate::load::busy_nodes;
use crate::outcome::{Outcome, Results};
use crate::render_common::{or_dash, paragraph, with_interval};
use crate::{LockstepOutcome, PingPongFindings, Scaling, SeriesFindings};
use idlewave_explain::{way_change, way_sentence};
use idlewave_run::Coupling;
use idlewave_run::findings::{WarmUp, Ways};
use idlewave_units::foreign::column;
use idlewave_units::show::{self, percent, time};
use idlewave_units::{BytesPerSecond, Nanos, counted};
use std::fmt::Write;

/// The text, ending with a line feed.
pub fn render(outcome: &Outcome) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail, here and below.
    let _ = place(&mut out, outcome);
    for busy in busy_nodes(&outcome.machine) {
        let _ = paragraph(&mut out, "! ", "  ", &busy);
    }
    let _ = match &outcome.results {
        Results::Lockstep(found) => lockstep(&mut out, found),
        Results::PingPong(found) => ping_pong(&mut out, found),
        Results::MolecularDynamics(found) => crate::render_md::md(&mut out, found),
        Results::Benchmark(found) => crate::render_benchmark::benchmark(&mut out, found),
        Results::Benchmarks { rows } => crate::render_benchmark::benchmarks(&mut out, rows),
        Results::Scaling(found) => crate::render_scaling::scaling(&mut out, found),
    };
    if outcome.interrupted {
        out.push_str("\nInterrupted: these are the results until then.\n");
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
    let fabric = column(&place.fabric, 79);
    writeln!(out, "{} over {fabric}", counted(place.cpus.len(), "rank"))?;
    let nodes = column(&place.nodes.join(", "), 73);
    writeln!(out, "nodes: {nodes}")?;
    if place.shared_cpus {
        writeln!(out, "Ranks share CPUs: times include waits for the CPU.")?;
    }
    Ok(())
}

fn lockstep(out: &mut String, found: &LockstepOutcome) -> std::fmt::Result {
    let what = match found.coupling {
        Coupling::Neighbours => {
            let way = match found.variants.as_slice() {
                [one] => one.name().to_owned(),
                several => counted(several.len(), "way").to_string(),
            };
            format!("neighbour exchange, {way}")
        }
        other => other.name().to_owned(),
    };
    let bytes = match found.coupling {
        Coupling::Barrier => String::new(),
        _ => format!(", {}", counted(found.bytes, "byte")),
    };
    let work = time(found.work.as_f64());
    let scaling = match found.scaling {
        Some(Scaling::Strong) => " in all (strong scaling)",
        Some(Scaling::Weak) => " per rank (weak scaling)",
        None => "",
    };
    writeln!(out, "{what}{bytes}; computation {work}{scaling}\n")?;
    match &found.ways {
        Some(ways) => compared(out, ways)?,
        None => by_ranks(out, found)?,
    }
    if found.several_nodes {
        several_nodes(out, &found.series)?;
    }
    Ok(())
}

/// One row per number of ranks.
fn by_ranks(out: &mut String, found: &LockstepOutcome) -> std::fmt::Result {
    writeln!(
        out,
        "{:>5} {:>7} {:>17} {:>8} {:>8} {:>9} {:>7} {:>12}",
        "ranks", "steps", "step", "compute", "exchange", "predicted", "error", "efficiency"
    )?;
    for s in &found.series {
        let compute = s.compute.iter().map(|c| c.value).fold(0.0, f64::max);
        let predicted = or_dash(s.predicted, time);
        let error = or_dash(s.error, show::change);
        let efficiency = s.efficiency.as_ref().map_or_else(
            || "-".to_owned(),
            |e| {
                let half = percent((e.high - e.low) / 2.0);
                format!("{}+-{half}", percent(e.value).trim_end_matches(" %"))
            },
        );
        writeln!(
            out,
            "{:>5} {:>7} {:>17} {:>8} {:>8} {:>9} {:>7} {:>12}",
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
    for s in &found.series {
        noise(out, s)?;
    }
    writeln!(
        out,
        "step: mean with 95 % interval; compute: median of the slowest rank; exchange:\n\
         median from the last arrival to the end of the wait; predicted: expected\n\
         maximum of the ranks' computations plus that exchange, for independent ranks\n\
         that all wait for each other; pitfalls: docs/measure.md."
    )
}

/// What disturbances cost, beside the exchange that they disturb.
fn noise(out: &mut String, s: &SeriesFindings) -> std::fmt::Result {
    let ranks = counted(s.ranks, "rank");
    let (cost, exchange) = (&s.noise, time(s.exchange.value));
    match &s.noise_to_exchange {
        Some(times) if cost.low > 0.0 => writeln!(
            out,
            "{ranks}: noise costs {} per step, {:.2} times ({:.2}..{:.2}) the exchange",
            time(cost.value),
            times.value,
            times.low,
            times.high,
        ),
        None if cost.low > 0.0 => {
            writeln!(out, "{ranks}: noise costs {} per step", time(cost.value))
        }
        Some(_) | None => writeln!(
            out,
            "{ranks}: no cost of noise is seen beside an exchange of {exchange}"
        ),
    }
}

/// Ways to program the exchange, compared.
fn compared(out: &mut String, found: &Ways) -> std::fmt::Result {
    let Some((first, others)) = found.ways.split_first() else {
        return Ok(());
    };
    let against = format!("step against {}", first.variant.name());
    writeln!(
        out,
        "{:<12} {:>9} {:>9} {:>9}  {against}",
        "way", "step", "exchange", "noise"
    )?;
    for way in &found.ways {
        let against = way_change(way);
        writeln!(
            out,
            "{:<12} {:>9} {:>9} {:>9}  {against}",
            way.variant.name(),
            time(way.step.value),
            time(way.exchange.value),
            time(way.noise.value),
        )?;
    }
    writeln!(out)?;
    for way in others {
        if let Some(said) = way_sentence(first, way) {
            writeln!(out, "{said}")?;
        }
    }
    writeln!(
        out,
        "Medians over {}, in which the ways took turns; in brackets 95 %.\n\
         noise: mean step less the undisturbed computation and exchange.",
        counted(found.rounds, "round")
    )
}

/// How far the exchange between nodes can be trusted.
fn several_nodes(out: &mut String, series: &[SeriesFindings]) -> std::fmt::Result {
    let error = series.iter().map(|s| s.clock_error).max();
    let error = time(error.unwrap_or(Nanos::ZERO).as_f64());
    let mut coarse: Vec<String> = series
        .iter()
        .filter(|s| !s.one_clock)
        .map(|s| s.ranks.to_string())
        .collect();
    // Ways that took turns have the same ranks.
    coarse.dedup();
    writeln!(
        out,
        "Ranks on several nodes: clocks compared by messages, at most {error} off."
    )?;
    match coarse.as_slice() {
        [] => Ok(()),
        which => writeln!(
            out,
            "Too coarse for the exchange of {} ranks: there it is the shortest wait of\n\
             each iteration, that of the last rank.",
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
        "{}{grid}: {}",
        counted(s.ranks, "rank"),
        warm_up(&s.warm_up, s.skipped, "iterations")
    )
}

fn warm_up(warm: &WarmUp, skipped: u64, what: &str) -> String {
    match warm.settled_after {
        Some(Nanos::ZERO) => format!("settled from the start, no {what} left out"),
        Some(after) => {
            let after = time(after.as_f64());
            format!("settled after {after}, {skipped} {what} left out as warm-up")
        }
        None if warm.ratio == 1.0 => format!("too short to tell a warm-up, no {what} left out"),
        None => format!("never settled, no {what} left out"),
    }
}

fn ping_pong(out: &mut String, found: &PingPongFindings) -> std::fmt::Result {
    writeln!(
        out,
        "ping-pong of {} at a time\n",
        counted(found.pairs, "pair")
    )?;
    writeln!(
        out,
        "{:>10} {:>10} {:>23} {:>14} {:>14}",
        "bytes", "latency", "95 % interval", "per pair", "all pairs"
    )?;
    for s in &found.sizes {
        let interval = format!("{} - {}", time(s.latency.low), time(s.latency.high));
        let rate = |bytes: f64| match bytes {
            0.0 => "-".to_owned(),
            bytes => BytesPerSecond::scaled_text(bytes),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank_run::RankRecord;
    use idlewave_explain::series::findings;

    #[test]
    fn an_exchange_between_nodes_says_how_far_it_can_be_trusted() {
        let step = |clock_error| {
            let record = |begin| RankRecord {
                begins: vec![begin, begin + 100, begin + 200],
                arrivals: vec![begin + 60, begin + 160],
                ..RankRecord::default()
            };
            let error = Nanos::from_nanos(clock_error);
            let records = [record(0), record(0)];
            let times = records.each_ref().map(RankRecord::times);
            findings(&times, Coupling::Barrier, &[], error).expect("iterations")
        };
        let said = |series: &[SeriesFindings]| {
            let mut out = String::new();
            several_nodes(&mut out, series).expect("a string takes all");
            out
        };
        let fine = said(&[step(0), step(4)]);
        assert!(
            fine.contains("at most 4 ns off") && !fine.contains("shortest"),
            "{fine}"
        );
        let coarse = said(&[step(0), step(5)]);
        assert!(
            coarse.contains("of 2 ranks") && coarse.contains("shortest wait"),
            "{coarse}"
        );
    }
}
