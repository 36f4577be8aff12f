//! `idlewave simulate like RUN...` of recorded MPI programs.

mod output;

use super::options::{AlgorithmChoice, LikeArgs};
use super::{named, plan};
use crate::exit::{Exit, Failure};
use crate::files::{refuse_place, write_new};
use idlewave_fit::NoiseOf;
use idlewave_noise::Pattern;
use idlewave_recording::Stop;
use idlewave_replay::{
    Algorithms, Like, LikeOptions, NoiseOfRun, ReplayError, Scaled, Scaling, like, message_costs,
    scaling,
};
use idlewave_run::RunReader;
use idlewave_simulate::goal::Parameters;
use std::path::Path;

/// Repetitions with noise at most.
const REPETITIONS: u32 = 8;

/// A run of a series.
struct Played<'a> {
    path: &'a Path,
    /// Sources of the noise that was put back.
    sources: usize,
    /// What was left out of it, as it was asked for.
    without: Vec<&'a str>,
    like: &'a Like,
    /// By the run with the fewest ranks; `None` if one of the two has no pattern.
    scaled: Option<Scaled>,
}

/// Plays the recorded programs of runs, and their patterns on other numbers of ranks.
pub fn run(args: &LikeArgs, runs: &[RunReader], stop: &Stop) -> Result<(), Failure> {
    if args.effort.steps.is_some() || args.effort.warm_up.is_some() {
        let what = "average steps of a recorded program: it is played as long as it was";
        let next = "leave out --steps and --warm-up";
        return Err(Failure::new(Exit::Usage, what).with_next(next));
    }
    if let Some(path) = &args.program.write_goal {
        if runs.len() > 1 {
            let what = "write the schedules of several runs to one file";
            return Err(Failure::new(Exit::Usage, what).with_next("give one run"));
        }
        refuse_place(path, "--write-goal")?;
    }
    let mut likes = Vec::new();
    let mut options = Vec::new();
    for (path, run) in args.runs.iter().zip(runs) {
        let one = options_of(args, path, run, stop)?;
        likes.push(like(run, &one).map_err(|error| failed(path, &error))?);
        options.push(one);
    }
    if let (Some(path), [like]) = (&args.program.write_goal, &likes[..]) {
        write_new(path, "--write-goal", |mut out| {
            like.schedule.write_text(&mut out)
        })?;
    }
    let smallest = (0..likes.len()).min_by_key(|&i| likes[i].schedule.ranks());
    let scaled = match smallest.filter(|_| likes.len() > 1) {
        Some(i) => scaling(&likes, &options[i]).map_err(|e| failed(&args.runs[i], &e))?,
        None => vec![None; likes.len()],
    };
    let sources = |o: &LikeOptions| o.noise.as_ref().map_or(0, |n| n.model.sources.len());
    let all = args.runs.iter().zip(&options).zip(&likes).zip(scaled);
    let played: Vec<Played<'_>> = all
        .map(|(((path, options), like), scaled)| Played {
            path,
            sources: sources(options),
            without: args.effort.without.iter().map(Pattern::as_str).collect(),
            like,
            scaled,
        })
        .collect();
    let text = match (args.effort.json, &played[..]) {
        (true, [one]) => output::one_as_json(one),
        (true, all) => output::series_as_json(all),
        (false, [one]) => output::one(one),
        (false, all) => output::series(all),
    };
    crate::print(&text)
}

fn options_of(
    args: &LikeArgs,
    path: &Path,
    run: &RunReader,
    stop: &Stop,
) -> Result<LikeOptions, Failure> {
    let seed = args.effort.seed;
    let model = match args.noise.noise.is_empty() {
        true => {
            let fitted = crate::fit::fit_complete(path, run, NoiseOf::Machine, seed, stop)?;
            plan::changed(fitted.model, &args.noise)?
        }
        false => plan::model(&args.noise, seed, stop)?,
    };
    let without = named(&args.effort, &model)?;
    let mut algorithms = Algorithms::default();
    for &AlgorithmChoice(operation, algorithm) in &args.program.algorithm {
        algorithms.set(operation, algorithm).map_err(|error| {
            Failure::new(Exit::Usage, format!("resolve collectives: {error}"))
                .with_next("name one of those with --algorithm")
        })?;
    }
    let costs = match args.costs.given().then(|| message_costs(run)) {
        None => None,
        Some(Ok(seen)) => Some(args.costs.over(seen.parameters)),
        // Nothing was seen: what is not said costs nothing.
        Some(Err(ReplayError::NoCosts)) => Some(args.costs.over(Parameters::FREE)),
        Some(Err(error)) => return Err(failed(path, &error)),
    };
    Ok(LikeOptions {
        costs,
        algorithms,
        noise: (!model.sources.is_empty()).then(|| NoiseOfRun {
            model,
            seed,
            repetitions: args.effort.replications.min(REPETITIONS),
            without: without.into_iter().map(|(_, sources)| sources).collect(),
        }),
        ranks: args.ranks.as_ref().map_or_else(Vec::new, |r| r.0.clone()),
        scaling: match args.program.strong {
            true => Scaling::Strong,
            false => Scaling::Weak,
        },
    })
}

fn failed(path: &Path, error: &ReplayError) -> Failure {
    let (exit, next) = match error {
        ReplayError::NoCosts => (
            Exit::Usage,
            "say what messages cost with --latency, --overhead and --gap-per-byte",
        ),
        ReplayError::Noise(_) => (Exit::Usage, "give other noise with --noise"),
        _ => (Exit::Bundle, "explain the run again, or record it anew"),
    };
    let what = format!("simulate {}: {error}", path.display());
    Failure::new(exit, what).with_next(next)
}
