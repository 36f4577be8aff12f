//! From a measured noise profile to what it costs at scale.

use crate::noise::NoiseField;
use crate::plan::Plan;
use crate::steady::{Delay, Meter, Rung, check_rates, climb};
use crate::{SimulateError, text};
use idlewave_run::findings::{
    Curve, CurvePoint, Estimate, GranularityCurve, Prediction, PredictionCheck, Topology, WhatIf,
};
use idlewave_run::{Coupling, NoiseProfile, SourceKind};
use idlewave_units::Nanos;
use rayon::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Most sources that are removed one by one.
pub const MOST_REMOVED: usize = 3;
/// Granularities of the curves over granularity, in microseconds.
const GRANULARITIES_US: [u64; 9] = [10, 50, 100, 500, 1_000, 5_000, 10_000, 50_000, 100_000];

/// What to predict beside the curves with all sources.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PredictConfig {
    /// Chooses the random numbers: the same seed and profile give the same prediction, byte by byte.
    pub seed: u64,
    /// Sources to remove one by one, worst first, at most [`MOST_REMOVED`].
    pub remove: Vec<(SourceKind, String)>,
    /// Runs that were measured with this noise, to be predicted as well.
    pub measured: Vec<MeasuredRun>,
}

/// A measured lockstep run.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredRun {
    /// What it is called in the findings.
    pub name: String,
    /// How its ranks waited for each other.
    pub coupling: Coupling,
    /// Number of ranks, from 1 on.
    pub ranks: u32,
    /// Undisturbed computation of one iteration, above 0.
    pub work: Nanos,
    /// Measured slow-down: mean step over undisturbed step, less 1.
    pub slowdown: Estimate,
}

/// A ladder to climb, and which results it fills.
struct Job {
    topology: Topology,
    /// Without `config.remove[i]`; `None` with all sources.
    field: NoiseField,
    rungs: Vec<Rung>,
    /// Undisturbed step in nanoseconds.
    step_ns: f64,
}

/// The jobs in the order in which their results are taken.
#[derive(Default)]
struct Jobs(Vec<Job>);

impl Jobs {
    /// Returns the place of its results.
    fn add(&mut self, job: Job) -> usize {
        self.0.push(job);
        self.0.len() - 1
    }
}

/// Predicts slow-down against ranks (64 to 1,000,000, near-cubic tori), without each source to be removed, against
/// granularity, and of the measured runs.
///
/// `progress` is called with the share done, rising from 0 to 1, on the calling thread; while it runs only if that
/// is no thread of a rayon pool, at the end in any case. Work is shared by the current rayon pool; the number of its
/// threads changes no result.
///
/// # Errors
/// No work, a rate that is negative or not finite, too many events for the smallest number of ranks, more than
/// [`MOST_REMOVED`] sources to remove, a measured run without ranks or work, or `stop` became true.
pub fn predict(
    profile: &NoiseProfile,
    config: &PredictConfig,
    stop: &AtomicBool,
    progress: &dyn Fn(f64),
) -> Result<Prediction, SimulateError> {
    predict_with_effort(profile, config, 1.0, stop, progress)
}

