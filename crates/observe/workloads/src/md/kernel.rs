//! One rank's fluid without a clock, to benchmark its kernels.

use super::domain::Domain;
use super::force;
use idlewave_fabric::{Endpoint, Waiting, world};

/// A box that is its own neighbour on all sides.
#[derive(Debug)]
pub struct Kernel(Domain);

impl Kernel {
    /// A box of `cells` lattice cells along each edge after `steps` steps, which should be enough
    /// to melt the lattice.
    pub fn new(cells: u32, steps: u32) -> Self {
        let mut fabric: Endpoint = world(1, Waiting::Spin).remove(0);
        let argument = "one rank has nobody to fail, and its box is wide enough";
        let mut domain = Domain::new(&mut fabric, [1; 3], [cells.max(2); 3], 1).expect(argument);
        for _ in 0..steps {
            domain.kick();
            domain.drift();
            if Domain::list_holds(domain.moved_squared()) {
                domain.refresh(&mut fabric).expect(argument);
            } else {
                domain.migrate(&mut fabric).expect(argument);
                domain.list();
            }
            domain.forces();
            domain.kick();
        }
        Self(domain)
    }

    /// Particles.
    pub fn particles(&self) -> u64 {
        self.0.total()
    }

    /// Pairs in the list.
    pub fn pairs(&self) -> u64 {
        self.0.pairs.partners.len() as u64
    }

    /// Pairs within the cut-off.
    pub fn interactions(&self) -> u64 {
        let p = &self.0.particles;
        force::interactions(&p.positions, p.own(), &self.0.pairs)
    }

    /// Computes all forces once.
    pub fn forces(&mut self) {
        self.0.forces();
    }

    /// Builds the list once.
    pub fn list(&mut self) {
        self.0.list();
    }
}
