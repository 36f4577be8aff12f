//! The block tridiagonal systems along lines.
//!
//! The blocks of a direction consist of the Jacobians of its flux and of its viscous terms.
//! Components are in the order density, momentum along the line, momentum along the other two
//! directions, energy: then the blocks are the same for all directions.

use crate::npb::cells::{Batch, Cell, Flow, Lanes, Points, RHO, Scheme, VELOCITY};
use crate::npb::cfd::{C1, C2, CONDUCTION, DIFFUSION, VISCOSITY};

/// Lines that are solved at once: a register of the vector unit every x86-64 has.
pub const LANES: usize = 2;
/// What elimination keeps of a point: the block of the next point.
pub const KEPT: usize = 25;

type Number = Lanes<LANES>;
type Block = [[Number; 5]; 5];

/// What a point contributes to the equations of the point after it (with the opposite sign), of
/// itself and of the point before it.
#[derive(Clone, Copy)]
struct Blocks {
    after: Block,
    own: Block,
    before: Block,
}

/// The systems of lines.
#[derive(Debug)]
pub struct BlockTridiagonal {
    /// Time step over twice the distance of points.
    first: f64,
    /// Time step over the square of the distance.
    second: f64,
}

impl BlockTridiagonal {
    pub fn new(flow: &Flow) -> Self {
        let h = 1.0 / f64::from(flow.grid - 1);
        Self {
            first: flow.dt / (2.0 * h),
            second: flow.dt / (h * h),
        }
    }

    /// Jacobians of the flux and of the viscous terms at a point, times their factors, from one over
    /// the density, velocities and energy per mass.
    #[inline(always)]
    fn jacobians(&self, rho: Number, [v, a, b]: [Number; 3], energy: Number) -> [Block; 2] {
        let f = self.first;
        let kinetic = (v * v + a * a + b * b) * 0.5;
        let zero = Lanes::ZERO;
        let flux = [
            [zero, Lanes::all(f), zero, zero, zero],
            [
                (kinetic * C2 - v * v) * f,
                v * ((2.0 - C2) * f),
                a * (-C2 * f),
                b * (-C2 * f),
                Lanes::all(C2 * f),
            ],
            [-(v * a * f), a * f, v * f, zero, zero],
            [-(v * b * f), b * f, zero, v * f, zero],
            [
                (kinetic * (2.0 * C2) - energy * C1) * (v * f),
                (energy * C1 - (v * v + kinetic) * C2) * f,
                a * v * (-C2 * f),
                b * v * (-C2 * f),
                v * (C1 * f),
            ],
        ];
        let mu = rho * (self.second * VISCOSITY);
        let along = mu * (4.0 / 3.0);
        let heat = mu * CONDUCTION;
        let viscous = [
            [zero; 5],
            [-(along * v), along, zero, zero, zero],
            [-(mu * a), zero, mu, zero, zero],
            [-(mu * b), zero, zero, mu, zero],
            [
                -((along - heat) * v * v + (mu - heat) * (a * a + b * b) + heat * energy),
                (along - heat) * v,
                (mu - heat) * a,
                (mu - heat) * b,
                heat,
            ],
        ];
        [flux, viscous]
    }

    fn set_blocks(&self, cell: &Cell, d: usize, places: [usize; LANES], blocks: &mut Blocks) {
        let of = |from: &[f64]| Lanes::gather(from, places);
        let rho = of(cell.derived.of(RHO));
        let velocity = std::array::from_fn(|by| of(cell.derived.of(VELOCITY + (d + by) % 3)));
        let [flux, viscous] = self.jacobians(rho, velocity, of(cell.u.of(4)) * rho);
        for row in 0..5 {
            for m in 0..5 {
                let (diffusion, one) = if row == m {
                    (self.second * DIFFUSION[d], 1.0)
                } else {
                    (0.0, 0.0)
                };
                let viscous = viscous[row][m] + Lanes::all(diffusion);
                blocks.after[row][m] = flux[row][m] + viscous;
                blocks.own[row][m] = viscous * 2.0 + Lanes::all(one);
                blocks.before[row][m] = flux[row][m] - viscous;
            }
        }
    }
}

impl Scheme<LANES, KEPT> for BlockTridiagonal {
    const REACH: usize = 1;

    fn order(direction: usize) -> [usize; 5] {
        let other = |by: usize| 1 + (direction + by) % 3;
        [0, other(0), other(1), other(2), 4]
    }

