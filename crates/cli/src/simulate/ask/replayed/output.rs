//! Recorded programs beside their predictions, for people and for programs.

use super::super::output::{cut, grouped, last_part, percent};
use super::Played;
use idlewave_replay::{Extrapolation, Like, Predicted};
use idlewave_units::Nanos;
use serde_json::{Value, json};
use std::fmt::Write;

fn time(ns: u64) -> String {
    Nanos::from_nanos(ns).to_string()
}

/// Mean makespan of repetitions, with the least and the most.
fn spread(runs: &[Predicted]) -> Option<(u64, u64, u64)> {
    let ends: Vec<u64> = runs.iter().map(Predicted::makespan_ns).collect();
    let sum: u128 = ends.iter().map(|&e| u128::from(e)).sum();
    let mean = sum.checked_div(ends.len() as u128)?;
    Some((
        u64::try_from(mean).unwrap_or(u64::MAX),
        *ends.iter().min()?,
        *ends.iter().max()?,
    ))
}

/// One run, in full.
pub(super) fn one(played: &Played<'_>) -> String {
    let like = played.like;
    let measured = like.measured_ns.iter().copied().max().unwrap_or(0);
    let mut out = format!(
        "PREDICTED AGAINST MEASURED, {}\n  a recorded program of {} ranks, {} operations when played\n\n",
        played.path.display(),
        like.measured_ns.len(),
        grouped(like.schedule.operations())
    );
    // A String takes everything.
    let _ = writeln!(
        out,
        "  {:<40} {:>11} {:>8} {:>14}\n  {:<40} {:>11}",
        "",
        "last end",
        "error",
        "worst rank",
        "measured",
        time(measured)
    );
    for (name, predicted) in [
        ("as recorded: calls as long as they were", &like.as_recorded),
        ("calls as long as messages cost", &like.kept),
        ("and nothing taken by others", &like.quiet),
    ] {
        let error = predicted.error_percent(&like.measured_ns).unwrap_or(0.0);
        let worst = predicted
            .worst_rank(&like.measured_ns)
            .map_or("-".to_owned(), |(rank, e)| format!("{e:+.1}% ({rank})"));
        let _ = writeln!(
            out,
            "  {name:<40.40} {:>11} {error:>+7.1}% {worst:>14}",
            time(predicted.makespan_ns())
        );
    }
    if let Some((mean, least, most)) = spread(&like.noisy) {
        let error = 100.0 * (mean as f64 / measured.max(1) as f64 - 1.0);
        let _ = writeln!(
            out,
            "  {:<40} {:>11} {error:>+7.1}%\n    {} runs, sources of noise: {}; {} to {}",
            "and the noise of the run by its model",
            time(mean),
            like.noisy.len(),
            played.sources,
            time(least),
            time(most)
        );
    }
    for (name, runs) in played.without.iter().zip(&like.without) {
        if let Some((mean, ..)) = spread(runs) {
            let error = 100.0 * (mean as f64 / measured.max(1) as f64 - 1.0);
            let _ = writeln!(
                out,
                "  {:<40} {:>11} {error:>+7.1}%",
                cut(&format!("  of which without {name}"), 40),
                time(mean)
            );
        }
    }
    out.push_str("\nWHAT MESSAGES COST\n");
    match &like.estimated {
        Some(costs) => {
            let _ = writeln!(
                out,
                "  shortest {:.0} ns ({}), from {} messages or collectives",
                costs.shortest.value,
                costs
                    .shortest
                    .interval
                    .map_or_else(unknown, |(low, high)| format!("{low:.0}..{high:.0}")),
                grouped(costs.shortest.n),
            );
            if let Some(byte) = &costs.per_byte {
                let _ = writeln!(
                    out,
                    "  per byte {:.3} ns ({})",
                    byte.value,
                    byte.interval
                        .map_or_else(unknown, |(low, high)| format!("{low:.3}..{high:.3}")),
                );
            }
        }
        None => out.push_str("  as given\n"),
    }
    out.push_str("\nPATTERN\n");
    match &like.pattern {
        Ok(pattern) => {
            let _ = writeln!(
                out,
                "  a loop of {} steps and {} phases that all ranks do",
                grouped(pattern.steps),
                pattern.phases.len()
            );
            for note in &pattern.notes {
                paragraph(&mut out, note);
            }
        }
        Err(none) => {
            out.push_str("  none, so that other numbers of ranks are not known:\n");
            paragraph(&mut out, &none.to_string());
        }
    }
    at_scale(&mut out, played, false);
    if !like.left_out.is_empty() {
        out.push_str("\nLEFT OUT\n");
        for loss in like.left_out.entries() {
            let said = format!("{} of {}: {}", loss.count, loss.what, loss.consequence);
            paragraph(&mut out, &said);
        }
    }
    out.push_str("\nNEXT\n");
    match like.left_out.is_empty() {
        true => out.push_str(
            "  If `as recorded` is far off, the schedule is wrong about who waits for whom.\n",
        ),
        false => out.push_str(
            "  If `as recorded` is far off, the schedule lacks something: see LEFT OUT.\n",
        ),
    }
    if like.extrapolated.is_empty() && like.pattern.is_ok() {
        out.push_str("  --ranks 1e2..1e4 says what the loop would cost at scale.\n");
    }
    out
}

