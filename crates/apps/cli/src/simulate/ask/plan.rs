//! Turns options into programs: every combination of ranks, dimensions and granularity is a point.

use super::options::{
    CollectiveArgs, CommonArgs, EffortArgs, NoiseArgs, NoiseChoice, StencilArgs, Waiting,
};
use crate::exit::{Exit, Failure};
use crate::files::{name, read_text};
use idlewave_noise::{Arrivals, Clock, Lengths, ModelError, NoiseModel, Source};
use idlewave_session::Stop;
use idlewave_simulate::Shape;
use idlewave_simulate::Stencil;
use idlewave_simulate::Work;
use idlewave_simulate::bulk::{Phase, Program, Wait};
use idlewave_simulate::goal::Parameters;
use idlewave_simulate::question::Extent;
use idlewave_units::Nanos;
use idlewave_units::counted;
use std::path::Path;

/// One combination of ranks, dimensions and granularity.
pub struct Point {
    pub ranks: u32,
    pub dims: Option<u8>,
    pub grain: Nanos,
    pub program: Program,
    /// Steps to average by default, unless they are too many.
    pub steps: u64,
    /// Whether the answer is for ranks in their long-run state, rather than for a run from its
    /// start.
    pub settles: bool,
}

/// Ranks times parts of a step in one replication, by default: a fraction of a second.
const PARTS: u64 = 4_000_000;
/// The smallest default number of steps, used with many ranks.
const LEAST_STEPS: u64 = 100;
/// The default number of steps otherwise.
const STEPS: u64 = 2_000;

/// The most ranks for analysing single sources and the critical path: more change little and cost
/// much.
const DEEP_RANKS: u32 = 16_384;

/// The simulations to run.
pub struct Plan {
    /// At least one, in the order of the output.
    pub points: Vec<Point>,
    /// The point at which single sources and the critical path are analysed: the last point, or the
    /// same with fewer ranks.
    pub deep: Point,
}

/// All ranks, and the requested number of steps, or a small default.
pub fn extent(effort: &EffortArgs, point: &Point) -> Extent {
    let program = &point.program;
    // An impossible program is refused when it is run.
    let parts = program.operations().unwrap_or(1).max(1) * u64::from(program.ranks);
    let fit = (PARTS / parts).max(LEAST_STEPS);
    let steps = effort.steps.unwrap_or(point.steps.min(fit));
    Extent {
        smaller: None,
        steps,
        warm_up: effort.warm_up.unwrap_or(steps / 3),
    }
}

/// The points of a stencil.
pub fn stencil(args: &StencilArgs) -> Result<Plan, Failure> {
    points(
        &args.common,
        &args.dims.iter().map(|&d| Some(d)).collect::<Vec<_>>(),
        |ranks, dims, work| {
            let shape = match dims {
                Some(2) => Shape::plane(ranks as usize),
                Some(3) => Shape::cuboid(ranks as usize),
                _ => Shape {
                    x: ranks as usize,
                    y: 1,
                    z: 1,
                },
            };
            let stencil = Stencil {
                shape,
                reach: args.reach,
                periodic: !args.open,
                one_sided: args.one_sided,
            };
            let exchange = |wait| Phase::Exchange {
                stencil,
                bytes: args.common.bytes,
                wait,
            };
            let mut phases = match args.wait {
                Waiting::All => vec![Phase::Compute(work), exchange(Wait::All)],
                Waiting::Blocking => vec![Phase::Compute(work), exchange(Wait::Blocking)],
                Waiting::Overlapped => vec![exchange(Wait::Overlapped(work))],
            };
            if let Some(comm) = args.comm.filter(|c| *c > Nanos::ZERO) {
                phases.push(Phase::Pause(comm.get()));
            }
            phases
        },
    )
}

/// The points of a collective operation.
pub fn collective(args: &CollectiveArgs) -> Result<Plan, Failure> {
    let algorithm = args
        .algorithm
        .unwrap_or_else(|| args.operation.algorithms()[0]);
    points(&args.common, &[None], |_, _, work| {
        vec![
            Phase::Compute(work),
            Phase::Collective {
                operation: args.operation,
                algorithm,
                bytes: args.common.bytes,
            },
        ]
    })
}

fn points(
    common: &CommonArgs,
    dims: &[Option<u8>],
    phases: impl Fn(u32, Option<u8>, Work) -> Vec<Phase>,
) -> Result<Plan, Failure> {
    let costs = common.costs.over(Parameters::FREE);
    let point = |ranks, dims, grain| -> Result<Point, Failure> {
        let work = work(common, ranks, grain)?;
        Ok(Point {
            ranks,
            dims,
            grain,
            program: Program {
                ranks,
                phases: phases(ranks, dims, work),
                costs,
            },
            steps: STEPS,
            settles: true,
        })
    };
    let mut points = Vec::new();
    let mut deep = None;
    for &dims in dims {
        for &grain in &common.granularity.0 {
            for &ranks in &common.ranks.0 {
                points.push(point(ranks, dims, grain)?);
                deep = Some((ranks.min(DEEP_RANKS), dims, grain));
            }
        }
    }
    // The lists of the command line have at least one value.
    let (ranks, dims, grain) = deep.unwrap_or((1, None, Nanos::from_micros(100)));
    // A slow rank may have a higher number: then analyse with all ranks.
    let ranks = match common.slow.iter().any(|s| s.rank >= ranks) {
        true => points.last().map_or(ranks, |p| p.ranks),
        false => ranks,
    };
    Ok(Plan {
        deep: point(ranks, dims, grain)?,
        points,
    })
}

