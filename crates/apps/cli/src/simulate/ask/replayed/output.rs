//! Shows recorded programs next to their predictions, as text and as JSON.

use crate::simulate::ask::output::last_part;
use idlewave_replay::{Cost, Extrapolation, Like, Predicted, Scaled};
use idlewave_units::Nanos;
use idlewave_units::foreign::column;
use idlewave_units::show::{self, time};
use idlewave_units::{counted, grouped, named};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

/// A run of a series.
pub struct Played<'a> {
    pub path: &'a Path,
    /// The number of sources of the noise that was added.
    pub sources: usize,
    /// The sources removed from it, as given on the command line.
    pub without: Vec<&'a str>,
    pub like: &'a Like,
    /// Predicted from the run with the fewest ranks; `None` if one of the two has no pattern.
    pub scaled: Option<Scaled>,
}

/// The results of repetitions, in nanoseconds.
struct Spread {
    mean: f64,
    least: f64,
    most: f64,
    runs: usize,
}

impl Spread {
    /// `None` without values.
    fn of(all: impl Iterator<Item = f64>) -> Option<Spread> {
        let all: Vec<f64> = all.collect();
        let runs = all.len();
        (runs > 0).then(|| Spread {
            mean: all.iter().sum::<f64>() / runs as f64,
            least: all.iter().copied().fold(f64::INFINITY, f64::min),
            most: all.iter().copied().fold(0.0, f64::max),
            runs,
        })
    }

    /// The spread of makespans.
    fn of_ends(runs: &[Predicted]) -> Option<Spread> {
        Spread::of(runs.iter().map(|run| run.makespan_ns() as f64))
    }

    /// The spread of mean steps.
    fn of_steps(runs: &[Extrapolation]) -> Option<Spread> {
        Spread::of(runs.iter().map(Extrapolation::step_ns))
    }

    /// The minimum and the maximum, as text.
    fn range(&self) -> String {
        format!("{} to {}", time(self.least), time(self.most))
    }

    fn value(&self) -> Value {
        json!({ "mean": self.mean, "least": self.least, "most": self.most, "repetitions": self.runs })
    }
}

/// The error of a predicted time in percent of the measured one, with its sign; a dash if nothing
/// was measured.
fn error(predicted: f64, measured: f64) -> String {
    match measured > 0.0 {
        true => show::change(predicted / measured - 1.0),
        false => "-".to_owned(),
    }
}

/// When the last rank finished in the run, in nanoseconds.
fn measured(like: &Like) -> f64 {
    like.measured_ns.iter().copied().max().unwrap_or(0) as f64
}

/// One run, in full.
pub fn one(played: &Played<'_>) -> String {
    let like = played.like;
    let measured = measured(like);
    let mut out = String::new();
    warnings(&mut out, &like.warnings, None);
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "PREDICTED AGAINST MEASURED, {}\n  a recorded program of {}, {} {} when played\n\n",
        played.path.display(),
        counted(like.measured_ns.len(), "rank"),
        grouped(like.schedule.operations()),
        named(like.schedule.operations(), "operation")
    );
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
        let end = predicted.makespan_ns();
        let worst = predicted
            .worst_rank(&like.measured_ns)
            .map_or("-".to_owned(), |(rank, e)| {
                format!("{} ({rank})", show::change(e / 100.0))
            });
        let _ = writeln!(
            out,
            "  {name:<40.40} {:>11} {:>8} {worst:>14}",
            Nanos::from_nanos(end),
            error(end as f64, measured)
        );
    }
    let noisy = (
        String::from("and the noise of the run by its model"),
        &like.noisy,
    );
    let without = played.without.iter().zip(&like.without);
    let without = without.map(|(name, runs)| (format!("  the same without {name}"), runs));
    for (name, runs) in std::iter::once(noisy).chain(without) {
        if let Some(spread) = Spread::of_ends(runs) {
            let _ = writeln!(
                out,
                "  {:<40} {:>11} {:>8}\n    {}: {}",
                column(&name, 40),
                time(spread.mean),
                error(spread.mean, measured),
                counted(spread.runs, "run"),
                spread.range(),
            );
        }
    }
    if !like.noisy.is_empty() {
        let _ = writeln!(out, "    sources of noise: {}", played.sources);
    }
    out.push_str("\nWHAT MESSAGES COST\n");
    match &like.estimated {
        Some(costs) => {
            let _ = writeln!(
                out,
                "  shortest {} ({}), from {} {} or collectives",
                time(costs.shortest.value),
                costs
                    .shortest
                    .interval
                    .map_or_else(unknown, |(low, high)| format!(
                        "{}..{}",
                        time(low),
                        time(high)
                    )),
                grouped(costs.shortest.n),
                named(costs.shortest.n, "message"),
            );
            if let Some(byte) = &costs.per_byte {
                let _ = writeln!(
                    out,
                    "  per byte {} ({})",
                    time(byte.value),
                    match byte.interval {
                        Some((0.0, high)) if high <= byte.value => "at most".to_owned(),
                        Some((low, high)) => format!("{}..{}", time(low), time(high)),
                        None => unknown(),
                    }
                );
            }
            for doubt in &costs.doubts {
                paragraph(&mut out, doubt);
            }
        }
        None => {
            let c = &like.costs;
            let said = format!(
                "as given, otherwise as observed: latency {}, overhead {}, gap {}, gap per byte {} ns, overhead per byte {} ns",
                c.latency, c.overhead, c.gap, c.gap_per_byte, c.overhead_per_byte
            );
            paragraph(&mut out, &said);
        }
    }
    out.push_str("\nPATTERN\n");
    match &like.pattern {
        Ok(pattern) => {
            let _ = writeln!(
                out,
                "  a loop of {} {} and {} that all ranks execute",
                grouped(pattern.steps),
                named(pattern.steps, "step"),
                counted(pattern.phases.len(), "phase")
            );
            for note in &pattern.notes {
                paragraph(&mut out, note);
            }
        }
        Err(none) => {
            out.push_str(
                "  none that all ranks share, so other numbers of ranks cannot be predicted:\n",
            );
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
        true => {
            out.push_str("  If `as recorded` is far off, the schedule has wrong dependencies.\n")
        }
        false => out.push_str(
            "  If `as recorded` is far off, the schedule lacks something: see LEFT OUT.\n",
        ),
    }
    if like.extrapolated.is_empty() && like.pattern.is_ok() {
        out.push_str("  --ranks 1e2..1e4 shows what the loop would cost at scale.\n");
    }
    out
}

