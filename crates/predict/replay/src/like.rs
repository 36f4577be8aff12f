//! Predicts a run from what is known about it, and sets the prediction beside the measurement.

use crate::ReplayError;
use crate::costs::{MessageCosts, of_script as costs_of};
use crate::extrapolate::Extrapolation;
use crate::find_pattern::of_script as pattern_of;
use crate::lengths::Scaling;
use crate::pattern::{NoPattern, PatternOfRun};
use crate::schedule::{Replay, write};
use crate::script::{Script, Taken};
use idlewave_explain::Crowd;
use idlewave_noise::{Noise, NoiseModel, Quiet, Timelines};
use idlewave_run::{Ledger, RunReader};
use idlewave_simulate::collectives::Algorithms;
use idlewave_simulate::goal::{Parameters, Schedule, simulate_with};

/// Error of the prediction `as recorded`, in percent, beyond which the schedule is taken to be
/// wrong.
const WRONG_PERCENT: f64 = 5.0;

/// The noise under which a run is predicted.
#[derive(Clone, Debug, PartialEq)]
pub struct NoiseOfRun {
    /// The noise model; its `cpus_per_node` says how ranks fill the nodes.
    pub model: NoiseModel,
    /// Seed of the first repetition.
    pub seed: u64,
    /// Repetitions, each with different random numbers; at least one is played.
    pub repetitions: u32,
    /// What-ifs: each names the sources to leave out, by their indices in the model.
    pub without: Vec<Vec<usize>>,
}

/// How a run is predicted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LikeOptions {
    /// What messages cost; `None` estimates it from the run.
    pub costs: Option<Parameters>,
    /// How collectives are resolved.
    pub algorithms: Algorithms,
    /// Noise to put back where others took time in the run; `None` predicts without noise only.
    pub noise: Option<NoiseOfRun>,
    /// Rank counts to which the pattern is extrapolated.
    pub ranks: Vec<u32>,
    /// How the work scales with the rank count.
    pub scaling: Scaling,
}

/// When ranks are predicted to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Predicted {
    /// End of each rank, in nanoseconds from time zero of the run.
    pub finish_ns: Vec<u64>,
}

impl Predicted {
    /// When the last rank ends, in nanoseconds.
    pub fn makespan_ns(&self) -> u64 {
        self.finish_ns.iter().copied().max().unwrap_or(0)
    }

    /// Error of the makespan, in percent of the measured one; positive if the prediction is too
    /// long. `None` for a run that took no time.
    pub fn error_percent(&self, measured_ns: &[u64]) -> Option<f64> {
        error_percent(self.makespan_ns(), measured_ns.iter().copied().max()?)
    }

    /// The rank whose end is predicted worst, and its error in percent.
    pub fn worst_rank(&self, measured_ns: &[u64]) -> Option<(u32, f64)> {
        let both = self.finish_ns.iter().zip(measured_ns).zip(0..);
        both.filter_map(|((&p, &m), rank)| Some((rank, error_percent(p, m)?)))
            .max_by(|a, b| (a.1.abs()).total_cmp(&b.1.abs()).then(b.0.cmp(&a.0)))
    }
}

fn error_percent(predicted: u64, measured: u64) -> Option<f64> {
    (measured > 0).then(|| (predicted as f64 / measured as f64 - 1.0) * 100.0)
}

