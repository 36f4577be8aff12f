//! `idlewave simulate like RUN...` for recorded MPI programs.

mod output;

pub(super) use output::warnings;

use super::options::{AlgorithmChoice, LikeArgs};
use super::plan;
use super::question::named;
use crate::exit::{Exit, Failure};
use crate::files::{refuse_place, write_new};
use crate::json;
use crate::output::print;
use crate::progress::Bars;
use idlewave_fit::NoiseOf;
use idlewave_noise::Pattern;
use idlewave_replay::{
    Algorithms, LikeOptions, NoiseOfRun, ReplayError, Scaling, like, message_costs, scaling,
};
use idlewave_run::RunReader;
use idlewave_session::{Progress, Stop};
use idlewave_simulate::goal::Parameters;
use output::Played;
use std::path::Path;

/// The most repetitions with noise.
const REPETITIONS: u32 = 8;

/// Simulates the recorded programs of runs, and their patterns at other rank counts.
pub fn run(args: &LikeArgs, runs: &[RunReader], stop: &Stop) -> Result<(), Failure> {
    if args.effort.steps.is_some() || args.effort.warm_up.is_some() {
        let what = "average steps of a recorded program: it is simulated over its whole length";
        let next = "omit --steps and --warm-up";
        return Err(Failure::new(Exit::Usage, what).with_next(next));
    }
    if args.program.strong && args.ranks.is_none() && runs.len() == 1 {
        let what = "divide the work of one run among its own ranks: --strong changes nothing";
        let next = "give other numbers of ranks with --ranks, or several runs";
        return Err(Failure::new(Exit::Usage, what).with_next(next));
    }
    if let Some(path) = &args.program.write_goal {
        if runs.len() > 1 {
            let what = "write the schedules of several runs to one file";
            return Err(Failure::new(Exit::Usage, what).with_next("give one run"));
        }
        refuse_place(path, "--write-goal")?;
    }
    let bars = Bars::new(!args.effort.json);
    let mut likes = Vec::new();
    let mut options = Vec::new();
    for (path, run) in args.runs.iter().zip(runs) {
        let (one, mut warnings) = options_of(args, path, run, stop)?;
        // Noise that takes much of a CPU makes this slow.
        bars.part("simulating the program");
        let mut found = like(run, &one).map_err(|error| failed(path, &error))?;
        warnings.append(&mut found.warnings);
        found.warnings = warnings;
        likes.push(found);
        bars.finish();
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
    match (args.effort.json, &played[..]) {
        (true, [one]) => json::print_computed(output::value(one)),
        (true, all) => json::print_computed(output::values(all)),
        (false, [one]) => print(&output::one(one)),
        (false, all) => print(&output::series(all)),
    }?;
    untold(args, &played).map_or(Ok(()), Err)
}

/// What was requested but could not be answered: other rank counts for a run without a pattern, or
/// its place in a series.
fn untold(args: &LikeArgs, played: &[Played<'_>]) -> Option<Failure> {
    let (run, none) = played
        .iter()
        .find_map(|run| Some((run, run.like.pattern.as_ref().err()?)))?;
    let path = run.path.display();
    let (what, without) = match &args.ranks {
        Some(ranks) => {
            let ranks: Vec<String> = ranks.0.iter().map(u32::to_string).collect();
            let what = format!("predict {path} on {} ranks: {none}", ranks.join(", "));
            (what, "omit --ranks")
        }
        None if played.len() > 1 => (
            format!("compare {path} with the other runs: {none}"),
            "give each run alone",
        ),
        None => return None,
    };
    let next = format!("{without}, or record a number of ranks on which all of them do the same");
    Some(Failure::new(Exit::Partly, what).with_next(next))
}

/// The options for a run, and reasons to doubt it and its noise.
fn options_of(
    args: &LikeArgs,
    path: &Path,
    run: &RunReader,
    stop: &Stop,
) -> Result<(LikeOptions, Vec<String>), Failure> {
    let seed = args.effort.seed;
    let (model, warnings) = match args.noise.noise.is_empty() {
        true => {
            let fitted = crate::fit::fit_complete(path, run, NoiseOf::Machine, seed, stop)?;
            let model = plan::changed(fitted.model, &args.noise)?;
            (model, fitted.report.warnings)
        }
        false => {
            let model = plan::model(&args.noise, seed, stop)?;
            (model, run.manifest().busy_nodes())
        }
    };
    let without = named(&args.effort, &model)?;
    let mut algorithms = Algorithms::default();
    for &AlgorithmChoice(operation, algorithm) in &args.program.algorithm {
        algorithms.set(operation, algorithm).map_err(|error| {
            Failure::new(Exit::Usage, format!("resolve collectives: {error}"))
                .with_next("name one of those listed with --algorithm")
        })?;
    }
    let costs = match args.costs.given().then(|| message_costs(run)) {
        None => None,
        Some(Ok(seen)) => Some(args.costs.over(seen.parameters)),
        // Nothing was observed: costs that are not given are 0.
        Some(Err(ReplayError::NoCosts)) => Some(args.costs.over(Parameters::FREE)),
        Some(Err(error)) => return Err(failed(path, &error)),
    };
    let options = LikeOptions {
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
    };
    Ok((options, warnings))
}

fn failed(path: &Path, error: &ReplayError) -> Failure {
    let (exit, next) = match error {
        ReplayError::NoCosts => (
            Exit::Usage,
            "give the costs of messages with --latency, --overhead and --gap-per-byte",
        ),
        ReplayError::Noise(_) => (Exit::Usage, "give other noise with --noise"),
        _ => (Exit::Bundle, "explain the run again, or record it again"),
    };
    let what = format!("simulate {}: {error}", path.display());
    Failure::new(exit, what).with_next(next)
}
