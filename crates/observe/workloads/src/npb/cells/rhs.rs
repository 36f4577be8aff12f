//! The right-hand side: convection, viscosity, conduction and dissipation by central differences.
//!
//! All terms are of one direction each and have the same form in each, so [`direction`] adds those of
//! any. It works on runs of points, one component after the other, so that the compiler vectorises it.

use super::cell::{Cell, Components, HEAT, PRESSURE, VELOCITY};
use crate::npb::cfd::{C2, CONDUCTION, DIFFUSION, DISSIPATION, VISCOSITY};
use std::ops::Range;

/// Points that are worked on at once: their right-hand side stays in the first-level cache.
const RUN: usize = 512;

/// Factors of the terms, times the time step.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Of a central difference of first order.
    convection: f64,
    /// Of a central difference of second order of the velocities.
    viscosity: f64,
    /// Of the point itself, of its neighbours and of those beyond, in both kinds of dissipation
    /// along each direction.
    dissipation: [[f64; 3]; 3],
    /// Of the fourth-order dissipation.
    fourth: f64,
}

impl Terms {
    pub fn new(grid: u32, dt: f64) -> Self {
        let h = 1.0 / f64::from(grid - 1);
        let (second, fourth) = (dt / (h * h), dt * DISSIPATION);
        Self {
            convection: dt / (2.0 * h),
            viscosity: VISCOSITY * second,
            dissipation: DIFFUSION.map(|d| {
                let d = d * second;
                [-2.0 * d - 6.0 * fourth, d + 4.0 * fourth, -fourth]
            }),
            fourth,
        }
    }
}

impl Cell {
    /// Derives velocities and the like from the solution, in the border too.
    pub fn derive(&mut self) {
        let range = self.one_step_outside();
        let [mass, mx, my, mz, energy] = self.u.rows(range.clone());
        let [rho, vx, vy, vz, pressure, heat] = self.derived.rows_mut(range);
        for i in 0..mass.len() {
            let inverse = 1.0 / mass[i];
            let [x, y, z] = [inverse * mx[i], inverse * my[i], inverse * mz[i]];
            let kinetic = 0.5 * (x * x + y * y + z * z);
            rho[i] = inverse;
            (vx[i], vy[i], vz[i]) = (x, y, z);
            pressure[i] = C2 * (energy[i] - mass[i] * kinetic);
            heat[i] = (1.0 - CONDUCTION) * kinetic + CONDUCTION * (energy[i] * inverse);
        }
    }

    /// Computes the right-hand side, times the time step, from what is derived.
    pub fn compute_rhs(&mut self, terms: &Terms) {
        let [x, y, z] = self.n;
        // A plane is one run of points, the border between its rows included.
        let run = (y - 1) * self.steps[1] + x;
        for z in 0..z {
            let plane = self.first + z * self.steps[2];
            for at in (plane..plane + run).step_by(RUN) {
                self.add_run(at..(at + RUN).min(plane + run), terms);
            }
        }
        for d in 0..3 {
            for last in [false, true] {
                if self.ends[d][usize::from(last)] {
                    self.correct_boundary(d, last, terms.fourth);
                }
            }
        }
    }

    fn add_run(&mut self, points: Range<usize>, terms: &Terms) {
        let mut rhs = self.rhs.rows_mut(points.clone());
        for (rhs, forcing) in rhs.iter_mut().zip(self.forcing.rows(points.clone())) {
            rhs.copy_from_slice(forcing);
        }
        for d in 0..3 {
            let line = Line {
                at: points.start,
                n: points.len(),
                step: self.steps[d],
            };
            direction(&mut rhs, &self.u, &self.derived, line, d, terms);
        }
    }

    /// Next to the boundary the stencil of the fourth-order dissipation is another: 5, -4, 1 at the
    /// first point and -4, 6, -4, 1 at the second.
    fn correct_boundary(&mut self, d: usize, last: bool, fourth: f64) {
        let step = self.steps[d];
        let places = self.layers(d, last, 1);
        for (m, rhs) in self.rhs.all_mut().into_iter().enumerate() {
            let u = self.u.of(m);
            for at in places.clone() {
                let (inside, one, two) = if last {
                    (at - step, at + step, at + 2 * step)
                } else {
                    (at + step, at - step, at - 2 * step)
                };
                rhs[at] += fourth * (u[two] - 4.0 * u[one] + u[at]);
                rhs[inside] += fourth * u[one];
            }
        }
    }

    /// Sets the forcing to what makes the solution as it is now steady.
    pub fn set_forcing(&mut self, terms: &Terms) {
        for all in self.forcing.all_mut() {
            all.fill(0.0);
        }
        self.derive();
        self.compute_rhs(terms);
        for m in 0..5 {
            let forcing = self.forcing.all_mut()[m].iter_mut();
            for (forcing, rhs) in forcing.zip(self.rhs.of(m)) {
                *forcing = -rhs;
            }
        }
    }
}

/// Points of a run, and the step to their neighbours along some direction.
#[derive(Clone, Copy)]
struct Line {
    at: usize,
    n: usize,
    step: usize,
}

