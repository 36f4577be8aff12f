//! `idlewave simulate stencil` and `collective`: what does noise cost, at which scale, and what would help?

mod files;
mod like;
mod lists;
mod options;
mod output;
mod plan;
mod replayed;

pub use like::run_like;
pub use options::{CollectiveArgs, LikeArgs, NoiseArgs, StencilArgs};
pub use plan::model;

use crate::exit::{Exit, Failure};
use idlewave_noise::{NoiseModel, Pattern};
use idlewave_recording::Stop;
use idlewave_simulate::bulk::OneOff;
use idlewave_simulate::question::{
    Answer, Effort, PathShares, Question, QuestionError, Wave, answer, wave,
};
use indicatif::{ProgressBar, ProgressStyle};
use options::{CommonArgs, EffortArgs};
use plan::{Plan, Point};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Sources that are left out together, with what they are called.
type LeftOut = (String, Vec<usize>);

/// A point, and how long it is simulated.
struct Planned {
    point: Point,
    steps: u64,
    warm_up: u64,
}

/// A point with its answer.
struct Row {
    at: Planned,
    answer: Answer,
}

/// Everything that came out.
struct Outcome {
    rows: Vec<Row>,
    /// Where single sources were left out, if that is none of the rows.
    deep: Option<Row>,
    /// Of that point: what the way to its last finish was made of; `None` without noise.
    path: Option<PathShares>,
    /// Of the last point, if a delay was asked for.
    wave: Option<Wave>,
}

impl Outcome {
    /// Where single sources were left out.
    fn deep(&self) -> Option<&Row> {
        self.deep.as_ref().or(self.rows.last())
    }
}

/// What is simulated, in words and numbers.
struct Subject<'a> {
    what: String,
    noise: &'a NoiseArgs,
    effort: &'a EffortArgs,
    model: &'a NoiseModel,
    delay: Option<OneOff>,
    /// Messages cost nothing.
    free: bool,
}

/// Runs `simulate stencil`.
pub fn run_stencil(args: &StencilArgs, stop: &Stop) -> Result<(), Failure> {
    run(&args.common, output::stencil(args), stop, || {
        plan::stencil(args)
    })
}

/// Runs `simulate collective`.
pub fn run_collective(args: &CollectiveArgs, stop: &Stop) -> Result<(), Failure> {
    run(&args.common, output::collective(args), stop, || {
        plan::collective(args)
    })
}

fn run(
    common: &CommonArgs,
    what: String,
    stop: &Stop,
    plan: impl FnOnce() -> Result<Plan, Failure>,
) -> Result<(), Failure> {
    let model = plan::model(&common.noise, common.effort.seed, stop)?;
    common.files.refuse(&common.ranks, &model)?;
    let subject = Subject::of(what, common, &model);
    let Plan { points, deep } = plan()?;
    let outcome = ask(points, Some(deep), &subject, &stop.flag)?;
    show(&subject, &outcome)?;
    finish(common, &subject, &outcome, stop)
}

/// Steps over which an idle wave is followed.
const WAVE_STEPS: u64 = 100;
/// Replications at least.
const LEAST_REPLICATIONS: u32 = 4;
/// Steps of which the second half is longer by this share of the slow-down still rise.
pub const RISES: f64 = 0.1;
/// Replications of the critical path.
const PATHS: u32 = 4;

impl<'a> Subject<'a> {
    fn of(what: String, common: &'a CommonArgs, model: &'a NoiseModel) -> Self {
        Subject {
            what,
            noise: &common.noise,
            effort: &common.effort,
            model,
            delay: common.delay.map(|d| d.0),
            free: !common.costs.given(),
        }
    }
}