/// The computation of every rank.
fn work(common: &CommonArgs, ranks: u32, grain: Nanos) -> Result<Work, Failure> {
    if let Some(slow) = common.slow.iter().find(|s| s.rank >= ranks) {
        let what = format!(
            "slow rank {} down: there are {ranks}",
            slow.rank,
            ranks = counted(ranks, "rank")
        );
        return Err(Failure::new(Exit::Usage, what).with_next("name a rank from 0"));
    }
    if common.spread == 0.0 && common.slow.is_empty() {
        return Ok(Work::Same(grain.get()));
    }
    let factor = |rank: u32| {
        let slow = common.slow.iter().rev().find(|s| s.rank == rank);
        let drawn = idlewave_noise::uniform(common.effort.seed, rank);
        slow.map_or(1.0, |s| s.factor) * (1.0 + common.spread / 100.0 * (2.0 * drawn - 1.0))
    };
    let each = (0..ranks).map(|rank| (grain.as_f64() * factor(rank)).round() as u64);
    Ok(Work::Each(each.collect()))
}

/// All requested noise, as one model.
pub fn model(noise: &NoiseArgs, seed: u64, stop: &Stop) -> Result<NoiseModel, Failure> {
    let changes = noise.cosched || noise.exposure || noise.quiet_cpu.is_some();
    if noise.noise.is_empty() && changes {
        let what = "change the noise: none was given";
        let next = "give it with --noise: a run, a model, or synthetic noise (poisson:10ms:50us)";
        return Err(Failure::new(Exit::Usage, what).with_next(next));
    }
    let mut model = NoiseModel::default();
    let mut clock = None;
    for choice in &noise.noise {
        match choice {
            NoiseChoice::Path(path) => {
                let read = read(path, seed, stop)?;
                if *clock.get_or_insert(read.clock) != read.clock && !noise.exposure {
                    let what = "add noise by exposure to noise by the wall clock";
                    let next = "give --exposure, or models of one clock";
                    return Err(Failure::new(Exit::Usage, what).with_next(next));
                }
                model.clock = read.clock;
                model.cpus_per_node = model.cpus_per_node.max(read.cpus_per_node);
                model.sources.extend(read.sources);
            }
            NoiseChoice::Periodic(period, length) => {
                let arrivals = Arrivals::Periodic {
                    period_ns: period.get(),
                    jitter_ns: 0,
                    phase_ns: None,
                };
                let name = format!("periodic:{period}:{length}");
                model.sources.push(made(name, arrivals, *length));
            }
            NoiseChoice::Poisson(gap, length) => {
                let arrivals = Arrivals::Poisson {
                    rate_per_s: 1e9 / gap.as_f64(),
                };
                let name = format!("poisson:{gap}:{length}");
                model.sources.push(made(name, arrivals, *length));
            }
        }
    }
    changed(model, noise)
}

/// Applies the requested changes to a model.
pub fn changed(mut model: NoiseModel, noise: &NoiseArgs) -> Result<NoiseModel, Failure> {
    if let Some(cpus) = noise.cpus_per_node {
        model.cpus_per_node = cpus;
    }
    if let Some(cpus) = noise.quiet_cpu {
        let nodes = model.cpus_per_node;
        model = model.with_quiet_cpus(cpus).ok_or_else(|| {
            let what =
                format!("keep {cpus} of {nodes} CPUs of a node quiet: none is left for ranks");
            Failure::new(Exit::Usage, what)
                .with_next("give the number of CPUs of a node with --cpus-per-node")
        })?;
    }
    if noise.cosched {
        model = model.coscheduled();
    }
    if noise.exposure {
        model.clock = Clock::Work;
    }
    let checked = model.check().map(|()| model);
    checked.map_err(|problem| {
        Failure::new(Exit::Usage, format!("use this noise: {problem}"))
            .with_next("give the source possible rates and lengths")
    })
}

fn made(name: String, arrivals: Arrivals, length: Nanos) -> Source {
    Source::task(
        name.replace(' ', ""),
        arrivals,
        Some(Lengths::Fixed { ns: length.get() }),
    )
}

/// The largest model file, in bytes: traces of some million events.
const MOST_BYTES: usize = 256 << 20;

/// Reads a model file, or fits a model to a run.
fn read(path: &Path, seed: u64, stop: &Stop) -> Result<NoiseModel, Failure> {
    if path.is_dir() {
        let fitted = crate::fit::of_run(path, seed, stop)?;
        crate::fit::warn(path, &fitted);
        return Ok(fitted.model);
    }
    let next = "give a run, a model file, periodic:PERIOD:LENGTH or poisson:MEAN-GAP:LENGTH";
    let text = read_text(path, MOST_BYTES, next, Some(stop))?;
    NoiseModel::read(&text).map_err(|error| {
        let next = match error {
            ModelError::Form(_) => "correct that line; docs/noise-model.md describes the format",
            ModelError::Problem(_) => "correct that source; docs/noise-model.md gives the ranges",
        };
        let what = format!("read {}: {error}", name(path));
        Failure::new(Exit::Bundle, what).with_next(next)
    })
}