fn unknown() -> String {
    "interval not known".to_owned()
}

/// A sentence in lines of at most 80 columns.
fn paragraph(out: &mut String, text: &str) {
    let options = textwrap::Options::new(80)
        .initial_indent("  ")
        .subsequent_indent("    ");
    out.push_str(&textwrap::fill(text, options));
    out.push('\n');
}

/// Mean step over repetitions in nanoseconds.
fn mean_step(runs: &[Extrapolation]) -> Option<f64> {
    let sum: f64 = runs.iter().map(Extrapolation::step_ns).sum();
    (!runs.is_empty()).then(|| sum / runs.len() as f64)
}

/// What the pattern of a run takes on other numbers of ranks, if that was asked for.
fn at_scale(out: &mut String, played: &Played<'_>, named: bool) {
    let like = played.like;
    if like.extrapolated.is_empty() {
        return;
    }
    let name = match named {
        true => format!(", by {}", played.path.display()),
        false => String::new(),
    };
    // A String takes everything.
    let _ = writeln!(
        out,
        "\nAT OTHER NUMBERS OF RANKS{name}\n  {:>11} {:>14} {:>14} {:>10}",
        "ranks", "quiet step", "with noise", "slow-down"
    );
    for (quiet, noisy) in &like.extrapolated {
        let with = mean_step(noisy);
        let _ = writeln!(
            out,
            "  {:>11} {:>14} {:>14} {:>10}",
            grouped(u64::from(quiet.ranks)),
            time(quiet.step_ns() as u64),
            with.map_or("-".to_owned(), |w| time(w as u64)),
            with.map_or("-".to_owned(), |w| percent(w / quiet.step_ns() - 1.0))
        );
    }
}

/// A series, a line per run.
pub(super) fn series(runs: &[Played<'_>]) -> String {
    let mut out = format!(
        "PREDICTED AGAINST MEASURED, {} recorded programs\n  {:<20} {:>6} {:>11} {:>11} {:>9} {:>14}\n",
        runs.len(),
        "run",
        "ranks",
        "measured",
        "as recorded",
        "quiet",
        "with its noise"
    );
    for run in runs {
        let like = run.like;
        let error = |p: &Predicted| signed(p.error_percent(&like.measured_ns));
        let noisy = spread(&like.noisy).map(|(mean, ..)| Predicted {
            finish_ns: vec![mean],
        });
        // A String takes everything.
        let _ = writeln!(
            out,
            "  {:<20} {:>6} {:>11} {:>11} {:>9} {:>14}",
            cut(&last_part(run.path), 20),
            grouped(u64::from(like.schedule.ranks())),
            time(like.measured_ns.iter().copied().max().unwrap_or(0)),
            error(&like.as_recorded),
            error(&like.quiet),
            noisy.map_or("-".to_owned(), |p| error(&p)),
        );
    }
    let smallest = runs.iter().min_by_key(|r| r.like.schedule.ranks());
    if let Some(smallest) = smallest {
        scaling(&mut out, smallest, runs);
    }
    for run in runs {
        at_scale(&mut out, run, true);
    }
    out.push_str(
        "\nNEXT\n  `idlewave simulate like` of a single run says more of it: costs, pattern, what\n  is left out. --strong: all ranks together do the same work at every number.\n",
    );
    out
}

fn scaling(out: &mut String, smallest: &Played<'_>, runs: &[Played<'_>]) {
    // A String takes everything.
    let _ = writeln!(
        out,
        "\nSCALING: the loop of each run by the pattern and the costs of {}",
        last_part(smallest.path)
    );
    if let Err(none) = &smallest.like.pattern {
        out.push_str("  it has no pattern, so that nothing is known of other numbers of ranks:\n");
        return paragraph(out, &none.to_string());
    }
    let _ = writeln!(
        out,
        "  {:>6} {:>8} {:>13} {:>13} {:>8} {:>13} {:>8}",
        "ranks", "steps", "measured step", "quiet step", "error", "with noise", "error"
    );
    for run in runs {
        let ranks = run.like.schedule.ranks();
        match (&run.like.pattern, &run.scaled) {
            (_, Some(scaled)) => {
                let steps = scaled.quiet.steps;
                let measured = scaled.measured_ns as f64 / steps.max(1) as f64;
                let error =
                    |step: f64| signed((measured > 0.0).then(|| 100.0 * (step / measured - 1.0)));
                let noisy = mean_step(&scaled.noisy);
                let _ = writeln!(
                    out,
                    "  {:>6} {:>8} {:>13} {:>13} {:>8} {:>13} {:>8}",
                    grouped(u64::from(ranks)),
                    grouped(steps),
                    time(measured as u64),
                    time(scaled.quiet.step_ns() as u64),
                    error(scaled.quiet.step_ns()),
                    noisy.map_or("-".to_owned(), |s| time(s as u64)),
                    noisy.map_or("-".to_owned(), error),
                );
            }
            (Err(none), None) => paragraph(out, &format!("{ranks} ranks: {none}")),
            (Ok(_), None) => {}
        }
    }
}