impl Line {
    /// A quantity at the points before, at and after those of the run.
    #[inline(always)]
    fn three(self, all: &[f64]) -> [&[f64]; 3] {
        let Self { at, n, step } = self;
        [at - step, at, at + step].map(|at| &all[at..at + n])
    }

    #[inline(always)]
    fn five(self, all: &[f64]) -> [&[f64]; 5] {
        let Self { at, n, step } = self;
        [at - 2 * step, at - step, at, at + step, at + 2 * step].map(|at| &all[at..at + n])
    }
}

/// Both kinds of dissipation.
#[inline(always)]
fn dissipation([a, b, c, d, e]: [&[f64]; 5], i: usize, [here, near, far]: [f64; 3]) -> f64 {
    here * c[i] + near * (b[i] + d[i]) + far * (a[i] + e[i])
}

/// A difference of second order.
#[inline(always)]
fn second([a, b, c]: [&[f64]; 3], i: usize) -> f64 {
    a[i] + c[i] - 2.0 * b[i]
}

/// Adds the terms of one direction to a run.
fn direction(
    [mass, x, y, z, energy]: &mut [&mut [f64]; 5],
    u: &Components<5>,
    derived: &Components<6>,
    line: Line,
    d: usize,
    terms: &Terms,
) {
    let factors = Factors {
        convection: terms.convection,
        viscosity: terms.viscosity,
        dissipation: terms.dissipation[d],
    };
    let along = line.three(derived.of(VELOCITY + d));
    let pressure = line.three(derived.of(PRESSURE));
    add_mass(mass, line.five(u.of(0)), line.three(u.of(1 + d)), factors);
    for (other, rhs) in [x, y, z].into_iter().enumerate() {
        let momentum = line.five(u.of(1 + other));
        let velocity = line.three(derived.of(VELOCITY + other));
        if other == d {
            add_momentum_along(rhs, momentum, velocity, pressure, factors);
        } else {
            add_momentum_across(rhs, momentum, velocity, along, factors);
        }
    }
    let heat = line.three(derived.of(HEAT));
    add_energy(energy, line.five(u.of(4)), along, pressure, heat, factors);
}

/// [`Terms`] of one direction.
#[derive(Clone, Copy)]
struct Factors {
    convection: f64,
    viscosity: f64,
    dissipation: [f64; 3],
}

// The functions below are not inlined: as an argument of its own, `rhs` is known to overlap with
// nothing else, and the loops need no checks of that.

#[inline(never)]
fn add_mass(rhs: &mut [f64], mass: [&[f64]; 5], momentum: [&[f64]; 3], by: Factors) {
    let (mass, momentum) = (
        mass.map(|m| &m[..rhs.len()]),
        momentum.map(|m| &m[..rhs.len()]),
    );
    for i in 0..rhs.len() {
        let flux = momentum[2][i] - momentum[0][i];
        rhs[i] += dissipation(mass, i, by.dissipation) - by.convection * flux;
    }
}

#[inline(never)]
fn add_momentum_along(
    rhs: &mut [f64],
    momentum: [&[f64]; 5],
    velocity: [&[f64]; 3],
    pressure: [&[f64]; 3],
    by: Factors,
) {
    let n = rhs.len();
    let momentum = momentum.map(|m| &m[..n]);
    let [velocity, pressure] = [velocity, pressure].map(|q| q.map(|q| &q[..n]));
    for i in 0..n {
        let flux = momentum[3][i] * velocity[2][i] - momentum[1][i] * velocity[0][i]
            + (pressure[2][i] - pressure[0][i]);
        rhs[i] += dissipation(momentum, i, by.dissipation)
            + (4.0 / 3.0 * by.viscosity) * second(velocity, i)
            - by.convection * flux;
    }
}

#[inline(never)]
fn add_momentum_across(
    rhs: &mut [f64],
    momentum: [&[f64]; 5],
    velocity: [&[f64]; 3],
    along: [&[f64]; 3],
    by: Factors,
) {
    let n = rhs.len();
    let momentum = momentum.map(|m| &m[..n]);
    let [velocity, along] = [velocity, along].map(|q| q.map(|q| &q[..n]));
    for i in 0..n {
        let flux = momentum[3][i] * along[2][i] - momentum[1][i] * along[0][i];
        rhs[i] += dissipation(momentum, i, by.dissipation) + by.viscosity * second(velocity, i)
            - by.convection * flux;
    }
}

#[inline(never)]
fn add_energy(
    rhs: &mut [f64],
    energy: [&[f64]; 5],
    along: [&[f64]; 3],
    pressure: [&[f64]; 3],
    heat: [&[f64]; 3],
    by: Factors,
) {
    let n = rhs.len();
    let energy = energy.map(|m| &m[..n]);
    let [along, pressure, heat] = [along, pressure, heat].map(|q| q.map(|q| &q[..n]));
    for i in 0..n {
        let flux = (energy[3][i] + pressure[2][i]) * along[2][i]
            - (energy[1][i] + pressure[0][i]) * along[0][i];
        let squares = along[0][i] * along[0][i] + along[2][i] * along[2][i]
            - 2.0 * (along[1][i] * along[1][i]);
        rhs[i] += dissipation(energy, i, by.dissipation)
            + by.viscosity * (second(heat, i) + (1.0 / 6.0) * squares)
            - by.convection * flux;
    }
}
