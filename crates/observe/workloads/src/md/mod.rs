//! The Lennard-Jones run: molecular dynamics of a simple fluid, computed as in real parallel
//! programs.
//!
//! Every rank holds a box of a periodic system at density 0.5, in units of sigma, epsilon and the
//! mass of a particle. A step moves the particles (velocity Verlet, step 0.001), agrees with all
//! ranks on whether the list of close pairs still holds, exchanges particles near the sides of the
//! boxes and computes the forces (cut-off 2.5). For every step and rank, the run keeps the time of
//! the force computation separately, which involves no communication. Up to density fluctuations
//! all ranks do the same work in it, so its variation is that of the machine.
//!
//! The workload is that of H. Watanabe's study of hyper-threading at scale; there a rank has
//! 500,000 particles, or 50 lattice cells along each edge.

mod cells;
mod domain;
mod force;
mod grid;
mod halo;
mod kernel;
mod lattice;
mod particles;
mod rank;
#[cfg(test)]
mod tests;

use crate::crew::{self, Feed, Member, pass_all};
use crate::quanta::{CHUNKS, chunk_items};
use crate::recorder::channel;
use crate::{Sink, WorkloadError};
use idlewave_clock::{Calibration, with_source};
use idlewave_fabric::{Waiting, world};
use idlewave_run::spill::RecordKind;
use idlewave_units::{Cpu, Rank};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub use domain::{Energy, REACH, SKIN, STEP, TEMPERATURE};
pub use force::CUTOFF;
pub use kernel::Kernel;
pub use lattice::CELL;
pub use rank::{Done, Drift, Plan, Step, run as run_rank};

/// The shortest step that record buffers allow for: 256 particles per rank take about 100 us.
const SHORTEST_STEP: Duration = Duration::from_micros(50);

/// Edge of a rank's box, in lattice cells, that holds about this many particles: the closest one
/// that is wide enough.
pub fn cells_for(particles: u64) -> u32 {
    let edge = (particles as f64 / 4.0).cbrt().round() as u32;
    edge.max((REACH / CELL).ceil() as u32)
}

/// Particles in a box with this edge.
pub fn particles_in(cells: u32) -> u64 {
    4 * u64::from(cells).pow(3)
}

/// What to run, with ranks as threads.
#[derive(Clone, Debug)]
pub struct Params {
    /// CPU of each rank. Ranks may share one.
    pub cpus: Vec<Cpu>,
    /// Edge of each rank's box in lattice cells of four particles; see [`cells_for`].
    pub cells: u32,
    /// Step limit.
    pub steps: u64,
    /// Time limit.
    pub duration: Duration,
    /// Interval, in steps, at which energy is summed; 0 for never.
    pub energy_every: u64,
    /// Seed of the initial velocities.
    pub seed: u64,
    /// Index of the phase, for the tables.
    pub phase: u32,
}

/// The result; the steps went to the sink.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// What rank 0 did. Steps, rebuilds, particles and energy hold for all ranks.
    pub done: Done,
    /// Pairs in the lists of all ranks at the end.
    pub pairs: u64,
    /// Steps whose records found no room.
    pub lost_steps: u64,
    /// From the time when all ranks were at work to the time when the first one ended, on
    /// CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// See `begin_ns`.
    pub end_ns: u64,
}

/// Runs the ranks as threads until the step or time limit is reached or `halt` is set; all end
/// after the same step.
///
/// # Errors
/// A CPU is not allowed, a box is too narrow, a rank fails, or the sink cannot take the rows.
pub fn run(
    params: &Params,
    calibration: &mut Calibration,
    halt: &AtomicBool,
    sink: &mut dyn Sink,
) -> Result<Outcome, WorkloadError> {
    let counter = calibration.counter();
    let plan = Plan {
        cells: params.cells,
        steps: params.steps,
        duration: (params.duration.as_secs_f64() * calibration.counts_per_second()) as u64,
        energy_every: params.energy_every,
        seed: params.seed,
        halt,
    };
    let mut distinct = params.cpus.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let waiting = if distinct.len() < params.cpus.len() {
        Waiting::Yield
    } else {
        Waiting::Spin
    };

    let mut feeds = Vec::new();
    let mut bodies = Vec::new();
    let mut members = Vec::new();
    for (index, (mut fabric, &cpu)) in world(params.cpus.len() as u32, waiting)
        .into_iter()
        .zip(&params.cpus)
        .enumerate()
    {
        let (mut steps, collector) = channel::<Step>(CHUNKS, chunk_items(SHORTEST_STEP));
        feeds.push(Feed {
            collector,
            kind: RecordKind::MdStep,
            phase: params.phase,
            cpu,
            rank: Rank::new(index as u32),
        });
        members.push(Member {
            name: format!("iw-rank-{index}"),
            cpu,
            realtime: None,
        });
        let plan = &plan;
        bodies.push(move || {
            let done = with_source!(counter, s => run_rank(
                &mut fabric, s, plan, |step| steps.push_next(step),
            ));
            if done.is_err() {
                fabric.fail();
            }
            steps.finish();
            done.map(|done| (done, steps.lost()))
        });
    }

    let results = crew::run(&members, bodies, halt, calibration, sink, |pair, sink| {
        pass_all(&feeds, pair, sink)
    })?;
    let ranks = crew::all_of(results)?;
    let &(done, _) = ranks.first().ok_or(WorkloadError::NoRanks)?;
    let begin = ranks.iter().map(|r| r.0.begin).max().unwrap_or(done.begin);
    let end = ranks.iter().map(|r| r.0.end).min().unwrap_or(done.end);
    let begin_ns = calibration.to_ns(begin);
    Ok(Outcome {
        done,
        pairs: ranks.iter().map(|r| r.0.pairs).sum(),
        // The next record ends a step, so every record lost at the end costs one step.
        lost_steps: ranks.iter().map(|r| r.1).sum(),
        begin_ns,
        end_ns: calibration.to_ns(end).max(begin_ns),
    })
}
