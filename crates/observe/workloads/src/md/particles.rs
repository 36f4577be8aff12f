//! The particles of one rank: those it owns, followed by copies of others near its box (ghosts).

use bytemuck::{Pod, Zeroable};

/// A point or a vector.
pub type Vector = [f64; 3];

/// A particle on its way to another rank.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Particle {
    /// Number in the whole system.
    pub id: u64,
    /// Position in units of sigma.
    pub position: Vector,
    /// Velocity in units of sigma / tau.
    pub velocity: Vector,
}

/// Particles in columns.
#[derive(Clone, Debug, Default)]
pub struct Particles {
    /// Of the owned particles.
    pub ids: Vec<u64>,
    /// Of the owned particles, then of the ghosts.
    pub positions: Vec<Vector>,
    /// Of the owned particles.
    pub velocities: Vec<Vector>,
    /// Of the owned particles. The entries after these, for the ghosts, are meaningless.
    pub forces: Vec<Vector>,
}

impl Particles {
    /// Number of owned particles.
    pub fn own(&self) -> usize {
        self.ids.len()
    }

    /// Drops the ghosts.
    pub fn drop_ghosts(&mut self) {
        self.positions.truncate(self.ids.len());
    }

    /// Adds an owned particle. There must be no ghosts.
    pub fn push(&mut self, particle: Particle) {
        debug_assert_eq!(self.ids.len(), self.positions.len());
        self.ids.push(particle.id);
        self.positions.push(particle.position);
        self.velocities.push(particle.velocity);
    }

    /// The owned particle at `index`.
    pub fn get(&self, index: usize) -> Particle {
        Particle {
            id: self.ids[index],
            position: self.positions[index],
            velocity: self.velocities[index],
        }
    }

    /// Removes the owned particles for which `leaves` holds and passes them to `take`, in order.
    /// There must be no ghosts.
    pub fn take_out(
        &mut self,
        mut leaves: impl FnMut(&Vector) -> bool,
        mut take: impl FnMut(Particle),
    ) {
        debug_assert_eq!(self.ids.len(), self.positions.len());
        let mut kept = 0;
        for i in 0..self.ids.len() {
            if leaves(&self.positions[i]) {
                take(self.get(i));
            } else {
                self.ids[kept] = self.ids[i];
                self.positions[kept] = self.positions[i];
                self.velocities[kept] = self.velocities[i];
                kept += 1;
            }
        }
        self.ids.truncate(kept);
        self.positions.truncate(kept);
        self.velocities.truncate(kept);
    }

    /// Permutes the owned particles by `order`. There must be no ghosts.
    pub fn reorder(&mut self, order: &[u32]) {
        fn permuted<T: Copy>(column: &[T], order: &[u32]) -> Vec<T> {
            order.iter().map(|&i| column[i as usize]).collect()
        }
        self.ids = permuted(&self.ids, order);
        self.positions = permuted(&self.positions, order);
        self.velocities = permuted(&self.velocities, order);
    }

    /// FNV-1a over all words of the owned particles, in order.
    pub fn digest(&self) -> u64 {
        let mut digest = 0xCBF2_9CE4_8422_2325_u64;
        for i in 0..self.own() {
            let particle = self.get(i);
            for word in bytemuck::cast_slice::<Particle, u64>(std::slice::from_ref(&particle)) {
                digest = (digest ^ word).wrapping_mul(0x0000_0100_0000_01B3);
            }
        }
        digest
    }
}