/// [`predict`] with more or fewer simulated steps: `effort` above 0 multiplies its budget of about 15 s of one core of 2023.
///
/// # Errors
/// As [`predict`]; with a small effort fewer events are too many.
pub fn predict_with_effort(
    profile: &NoiseProfile,
    config: &PredictConfig,
    effort: f64,
    stop: &AtomicBool,
    progress: &dyn Fn(f64),
) -> Result<Prediction, SimulateError> {
    check(profile, config)?;
    progress(0.0);
    let base = Base {
        plan: Plan { effort },
        profile,
        config,
    };
    let mut jobs = Jobs::default();
    let mut caveats = text::caveats(profile);
    let all = base.field(profile.work, None);
    let curves: Vec<(Topology, usize)> = Topology::ALL
        .into_iter()
        .map(|t| {
            (
                t,
                jobs.add(base.job(t, all.clone(), base.plan.curve(t, &all))),
            )
        })
        .collect();
    for (topology, job) in &curves {
        text::missing_points(*topology, jobs.0[*job].rungs.len(), &all, &mut caveats);
    }
    if curves.iter().any(|(_, job)| jobs.0[*job].rungs.is_empty()) {
        return Err(SimulateError::TooManyEvents {
            per_step: all.events_per_step(),
        });
    }
    let mut without = Vec::new();
    for (kind, name) in &config.remove {
        let found = profile
            .sources
            .iter()
            .position(|s| s.kind == *kind && s.name == *name);
        let Some(index) = found else {
            caveats.push(format!(
                "{name}: no events of its own in the profile, so nothing to remove"
            ));
            continue;
        };
        let field = base.field(profile.work, Some(index));
        // As many steps as with all sources: the difference is then due to the source alone.
        let jobs: Vec<(Topology, usize)> = curves
            .iter()
            .map(|&(t, job)| {
                let rungs = jobs.0[job].rungs.clone();
                (t, jobs.add(base.job(t, field.clone(), rungs)))
            })
            .collect();
        without.push((*kind, name.clone(), jobs));
    }
    let grains = base.granularities(&mut jobs, &mut caveats);
    let checks: Vec<usize> = config
        .measured
        .iter()
        .map(|run| base.check(run, &mut jobs))
        .collect::<Result<_, _>>()?;

    let results = run(&jobs.0, stop, progress)?;
    text::few_events(
        profile,
        &curves,
        &|job| &jobs.0[job].rungs[..],
        &mut caveats,
    );
    let curve = |&(topology, job): &(Topology, usize)| Curve {
        topology,
        points: jobs.0[job]
            .rungs
            .iter()
            .zip(&results[job])
            .map(|(rung, delay)| CurvePoint {
                ranks: rung.ranks,
                slowdown: estimate(delay, &jobs.0[job]),
            })
            .collect(),
    };
    let last = |job: usize| results[job].last().map(|d| estimate(d, &jobs.0[job]));
    Ok(Prediction {
        granularity: profile.work,
        method: text::method(config.seed, &curves, &|job| &jobs.0[job].rungs[..]),
        caveats,
        curves: curves.iter().map(curve).collect(),
        without: without
            .into_iter()
            .map(|(kind, name, jobs)| WhatIf {
                kind,
                name,
                curves: jobs.iter().map(curve).collect(),
            })
            .collect(),
        by_granularity: grains
            .into_iter()
            .map(|(topology, ranks, points)| GranularityCurve {
                topology,
                ranks,
                points: points
                    .into_iter()
                    .filter_map(|(g, job)| Some((g, last(job)?)))
                    .collect(),
            })
            .collect(),
        checks: config
            .measured
            .iter()
            .zip(checks)
            .filter_map(|(run, job)| {
                Some(PredictionCheck {
                    name: run.name.clone(),
                    ranks: run.ranks,
                    measured: run.slowdown.value,
                    predicted: last(job)?,
                })
            })
            .collect(),
    })
}

fn check(profile: &NoiseProfile, config: &PredictConfig) -> Result<(), SimulateError> {
    check_rates(&profile.sources)?;
    if profile.work == Nanos::ZERO {
        return Err(SimulateError::NoWork);
    }
    if config.remove.len() > MOST_REMOVED {
        return Err(SimulateError::TooManyRemoved {
            asked: config.remove.len(),
            limit: MOST_REMOVED,
        });
    }
    match config
        .measured
        .iter()
        .find(|run| run.ranks == 0 || run.work == Nanos::ZERO)
    {
        Some(run) => Err(SimulateError::BadRun {
            name: run.name.clone(),
            ranks: run.ranks,
            work: run.work,
        }),
        None => Ok(()),
    }
}

struct Base<'a> {
    plan: Plan,
    profile: &'a NoiseProfile,
    config: &'a PredictConfig,
}

