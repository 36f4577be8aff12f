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

/// What repetitions came to, in nanoseconds.
struct Spread {
    mean: f64,
    least: f64,
    most: f64,
    runs: usize,
}

impl Spread {
    /// `None` of none.
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

    /// Of makespans.
    fn of_ends(runs: &[Predicted]) -> Option<Spread> {
        Spread::of(runs.iter().map(|run| run.makespan_ns() as f64))
    }

    /// Of mean steps.
    fn of_steps(runs: &[Extrapolation]) -> Option<Spread> {
        Spread::of(runs.iter().map(Extrapolation::step_ns))
    }

    /// Least and most, in words.
    fn range(&self) -> String {
        format!("{} to {}", time(self.least as u64), time(self.most as u64))
    }

    fn value(&self) -> Value {
        json!({ "mean": self.mean, "least": self.least, "most": self.most, "repetitions": self.runs })
    }
}

/// How far a time is from the measured one, in percent of that, with its sign; a dash where nothing was measured.
fn error(predicted: f64, measured: f64) -> String {
    match measured > 0.0 {
        true => format!("{:+.1}%", 100.0 * (predicted / measured - 1.0)),
        false => "-".to_owned(),
    }
}

/// When the last rank ended in the run, in nanoseconds.
fn measured(like: &Like) -> f64 {
    like.measured_ns.iter().copied().max().unwrap_or(0) as f64
}

/// One run, in full.
pub(super) fn one(played: &Played<'_>) -> String {
    let like = played.like;
    let measured = measured(like);
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
        time(measured as u64)
    );
    for (name, predicted) in [
        ("as recorded: calls as long as they were", &like.as_recorded),
        ("calls as long as messages cost", &like.kept),
        ("and nothing taken by others", &like.quiet),
    ] {
        let end = predicted.makespan_ns();
        let worst = predicted
            .worst_rank(&like.measured_ns)
            .map_or("-".to_owned(), |(rank, e)| format!("{e:+.1}% ({rank})"));
        let _ = writeln!(
            out,
            "  {name:<40.40} {:>11} {:>8} {worst:>14}",
            time(end),
            error(end as f64, measured)
        );
    }
    let noisy = (
        String::from("and the noise of the run by its model"),
        &like.noisy,
    );
    let without = played.without.iter().zip(&like.without);
    let without = without.map(|(name, runs)| (format!("  of which without {name}"), runs));
    for (name, runs) in std::iter::once(noisy).chain(without) {
        if let Some(spread) = Spread::of_ends(runs) {
            let _ = writeln!(
                out,
                "  {:<40} {:>11} {:>8}\n    {} runs: {}",
                cut(&name, 40),
                time(spread.mean as u64),
                error(spread.mean, measured),
                spread.runs,
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
        None => {
            let c = &like.costs;
            let said = format!(
                "as given, and as seen where nothing was: latency {}, overhead {}, gap {}, gap per byte {} ns, overhead per byte {} ns",
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
        "\nAT OTHER NUMBERS OF RANKS{name}\n  {:>11} {:>11} {:>11} {:>10}   least to most",
        "ranks", "quiet step", "with noise", "slow-down"
    );
    for (quiet, noisy) in &like.extrapolated {
        let step = quiet.step_ns();
        let with = Spread::of_steps(noisy);
        let of = |f: &dyn Fn(&Spread) -> String| with.as_ref().map_or("-".to_owned(), f);
        let _ = writeln!(
            out,
            "  {:>11} {:>11} {:>11} {:>10}   {}",
            grouped(u64::from(quiet.ranks)),
            time(step as u64),
            of(&|w| time(w.mean as u64)),
            of(&|w| percent(w.mean / step - 1.0)),
            of(&|w| format!("{} ({} runs)", w.range(), w.runs)),
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
        let measured = measured(like);
        let ends = |p: &Predicted| error(p.makespan_ns() as f64, measured);
        let noisy = Spread::of_ends(&like.noisy);
        // A String takes everything.
        let _ = writeln!(
            out,
            "  {:<20} {:>6} {:>11} {:>11} {:>9} {:>14}",
            cut(&last_part(run.path), 20),
            grouped(u64::from(like.schedule.ranks())),
            time(measured as u64),
            ends(&like.as_recorded),
            ends(&like.quiet),
            noisy.map_or("-".to_owned(), |s| error(s.mean, measured)),
        );
    }
    let repetitions = runs.iter().map(|run| run.like.noisy.len()).max();
    if let Some(repetitions) = repetitions.filter(|&n| n > 0) {
        let _ = writeln!(
            out,
            "  with noise: means of {repetitions} repetitions; --json has the spread"
        );
    }
    if let Some(smallest) = smallest(runs) {
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
                let noisy = Spread::of_steps(&scaled.noisy);
                let of = |f: &dyn Fn(&Spread) -> String| noisy.as_ref().map_or("-".to_owned(), f);
                let _ = writeln!(
                    out,
                    "  {:>6} {:>8} {:>13} {:>13} {:>8} {:>13} {:>8}",
                    grouped(u64::from(ranks)),
                    grouped(steps),
                    time(measured as u64),
                    time(scaled.quiet.step_ns() as u64),
                    error(scaled.quiet.step_ns(), measured),
                    of(&|s| time(s.mean as u64)),
                    of(&|s| error(s.mean, measured)),
                );
            }
            (Err(none), None) => paragraph(out, &format!("{ranks} ranks: {none}")),
            (Ok(_), None) => {}
        }
    }
}

/// The run by which the others are predicted.
fn smallest<'a, 'b>(runs: &'a [Played<'b>]) -> Option<&'a Played<'b>> {
    runs.iter().min_by_key(|run| run.like.schedule.ranks())
}

/// One run.
pub(super) fn one_as_json(played: &Played<'_>) -> String {
    format!("{:#}\n", value(played))
}

/// A series.
pub(super) fn series_as_json(runs: &[Played<'_>]) -> String {
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
    let value = json!({
        "runs": runs.iter().map(value).collect::<Vec<_>>(),
        "scaled_by": smallest(runs).map(|s| s.path.display().to_string()),
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
                "step_ns": Spread::of_steps(noisy).map(|s| s.value()),
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