    fn eliminate(
        &mut self,
        _: usize,
        cell: &Cell,
        batch: &Batch<LANES>,
        points: &mut Points<LANES, KEPT>,
    ) {
        let d = batch.direction;
        let mut places = batch.first.map(|first| first - batch.step);
        let mut next = |blocks: &mut Blocks| {
            self.set_blocks(cell, d, places, blocks);
            places.iter_mut().for_each(|place| *place += batch.step);
        };
        let zero = [[Lanes::ZERO; 5]; 5];
        // Of the last three points.
        let mut blocks = [Blocks {
            after: zero,
            own: zero,
            before: zero,
        }; 3];
        next(&mut blocks[0]);
        next(&mut blocks[1]);
        let r = &mut points.r[..batch.n + 1];
        let kept = &mut points.kept[..batch.n + 1];
        for i in 1..=batch.n {
            next(&mut blocks[(i + 1) % 3]);
            let (r_done, r) = r.split_at_mut(i);
            let (kept_done, kept) = kept.split_at_mut(i);
            eliminate(
                [
                    &blocks[(i - 1) % 3].after,
                    &blocks[i % 3].own,
                    &blocks[(i + 1) % 3].before,
                ],
                (&kept_done[i - 1], &r_done[i - 1]),
                (&mut kept[0], &mut r[0]),
            );
        }
    }

    fn substitute(points: &mut Points<LANES, KEPT>, n: usize) {
        let r = &mut points.r[..n + 2];
        let kept = &points.kept[..n + 2];
        for i in (1..=n).rev() {
            let after = r[i + 1];
            for m in 0..5 {
                let row = &kept[i][5 * m..5 * m + 5];
                let mut value = r[i][m];
                for k in 0..5 {
                    value = value - row[k] * after[k];
                }
                r[i][m] = value;
            }
        }
    }
}

/// Eliminates the point before from the equations of a point and solves them for the point, so that
/// only the next one is left in them.
#[inline(always)]
fn eliminate(
    blocks: [&Block; 3],
    done: (&[Number; KEPT], &[Number; 5]),
    (kept, r): (&mut [Number; KEPT], &mut [Number; 5]),
) {
    let mut equations = Equations {
        blocks,
        done,
        upper: [[Lanes::ZERO; 5]; 5],
        kept,
        r,
    };
    equations.eliminate::<0>();
    equations.eliminate::<1>();
    equations.eliminate::<2>();
    equations.eliminate::<3>();
    equations.eliminate::<4>();
    equations.substitute::<3>();
    equations.substitute::<2>();
    equations.substitute::<1>();
    equations.substitute::<0>();
}

/// The equations of a point.
struct Equations<'a> {
    /// Of the point before, the point itself and the next.
    blocks: [&'a Block; 3],
    /// The point before.
    done: (&'a [Number; KEPT], &'a [Number; 5]),
    /// The upper triangle of the point's own block, with ones on its diagonal.
    upper: Block,
    kept: &'a mut [Number; KEPT],
    r: &'a mut [Number; 5],
}

