//! LU, the lower-upper solver of the simulated application (RNR-94-007, section 3.4): symmetric
//! successive over-relaxation, in which two sweeps solve block triangular systems.
//!
//! The ranks form a grid of two dimensions, with all of z on every rank. A step is a lower and an
//! upper sweep, each a pipeline along z with two small messages per plane and rank; then the ranks
//! exchange two layers of points with their neighbours and compute the new right-hand side. After
//! the last step they sum the norms of the change and of the right-hand side.
//!
//! NPB counts operations as of code that writes down a block of 5 x 5 for every point and neighbour,
//! multiplies by it, and eliminates: 1985 per point and step, less at the faces. Most elements of a
//! block are 0. Here the others are applied directly, with about 720 operations in all, so the
//! operations per second are more than the CPU executes.

mod block;
mod field;
mod halo;
mod norms;
mod residual;
mod share;
mod size;
mod sweep;
#[cfg(test)]
mod tests;

use super::cfd::{State, TOLERANCE, exact_solution, initial_solution, norm_checks};
use super::class::Class;
use super::kernel::{Allowed, Check, Kernel};
use super::traffic::{Operation, Traffic};
use crate::WorkloadError;
use crate::stopwatch::Stopwatch;
use field::Field;
use idlewave_fabric::Fabric;
use idlewave_units::{Bytes, Rank};
use residual::Residual;
use share::Share;
use sweep::Sweeps;

/// Factor of over-relaxation.
const RELAXATION: f64 = 1.2;

/// The points of one rank.
#[derive(Debug)]
pub struct Lu {
    class: Class,
    share: Share,
    u: Field,
    /// The right-hand side, which the sweeps turn into the change of `u`.
    change: Field,
    forcing: Field,
    residual: Residual,
    sweeps: Sweeps,
    /// Layers of points of a face, as a message.
    buffer: Vec<State>,
    /// Norms of the right-hand side.
    norms: State,
}

impl Lu {
    fn allocated(class: Class, share: Share) -> Self {
        Self {
            class,
            u: Field::new(&share),
            change: Field::new(&share),
            forcing: Field::new(&share),
            residual: Residual::new(&share),
            sweeps: Sweeps::new(&share, class.time_step(), RELAXATION),
            buffer: Vec::with_capacity(halo::largest(&share)),
            norms: [0.0; 5],
            share,
        }
    }

    /// Bytes of all arrays.
    fn bytes(share: &Share) -> usize {
        let (points, _) = Field::layout(share.size);
        let states = 3 * points + halo::largest(share);
        states * size_of::<State>() + Residual::bytes(share) + Sweeps::bytes(share)
    }

    #[cfg(test)]
    fn held(&self) -> usize {
        let fields = [&self.u, &self.change, &self.forcing].map(|f| f.states.capacity());
        let states = fields.iter().sum::<usize>() + self.buffer.capacity();
        states * size_of::<State>() + self.residual.held() + self.sweeps.held()
    }

    /// Sets `u` to what the steps start from, with its right-hand side.
    fn start<F: Fabric>(&mut self, watch: &mut Stopwatch<'_, F>) -> Result<(), WorkloadError> {
        self.u.set(&self.share, initial_solution);
        self.right_hand_side(watch)?;
        self.norms = norms::norms(&self.change, &self.share, watch)?;
        Ok(())
    }

    fn right_hand_side<F: Fabric>(
        &mut self,
        watch: &mut Stopwatch<'_, F>,
    ) -> Result<(), WorkloadError> {
        watch.region("halo");
        halo::exchange(&mut self.u, &self.share, &mut self.buffer, watch)?;
        watch.region("rhs");
        self.residual
            .apply(&self.share, &self.u, &self.forcing, &mut self.change);
        Ok(())
    }

    /// One step.
    fn step<F: Fabric>(
        &mut self,
        watch: &mut Stopwatch<'_, F>,
        last: bool,
    ) -> Result<(), WorkloadError> {
        let (share, u, change) = (&self.share, &mut self.u, &mut self.change);
        watch.region("lower");
        self.sweeps.run::<F, true>(share, u, change, watch)?;
        watch.region("upper");
        self.sweeps.run::<F, false>(share, u, change, watch)?;
        if last {
            watch.region("norms");
            // Of no use, but NPB computes them.
            norms::norms(change, share, watch)?;
        }
        self.right_hand_side(watch)?;
        if last {
            watch.region("norms");
            self.norms = norms::norms(&self.change, &self.share, watch)?;
        }
        Ok(())
    }
}

impl Kernel for Lu {
    const OPERATION: &'static str = "floating-point operations";

    fn allowed(class: Class) -> Allowed {
        Allowed::PowersOfTwo(Share::most(class.grid()))
    }

    fn memory_per_rank(class: Class, ranks: u32) -> Bytes {
        let share = Share::fullest(class.grid(), ranks);
        Bytes::new((Self::bytes(&share) + halo::messages(&share) * size_of::<State>()) as u64)
    }

    fn iterations(class: Class) -> u32 {
        class.steps()
    }

    fn operations(class: Class) -> u64 {
        let edge = class.grid() as f64;
        let step = 1984.77 * edge.powi(3) - 10_923.3 * edge.powi(2) + 27_770.9 * edge - 144_010.0;
        (f64::from(class.steps()) * step) as u64
    }

    fn traffic(class: Class, ranks: u32, rank: Rank) -> Traffic {
        let share = Share::new(class.grid(), ranks, rank);
        let sweeps = [true, false].map(|up| sweep::traffic(&share, up));
        let iteration = sweeps.into_iter().flatten();
        let iteration = iteration.chain(Operation::exchange(halo::traffic(&share)));
        Traffic {
            before: Vec::new(),
            iteration: iteration.chain([residual::traffic(&share)]).collect(),
            after: vec![Operation::sum(5); 2],
        }
    }

    fn new<F: Fabric>(class: Class, watch: &mut Stopwatch<'_, F>) -> Result<Self, WorkloadError> {
        let share = Share::new(class.grid(), watch.size(), watch.rank());
        let mut lu = Self::allocated(class, share);
        // The forcing term makes the exact solution a steady one: it is what R makes of it.
        lu.u.set(&lu.share, exact_solution);
        lu.residual
            .apply(&lu.share, &lu.u, &lu.forcing, &mut lu.change);
        std::mem::swap(&mut lu.forcing, &mut lu.change);
        lu.start(watch)?;
        lu.step(watch, true)?;
        lu.start(watch)?;
        Ok(lu)
    }

    fn iterate<F: Fabric>(
        &mut self,
        watch: &mut Stopwatch<'_, F>,
        iteration: u32,
    ) -> Result<(), WorkloadError> {
        self.step(watch, iteration == self.class.steps())
    }

    fn checks<F: Fabric>(
        &mut self,
        watch: &mut Stopwatch<'_, F>,
    ) -> Result<Vec<Check>, WorkloadError> {
        let published = self.class.published();
        let errors = norms::errors(&self.u, &self.share, watch)?;
        let surface = norms::surface_integral(&self.u, &self.share, watch)?;
        let residual = norm_checks("residual", self.norms, published.residual);
        let error = norm_checks("error", errors, published.error);
        let surface = Check {
            name: "the surface integral".to_owned(),
            found: surface,
            published: published.surface,
            tolerance: TOLERANCE,
        };
        Ok(residual.chain(error).chain([surface]).collect())
    }
}
