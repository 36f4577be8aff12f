//! `idlewave simulate like RUN`: predicts the run itself, and what it would be under other
//! conditions.

use super::options::LikeArgs;
use super::output::interval;
use super::plan::{self, Point};
use super::question::{Outcome, Subject, ask};
use super::{output, replayed};
use crate::exit::{Exit, Failure};
use crate::output::print;
use idlewave_fit::NoiseOf;
use idlewave_noise::NoiseModel;
use idlewave_pipeline::PipelineError;
use idlewave_replay::LikeLockstep;
use idlewave_run::{Phase, PhaseKind, RunReader};
use idlewave_session::Stop;
use idlewave_simulate::question::Interval;
use idlewave_units::Nanos;
use idlewave_units::foreign::column;
use idlewave_units::show::{self, time};
use idlewave_units::{counted, grouped};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// A measured run and its prediction.
struct Compared<'a> {
    path: &'a Path,
    like: LikeLockstep,
    model: NoiseModel,
    /// Why the model is doubtful.
    warnings: Vec<String>,
    outcome: Outcome,
    /// Predictions for other rank counts.
    larger: Option<Outcome>,
}

impl Compared<'_> {
    /// The predicted mean step in nanoseconds.
    fn predicted(&self) -> &Interval {
        &self.outcome.rows[0].answer.step_ns
    }

    fn error(&self) -> f64 {
        error(self.predicted(), &self.like)
    }
}

/// The predicted mean step over the measured one, minus 1.
fn error(predicted: &Interval, like: &LikeLockstep) -> f64 {
    predicted.mean / like.step_ns.value - 1.0
}

/// A run of a series, predicted from the one with the fewest ranks.
struct Scaled<'a> {
    from: &'a Compared<'a>,
    of: &'a Compared<'a>,
    predicted: Interval,
}

/// Runs `simulate like`.
pub fn run_like(args: &LikeArgs, stop: &Stop) -> Result<(), Failure> {
    let open = |path: &PathBuf| crate::files::open_complete(path, stop);
    let runs: Vec<RunReader> = args.runs.iter().map(open).collect::<Result<_, _>>()?;
    let programs = runs.iter().filter(|run| is_program(run)).count();
    if programs == runs.len() {
        return replayed::run(args, &runs, stop);
    }
    if programs > 0 {
        let of_kind = |program: bool| {
            let found = runs.iter().find(|run| is_program(run) == program);
            found.map_or(String::new(), |run| run.path().display().to_string())
        };
        let what = format!(
            "simulate runs of two kinds: {} is a recorded program, {} is not",
            of_kind(true),
            of_kind(false)
        );
        let next = "give either runs of idlewave record, or runs of study and measure";
        return Err(Failure::new(Exit::Usage, what).with_next(next));
    }
    if let Some(option) = args.of_programs() {
        let what = format!("use {option} for a lockstep run");
        let next = "omit it: it is for recorded programs";
        return Err(Failure::new(Exit::Usage, what).with_next(next));
    }
    let mut compared = Vec::new();
    for (path, run) in args.runs.iter().zip(&runs) {
        compare(args, path, run, &mut compared, stop)?;
    }
    let scaled = scaled(args, &compared, stop)?;
    match args.effort.json {
        true => crate::json::print_computed(as_json(args, &compared, &scaled)),
        false => print(&as_text(args, &compared, &scaled)),
    }
}

fn is_program(run: &RunReader) -> bool {
    run.manifest().phases.iter().any(|p: &Phase| {
        matches!(
            p.kind,
            PhaseKind::Recorded {
                library: Some(_),
                ..
            }
        )
    })
}