// Each row is a function of its own, so that all its loops are unrolled and it stays in registers.
impl Equations<'_> {
    /// Eliminates the point before, and the rows before, from a row.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // Rows and columns are indices of the elimination.
    fn eliminate<const ROW: usize>(&mut self) {
        let [before, here, after] = self.blocks;
        let (kept_before, r_before) = self.done;
        let mut own = here[ROW];
        let mut next = after[ROW];
        let mut value = self.r[ROW];
        for k in 0..5 {
            let factor = before[ROW][k];
            for m in 0..5 {
                own[m] = own[m] + factor * kept_before[5 * k + m];
            }
            value = value + factor * r_before[k];
        }
        for p in 0..ROW {
            let factor = own[p];
            for m in p + 1..5 {
                own[m] = own[m] - factor * self.upper[p][m];
            }
            for m in 0..5 {
                next[m] = next[m] - factor * self.kept[5 * p + m];
            }
            value = value - factor * self.r[p];
        }
        let scale = own[ROW].inverse();
        for m in ROW + 1..5 {
            self.upper[ROW][m] = own[m] * scale;
        }
        for m in 0..5 {
            self.kept[5 * ROW + m] = next[m] * scale;
        }
        self.r[ROW] = value * scale;
    }

    /// Substitutes the rows after.
    #[inline(always)]
    fn substitute<const ROW: usize>(&mut self) {
        for p in ROW + 1..5 {
            let factor = self.upper[ROW][p];
            for m in 0..5 {
                let after = self.kept[5 * p + m];
                self.kept[5 * ROW + m] = self.kept[5 * ROW + m] - factor * after;
            }
            self.r[ROW] = self.r[ROW] - factor * self.r[p];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn systems() -> BlockTridiagonal {
        BlockTridiagonal {
            first: 0.03,
            second: 0.2,
        }
    }

    #[test]
    fn jacobians_are_derivatives_of_the_flux_and_the_viscous_terms() {
        // Density, momentum along the line and across it, energy.
        let flux = |u: [f64; 5]| {
            let kinetic = 0.5 * (u[1] * u[1] + u[2] * u[2] + u[3] * u[3]) / u[0];
            let (v, pressure) = (u[1] / u[0], C2 * (u[4] - kinetic));
            [
                u[1],
                u[1] * v + pressure,
                u[2] * v,
                u[3] * v,
                (u[4] + pressure) * v,
            ]
        };
        let viscous = |u: [f64; 5]| {
            let [v, a, b, e] = [u[1] / u[0], u[2] / u[0], u[3] / u[0], u[4] / u[0]];
            let kinetic = 0.5 * (v * v + a * a + b * b);
            let energy = (1.0 - CONDUCTION) * kinetic + v * v / 6.0 + CONDUCTION * e;
            [0.0, 4.0 / 3.0 * v, a, b, energy].map(|t| VISCOSITY * t)
        };
        let u = [1.7, 0.6, -0.8, 0.4, 5.1];
        let all = |x: f64| Lanes::all(x);
        let velocity = [u[1], u[2], u[3]].map(|m| all(m / u[0]));
        let [f, v] = systems().jacobians(all(1.0 / u[0]), velocity, all(u[4] / u[0]));
        for m in 0..5 {
            let step = 1e-5;
            let (mut more, mut less) = (u, u);
            more[m] += step;
            less[m] -= step;
            for row in 0..5 {
                let slope = |of: &dyn Fn([f64; 5]) -> [f64; 5]| {
                    (of(more)[row] - of(less)[row]) / (2.0 * step)
                };
                assert!(
                    (f[row][m].0[0] - 0.03 * slope(&flux)).abs() < 1e-9,
                    "{row} {m}"
                );
                assert!(
                    (v[row][m].0[1] - 0.2 * slope(&viscous)).abs() < 1e-9,
                    "{row} {m}"
                );
            }
        }
    }

    #[test]
    fn what_is_eliminated_and_substituted_solves_the_equations() {
        // Three points with blocks that have nothing special about them.
        let block = |seed: usize, own: bool| -> Block {
            std::array::from_fn(|row| {
                std::array::from_fn(|m| {
                    let number = |lane: usize| {
                        ((seed * 31 + row * 7 + m * 3 + lane * 11) % 13) as f64 / 13.0
                    };
                    let diagonal = if own && row == m { 6.0 } else { 0.0 };
                    Lanes([number(0) + diagonal, number(1) - diagonal])
                })
            })
        };
        let blocks: [[Block; 3]; 3] = std::array::from_fn(|i| {
            [
                block(3 * i, false),
                block(3 * i + 1, true),
                block(3 * i + 2, false),
            ]
        });
        let rhs: [[Number; 5]; 3] = std::array::from_fn(|i| {
            std::array::from_fn(|m| Lanes([(i + m) as f64, 1.0 - m as f64]))
        });
        let mut points = Points::<LANES, KEPT>::new(5);
        points.r[1..4].copy_from_slice(&rhs);
        for i in 1..=3 {
            let (done, r) = points.r.split_at_mut(i);
            let (kept_done, kept) = points.kept.split_at_mut(i);
            let [before, own, after] = &blocks[i - 1];
            eliminate(
                [before, own, after],
                (&kept_done[i - 1], &done[i - 1]),
                (&mut kept[0], &mut r[0]),
            );
        }
        BlockTridiagonal::substitute(&mut points, 3);
        for i in 0..3 {
            let [before, own, after] = &blocks[i];
            for row in 0..5 {
                let mut left = Lanes::ZERO;
                for m in 0..5 {
                    left = left - before[row][m] * points.r[i][m]
                        + own[row][m] * points.r[i + 1][m]
                        + after[row][m] * points.r[i + 2][m];
                }
                for lane in 0..LANES {
                    let off = left.0[lane] - rhs[i][row].0[lane];
                    assert!(off.abs() < 1e-12, "{i} {row} {lane}: {off}");
                }
            }
        }
    }
}
