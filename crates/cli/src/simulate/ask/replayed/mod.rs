//! `idlewave simulate like RUN` of a recorded MPI program.

use super::options::LikeArgs;
use super::output::{grouped, percent};
use super::plan;
use crate::exit::{Exit, Failure};
use idlewave_fit::NoiseOf;
use idlewave_noise::NoiseModel;
use idlewave_recording::Stop;
use idlewave_replay::{Extrapolation, Like, LikeOptions, NoiseOfRun, Predicted, ReplayError, like};
use idlewave_run::RunReader;
use idlewave_units::Nanos;
use serde_json::{Value, json};
use std::fmt::Write;

/// Repetitions with noise at most.
const REPETITIONS: u32 = 8;

/// Plays the recorded program of a run, and its pattern on other numbers of ranks.
pub fn run(args: &LikeArgs, run: &RunReader, stop: &Stop) -> Result<(), Failure> {
    let seed = args.effort.seed;
    let model = match args.noise.noise.is_empty() {
        true => plan::changed(
            crate::fit::fit_complete(&args.run, run, NoiseOf::Machine, seed, stop)?.model,
            &args.noise,
        )?,
        false => plan::model(&args.noise, seed, stop)?,
    };
    let options = LikeOptions {
        noise: (!model.sources.is_empty()).then(|| NoiseOfRun {
            model: model.clone(),
            seed,
            repetitions: args.effort.replications.min(REPETITIONS),
        }),
        ranks: args.ranks.as_ref().map_or_else(Vec::new, |r| r.0.clone()),
        ..LikeOptions::default()
    };
    let like = like(run, &options).map_err(|error| failed(args, &error))?;
    let text = match args.effort.json {
        true => as_json(args, &model, &like),
        false => as_text(args, &model, &like),
    };
    crate::print(&text).map_err(|failure| failure.with_next("send the output elsewhere"))
}

fn failed(args: &LikeArgs, error: &ReplayError) -> Failure {
    let (exit, next) = match error {
        ReplayError::NoCosts => (
            Exit::Usage,
            "record a run in which ranks wait for messages of each other",
        ),
        ReplayError::Noise(_) => (Exit::Usage, "give other noise with --noise"),
        _ => (Exit::Bundle, "explain the run again, or record it anew"),
    };
    let what = format!("simulate {}: {error}", args.run.display());
    Failure::new(exit, what).with_next(next)
}

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

fn as_text(args: &LikeArgs, model: &NoiseModel, like: &Like) -> String {
    let measured = like.measured_ns.iter().copied().max().unwrap_or(0);
    let mut out = format!(
        "PREDICTED AGAINST MEASURED, {}\n  a recorded program of {} ranks, {} operations when played\n\n",
        args.run.display(),
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
            "  {:<40} {:>11} {error:>+7.1}%\n    {} runs, {} sources: {} to {}",
            "and the noise of the run by its model",
            time(mean),
            like.noisy.len(),
            model.sources.len(),
            time(least),
            time(most)
        );
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
    if !like.extrapolated.is_empty() {
        let _ = writeln!(
            out,
            "\nAT OTHER NUMBERS OF RANKS, the work of a rank staying\n  {:>11} {:>14} {:>14} {:>10}",
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
    if !like.left_out.is_empty() {
        out.push_str("\nLEFT OUT\n");
        for loss in like.left_out.entries() {
            let said = format!("{} of {}: {}", loss.count, loss.what, loss.consequence);
            paragraph(&mut out, &said);
        }
    }
    out.push_str(
        "\nNEXT\n  If `as recorded` is far off, the schedule lacks something: see LEFT OUT.\n  --ranks 1e2..1e4 says what the loop would cost at scale.\n",
    );
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

fn as_json(args: &LikeArgs, model: &NoiseModel, like: &Like) -> String {
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
    let value = json!({
        "run": args.run.display().to_string(),
        "measured_ns": like.measured_ns,
        "as_recorded": of(&like.as_recorded),
        "kept": of(&like.kept),
        "quiet": of(&like.quiet),
        "with_noise": like.noisy.iter().map(of).collect::<Vec<_>>(),
        "noise_sources": model.sources.len(),
        "pattern": like.pattern.as_ref().map(|p| p.steps).ok(),
        "no_pattern": like.pattern.as_ref().err().map(ToString::to_string),
        "other_scales": larger,
        "left_out": like.left_out.entries().iter().map(|l| json!({ "what": l.what, "count": l.count })).collect::<Vec<_>>(),
    });
    format!("{value:#}\n")
}
