//! What one rank does, over any fabric and any counter.

use super::domain::{Domain, Energy};
use super::grid::shape_of;
use crate::WorkloadError;
use bytemuck::{Pod, Zeroable};
use idlewave_clock::Source;
use idlewave_fabric::{Fabric, Reduction};
use std::sync::atomic::{AtomicBool, Ordering};

/// Times of one step in counts; it ends where the next one starts, which is the end of the force
/// computation. The velocity update that follows counts towards the next step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Step {
    /// Start of the update of velocities and positions.
    pub begin: u64,
    /// From here ranks agree on whether the list still holds, and exchange particles.
    pub exchange: u64,
    /// Start of building the list; equal to `force` if the old one holds.
    pub list: u64,
    /// Start of the force computation, which ends with the step.
    pub force: u64,
}

/// What a rank is to do.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// Edge of each rank's box in lattice cells of four particles.
    pub cells: u32,
    /// Step limit.
    pub steps: u64,
    /// Rank 0 ends the run after this time, in counts.
    pub duration: u64,
    /// Interval, in steps, at which energy is summed, starting before the first; 0 for never.
    pub energy_every: u64,
    /// Seed of the velocities.
    pub seed: u64,
    /// Ends the run early.
    pub halt: &'a AtomicBool,
}

/// What a rank did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Done {
    /// Completed steps, the same on all ranks.
    pub steps: u64,
    /// Steps in which the list was rebuilt.
    pub rebuilds: u64,
    /// Particles of all ranks.
    pub particles: u64,
    /// Pairs in this rank's list at the end.
    pub pairs: u64,
    /// Energy before the first step and when last summed, and the largest deviation of the total
    /// from the first; `None` if never summed.
    pub energy: Option<Drift>,
    /// Hash of the numbers, positions and velocities of this rank's particles at the end, in order:
    /// if it is equal on every rank, two runs are identical to the bit.
    pub digest: u64,
    /// Start of the first step, in counts.
    pub begin: u64,
    /// End of the last step, in counts.
    pub end: u64,
}

/// How well energy was conserved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// Before the first step.
    pub first: Energy,
    /// When last summed.
    pub last: Energy,
    /// Largest deviation of the total from the first one.
    pub largest: f64,
}

impl Drift {
    fn add(drift: &mut Option<Self>, energy: Energy) {
        match drift {
            None => {
                *drift = Some(Self {
                    first: energy,
                    last: energy,
                    largest: 0.0,
                });
            }
            Some(drift) => {
                drift.last = energy;
                let off = (energy.total() - drift.first.total()).abs();
                drift.largest = drift.largest.max(off);
            }
        }
    }
}

/// Runs one rank; `record` gets every step, then an empty one that marks the end of the last.
///
/// # Errors
/// The ranks' boxes are too narrow, the particles fly apart, or another rank failed.
pub fn run<F: Fabric, S: Source>(
    fabric: &mut F,
    source: S,
    plan: &Plan<'_>,
    mut record: impl FnMut(Step),
) -> Result<Done, WorkloadError> {
    let shape = shape_of(fabric.size());
    let mut domain = Domain::new(fabric, shape, shape.map(|n| n * plan.cells), plan.seed)?;
    let leads = fabric.rank().get() == 0;
    let mut energy = None;
    let mut rebuilds = 0;
    fabric.barrier(&mut || ())?;

    let first = source.now_ordered();
    let deadline = first.saturating_add(plan.duration);
    let mut begin = first;
    let mut steps = 0;
    let mut ended = plan.steps == 0;
    while !ended {
        if plan.energy_every > 0 && steps % plan.energy_every == 0 {
            Drift::add(&mut energy, domain.energy(fabric)?);
        }
        domain.kick();
        domain.drift();
        let moved = domain.moved_squared();
        let exchange = source.now_ordered();
        let stop = plan.halt.load(Ordering::Relaxed) || (leads && exchange >= deadline);
        let mut agreed = [moved, f64::from(u8::from(stop))];
        fabric.allreduce(&mut agreed, Reduction::Max, &mut || ())?;
        let holds = Domain::list_holds(agreed[0]);
        let list;
        let force;
        if holds {
            domain.refresh(fabric)?;
            force = source.now_ordered();
            list = force;
        } else {
            rebuilds += 1;
            domain.migrate(fabric)?;
            list = source.now_ordered();
            domain.list();
            force = source.now_ordered();
        }
        domain.forces();
        let end = source.now_ordered();
        record(Step {
            begin,
            exchange,
            list,
            force,
        });
        domain.kick();
        steps += 1;
        ended = agreed[1] > 0.0 || steps >= plan.steps;
        begin = end;
    }
    record(Step {
        begin,
        exchange: begin,
        list: begin,
        force: begin,
    });
    if plan.energy_every > 0 {
        Drift::add(&mut energy, domain.energy(fabric)?);
    }
    Ok(Done {
        steps,
        rebuilds,
        particles: domain.total(),
        pairs: domain.pairs.partners.len() as u64,
        energy,
        digest: domain.particles.digest(),
        begin: first,
        end: begin,
    })
}