impl Base<'_> {
    fn field(&self, work: Nanos, without: Option<usize>) -> NoiseField {
        NoiseField::new(&self.profile.sources, work, self.config.seed, |i| {
            Some(i) != without
        })
    }

    fn job(&self, topology: Topology, field: NoiseField, rungs: Vec<Rung>) -> Job {
        self.job_at(self.profile.work, topology, field, rungs)
    }

    fn job_at(&self, work: Nanos, topology: Topology, field: NoiseField, rungs: Vec<Rung>) -> Job {
        let beyond = match topology {
            Topology::Barrier => self.profile.barrier,
            _ => self.profile.exchange,
        };
        let step_ns = work.as_f64() + beyond.map_or(0.0, Nanos::as_f64);
        Job {
            topology,
            field,
            rungs,
            step_ns,
        }
    }

    /// Curves over granularity: topology, ranks, and the job of every granularity.
    #[allow(clippy::type_complexity)]
    fn granularities(
        &self,
        jobs: &mut Jobs,
        caveats: &mut Vec<String>,
    ) -> Vec<(Topology, u64, Vec<(Nanos, usize)>)> {
        let works = GRANULARITIES_US.map(Nanos::from_micros);
        let fields = works.map(|work| self.field(work, None));
        let mut curves = Vec::new();
        for topology in [Topology::Torus3d, Topology::Barrier] {
            let Some((ranks, kept)) = self.plan.grain_ranks(topology, &fields) else {
                caveats.push(text::no_granularity(topology));
                continue;
            };
            caveats.push(text::granularity_ranks(topology, ranks, works[kept - 1]));
            let points = works[..kept]
                .iter()
                .zip(&fields)
                .filter_map(|(&work, field)| {
                    let rungs = self.plan.grain(topology, ranks, field)?;
                    Some((
                        work,
                        jobs.add(self.job_at(work, topology, field.clone(), rungs)),
                    ))
                });
            curves.push((topology, ranks, points.collect()));
        }
        curves
    }

    fn check(&self, run: &MeasuredRun, jobs: &mut Jobs) -> Result<usize, SimulateError> {
        let topology = match run.coupling {
            Coupling::Neighbours => Topology::Ring1d,
            // Rank 0 of a reduce waits for all as well; the others do not, so that this is an upper bound.
            Coupling::Barrier | Coupling::Allreduce | Coupling::Reduce | Coupling::Alltoall => {
                Topology::Barrier
            }
        };
        let field = self.field(run.work, None);
        let rung = self
            .plan
            .check(topology, u64::from(run.ranks), &field)
            .ok_or(SimulateError::TooManyEvents {
                per_step: field.events_per_step(),
            })?;
        Ok(jobs.add(self.job_at(run.work, topology, field, vec![rung])))
    }
}

/// Climbs all ladders, the costliest first, and returns the results in the order of the jobs.
fn run(
    jobs: &[Job],
    stop: &AtomicBool,
    progress: &dyn Fn(f64),
) -> Result<Vec<Vec<Delay>>, SimulateError> {
    let meter = Meter {
        stop,
        done: AtomicU64::new(0),
    };
    let cost = |job: &Job| job.rungs.iter().map(|r| r.cost).sum::<u64>();
    let total = jobs.iter().map(cost).sum::<u64>().max(1);
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(cost(&jobs[i])), i));
    let work = || {
        let mut results: Vec<(usize, Result<Vec<Delay>, SimulateError>)> = order
            .par_iter()
            .with_max_len(1)
            .map(|&i| {
                (
                    i,
                    climb(jobs[i].topology, &jobs[i].rungs, &jobs[i].field, &meter),
                )
            })
            .collect();
        results.sort_by_key(|(i, _)| *i);
        results
            .into_iter()
            .map(|(_, r)| r)
            .collect::<Result<Vec<_>, _>>()
    };
    let results = if rayon::current_thread_index().is_some() {
        work()
    } else {
        std::thread::scope(|scope| {
            let worker = scope.spawn(work);
            while !worker.is_finished() {
                // Relaxed: a figure for the eye.
                let done = meter.done.load(Ordering::Relaxed);
                progress((done as f64 / total as f64).min(1.0));
                std::thread::sleep(Duration::from_millis(20));
            }
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }?;
    progress(1.0);
    Ok(results)
}

fn estimate(delay: &Delay, job: &Job) -> Estimate {
    let value = delay.mean_ns / job.step_ns;
    let half = delay.half_width_ns / job.step_ns;
    Estimate {
        value,
        low: (value - half).max(0.0),
        high: value + half,
        n: delay.steps,
        method: "mean over simulated steps, block means, 95 %".into(),
    }
}