/// Predicts the lockstep runs of a bundle.
fn compare<'a>(
    args: &LikeArgs,
    path: &'a Path,
    run: &RunReader,
    compared: &mut Vec<Compared<'a>>,
    stop: &Stop,
) -> Result<(), Failure> {
    let explained = idlewave_explain::explain(run, &stop.flag).map_err(PipelineError::from)?;
    let findings = explained.findings;
    let likes = LikeLockstep::all(run.manifest(), &findings);
    if likes.is_empty() {
        let what = format!(
            "simulate {}: it has neither a lockstep run nor an MPI program",
            path.display()
        );
        return Err(Failure::new(Exit::Usage, what)
            .with_next("give a run of idlewave study, measure or record"));
    }
    let seed = args.effort.seed;
    let given = match args.noise.noise.is_empty() {
        true => None,
        false => Some(plan::model(&args.noise, seed, stop)?),
    };
    for like in likes {
        // The measured time had the noise of its own phase.
        let (model, warnings) = match &given {
            Some(model) => (model.clone(), run.manifest().busy_nodes()),
            None => {
                let of = NoiseOf::Phase(like.phase);
                let fitted = crate::fit::fit_complete(path, run, of, seed, stop)?;
                let model = plan::changed(fitted.model, &args.noise)?;
                (model, fitted.report.warnings)
            }
        };
        let subject = subject(args, path, &like.name, &model);
        let own = || point(&like, like.ranks);
        let outcome = ask(vec![own()], Some(own()), &subject, &stop.flag)?;
        let larger = args.ranks.as_ref().map(|ranks| {
            let points = ranks.0.iter().map(|&ranks| Point {
                settles: true,
                ..point(&like, ranks)
            });
            let points = points.collect();
            ask(points, None, &subject, &stop.flag)
        });
        let larger = larger.transpose()?;
        compared.push(Compared {
            path,
            like,
            model,
            warnings,
            outcome,
            larger,
        });
    }
    Ok(())
}

/// Predicts runs of the same kind at several rank counts from the run with the fewest ranks.
fn scaled<'a>(
    args: &LikeArgs,
    compared: &'a [Compared<'a>],
    stop: &Stop,
) -> Result<Vec<Scaled<'a>>, Failure> {
    let mut scaled = Vec::new();
    for of in compared {
        let alike = compared.iter().filter(|c| c.like.name == of.like.name);
        let Some(from) = alike.min_by_key(|c| c.like.ranks) else {
            continue;
        };
        if from.like.ranks < of.like.ranks {
            let subject = subject(args, from.path, &from.like.name, &from.model);
            let mut point = point(&from.like, of.like.ranks);
            point.steps = of.like.steps;
            let outcome = ask(vec![point], None, &subject, &stop.flag)?;
            let predicted = outcome.rows[0].answer.step_ns;
            scaled.push(Scaled {
                from,
                of,
                predicted,
            });
        }
    }
    Ok(scaled)
}

fn subject<'a>(args: &'a LikeArgs, path: &Path, name: &str, model: &'a NoiseModel) -> Subject<'a> {
    Subject {
        what: format!("{name} as in {}", path.display()),
        noise: &args.noise,
        effort: &args.effort,
        model,
        delay: None,
        free: false,
    }
}

fn point(like: &LikeLockstep, ranks: u32) -> Point {
    let program = like.program(ranks);
    Point {
        ranks,
        dims: None,
        grain: Nanos::from_nanos(like.longest_ns()),
        program,
        // Speed levels last for seconds: only a simulation as long as the run sees as many of them.
        steps: like.steps,
        settles: false,
    }
}

/// Two times; the unit appears once if both have the same.
fn between(interval: &Interval) -> String {
    let (low, high) = (time(interval.low), time(interval.high));
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number}..{high}"),
        _ => format!("{low}..{high}"),
    }
}

/// A line of the tables of predicted against measured.
fn line(out: &mut String, name: &str, like: &LikeLockstep, predicted: &Interval) {
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "  {:<18} {:>5} {:>9} {:>9} {:>9} {:>15} {:>7}",
        column(name, 18),
        grouped(u64::from(like.ranks)),
        grouped(like.steps),
        time(like.step_ns.value),
        time(predicted.mean),
        between(predicted),
        show::change(error(predicted, like)),
    );
}

fn heads(out: &mut String) {
    let _ = writeln!(
        out,
        "  {:<18} {:>5} {:>9} {:>9} {:>9} {:>15} {:>7}",
        "run", "ranks", "steps", "measured", "predicted", "95 %", "error"
    );
}

