//! `idlewave simulate stencil` and `collective`: what does noise cost, at which scale, and what would help?

mod lists;
mod options;
mod output;
mod plan;

pub use options::{CollectiveArgs, StencilArgs};

use crate::exit::{Exit, Failure};
use idlewave_noise::NoiseModel;
use idlewave_simulate::question::{
    Answer, Effort, PathShares, Question, QuestionError, Wave, answer, wave,
};
use indicatif::{ProgressBar, ProgressStyle};
use options::CommonArgs;
use plan::Point;
use std::sync::atomic::AtomicBool;

/// A point with its answer.
struct Row {
    point: Point,
    steps: u64,
    warm_up: u64,
    answer: Answer,
}

/// Everything that came out.
struct Outcome {
    rows: Vec<Row>,
    /// Of the last point: what the way to its last finish was made of; `None` without noise.
    path: Option<PathShares>,
    /// Of the last point, if a delay was asked for.
    wave: Option<Wave>,
}

/// What is simulated, in words and numbers.
struct Subject<'a> {
    what: String,
    common: &'a CommonArgs,
    model: &'a NoiseModel,
}

/// Runs `simulate stencil`.
pub fn run_stencil(args: &StencilArgs, stop: &AtomicBool) -> Result<(), Failure> {
    let model = plan::model(&args.common)?;
    let what = output::stencil(args);
    run(plan::stencil(args)?, what, &args.common, &model, stop)
}

/// Runs `simulate collective`.
pub fn run_collective(args: &CollectiveArgs, stop: &AtomicBool) -> Result<(), Failure> {
    let model = plan::model(&args.common)?;
    let what = output::collective(args);
    run(plan::collective(args)?, what, &args.common, &model, stop)
}

/// Steps over which an idle wave is followed.
const WAVE_STEPS: u64 = 100;
/// Replications of the critical path.
const PATHS: u32 = 4;

fn run(
    points: Vec<Point>,
    what: String,
    common: &CommonArgs,
    model: &NoiseModel,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let effort = Effort {
        seed: common.seed,
        least: 4.min(common.replications),
        most: common.replications,
        precision: common.precision / 100.0,
    };
    let chosen = chosen(common, model)?;
    let bar = bar(points.len() as u64 * u64::from(effort.most));
    let last = points.len() - 1;
    let mut outcome = Outcome {
        rows: Vec::new(),
        path: None,
        wave: None,
    };
    for (at, point) in points.into_iter().enumerate() {
        let (steps, warm_up) = plan::steps(common, point.ranks);
        let delays = common.delay.map(|d| d.0);
        if let Some(delay) = delays.filter(|d| d.rank >= point.ranks) {
            let what = format!("delay rank {}: there are {} ranks", delay.rank, point.ranks);
            return Err(Failure::new(Exit::Usage, what).with_next("name a rank from 0 on"));
        }
        // Sources are left out one by one where it matters most.
        let without = if at == last {
            &chosen[..]
        } else {
            &chosen[..common.without.len()]
        };
        let question = Question {
            program: &point.program,
            model,
            steps,
            warm_up,
            delays: &[],
            without,
        };
        let begun = at as u64 * u64::from(effort.most);
        let told = |done: u32, _: u32| bar.set_position(begun + u64::from(done));
        let failed = |error| not_answered(point.ranks, error);
        let answer = answer(&question, &effort, stop, &told).map_err(failed)?;
        if at == last && !model.sources.is_empty() {
            let path = PathShares::of(&question, common.seed, PATHS, stop);
            outcome.path = Some(path.map_err(failed)?);
        }
        if let Some(delay) = delays.filter(|_| at == last) {
            let wave = wave(&question, delay, WAVE_STEPS, common.seed, stop);
            outcome.wave = Some(wave.map_err(failed)?);
        }
        outcome.rows.push(Row {
            point,
            steps,
            warm_up,
            answer,
        });
    }
    bar.finish_and_clear();
    let subject = Subject {
        what,
        common,
        model,
    };
    let text = match common.json {
        true => output::json(&subject, &outcome),
        false => output::text(&subject, &outcome),
    };
    crate::print(&text).map_err(|failure| failure.with_next("send the output elsewhere"))
}

/// What to leave out: what was named, and then the sources that take most.
fn chosen(common: &CommonArgs, model: &NoiseModel) -> Result<Vec<(String, Vec<usize>)>, Failure> {
    let mut chosen: Vec<(String, Vec<usize>)> = Vec::new();
    for pattern in &common.without {
        let numbers = pattern.chosen(model);
        if numbers.is_empty() {
            let names: Vec<String> = model.sources.iter().map(|s| s.label()).collect();
            let what = format!("leave out `{}`: no source is called so", pattern.as_str());
            let next = match names.is_empty() {
                true => "give noise with --noise".to_owned(),
                false => format!("there are {}", names.join(", ")),
            };
            return Err(Failure::new(Exit::Usage, what).with_next(next));
        }
        chosen.push((pattern.as_str().to_owned(), numbers));
    }
    let takes = |i: usize| {
        model.sources[i]
            .stolen(model.cpus_per_node)
            .unwrap_or(f64::MAX)
    };
    let mut by_share: Vec<usize> = (0..model.sources.len()).collect();
    by_share.sort_by(|&a, &b| takes(b).total_cmp(&takes(a)));
    for source in by_share.into_iter().take(usize::from(common.sources)) {
        let alone = vec![source];
        if chosen.iter().all(|(_, numbers)| *numbers != alone) {
            chosen.push((model.sources[source].label(), alone));
        }
    }
    Ok(chosen)
}

fn bar(length: u64) -> ProgressBar {
    let bar = ProgressBar::new(length);
    if let Ok(style) = ProgressStyle::with_template("simulating [{bar:40}] {percent:>3} %") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

fn not_answered(ranks: u32, error: QuestionError) -> Failure {
    let (exit, next) = match error {
        QuestionError::Stopped => (Exit::Other, "start it again"),
        QuestionError::Program(_) | QuestionError::NoTime => {
            (Exit::Usage, "choose an algorithm and times that can be")
        }
        QuestionError::Noise(_) => (Exit::Usage, "correct that source"),
    };
    Failure::new(exit, format!("simulate {ranks} ranks: {error}")).with_next(next)
}
