//! `idlewave simulate like RUN`: the run itself predicted, and what it would be otherwise.

use super::options::LikeArgs;
use super::output::{cut, grouped, interval};
use super::plan::{self, Point};
use super::{Outcome, Subject, ask, output};
use crate::exit::{Exit, Failure};
use idlewave_fit::NoiseOf;
use idlewave_noise::NoiseModel;
use idlewave_recording::{LikeLockstep, RecordingError, Stop};
use idlewave_run::{Phase, PhaseKind};
use idlewave_simulate::question::Interval;
use idlewave_units::Nanos;
use serde_json::{Value, json};
use std::fmt::Write;

/// A measured run and what was predicted for it.
struct Compared {
    like: LikeLockstep,
    model: NoiseModel,
    predicted: Interval,
    outcome: Outcome,
}

impl Compared {
    /// Predicted mean step over the measured one, less 1.
    fn error(&self) -> f64 {
        self.predicted.mean / self.like.step_ns.value - 1.0
    }
}

/// Runs `simulate like`.
pub fn run_like(args: &LikeArgs, stop: &Stop) -> Result<(), Failure> {
    let run = crate::fit::complete(&args.run, stop)?;
    let recorded = |p: &Phase| {
        matches!(
            p.kind,
            PhaseKind::Recorded {
                library: Some(_),
                ..
            }
        )
    };
    if run.manifest().phases.iter().any(recorded) {
        return super::replayed::run(args, &run, stop);
    }
    let explained = idlewave_explain::explain(&run, &stop.flag).map_err(RecordingError::from)?;
    let findings = explained.findings;
    let likes = LikeLockstep::all(run.manifest(), &findings);
    if likes.is_empty() {
        let what = format!(
            "simulate {}: it has neither a lockstep run nor an MPI program",
            args.run.display()
        );
        return Err(Failure::new(Exit::Usage, what)
            .with_next("give a run of idlewave study, measure or record"));
    }
    let seed = args.effort.seed;
    let given = match args.noise.noise.is_empty() {
        true => None,
        false => Some(plan::model(&args.noise, seed, stop)?),
    };
    let mut compared = Vec::new();
    for like in likes {
        // What was measured had the noise of its own phase.
        let model = match &given {
            Some(model) => model.clone(),
            None => {
                let of = NoiseOf::Phase(like.phase);
                let fitted = crate::fit::fit_complete(&args.run, &run, of, seed, stop)?;
                plan::changed(fitted.model, &args.noise)?
            }
        };
        let subject = subject(args, &like.name, &model);
        let own = || point(&like, like.ranks);
        let outcome = ask(vec![own()], Some(own()), &subject, &stop.flag)?;
        let predicted = outcome.rows[0].answer.step_ns;
        compared.push(Compared {
            like,
            model,
            predicted,
            outcome,
        });
    }
    let mut larger = Vec::new();
    if let Some(ranks) = &args.ranks {
        for compared in &compared {
            let points = ranks.0.iter().map(|&r| point(&compared.like, r)).collect();
            larger.push(ask(
                points,
                None,
                &subject(args, &compared.like.name, &compared.model),
                &stop.flag,
            )?);
        }
    }
    let text = match args.effort.json {
        true => as_json(args, &compared, &larger),
        false => as_text(args, &compared, &larger),
    };
    crate::print(&text).map_err(|failure| failure.with_next("send the output elsewhere"))
}

fn subject<'a>(args: &'a LikeArgs, name: &str, model: &'a NoiseModel) -> Subject<'a> {
    Subject {
        what: format!("{name} as in {}", args.run.display()),
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
        // Levels of speed last for seconds: it takes as long as the run to see as many of them.
        steps: like.steps,
    }
}

fn as_text(args: &LikeArgs, compared: &[Compared], larger: &[Outcome]) -> String {
    let changed =
        args.noise.cosched || args.noise.quiet_cpu.is_some() || !args.noise.noise.is_empty();
    let mut out = format!("PREDICTED AGAINST MEASURED, {}\n", args.run.display());
    if changed {
        out.push_str("  the noise is not that of the run: what differs is what was changed\n");
    }
    // A String takes everything.
    let _ = writeln!(
        out,
        "  {:<18} {:>5} {:>9} {:>9} {:>9} {:>15} {:>7}",
        "run", "ranks", "steps", "measured", "predicted", "95 %", "error"
    );
    for c in compared {
        let time = |ns: f64| Nanos::from_nanos(ns.round().max(0.0) as u64).to_string();
        // The unit once if it is the same.
        let between = |low: String, high: String| match (low.split_once(' '), high.split_once(' '))
        {
            (Some((number, unit)), Some((_, same))) if unit == same => format!("{number}..{high}"),
            _ => format!("{low}..{high}"),
        };
        let _ = writeln!(
            out,
            "  {:<18} {:>5} {:>9} {:>9} {:>9} {:>15} {:>+6.1}%",
            cut(&c.like.name, 18),
            grouped(u64::from(c.like.ranks)),
            grouped(c.like.steps),
            time(c.like.step_ns.value),
            time(c.predicted.mean),
            between(time(c.predicted.low), time(c.predicted.high)),
            100.0 * c.error(),
        );
    }
    for c in compared {
        let _ = writeln!(out, "\n{}", c.like.name.to_uppercase());
        output::details(&mut out, &c.outcome, &c.model);
    }
    for (c, outcome) in compared.iter().zip(larger) {
        let _ = writeln!(
            out,
            "\n{} AT OTHER NUMBERS OF RANKS",
            c.like.name.to_uppercase()
        );
        output::table(&mut out, outcome, &args.effort, &c.model);
        output::details(&mut out, outcome, &c.model);
    }
    out.push_str(
        "\nNOT MODELLED\n  noise that strikes several CPUs at once, if the model does not say so\n  communication that costs more with more ranks\n",
    );
    out.push_str(
        "\nNEXT\n  --without NAME predicts the run without a source: take the source away, measure\n  again, and compare. --ranks 1e2..1e6 says what it would cost at scale.\n",
    );
    out
}

fn as_json(args: &LikeArgs, compared: &[Compared], larger: &[Outcome]) -> String {
    let runs: Vec<Value> = compared
        .iter()
        .enumerate()
        .map(|(at, c)| {
            let measured = &c.like.step_ns;
            json!({
                "run": c.like.name,
                "ranks": c.like.ranks,
                "steps": c.like.steps,
                "measured_step_ns": { "value": measured.value, "low": measured.low, "high": measured.high },
                "predicted_step_ns": interval(&c.predicted),
                "error": c.error(),
                "own_scale": output::value(&subject(args, &c.like.name, &c.model), &c.outcome),
                "other_scales": larger.get(at).map(|o| output::value(&subject(args, &c.like.name, &c.model), o)),
            })
        })
        .collect();
    let value = json!({ "run": args.run.display().to_string(), "runs": runs });
    format!("{value:#}\n")
}