/// Answers at every point, and more where it is looked at deeply.
fn ask(
    points: Vec<Point>,
    deep: Option<Point>,
    subject: &Subject<'_>,
    stop: &AtomicBool,
) -> Result<Outcome, Failure> {
    let Subject { effort, model, .. } = subject;
    for point in &points {
        if let Some(delay) = subject.delay.filter(|d| d.rank >= point.ranks) {
            let what = format!("delay rank {}: there are {} ranks", delay.rank, point.ranks);
            return Err(Failure::new(Exit::Usage, what).with_next("name a rank from 0 on"));
        }
    }
    if let Some((delay, steps)) = subject.delay.zip(effort.steps) {
        let all = steps.saturating_add(effort.warm_up.unwrap_or(steps / 3));
        if delay.step >= all {
            let what = format!(
                "delay step {}: there are {all}, warm-up included",
                delay.step
            );
            let next = "name a step from 0 on, or give more --steps";
            return Err(Failure::new(Exit::Usage, what).with_next(next));
        }
    }
    let named = named(effort, model)?;
    // Sources are left out one by one at one point only.
    let same = |point: &Point| deep.as_ref().is_some_and(|d| d.ranks == point.ranks);
    let last_is_deep = points.last().is_some_and(same);
    let count = points.len() + usize::from(deep.is_some() && !last_is_deep);
    let bar = bar(count as u64 * u64::from(effort.replications));
    let looks_deep = deep.is_some() && !model.sources.is_empty();
    let settled = |point| Planned::settled(point, subject, stop);
    let planned: Vec<Planned> = points.into_iter().map(settled).collect::<Result<_, _>>()?;
    let deep = deep.filter(|_| !last_is_deep).map(settled).transpose()?;
    let looked_at = deep.as_ref().or(planned.last());
    let path = match looked_at.filter(|_| looks_deep) {
        Some(planned) => {
            let question = planned.question(subject, &[]);
            let path = PathShares::of(&question, effort.seed, PATHS, stop);
            Some(path.map_err(|error| not_answered(planned.point.ranks, error))?)
        }
        None => None,
    };
    let mut chosen = named.clone();
    if let Some(path) = &path {
        add_largest(&mut chosen, path, usize::from(effort.sources), model);
    }
    let mut rows: Vec<Row> = Vec::new();
    for (at, planned) in planned.into_iter().enumerate() {
        let all = last_is_deep && at + 1 == count;
        let without = if all { &chosen } else { &named };
        rows.push(row(planned, without, at, subject, &bar, stop)?);
    }
    let mut outcome = Outcome {
        rows,
        deep: None,
        path,
        wave: None,
    };
    if let Some(planned) = deep.filter(|_| !chosen.is_empty()) {
        outcome.deep = Some(row(planned, &chosen, count - 1, subject, &bar, stop)?);
    }
    if let Some((delay, row)) = subject.delay.zip(outcome.rows.last()) {
        let question = row.at.question(subject, &[]);
        let wave = wave(&question, delay, WAVE_STEPS, effort.seed, stop);
        outcome.wave = Some(wave.map_err(|error| not_answered(row.at.point.ranks, error))?);
    }
    bar.finish_and_clear();
    Ok(outcome)
}

impl Planned {
    /// Where nobody said how many, so many steps are not averaged that a few replications rise no more after them.
    fn settled(point: Point, subject: &Subject<'_>, stop: &AtomicBool) -> Result<Self, Failure> {
        let effort = subject.effort;
        let (steps, warm_up) = plan::steps(effort, &point);
        let mut planned = Planned {
            point,
            steps,
            warm_up,
        };
        let given = effort.warm_up.is_some() || subject.model.sources.is_empty();
        if given || !planned.point.settles {
            return Ok(planned);
        }
        let tried = Effort {
            precision: 1.0,
            ..spent(effort, LEAST_REPLICATIONS)
        };
        let most = plan::most_warm_up(&planned.point, steps);
        while planned.warm_up < most {
            let answer = answer(&planned.question(subject, &[]), &tried, stop, &|_, _| {})
                .map_err(|error| not_answered(planned.point.ranks, error))?;
            if !answer.still_rises(RISES) {
                break;
            }
            planned.warm_up = (4 * planned.warm_up).clamp(1, most);
        }
        Ok(planned)
    }

    /// What is asked here.
    fn question<'a>(&'a self, subject: &Subject<'a>, without: &'a [LeftOut]) -> Question<'a> {
        Question {
            program: &self.point.program,
            model: subject.model,
            steps: self.steps,
            warm_up: self.warm_up,
            delays: &[],
            without,
        }
    }
}

