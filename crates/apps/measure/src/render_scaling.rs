//! Renders a series over numbers of ranks as text.

use crate::render_common::or_dash;
use crate::render_common::paragraph;
use idlewave_run::{Scaling, ScalingSheet};
use idlewave_stats::quantiles::{self, MEDIAN_NEEDS};
use idlewave_units::counted;
use idlewave_units::show::{digits, percent, percent_range};
use std::fmt::{Result, Write};

/// The text.
pub fn scaling(out: &mut String, found: &ScalingSheet) -> Result {
    let (kind, rule) = match found.scaling {
        Scaling::Strong => ("strong", "the work is divided among the ranks"),
        Scaling::Weak => ("weak", "every rank has all of the work"),
    };
    let title = format!("{}, {kind} scaling: {rule}", found.program);
    paragraph(out, "", "", &title)?;
    writeln!(out)?;
    writeln!(
        out,
        "{:>5}  {:<20} {:>6} {:>13}  {:<20} {:>9}",
        "ranks", "program", "rounds", "million/s", "efficiency (95 %)", "predicted"
    )?;
    for point in &found.points {
        let rates = point.operations.iter().zip(&point.times);
        let rates: Vec<f64> = rates
            .map(|(operations, time)| operations * 1e3 / time.as_f64().max(1.0))
            .collect();
        let rate = quantiles::median_of(&rates);
        let mut shown = or_dash(point.efficiency.as_ref().map(|e| e.value), percent);
        if let Some((low, high)) = point.interval() {
            let range = percent_range(low, high);
            shown.push_str(&format!(" ({})", range.trim_end_matches(" %")));
        }
        let program: String = point.program.chars().take(20).collect();
        writeln!(
            out,
            "{:>5}  {:<20} {:>6} {:>13}  {:<20} {:>9}",
            point.ranks,
            program,
            point.times.len(),
            or_dash(rate, digits),
            shown,
            or_dash(point.predicted, percent)
        )?;
    }
    let rounds = found.points.first().and_then(|p| p.efficiency.as_ref());
    let rounds = rounds.map_or(0, |e| e.n);
    writeln!(out)?;
    if rounds < MEDIAN_NEEDS as u64 {
        let text = format!("An interval needs {MEDIAN_NEEDS} complete rounds (--repeats).");
        paragraph(out, "", "", &text)?;
    }
    let mut text = format!(
        "million/s: {} per second on all ranks, median; efficiency: those per rank over those per rank \
         at the first number, median over {} in which the numbers took turns.",
        found.operation,
        counted(rounds, "round"),
    );
    text.push_str(&match &found.not_predicted {
        None => " predicted: what noise alone leaves, from the computations at the first number; \
                 communication and shared memory cost more."
            .to_owned(),
        Some(why) => format!(" No prediction: {why}."),
    });
    paragraph(out, "", "", &text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_run::ScalingPoint;
    use idlewave_run::findings::Estimate;
    use idlewave_units::Nanos;

    fn text(rounds: u64) -> String {
        let estimate = |value: f64| Estimate {
            value,
            low: value - 0.0123,
            high: value + 0.0123,
            n: rounds,
            method: "median".to_owned(),
        };
        let point = |ranks| ScalingPoint {
            ranks,
            program: "halo:64,steps=1000,dims=2,residual=10".to_owned(),
            operations: vec![1e9; rounds as usize],
            times: vec![Nanos::from_millis(500); rounds as usize],
            efficiency: Some(estimate(0.877)),
            predicted: (ranks == 1).then_some(1.0),
        };
        let sheet = ScalingSheet {
            program: "halo:64,steps=1000,dims=2,residual=10".to_owned(),
            scaling: Scaling::Weak,
            operation: "cells updated".to_owned(),
            points: vec![point(1), point(4_096)],
            not_predicted: None,
        };
        let mut out = String::new();
        scaling(&mut out, &sheet).expect("a string takes all");
        assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
        out
    }

    #[test]
    fn an_efficiency_has_its_interval_if_there_are_rounds_for_one() {
        let six = text(6);
        for part in ["87.7 % (86.5..88.9)", "2000", "weak scaling", "100 %"] {
            assert!(six.contains(part), "{part}: {six}");
        }
        assert!(!six.contains("An interval needs"));
        let two = text(2);
        assert!(
            two.contains("An interval needs 6") && !two.contains(".."),
            "{two}"
        );
    }
}
