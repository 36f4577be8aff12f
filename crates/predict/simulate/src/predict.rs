//! Predicts what a noise model costs at scale.

use crate::budget::Budget;
use crate::bulk::Program;
use crate::curve::{Curves, Point};
use crate::question::{Answer, Interval, QuestionError};
use crate::rate_law;
use crate::thin::thinned;
use crate::{QuietStep, SimulateError, text};
use idlewave_noise::NoiseModel;
use idlewave_run::SourceKind;
use idlewave_run::findings::{
    Curve, CurvePoint, Estimate, GranularityCurve, Prediction, PredictionCheck, RatePoint,
    Topology, WhatIf,
};
use idlewave_units::Nanos;
use rayon::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Most sources that are removed one by one.
pub const MOST_REMOVED: usize = 3;
/// Granularities of the curves over granularity, in microseconds.
const GRANULARITIES_US: [u64; 9] = [10, 50, 100, 500, 1_000, 5_000, 10_000, 50_000, 100_000];

/// What to predict besides the curves with all sources.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PredictConfig {
    /// Seed of the random numbers: the same seed and model give the same prediction, byte for byte.
    pub seed: u64,
    /// Sources to remove one by one, worst first, at most [`MOST_REMOVED`].
    pub remove: Vec<(SourceKind, String)>,
    /// Measured runs with this noise, to be predicted as well.
    pub measured: Vec<MeasuredRun>,
}

/// A measured lockstep run.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredRun {
    /// Its name in the findings.
    pub name: String,
    /// What its ranks did in a step, with messages as slow as they were.
    pub program: Program,
    /// Its undisturbed step with messages as fast as they ever were, above 0.
    pub step: Nanos,
    /// Measured slow-down: mean step over undisturbed step, minus 1.
    pub slowdown: Estimate,
}

/// Predicts slow-down against ranks (64 to 1,000,000, near-cubic tori), without each source to be
/// removed, against granularity, against the rate of the noise, and for the measured runs.
///
/// `effort` above 0 multiplies the budget of work, which is about 15 s of one core of 2023.
/// `progress` is called on the calling thread with the share done, from 0 to 1: always at the end,
/// and while the work runs unless that thread belongs to a rayon pool. The work runs on the current
/// rayon pool; the number of its threads changes no result.
///
/// # Errors
/// No work, an invalid model, more than [`MOST_REMOVED`] sources to remove, a measured run
/// that cannot be simulated, so many events that not even 64 ranks can be simulated, or `stop`
/// became true.
pub fn predict(
    model: &NoiseModel,
    step: &QuietStep,
    config: &PredictConfig,
    effort: f64,
    stop: &AtomicBool,
    progress: &dyn Fn(f64),
) -> Result<Prediction, SimulateError> {
    if step.work == Nanos::ZERO {
        return Err(SimulateError::NoWork);
    }
    if config.remove.len() > MOST_REMOVED {
        return Err(SimulateError::TooManyRemoved {
            asked: config.remove.len(),
            limit: MOST_REMOVED,
        });
    }
    model.check().map_err(QuestionError::from)?;
    progress(0.0);
    let mut caveats = text::caveats(model, step);
    let removed = removed(model, config, &mut caveats);
    let (played, random) = thinned(model, &removed);
    caveats.extend(text::taken_as_random(model, &random));
    let done = AtomicU64::new(0);
    let curves = Curves {
        model: &played,
        removed: &removed,
        seed: config.seed,
        budget: Budget::of(effort),
        stop,
        done: &done,
    };
    let jobs: Vec<Job<'_>> = jobs(step, config);
    let work = || {
        let results: Vec<Result<Done, QuestionError>> = jobs
            .par_iter()
            .with_max_len(1)
            .map(|job| job.run(&curves))
            .collect();
        results.into_iter().collect::<Result<Vec<_>, _>>()
    };
    let results = with_progress(work, &done, jobs.len() as u64, progress)?;
    let mut out = Prediction {
        granularity: step.work,
        method: String::new(),
        caveats,
        curves: Vec::new(),
        without: Vec::new(),
        by_granularity: Vec::new(),
        by_rate: None,
        checks: Vec::new(),
    };
    let mut all = Vec::new();
    let mut grains: Vec<GranularityCurve> = Vec::new();
    let mut rates = Vec::new();
    for result in results {
        match result {
            Done::Curve(topology, points) => all.push((topology, points)),
            Done::Grain(_, _, None) => {}
            Done::Grain(topology, work, Some(point)) => {
                let one = (work, estimate(&point.answer.slowdown, &point));
                match grains.iter_mut().find(|g| g.topology == topology) {
                    Some(curve) => curve.points.push(one),
                    None => grains.push(GranularityCurve {
                        topology,
                        ranks: point.ranks,
                        points: vec![one],
                    }),
                }
            }
            Done::Rate(point) => rates.extend(point),
            Done::Check(_, None) => {}
            Done::Check(i, Some(point)) => out.checks.push(PredictionCheck {
                name: config.measured[i].name.clone(),
                ranks: config.measured[i].program.ranks,
                measured: config.measured[i].slowdown.value,
                predicted: estimate(&slower_than(config.measured[i].step, &point), &point),
            }),
        }
    }
    if all.iter().any(|(_, points)| points.is_empty()) {
        return Err(SimulateError::TooManyEvents);
    }
    text::curves(&all, &mut out.caveats);
    out.method = text::method(config.seed, &all);
    out.curves = all.iter().map(|(t, p)| curve(*t, p, slowdown)).collect();
    out.without = (removed.iter().enumerate())
        .map(|(i, (kind, name, _))| WhatIf {
            kind: *kind,
            name: name.clone(),
            curves: all.iter().map(|(t, p)| curve(*t, p, left(i))).collect(),
            saved: all
                .iter()
                .map(|(t, p)| {
                    let last = p.iter().rposition(|p| !p.answer.without.is_empty());
                    curve(*t, last.map_or(&[], |l| &p[l..=l]), saved(i))
                })
                .collect(),
        })
        .collect();
    out.by_granularity = grains;
    out.by_rate = rate_law::law(rates);
    Ok(out)
}