/// A run beside its predictions.
#[derive(Clone, Debug)]
pub struct Like {
    /// When each rank ended in the run, in nanoseconds from when the first one left MPI_Init.
    pub measured_ns: Vec<u64>,
    /// What messages cost.
    pub costs: Parameters,
    /// How the costs were estimated; `None` if they were given.
    pub estimated: Option<MessageCosts>,
    /// With all computation as it was, and the excess of calls over the cost of messages. This
    /// reproduces the run if the schedule is right about which rank waits for which.
    pub as_recorded: Predicted,
    /// With all computation as it was, including what others took, and with calls that take only
    /// what their messages cost.
    pub kept: Predicted,
    /// The same without what others took from the ranks outside calls.
    pub quiet: Predicted,
    /// The same with the given noise, once per repetition; empty if none was given.
    pub noisy: Vec<Predicted>,
    /// The same for each what-if, with the same random numbers.
    pub without: Vec<Vec<Predicted>>,
    /// The schedule of `quiet`; [`Schedule::write_text`] writes it in GOAL.
    pub schedule: Schedule,
    /// Time taken from each rank while it computed, in nanoseconds.
    pub taken_ns: Vec<u64>,
    /// What is in the run but not in the schedule.
    pub left_out: Ledger,
    /// The loop of all ranks, or why there is none.
    pub pattern: Result<PatternOfRun, NoPattern>,
    /// The pattern at other rank counts, in the order requested. Empty without a pattern.
    pub extrapolated: Vec<AtScale>,
    /// Why not to trust the predictions as they stand, one sentence each. Print these first.
    pub warnings: Vec<String>,
}

/// The pattern of a run at another rank count.
#[derive(Clone, Debug, PartialEq)]
pub struct AtScale {
    /// Without noise.
    pub quiet: Extrapolation,
    /// With each repetition of the noise; empty if none was given.
    pub noisy: Vec<Extrapolation>,
    /// What had to be assumed, in words.
    pub assumptions: Vec<String>,
}

/// Predicts a run, and how long its pattern takes at other rank counts.
///
/// # Errors
/// Runs that cannot be read or have no recorded program; no costs given and none found; a noise
/// model that contradicts itself; a schedule that cannot end.
pub fn like(run: &RunReader, options: &LikeOptions) -> Result<Like, ReplayError> {
    let mut script = Script::read(run, Taken::Kept)?;
    let (costs, estimated) = match options.costs {
        Some(given) => (given, None),
        None => {
            let found = costs_of(&script)?;
            (found.parameters, Some(found))
        }
    };
    let noises = noises(options)?;
    script.excess_over = Some((costs, options.algorithms.clone()));
    let as_recorded = play(&write(&script, &options.algorithms)?, &costs, None)?;
    script.excess_over = None;
    let kept = play(&write(&script, &options.algorithms)?, &costs, None)?;
    script.taken = Taken::Removed;
    let replay = write(&script, &options.algorithms)?;
    let quiet = play(&replay, &costs, None)?;
    let under = |noises: &[Noise]| -> Result<Vec<Predicted>, ReplayError> {
        let played = noises
            .iter()
            .map(|noise| play(&replay, &costs, Some(noise)));
        played.collect()
    };
    let noisy = under(&noises)?;
    let mut without = Vec::new();
    for left_out in options.noise.iter().flat_map(|n| &n.without) {
        without.push(under(&noises_without(options, left_out)?)?);
    }
    let pattern = pattern_of(&script);
    let mut extrapolated = Vec::new();
    if let Ok(pattern) = &pattern {
        let silent = Noise::new(&NoiseModel::default(), 0, 0, |_| true)?;
        for &ranks in &options.ranks {
            let on = pattern.extrapolate(ranks, options.scaling, costs, &options.algorithms);
            let disturbed = noises.iter().map(|noise| on.play(noise));
            extrapolated.push(AtScale {
                quiet: on.play(&silent)?,
                noisy: disturbed.collect::<Result<_, _>>()?,
                assumptions: on.assumptions,
            });
        }
    }
    let shared = |crowd: &Crowd| {
        format!(
            "{crowd}. This is not noise, and every prediction gives each rank a CPU of its own: record the program on as many CPUs as it has ranks \
             (of Open MPI: mpirun --bind-to core)"
        )
    };
    let mut warnings: Vec<String> = script.crowds.iter().map(shared).collect();
    let crawls = options.noise.as_ref().and_then(|n| n.model.crawls());
    warnings.extend(crawls.map(|crawls| {
        format!(
            "{crawls}. Record the program where others leave the CPUs alone, or give other noise with --noise"
        )
    }));
    let error = as_recorded.error_percent(&replay.measured_ns);
    if let Some(error) = error.filter(|e| e.abs() > WRONG_PERCENT) {
        warnings.push(format!(
            "`as recorded` is {error:+.1} % off, though calls are as long in it as they were: messages cost less or more than is assumed, or \
             the schedule lacks something. Predictions that follow from it are no better. Say what messages cost (--latency, \
             --overhead, --gap-per-byte; `idlewave measure pingpong` measures it) and look at what is left out"
        ));
    }
    Ok(Like {
        measured_ns: replay.measured_ns,
        costs,
        estimated,
        as_recorded,
        kept,
        quiet,
        noisy,
        without,
        schedule: replay.schedule,
        taken_ns: replay.taken_ns,
        left_out: replay.left_out,
        pattern,
        extrapolated,
        warnings,
    })
}