/// What is spent on an answer, with so many replications at most.
fn spent(effort: &EffortArgs, most: u32) -> Effort {
    let most = most.min(effort.replications);
    Effort {
        seed: effort.seed,
        least: LEAST_REPLICATIONS.min(most),
        most,
        precision: effort.precision / 100.0,
    }
}

/// The answer at one point, the one with this number.
fn row(
    planned: Planned,
    without: &[LeftOut],
    at: usize,
    subject: &Subject<'_>,
    bar: &ProgressBar,
    stop: &AtomicBool,
) -> Result<Row, Failure> {
    let spent = spent(subject.effort, subject.effort.replications);
    let begun = at as u64 * u64::from(spent.most);
    let told = |done: u32, _: u32| bar.set_position(begun + u64::from(done));
    let answer = answer(&planned.question(subject, without), &spent, stop, &told)
        .map_err(|error| not_answered(planned.point.ranks, error))?;
    Ok(Row {
        at: planned,
        answer,
    })
}

/// Writes the files that were asked for, and says so where people read.
fn finish(
    common: &CommonArgs,
    subject: &Subject<'_>,
    outcome: &Outcome,
    stop: &Stop,
) -> Result<(), Failure> {
    let said = files::write(&common.files, subject, outcome, &stop.flag)?;
    match said.is_empty() || common.effort.json {
        true => Ok(()),
        false => crate::print(&format!("\n{said}")),
    }
}

fn show(subject: &Subject<'_>, outcome: &Outcome) -> Result<(), Failure> {
    let text = match subject.effort.json {
        true => output::json(subject, outcome),
        false => output::text(subject, outcome),
    };
    crate::print(&text)
}

/// Sources that are named at most where one is not found.
const NAMED: usize = 12;

/// What to leave out by name.
fn named(effort: &EffortArgs, model: &NoiseModel) -> Result<Vec<LeftOut>, Failure> {
    let one = |pattern: &Pattern| {
        let numbers = pattern.chosen(model);
        if numbers.is_empty() {
            let names: BTreeSet<String> = model.sources.iter().map(|s| s.label()).collect();
            let what = format!("leave out `{}`: no source is called so", pattern.as_str());
            let some: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
            let next = match names.len() {
                0 => "give noise with --noise".to_owned(),
                n if n > NAMED => format!("there are {} and {} more", some.join(", "), n - NAMED),
                _ => format!("there are {}", some.join(", ")),
            };
            return Err(Failure::new(Exit::Usage, what).with_next(next));
        }
        Ok((pattern.as_str().to_owned(), numbers))
    };
    effort.without.iter().map(one).collect()
}

/// Adds the sources that make up most of a path, so many of them less those that are there.
fn add_largest(chosen: &mut Vec<LeftOut>, path: &PathShares, count: usize, model: &NoiseModel) {
    // What is called alike is one source to people: what is regular in it and what is not, on this CPU and on that.
    let mut called: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (number, source) in model.sources.iter().enumerate() {
        called.entry(source.label()).or_default().push(number);
    }
    for part in path.noise.iter().take(count) {
        let label = model.sources.get(part.source as usize).map(|s| s.label());
        let Some(one) = label.and_then(|l| called.remove_entry(&l)) else {
            continue;
        };
        if chosen.iter().all(|(_, numbers)| *numbers != one.1) {
            chosen.push(one);
        }
    }
}

fn bar(length: u64) -> ProgressBar {
    let bar = ProgressBar::new(length);
    let form = "simulating [{bar:40}] {percent:>3} %, {elapsed}";
    if let Ok(style) = ProgressStyle::with_template(form) {
        bar.set_style(style.progress_chars("=> "));
    }
    // A single replication may take minutes.
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

fn not_answered(ranks: u32, error: QuestionError) -> Failure {
    let (exit, next) = match error {
        QuestionError::Stopped => (Exit::Other, "start it again"),
        QuestionError::Program(_) | QuestionError::Lockstep(_) | QuestionError::NoTime => {
            (Exit::Usage, "choose an algorithm and times that can be")
        }
        QuestionError::Noise(_) => (Exit::Usage, "correct that source"),
    };
    Failure::new(exit, format!("simulate {ranks} ranks: {error}")).with_next(next)
}
