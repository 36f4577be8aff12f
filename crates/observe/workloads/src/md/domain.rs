//! One rank's part of the fluid, and the parts of a step.

use super::cells::Cells;
use super::force::{self, CUTOFF, Pairs};
use super::grid::Grid;
use super::halo::Halo;
use super::lattice::{self, CELL};
use super::particles::{Particles, Vector};
use crate::WorkloadError;
use idlewave_fabric::{Fabric, Reduction};

/// Length of a time step in units of tau.
pub const STEP: f64 = 0.001;
/// Distance beyond the cut-off up to which pairs are listed. The list holds until a particle has
/// moved half of it.
pub const SKIN: f64 = 0.3;
/// Temperature of the initial velocities, in units of epsilon / k.
pub const TEMPERATURE: f64 = 1.0;
/// The least width of a box: ghosts come from the next box only.
pub const REACH: f64 = CUTOFF + SKIN;

/// Energy of all ranks together, in units of epsilon.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Energy {
    /// Energy of motion.
    pub kinetic: f64,
    /// Energy of all pairs.
    pub potential: f64,
}

impl Energy {
    /// The sum of both, which is conserved.
    pub fn total(self) -> f64 {
        self.kinetic + self.potential
    }
}

/// The particles of one rank, and its copies of others.
#[derive(Clone, Debug)]
pub struct Domain {
    pub particles: Particles,
    pub pairs: Pairs,
    halo: Halo,
    cells: Cells,
    /// Where the owned particles were when the list was built.
    listed: Vec<Vector>,
    /// Particles of all ranks.
    total: u64,
}

impl Domain {
    /// One rank's part of a lattice of `cells` cells on a grid of `shape` boxes; the total momentum
    /// is zero.
    ///
    /// # Errors
    /// A box is narrower than [`REACH`], or another rank failed.
    pub fn new<F: Fabric>(
        fabric: &mut F,
        shape: [u32; 3],
        cells: [u32; 3],
        seed: u64,
    ) -> Result<Self, WorkloadError> {
        let grid = Grid::new(shape, fabric.rank());
        let mut particles = Particles::default();
        lattice::fill(&grid, cells, seed, TEMPERATURE, |p| particles.push(p));
        let mut domain = Self::of_particles(grid, cells.map(|n| f64::from(n) * CELL), particles)?;
        let mut sums = [0.0; 4];
        for v in &domain.particles.velocities {
            for d in 0..3 {
                sums[d] += v[d];
            }
        }
        sums[3] = domain.particles.own() as f64;
        fabric.allreduce(&mut sums, Reduction::Sum, &mut || ())?;
        domain.total = sums[3] as u64;
        for v in &mut domain.particles.velocities {
            for d in 0..3 {
                v[d] -= sums[d] / sums[3];
            }
        }
        domain.rebuild(fabric)?;
        domain.forces();
        Ok(domain)
    }

    pub fn of_particles(
        grid: Grid,
        length: Vector,
        particles: Particles,
    ) -> Result<Self, WorkloadError> {
        let halo = Halo::new(grid, length);
        for d in 0..3 {
            let width = halo.high[d] - halo.low[d];
            if width < REACH {
                return Err(WorkloadError::NarrowBox {
                    width,
                    least: REACH,
                });
            }
        }
        Ok(Self {
            cells: Cells::new(halo.low, halo.high, REACH),
            total: particles.own() as u64,
            particles,
            pairs: Pairs::default(),
            halo,
            listed: Vec::new(),
        })
    }

    /// Particles of all ranks.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Half a velocity step with the current forces.
    pub fn kick(&mut self) {
        let Particles {
            velocities, forces, ..
        } = &mut self.particles;
        for (v, f) in velocities.iter_mut().zip(forces) {
            for d in 0..3 {
                v[d] += 0.5 * STEP * f[d];
            }
        }
    }

    /// Moves the owned particles by one step at their velocities.
    pub fn drift(&mut self) {
        let Particles {
            positions,
            velocities,
            ..
        } = &mut self.particles;
        for (x, v) in positions.iter_mut().zip(velocities) {
            for d in 0..3 {
                x[d] += STEP * v[d];
            }
        }
    }

    /// Square of the largest distance that an owned particle has moved since the list was built.
    pub fn moved_squared(&self) -> f64 {
        let moved = self.particles.positions.iter().zip(&self.listed);
        moved
            .map(|(a, b)| {
                let d = [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
                d[0] * d[0] + d[1] * d[1] + d[2] * d[2]
            })
            // Let NaN through: the exchange that follows rejects it.
            .map(|m| if m.is_nan() { f64::INFINITY } else { m })
            .fold(0.0, f64::max)
    }

    /// Whether a list still holds if the largest distance moved is the square root of `squared`.
    pub fn list_holds(squared: f64) -> bool {
        4.0 * squared <= SKIN * SKIN
    }

    /// Brings the ghosts up to date.
    pub fn refresh<F: Fabric>(&mut self, fabric: &mut F) -> Result<(), WorkloadError> {
        self.halo.refresh(fabric, &mut self.particles.positions)
    }

    /// Moves particles to the ranks whose boxes they are in and creates new ghosts. Call
    /// [`list`](Self::list) afterwards.
    pub fn migrate<F: Fabric>(&mut self, fabric: &mut F) -> Result<(), WorkloadError> {
        self.particles.drop_ghosts();
        self.halo.migrate(fabric, &mut self.particles)?;
        let order = self.cells.order(&self.particles.positions);
        self.particles.reorder(&order);
        self.listed.clone_from(&self.particles.positions);
        self.halo
            .build(fabric, &mut self.particles.positions, REACH)
    }

    /// Rebuilds the list of close pairs.
    pub fn list(&mut self) {
        let own = self.particles.own();
        self.cells
            .pairs(&self.particles.positions, own, REACH, &mut self.pairs);
    }

    fn rebuild<F: Fabric>(&mut self, fabric: &mut F) -> Result<(), WorkloadError> {
        self.migrate(fabric)?;
        self.list();
        Ok(())
    }

    /// Computes the forces on all owned particles, without communication.
    pub fn forces(&mut self) {
        let own = self.particles.own();
        let Particles {
            positions, forces, ..
        } = &mut self.particles;
        force::forces(positions, own, &self.pairs, forces);
    }

    /// Energy of all ranks; velocities, positions and list must belong to the same moment.
    pub fn energy<F: Fabric>(&self, fabric: &mut F) -> Result<Energy, WorkloadError> {
        let squares = self.particles.velocities.iter().flatten().map(|v| v * v);
        let own = self.particles.own();
        let mut sums = [
            0.5 * squares.sum::<f64>(),
            force::energy(&self.particles.positions, own, &self.pairs),
        ];
        fabric.allreduce(&mut sums, Reduction::Sum, &mut || ())?;
        Ok(Energy {
            kinetic: sums[0],
            potential: sums[1],
        })
    }
}
