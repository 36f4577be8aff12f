//! Writes the page and the bundle of a simulation.

use super::lists::RankNumbers;
use super::options::FileArgs;
use super::output::{by_clock, cpus_per_node, stolen};
use super::plan::extent;
use super::question::{Outcome, RISES, Row, Subject};
use crate::exit::{Exit, Failure};
use crate::files::{refuse_place, write_new};
use idlewave_noise::{Clock, NoiseModel};
use idlewave_report::{
    PathSource, SimulatedPath, SimulationPoint, SimulationSheet, SourceCost, simulation_page,
};
use idlewave_run::findings::Estimate;
use idlewave_session::Utc;
use idlewave_simulate::bundle::{BundleError, MOST_RANK_STEPS, MOST_RANKS, Run, write_run};
use idlewave_simulate::question::Interval;
use idlewave_units::counted;
use std::sync::atomic::AtomicBool;

impl FileArgs {
    /// Refuses existing targets and simulations that cannot be written as a run, before the
    /// simulation rather than after it.
    pub fn refuse(&self, ranks: &RankNumbers, model: &NoiseModel) -> Result<(), Failure> {
        if let Some(path) = &self.report {
            refuse_place(path, "--report")?;
        }
        let Some(path) = &self.output else {
            return Ok(());
        };
        if model.clock == Clock::Work {
            return Err(not_written(BundleError::Exposure));
        }
        if let Some(&last) = ranks.0.last().filter(|&&last| last > MOST_RANKS) {
            return Err(not_written(BundleError::Ranks(last)));
        }
        if self.report.as_ref() == Some(path) {
            let what = format!("write run and page to {}", path.display());
            return Err(Failure::new(Exit::Usage, what).with_next("give two names"));
        }
        let empty = std::fs::read_dir(path).is_ok_and(|entries| entries.count() == 0);
        match path.exists() {
            false => refuse_place(path, "-o"),
            true if empty => Ok(()),
            true => Err(not_written(BundleError::Exists(path.clone()))),
        }
    }
}

/// Writes the requested files; returns the lines to print about them.
pub fn write(
    args: &FileArgs,
    subject: &Subject<'_>,
    outcome: &Outcome,
    stop: &AtomicBool,
) -> Result<String, Failure> {
    let mut said = String::new();
    if let Some(path) = &args.report {
        let page = simulation_page(&sheet(subject, outcome));
        write_new(path, "--report", |out| out.write_all(page.as_bytes()))?;
        said.push_str(&format!("report: {}\n", path.display()));
    }
    if let (Some(path), Some(row)) = (&args.output, outcome.rows.last()) {
        let fits = MOST_RANK_STEPS / u64::from(row.at.point.ranks);
        let extent = extent(subject.effort, &row.at.point);
        let steps = (extent.warm_up + extent.steps).min(fits.max(1));
        let delays: Vec<_> = subject.delay.into_iter().collect();
        let run = Run {
            program: &row.at.point.program,
            model: subject.model,
            seed: subject.effort.seed,
            replication: 0,
            without: &[],
            delays: &delays,
            steps,
            command: &std::env::args().collect::<Vec<_>>(),
            started: &Utc::now().rfc3339(),
        };
        write_run(path, &run, stop).map_err(not_written)?;
        said.push_str(&format!(
            "run of {steps}, replication 0: {}\n  idlewave report {0} writes its page\n",
            path.display(),
            steps = counted(steps, "step")
        ));
    }
    Ok(said)
}

fn not_written(error: BundleError) -> Failure {
    let (exit, next) = match error {
        BundleError::Exists(_) => (Exit::Io, "choose another name with -o, or remove it"),
        BundleError::Io { .. } | BundleError::Run(_) => {
            (Exit::Io, "choose a writable place with -o")
        }
        BundleError::Interrupted => (Exit::Other, "start it again"),
        _ => (Exit::Usage, "change that, or omit -o"),
    };
    Failure::new(exit, format!("write a run: {error}")).with_next(next)
}

fn sheet(subject: &Subject<'_>, outcome: &Outcome) -> SimulationSheet {
    let model = subject.model;
    let taken = stolen(model);
    let rows = outcome.rows.iter().chain(&outcome.deep);
    let points: Vec<SimulationPoint> = rows.map(|row| point(row, taken)).collect();
    let path = outcome.path.as_ref().map(|path| {
        let estimate = |interval: &Interval| estimate(interval, path.replications);
        let noise = path.noise.iter().map(|n| {
            let source = model.sources.get(n.source as usize);
            PathSource {
                kind: source.map(|s| s.kind),
                name: source.map_or("one-off delay".to_owned(), |s| s.name.clone()),
                share: estimate(&n.share),
            }
        });
        SimulatedPath {
            point: points.len() - 1,
            work: estimate(&path.work),
            communication: estimate(&path.communication),
            noise: noise.collect(),
        }
    });
    let mut details = vec![format!(
        "sources of noise: {}, {}; {}",
        model.sources.len(),
        by_clock(model),
        cpus_per_node(model)
    )];
    if subject.noise.cosched {
        details.push("co-scheduled: every event strikes all CPUs at the same moment".to_owned());
    }
    if let Some(cpus) = subject.noise.quiet_cpu {
        details.push(format!(
            "{cpus} quiet CPU of each node takes the noise that can be moved"
        ));
    }
    SimulationSheet {
        what: subject.what.clone(),
        details,
        command: std::env::args().collect(),
        idlewave: env!("CARGO_PKG_VERSION").to_owned(),
        seed: subject.effort.seed,
        points,
        path,
    }
}

fn point(row: &Row, taken: Option<f64>) -> SimulationPoint {
    let runs = row.answer.replications;
    let without = row.answer.without.iter().map(|w| SourceCost {
        name: w.name.clone(),
        left: estimate(&w.slowdown, runs),
        saved: estimate(&w.saved, runs),
    });
    let mut without: Vec<SourceCost> = without.collect();
    without.sort_by(|a, b| b.saved.value.total_cmp(&a.saved.value));
    let slowdown = estimate(&row.answer.slowdown, runs);
    let amplification = taken.filter(|t| *t > 0.0).map(|taken| Estimate {
        value: slowdown.value / taken,
        low: slowdown.low / taken,
        high: slowdown.high / taken,
        ..slowdown.clone()
    });
    SimulationPoint {
        layout: row
            .at
            .point
            .dims
            .map_or("all".to_owned(), |dims| format!("{dims}D")),
        ranks: u64::from(row.at.point.ranks),
        granularity_ns: row.at.point.grain.get(),
        quiet_step_ns: row.answer.quiet_step_ns,
        slowdown,
        amplification,
        without,
        precise: row.answer.precise,
        still_rises: row.answer.still_rises(RISES),
    }
}

fn estimate(interval: &Interval, replications: u32) -> Estimate {
    Estimate {
        value: interval.mean,
        low: interval.low,
        high: interval.high,
        n: u64::from(replications),
        method: "mean over replications, Student's t, 95 %".to_owned(),
    }
}