/// Sources of the model to leave out, with their numbers in it.
fn removed(
    model: &NoiseModel,
    config: &PredictConfig,
    caveats: &mut Vec<String>,
) -> Vec<(SourceKind, String, Vec<usize>)> {
    let mut found = Vec::new();
    for (kind, name) in &config.remove {
        let numbers: Vec<usize> = (0..model.sources.len())
            .filter(|&i| model.sources[i].kind == *kind && model.sources[i].name == *name)
            .collect();
        match numbers.is_empty() {
            true => caveats.push(format!(
                "{name}: no events of its own in the model of noise, so nothing to remove"
            )),
            false => found.push((*kind, name.clone(), numbers)),
        }
    }
    found
}

/// An independent part of the computation.
enum Job<'a> {
    Curve(Topology, QuietStep),
    Grain(Topology, QuietStep),
    Rate(QuietStep, i32),
    Check(usize, &'a MeasuredRun),
}

enum Done {
    Curve(Topology, Vec<Point>),
    Grain(Topology, Nanos, Option<Point>),
    Rate(Option<RatePoint>),
    Check(usize, Option<Point>),
}

/// The jobs, costliest first.
fn jobs<'a>(step: &QuietStep, config: &'a PredictConfig) -> Vec<Job<'a>> {
    let curves = Topology::ALL
        .into_iter()
        .rev()
        .map(|t| Job::Curve(t, *step));
    let checks = config.measured.iter().enumerate();
    let checks = checks.map(|(i, run)| Job::Check(i, run));
    let grains = [Topology::Torus3d, Topology::Barrier]
        .into_iter()
        .flat_map(|t| {
            GRANULARITIES_US.map(|us| {
                let work = Nanos::from_micros(us);
                Job::Grain(t, QuietStep { work, ..*step })
            })
        });
    let mut jobs: Vec<Job<'_>> = curves.chain(checks).collect();
    jobs.extend(grains);
    jobs.extend(rate_law::POWERS.map(|power| Job::Rate(*step, power)));
    jobs
}

impl Job<'_> {
    fn run(&self, curves: &Curves<'_>) -> Result<Done, QuestionError> {
        let done = match self {
            Job::Curve(topology, step) => Done::Curve(*topology, curves.curve(*topology, step)?),
            Job::Grain(topology, step) => {
                Done::Grain(*topology, step.work, curves.grain(*topology, step)?)
            }
            Job::Rate(step, power) => Done::Rate(rate_law::point(curves, step, *power)?),
            Job::Check(i, run) => Done::Check(*i, curves.check(&run.program)?),
        };
        // Relaxed: only for display.
        curves.done.fetch_add(1, Ordering::Relaxed);
        Ok(done)
    }
}

/// Does the work on other threads while the calling thread reports progress.
fn with_progress<T: Send>(
    work: impl FnOnce() -> T + Send,
    done: &AtomicU64,
    jobs: u64,
    progress: &dyn Fn(f64),
) -> T {
    let result = if rayon::current_thread_index().is_some() {
        work()
    } else {
        std::thread::scope(|scope| {
            let worker = scope.spawn(work);
            while !worker.is_finished() {
                progress(done.load(Ordering::Relaxed) as f64 / jobs.max(1) as f64);
                std::thread::sleep(Duration::from_millis(20));
            }
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    };
    progress(1.0);
    result
}

fn slowdown(answer: &Answer) -> Option<&Interval> {
    Some(&answer.slowdown)
}

fn left(removed: usize) -> impl Fn(&Answer) -> Option<&Interval> {
    move |answer| answer.without.get(removed).map(|w| &w.slowdown)
}

fn saved(removed: usize) -> impl Fn(&Answer) -> Option<&Interval> {
    move |answer| answer.without.get(removed).map(|w| &w.saved)
}

fn curve(topology: Topology, points: &[Point], of: impl Fn(&Answer) -> Option<&Interval>) -> Curve {
    let points = points.iter().filter_map(|point| {
        Some(CurvePoint {
            ranks: point.ranks,
            slowdown: estimate(of(&point.answer)?, point),
        })
    });
    Curve {
        topology,
        points: points.collect(),
    }
}

/// Mean step over an undisturbed one, less 1.
fn slower_than(step: Nanos, point: &Point) -> Interval {
    let of = |ns: f64| ns / step.as_f64() - 1.0;
    let ns = &point.answer.step_ns;
    Interval {
        mean: of(ns.mean),
        low: of(ns.low),
        high: of(ns.high),
    }
}

fn estimate(interval: &Interval, point: &Point) -> Estimate {
    Estimate {
        value: interval.mean,
        low: interval.low.max(interval.mean.min(0.0)),
        high: interval.high,
        n: u64::from(point.answer.replications),
        method: format!(
            "mean over replications of {} steps, Student's t, 95 %",
            point.steps
        ),
    }
}
