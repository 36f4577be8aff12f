//! Computes what noise costs at each point of a plan, and what removing sources would save.

use super::options::{CommonArgs, EffortArgs, NoiseArgs};
use super::plan::{self, Point};
use crate::exit::{Exit, Failure};
use idlewave_noise::{NoiseModel, Pattern};
use idlewave_simulate::bulk::OneOff;
use idlewave_simulate::question::{
    Answer, Effort, Extent, PathShares, Question, QuestionError, Wave, answer, wave,
};
use idlewave_units::counted;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Sources that are removed together, with their name.
type LeftOut = (String, Vec<usize>);

/// A point, and how long to simulate it.
pub struct Planned {
    pub point: Point,
    pub extent: Extent,
    /// Whether the long-run mean is wanted, rather than the mean of these steps.
    long_run: bool,
}

/// A point with its answer.
pub struct Row {
    pub at: Planned,
    pub answer: Answer,
}

/// All results.
pub struct Outcome {
    pub rows: Vec<Row>,
    /// The point at which single sources were removed, if it is not one of the rows.
    pub deep: Option<Row>,
    /// At that point: the parts of the critical path; `None` without noise.
    pub path: Option<PathShares>,
    /// At the last point: the idle wave, if a delay was requested.
    pub wave: Option<Wave>,
}

impl Outcome {
    /// The point at which single sources were removed.
    pub fn deep(&self) -> Option<&Row> {
        self.deep.as_ref().or(self.rows.last())
    }
}

/// What to simulate, and how.
pub struct Subject<'a> {
    pub what: String,
    pub noise: &'a NoiseArgs,
    pub effort: &'a EffortArgs,
    pub model: &'a NoiseModel,
    pub delay: Option<OneOff>,
    /// Whether messages cost nothing.
    pub free: bool,
}

/// The number of steps over which to follow an idle wave.
const WAVE_STEPS: u64 = 100;
/// The minimum number of replications.
const LEAST_REPLICATIONS: u32 = 4;
/// Steps still rise if those of the second half are longer by this share of the slow-down.
pub const RISES: f64 = 0.1;
/// Replications of the critical path.
const PATHS: u32 = 4;

impl<'a> Subject<'a> {
    pub fn of(what: String, common: &'a CommonArgs, model: &'a NoiseModel) -> Self {
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

/// Answers at every point, and analyses the deep point in detail.
pub fn ask(
    points: Vec<Point>,
    deep: Option<Point>,
    subject: &Subject<'_>,
    stop: &AtomicBool,
) -> Result<Outcome, Failure> {
    let Subject { effort, model, .. } = subject;
    for point in &points {
        if let Some(delay) = subject.delay.filter(|d| d.rank >= point.ranks) {
            let what = format!(
                "delay rank {}: there are {}",
                delay.rank,
                counted(point.ranks, "rank")
            );
            return Err(Failure::new(Exit::Usage, what).with_next("name a rank from 0"));
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
    // Sources are removed one by one at a single point only.
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
            let question = planned.short(subject);
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
        let question = row.at.short(subject);
        let wave = wave(&question, delay, WAVE_STEPS, effort.seed, stop);
        outcome.wave = Some(wave.map_err(|error| not_answered(row.at.point.ranks, error))?);
    }
    bar.finish_and_clear();
    Ok(outcome)
}

impl Planned {
    /// Chooses the number of steps if none was given: enough to reach the long-run mean, or nearly.
    fn settled(point: Point, subject: &Subject<'_>, stop: &AtomicBool) -> Result<Self, Failure> {
        let effort = subject.effort;
        let chosen = point.settles && effort.warm_up.is_none();
        let extent = match chosen && effort.steps.is_none() {
            true => {
                let tried = Effort {
                    // Use other random numbers than the average: choosing by the same ones would
                    // bias it.
                    seed: !effort.seed,
                    precision: 1.0,
                    ..spent(effort, LEAST_REPLICATIONS)
                };
                Extent::settled(&point.program, subject.model, &tried, stop)
                    .map_err(|error| not_answered(point.ranks, error))?
            }
            false => plan::extent(effort, &point),
        };
        Ok(Planned {
            point,
            extent,
            long_run: chosen,
        })
    }

    /// The question at this point.
    fn question<'a>(&'a self, subject: &Subject<'a>, without: &'a [LeftOut]) -> Question<'a> {
        let question = self
            .extent
            .question(&self.point.program, subject.model, without);
        Question {
            approach: question.approach.filter(|_| self.long_run),
            ..question
        }
    }

    /// The number of ranks simulated in place of all.
    pub fn simulated_ranks(&self) -> u32 {
        let smaller = self.extent.smaller.as_ref();
        smaller.map_or(self.point.ranks, |program| program.ranks)
    }

    /// The program itself over few steps, to follow its critical path or an idle wave.
    fn short<'a>(&'a self, subject: &Subject<'a>) -> Question<'a> {
        let extent = plan::extent(subject.effort, &self.point);
        Question {
            program: &self.point.program,
            model: subject.model,
            steps: extent.steps,
            warm_up: extent.warm_up,
            delays: &[],
            without: &[],
            approach: None,
        }
    }
}

/// The effort for an answer, with at most `most` replications.
fn spent(effort: &EffortArgs, most: u32) -> Effort {
    let most = most.min(effort.replications);
    Effort {
        seed: effort.seed,
        least: LEAST_REPLICATIONS.min(most),
        most,
        precision: effort.precision / 100.0,
    }
}

/// The answer at one point, number `at`.
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

/// The most sources listed when one is not found.
const NAMED: usize = 12;

/// The sources to remove, by name.
pub fn named(effort: &EffortArgs, model: &NoiseModel) -> Result<Vec<LeftOut>, Failure> {
    let one = |pattern: &Pattern| {
        let numbers = pattern.chosen(model);
        if numbers.is_empty() {
            let names: BTreeSet<String> = model.sources.iter().map(|s| s.label()).collect();
            let what = format!("leave out `{}`: no source has this name", pattern.as_str());
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

/// Adds up to `count` sources with the largest parts of a path, unless they are already there.
fn add_largest(chosen: &mut Vec<LeftOut>, path: &PathShares, count: usize, model: &NoiseModel) {
    // To the user, sources with the same name are one: the regular and irregular parts, on all
    // CPUs.
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
        QuestionError::Program(_)
        | QuestionError::Lockstep(_)
        | QuestionError::TooLong
        | QuestionError::NoTime => (
            Exit::Usage,
            "choose a possible algorithm and possible times",
        ),
        QuestionError::Noise(_) => (Exit::Usage, "correct that source"),
    };
    Failure::new(
        exit,
        format!("simulate {ranks}: {error}", ranks = counted(ranks, "rank")),
    )
    .with_next(next)
}
