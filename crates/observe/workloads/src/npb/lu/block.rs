//! The implicit operator at a point: blocks of 5 x 5 that come from the derivatives of the fluxes.
//!
//! With the time step dt, the operator is 1 - dt dR/dU without the fourth-order dissipation. It
//! links a point with itself (diagonal block) and with its six neighbours. Most elements of a block
//! are 0 and the others depend on few numbers, so blocks are applied and solved without being
//! written down; the diagonal one is triangular.

use crate::npb::cfd::{C1, C2, CONDUCTION, DIFFUSION, State, VISCOSITY};

/// What the blocks of a point depend on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Point {
    /// 1 / density.
    volume: f64,
    velocity: [f64; 3],
    /// Kinetic energy, total energy and enthalpy, per mass.
    kinetic: f64,
    energy: f64,
    enthalpy: f64,
    /// Diagonal elements of the diagonal block, inverted: of the momenta and of the energy.
    per_momentum: f64,
    per_energy: f64,
}

/// Factors of the blocks, the same at all points.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    /// Diagonal block: of the identity, of the momenta and of the energy.
    identity: f64,
    per_identity: f64,
    momentum: f64,
    energy: f64,
    /// Blocks of neighbours, with the factor of relaxation: of convection, viscosity and dissipation
    /// along each dimension.
    convection: f64,
    viscosity: f64,
    diffusion: [f64; 3],
}

impl Blocks {
    /// For a time step, the distance of grid points and the factor of relaxation.
    pub fn new(dt: f64, spacing: f64, relaxation: f64) -> Self {
        let second = dt / (spacing * spacing);
        let viscosity = second * VISCOSITY;
        let identity = 1.0 + 2.0 * second * DIFFUSION.iter().sum::<f64>();
        Self {
            identity,
            per_identity: 1.0 / identity,
            // Along its own dimension a momentum counts 4/3, along the two others 1.
            momentum: 2.0 * viscosity * (3.0 + 1.0 / 3.0),
            energy: 2.0 * viscosity * 3.0 * CONDUCTION,
            convection: relaxation * dt / (2.0 * spacing),
            viscosity: relaxation * viscosity,
            diffusion: DIFFUSION.map(|d| relaxation * second * d),
        }
    }

    /// The point of a state.
    #[inline(always)]
    pub fn point(&self, u: &State) -> Point {
        let volume = 1.0 / u[0];
        let velocity = [volume * u[1], volume * u[2], volume * u[3]];
        let [x, y, z] = velocity;
        let kinetic = 0.5 * (x * x + y * y + z * z);
        let energy = volume * u[4];
        Point {
            volume,
            velocity,
            kinetic,
            energy,
            enthalpy: C1 * energy - C2 * kinetic,
            per_momentum: 1.0 / (self.identity + self.momentum * volume),
            per_energy: 1.0 / (self.identity + self.energy * volume),
        }
    }

    /// Solves D x = b with the diagonal block D of a point.
    #[inline(always)]
    pub fn solve(&self, point: &Point, b: &State) -> State {
        let &Point {
            volume,
            velocity: [u, v, w],
            energy,
            per_momentum: per,
            per_energy,
            ..
        } = point;
        let density = b[0] * self.per_identity;
        let viscous = self.momentum * volume;
        let x = (b[1] + viscous * u * density) * per;
        let y = (b[2] + viscous * v * density) * per;
        let z = (b[3] + viscous * w * density) * per;
        let work = u * (x - u * density) + v * (y - v * density) + w * (z - w * density);
        let thermal = self.energy * volume;
        let rest = b[4] + thermal * energy * density - (viscous - thermal) * work;
        [density, x, y, z, rest * per_energy]
    }

    /// What the state `s` of this point adds, once found, to the right-hand sides of the next points
    /// along x, y and z: minus the product of their blocks for this point with `s`, times the factor
    /// of relaxation. `UP`: the next points are the upper ones.
    #[inline(always)]
    pub fn passed_on<const UP: bool>(&self, point: &Point, s: &State) -> [State; 3] {
        let &Point {
            volume,
            velocity,
            kinetic,
            energy,
            enthalpy,
            ..
        } = point;
        let [u, v, w] = velocity;
        let pressure = C2 * (kinetic * s[0] - (u * s[1] + v * s[2] + w * s[3]) + s[4]);
        // Density times the changes of the velocities.
        let change = [s[1] - u * s[0], s[2] - v * s[0], s[3] - w * s[0]];
        let nu = self.viscosity * volume;
        let viscous = [nu * change[0], nu * change[1], nu * change[2]];
        let work = u * viscous[0] + v * viscous[1] + w * viscous[2];
        let heat = (1.0 - CONDUCTION) * work + CONDUCTION * nu * (s[4] - energy * s[0]);
        let convection = if UP {
            self.convection
        } else {
            -self.convection
        };
        let flow = [convection * u, convection * v, convection * w];
        let carried = [s[0], s[1], s[2], s[3], s[4] + pressure];
        let along = |d: usize| {
            let across = convection * change[d];
            let spread = self.diffusion[d];
            let mut sum = [
                convection * s[1 + d] + spread * s[0],
                velocity[0] * across + flow[d] * carried[1] + viscous[0] + spread * s[1],
                velocity[1] * across + flow[d] * carried[2] + viscous[1] + spread * s[2],
                velocity[2] * across + flow[d] * carried[3] + viscous[2] + spread * s[3],
                enthalpy * across + flow[d] * carried[4] + heat + spread * s[4],
            ];
            let third = viscous[d] * (1.0 / 3.0);
            sum[1 + d] += convection * pressure + third;
            sum[4] += velocity[d] * third;
            sum
        };
        [along(0), along(1), along(2)]
    }
}
