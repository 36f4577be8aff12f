//! Renders molecular dynamics as text: the analysis of its jitter (docs/jitter.md), most important first.

use crate::MdOutcome;
use crate::render_common::with_interval;
use idlewave_run::findings::JitterFindings;
use idlewave_units::counted;
use idlewave_units::show::{efficiency, percent, time};
use std::fmt::{Result, Write};

/// The most ranks listed that are the slowest more often than by chance.
const NAMED: usize = 10;

/// The text.
pub fn md(out: &mut String, found: &MdOutcome) -> Result {
    writeln!(
        out,
        "Lennard-Jones fluid, {} particles per rank, seed {}\n",
        found.particles_per_rank, found.seed
    )?;
    let step = with_interval(&found.step);
    line(out, "steps", &format!("{} of {step}", found.steps))?;
    let lists = format!(
        "{}, {} at the end",
        counted(found.rebuilds, "time"),
        counted(found.pairs, "pair")
    );
    line(out, "lists rebuilt", &lists)?;
    let energy = found.energy_drift.map_or_else(
        || "not summed (--energy-every)".to_owned(),
        |d| format!("{d:.1e} of the kinetic energy at most"),
    );
    line(out, "energy drift", &energy)?;
    match &found.jitter {
        Some(jitter) => forces(out, jitter),
        None => writeln!(out, "\nToo few steps to tell how much the forces vary."),
    }
}

fn line(out: &mut String, name: &str, value: &str) -> Result {
    writeln!(out, "{name:<22} {value}")
}

fn forces(out: &mut String, found: &JitterFindings) -> Result {
    writeln!(
        out,
        "\nforces, {}\n",
        counted(found.steps * u64::from(found.ranks), "time")
    )?;
    line(out, "median", &time(found.median.as_f64()))?;
    match &found.core {
        Some(core) => {
            line(out, "mean of core (mu)", &with_interval(&core.mean))?;
            line(out, "deviation (sigma)", &with_interval(&core.deviation))?;
            let tail = &core.tail;
            let range = format!("{} to {}", percent(tail.low), percent(tail.high));
            let tail = format!("{} ({range})", percent(tail.value));
            line(out, "tail (epsilon)", &tail)?;
            if core.misfit > 0.03 {
                let off = format!(
                    "off by {}: several speeds, or unequal work",
                    percent(core.misfit)
                );
                line(out, "the core is not Gaussian", &off)?;
            }
            let from = time(core.outlier_from.as_f64());
            let outliers = format!(
                "{}, longer than {from} (z = {:.1})",
                core.outliers, core.outlier_z
            );
            line(out, "outliers", &outliers)?;
        }
        None => line(
            out,
            "core",
            "not fitted: fewer than 100 times or 5 steps, or most times equal",
        )?,
    }
    let s = &found.slowest;
    let z = s.z.map_or_else(String::new, |z| format!(", z = {z:.1}"));
    let slowest = time(s.duration.as_f64());
    line(
        out,
        "slowest",
        &format!("{slowest} on rank {} in step {}{z}", s.rank, s.step),
    )?;
    let e = &found.efficiency;
    let range = format!("{} to {}", efficiency(e.low), efficiency(e.high));
    line(
        out,
        "efficiency",
        &format!("{} ({range})", efficiency(e.value)),
    )?;
    if let Some(gaussian) = found.scale.first().and_then(|s| s.gaussian) {
        line(out, "  of a pure Gaussian", &efficiency(gaussian))?;
    }
    if let Some(core) = &found.core {
        line(
            out,
            "  without outliers",
            &efficiency(core.efficiency_without_outliers),
        )?;
    }
    line(out, "slow ranks", &slow_ranks(found))?;
    let runs = format!(
        "{:.1} steps on the same rank, {:.1} by chance, {} at most",
        found.run_length, found.run_length_by_chance, found.longest_run
    );
    line(out, "slowest stays", &runs)?;
    writeln!(
        out,
        "\nefficiency: mean over maximum of the ranks' forces per step, 95 % interval; slow\n\
         ranks: the slowest more often than by chance; the fit: docs/jitter.md."
    )
}

fn slow_ranks(found: &JitterFindings) -> String {
    let of = |rank: usize| found.slowest_counts.get(rank).copied().unwrap_or(0);
    let named: Vec<String> = found
        .slow_ranks
        .iter()
        .take(NAMED)
        .map(|r| {
            format!(
                "{r} ({})",
                percent(of(r.index()) as f64 / found.steps as f64)
            )
        })
        .collect();
    match found.slow_ranks.len() {
        0 => "none".to_owned(),
        n if n > NAMED => format!("{} and {} more", named.join(", "), n - NAMED),
        _ => named.join(", "),
    }
}