fn as_text(args: &LikeArgs, compared: &[Compared<'_>], scaled: &[Scaled<'_>]) -> String {
    let noise = &args.noise;
    let changed =
        noise.cosched || noise.exposure || noise.quiet_cpu.is_some() || !noise.noise.is_empty();
    let several = args.runs.len() > 1;
    let mut out = String::new();
    for c in compared {
        let of = several.then_some(c.path);
        replayed::warnings(&mut out, &c.warnings, of);
    }
    out.push_str(&match several {
        true => format!(
            "PREDICTED AGAINST MEASURED, {}\n",
            counted(args.runs.len(), "run")
        ),
        false => format!("PREDICTED AGAINST MEASURED, {}\n", args.runs[0].display()),
    });
    if changed {
        out.push_str(
            "  the noise is not that of the run: differences show the effect of the change\n",
        );
    }
    let named = |c: &Compared<'_>, name: &str| match several {
        true => format!("{}: {name}", output::last_part(c.path)),
        false => name.to_owned(),
    };
    // One run may contain a series of the same kind.
    let title = |c: &Compared<'_>| {
        let name = named(c, &c.like.name.to_uppercase());
        match compared
            .iter()
            .filter(|o| o.like.name == c.like.name)
            .count()
        {
            1 => name,
            _ => format!("{name}, {} RANKS", c.like.ranks),
        }
    };
    heads(&mut out);
    for c in compared {
        line(&mut out, &named(c, &c.like.name), &c.like, c.predicted());
    }
    if !scaled.is_empty() {
        out.push_str("\nSCALING, from the work and the noise of the run with the fewest ranks\n");
        heads(&mut out);
        for s in scaled {
            let name = named(s.of, &s.of.like.name);
            line(&mut out, &name, &s.of.like, &s.predicted);
        }
    }
    for c in compared {
        let _ = writeln!(out, "\n{}", title(c));
        output::details(&mut out, &c.outcome, &c.model);
    }
    for c in compared {
        let Some(outcome) = &c.larger else { continue };
        let _ = writeln!(out, "\n{} AT OTHER NUMBERS OF RANKS", title(c));
        output::table(&mut out, outcome, &args.effort, &c.model);
        output::details(&mut out, outcome, &c.model);
    }
    out.push_str(
        "\nNOT MODELLED\n  noise that strikes several CPUs at once, if the model does not say so\n  communication that costs more with more ranks\n  ranks that share a CPU and take turns on it\n",
    );
    out.push_str(
        "\nNEXT\n  --without NAME predicts the run without a source: remove it, measure again,\n  and compare. --ranks 1e2..1e6 shows what it would cost at scale.\n",
    );
    out
}

fn as_json(args: &LikeArgs, compared: &[Compared<'_>], scaled: &[Scaled<'_>]) -> Value {
    let measured = |like: &LikeLockstep| {
        let step = &like.step_ns;
        json!({ "value": step.value, "low": step.low, "high": step.high })
    };
    let one = |c: &Compared<'_>| {
        let subject = subject(args, c.path, &c.like.name, &c.model);
        json!({
            "from": c.path.display().to_string(),
            "run": c.like.name,
            "ranks": c.like.ranks,
            "steps": c.like.steps,
            "warnings": c.warnings,
            "measured_step_ns": measured(&c.like),
            "predicted_step_ns": interval(c.predicted()),
            "error": c.error(),
            "own_scale": output::value(&subject, &c.outcome),
            "other_scales": c.larger.as_ref().map(|o| output::value(&subject, o)),
        })
    };
    let runs: Vec<Value> = compared.iter().map(one).collect();
    let scaling = |s: &Scaled<'_>| {
        json!({
            "run": s.of.like.name,
            "of": s.of.path.display().to_string(),
            "by": s.from.path.display().to_string(),
            "by_ranks": s.from.like.ranks,
            "ranks": s.of.like.ranks,
            "measured_step_ns": measured(&s.of.like),
            "predicted_step_ns": interval(&s.predicted),
            "error": error(&s.predicted, &s.of.like),
        })
    };
    json!({
        "runs": runs,
        "scaling": scaled.iter().map(scaling).collect::<Vec<_>>(),
    })
}