/// Why not to trust the results; printed before everything else.
pub fn warnings(out: &mut String, all: &[String], of: Option<&Path>) {
    for warning in all {
        let of = of.map_or(String::new(), |path| format!("{}: ", last_part(path)));
        paragraph(
            out,
            &format!("WARNING: {of}{}.", warning.trim_end_matches('.')),
        );
    }
    if !all.is_empty() {
        out.push('\n');
    }
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

/// What the pattern of a run costs at other rank counts, if requested.
fn at_scale(out: &mut String, played: &Played<'_>, named: bool) {
    let like = played.like;
    if like.extrapolated.is_empty() {
        return;
    }
    let name = match named {
        true => format!(", from {}", played.path.display()),
        false => String::new(),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "\nAT OTHER NUMBERS OF RANKS{name}\n  {:>11} {:>11} {:>11} {:>10}   least to most",
        "ranks", "quiet step", "with noise", "slow-down"
    );
    for scale in &like.extrapolated {
        let step = scale.quiet.step_ns();
        let with = Spread::of_steps(&scale.noisy);
        let of = |f: &dyn Fn(&Spread) -> String| with.as_ref().map_or("-".to_owned(), f);
        let _ = writeln!(
            out,
            "  {:>11} {:>11} {:>11} {:>10}   {}",
            grouped(u64::from(scale.quiet.ranks)),
            time(step),
            of(&|w| time(w.mean)),
            of(&|w| show::slowdown(w.mean / step - 1.0)),
            of(&|w| format!("{} ({})", w.range(), counted(w.runs, "run"))),
        );
    }
    out.push_str("  assumed:\n");
    let mut said: Vec<&String> = like.pattern.iter().flat_map(|p| &p.notes).collect();
    for assumed in like.extrapolated.iter().flat_map(|s| &s.assumptions) {
        if !said.contains(&assumed) {
            said.push(assumed);
            paragraph(out, &format!("- {assumed}"));
        }
    }
}

/// A series, with one line per run.
pub fn series(runs: &[Played<'_>]) -> String {
    let mut out = String::new();
    for run in runs {
        warnings(&mut out, &run.like.warnings, Some(run.path));
    }
    // Writing to a String cannot fail.
    let _ = write!(
        out,
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
        let measured = measured(like);
        let ends = |p: &Predicted| error(p.makespan_ns() as f64, measured);
        let noisy = Spread::of_ends(&like.noisy);
        let _ = writeln!(
            out,
            "  {:<20} {:>6} {:>11} {:>11} {:>9} {:>14}",
            column(&last_part(run.path), 20),
            grouped(u64::from(like.schedule.ranks())),
            time(measured),
            ends(&like.as_recorded),
            ends(&like.quiet),
            noisy.map_or("-".to_owned(), |s| error(s.mean, measured)),
        );
    }
    let repetitions = runs.iter().map(|run| run.like.noisy.len()).max();
    if let Some(repetitions) = repetitions.filter(|&n| n > 0) {
        let _ = writeln!(
            out,
            "  with noise: means of {repetitions}; --json has the spread",
            repetitions = counted(repetitions, "repetition")
        );
    }
    if let Some(smallest) = smallest(runs) {
        scaling(&mut out, smallest, runs);
    }
    for run in runs {
        at_scale(&mut out, run, true);
    }
    out.push_str(
        "\nNEXT\n  `idlewave simulate like` with a single run shows more of it: costs, pattern,\n  what is left out. With --strong all ranks together do the same work at every\n  number.\n",
    );
    out
}

fn scaling(out: &mut String, smallest: &Played<'_>, runs: &[Played<'_>]) {
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "\nSCALING: the loop of each run, from the pattern and the costs of {}",
        last_part(smallest.path)
    );
    if let Err(none) = &smallest.like.pattern {
        out.push_str("  its ranks share no loop, so other numbers of ranks cannot be predicted:\n");
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
                let noisy = Spread::of_steps(&scaled.noisy);
                let of = |f: &dyn Fn(&Spread) -> String| noisy.as_ref().map_or("-".to_owned(), f);
                let _ = writeln!(
                    out,
                    "  {:>6} {:>8} {:>13} {:>13} {:>8} {:>13} {:>8}",
                    grouped(u64::from(ranks)),
                    grouped(steps),
                    time(measured),
                    time(scaled.quiet.step_ns()),
                    error(scaled.quiet.step_ns(), measured),
                    of(&|s| time(s.mean)),
                    of(&|s| error(s.mean, measured)),
                );
            }
            (Err(none), None) => paragraph(
                out,
                &format!("{ranks}: {none}", ranks = counted(ranks, "rank")),
            ),
            (Ok(_), None) => {}
        }
    }
}