fn noises(options: &LikeOptions) -> Result<Vec<Noise>, ReplayError> {
    noises_without(options, &[])
}

fn noises_without(options: &LikeOptions, left_out: &[usize]) -> Result<Vec<Noise>, ReplayError> {
    let Some(noise) = &options.noise else {
        return Ok(Vec::new());
    };
    let keep = |source: usize| !left_out.contains(&source);
    let repetitions = 0..noise.repetitions.max(1);
    let made = repetitions.map(|n| Noise::new(&noise.model, noise.seed, n, keep));
    Ok(made.collect::<Result<_, _>>()?)
}

fn play(
    replay: &Replay,
    costs: &Parameters,
    noise: Option<&Noise>,
) -> Result<Predicted, ReplayError> {
    let outcome = match noise {
        None => simulate_with(&replay.schedule, costs, Quiet)?,
        Some(noise) => {
            let cpus = replay.cpus_per_rank.min(256) as u16;
            let timelines = Timelines::new(noise, replay.schedule.ranks(), cpus);
            simulate_with(&replay.schedule, costs, timelines)?
        }
    };
    Ok(Predicted {
        finish_ns: outcome.finish_ns,
    })
}

/// The loop of one run of a series, and what the pattern of the run with the fewest ranks predicts
/// for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaled {
    /// How long the loop took in the run, in nanoseconds.
    pub measured_ns: u64,
    /// The same number of steps on the same number of ranks, without noise.
    pub quiet: Extrapolation,
    /// The same with each repetition of the noise; empty if none was given.
    pub noisy: Vec<Extrapolation>,
}

/// Predicts the loops of all runs from the pattern and the costs of the one with the fewest ranks
/// (the first on a tie), under the noise of `options`. Answers are in the order of `runs`; `None`
/// where that run, or the one with the fewest ranks, has no pattern.
///
/// # Errors
/// A noise model that contradicts itself; times that exceed 64-bit nanoseconds.
pub fn scaling(runs: &[Like], options: &LikeOptions) -> Result<Vec<Option<Scaled>>, ReplayError> {
    let smallest = runs.iter().min_by_key(|l| l.schedule.ranks());
    let from = smallest.and_then(|l| Some((l.pattern.as_ref().ok()?, l.costs)));
    let noises = noises(options)?;
    let silent = Noise::new(&NoiseModel::default(), 0, 0, |_| true)?;
    let scaled = |like: &Like| {
        let (Some((pattern, costs)), Ok(own)) = (from, &like.pattern) else {
            return Ok(None);
        };
        let ranks = like.schedule.ranks();
        let mut on = pattern.extrapolate(ranks, options.scaling, costs, &options.algorithms);
        on.steps = own.steps;
        let noisy = noises.iter().map(|noise| on.play(noise));
        Ok(Some(Scaled {
            measured_ns: own.span_ns,
            quiet: on.play(&silent)?,
            noisy: noisy.collect::<Result<_, _>>()?,
        }))
    };
    runs.iter().map(scaled).collect()
}