/// Percent with their sign.
fn signed(percent: Option<f64>) -> String {
    percent.map_or("-".to_owned(), |p| format!("{p:+.1}%"))
}

/// One run.
pub(super) fn one_as_json(played: &Played<'_>) -> String {
    format!("{:#}\n", value(played))
}

/// A series.
pub(super) fn series_as_json(runs: &[Played<'_>]) -> String {
    let smallest = runs.iter().min_by_key(|r| r.like.schedule.ranks());
    let scaled = |run: &Played<'_>| {
        let scaled = run.scaled.as_ref()?;
        Some(json!({
            "run": run.path.display().to_string(),
            "ranks": scaled.quiet.ranks,
            "steps": scaled.quiet.steps,
            "measured_step_ns": scaled.measured_ns as f64 / scaled.quiet.steps.max(1) as f64,
            "quiet_step_ns": scaled.quiet.step_ns(),
            "step_ns": mean_step(&scaled.noisy),
        }))
    };
    let value = json!({
        "runs": runs.iter().map(value).collect::<Vec<_>>(),
        "scaled_by": smallest.map(|s| s.path.display().to_string()),
        "scaling": runs.iter().filter_map(scaled).collect::<Vec<_>>(),
    });
    format!("{value:#}\n")
}

fn value(played: &Played<'_>) -> Value {
    let like: &Like = played.like;
    let of = |predicted: &Predicted| {
        json!({
            "finish_ns": predicted.finish_ns,
            "makespan_ns": predicted.makespan_ns(),
            "error_percent": predicted.error_percent(&like.measured_ns),
        })
    };
    let larger: Vec<Value> = like
        .extrapolated
        .iter()
        .map(|(quiet, noisy)| {
            json!({
                "ranks": quiet.ranks,
                "steps": quiet.steps,
                "quiet_step_ns": quiet.step_ns(),
                "step_ns": mean_step(noisy),
            })
        })
        .collect();
    json!({
        "run": played.path.display().to_string(),
        "measured_ns": like.measured_ns,
        "as_recorded": of(&like.as_recorded),
        "kept": of(&like.kept),
        "quiet": of(&like.quiet),
        "with_noise": like.noisy.iter().map(of).collect::<Vec<_>>(),
        "without": played.without.iter().zip(&like.without).map(|(name, runs)| json!({
            "sources": name,
            "with_noise": runs.iter().map(of).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "noise_sources": played.sources,
        "pattern": like.pattern.as_ref().map(|p| p.steps).ok(),
        "no_pattern": like.pattern.as_ref().err().map(ToString::to_string),
        "other_scales": larger,
        "left_out": like.left_out.entries().iter().map(|l| json!({ "what": l.what, "count": l.count })).collect::<Vec<_>>(),
    })
}