/// The run from which the others are predicted.
fn smallest<'a, 'b>(runs: &'a [Played<'b>]) -> Option<&'a Played<'b>> {
    runs.iter().min_by_key(|run| run.like.schedule.ranks())
}

/// The JSON of a series.
pub fn values(runs: &[Played<'_>]) -> Value {
    let scaled = |run: &Played<'_>| {
        let scaled = run.scaled.as_ref()?;
        Some(json!({
            "run": run.path.display().to_string(),
            "ranks": scaled.quiet.ranks,
            "steps": scaled.quiet.steps,
            "measured_step_ns": scaled.measured_ns as f64 / scaled.quiet.steps.max(1) as f64,
            "quiet_step_ns": scaled.quiet.step_ns(),
            "step_ns": Spread::of_steps(&scaled.noisy).map(|s| s.value()),
        }))
    };
    json!({
        "runs": runs.iter().map(value).collect::<Vec<_>>(),
        "scaled_by": smallest(runs).map(|s| s.path.display().to_string()),
        "scaling": runs.iter().filter_map(scaled).collect::<Vec<_>>(),
    })
}

/// The costs of messages, with their uncertainty if they were estimated.
fn costs(like: &Like) -> Value {
    let cost = |cost: &Cost| {
        json!({
            "value": cost.value,
            "low": cost.interval.map(|i| i.0),
            "high": cost.interval.map(|i| i.1),
            "n": cost.n,
            "method": cost.method,
        })
    };
    let seen = like.estimated.as_ref();
    json!({
        "latency_ns": like.costs.latency.get(),
        "overhead_ns": like.costs.overhead.get(),
        "gap_ns": like.costs.gap.get(),
        "gap_per_byte_ns": like.costs.gap_per_byte.to_string(),
        "overhead_per_byte_ns": like.costs.overhead_per_byte.to_string(),
        "shortest_ns": seen.map(|s| cost(&s.shortest)),
        "per_byte_ns": seen.and_then(|s| s.per_byte.as_ref()).map(cost),
        "doubts": seen.map(|s| &s.doubts),
    })
}

/// The JSON of one run.
pub fn value(played: &Played<'_>) -> Value {
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
        .map(|scale| {
            json!({
                "ranks": scale.quiet.ranks,
                "steps": scale.quiet.steps,
                "quiet_step_ns": scale.quiet.step_ns(),
                "step_ns": Spread::of_steps(&scale.noisy).map(|s| s.value()),
                "assumed": scale.assumptions,
            })
        })
        .collect();
    json!({
        "run": played.path.display().to_string(),
        "warnings": like.warnings,
        "costs": costs(like),
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
