//! The pentadiagonal systems along lines: one for the three characteristics that move with the fluid,
//! and one each for those that move with the speed of sound relative to it.

use super::variables::{from_x, from_y};
use crate::npb::cells::{Batch, Cell, Flow, Lanes, Points, RHO, Scheme, VELOCITY};
use crate::npb::cfd::{CONDUCTION, DIFFUSION, DISSIPATION, VISCOSITY};

/// Lines that are solved at once: two registers of the vector unit every x86-64 has, since a line is
/// a chain of operations that wait for each other.
pub const LANES: usize = 4;
/// What elimination keeps of a point: the factors of the next two points in three systems.
pub const KEPT: usize = 6;

type Number = Lanes<LANES>;

/// A point as the systems see it: the speed of the fluid and of sound, and the second-order
/// dissipation, times their factors.
#[derive(Clone, Copy, Debug)]
struct Speeds {
    fluid: Number,
    sound: Number,
    spread: Number,
}

/// The systems of lines.
#[derive(Debug)]
pub struct Pentadiagonal {
    /// The speed of sound in each cell, with the border.
    pub sound: Vec<Vec<f64>>,
    dt: f64,
    /// Time step over twice the distance of points.
    first: f64,
    /// Time step over the square of the distance.
    second: f64,
    /// At the points of a line, and at those before and after it.
    speeds: Vec<Speeds>,
}

impl Pentadiagonal {
    pub fn new(flow: &Flow) -> Self {
        let h = 1.0 / f64::from(flow.grid - 1);
        let none = Speeds {
            fluid: Lanes::ZERO,
            sound: Lanes::ZERO,
            spread: Lanes::ZERO,
        };
        let of = |cell: &Cell| vec![0.0; cell.points_with_border()];
        Self {
            sound: flow.cells.iter().map(of).collect(),
            dt: flow.dt,
            first: flow.dt / (2.0 * h),
            second: flow.dt / (h * h),
            speeds: vec![none; flow.longest_line() + 2],
        }
    }

    /// Bytes of its arrays at most.
    pub const fn memory(grid: u32, ranks: u32) -> u64 {
        let n = Flow::longest(grid, ranks);
        let sound = Flow::most_points_with_border(grid, ranks);
        (8 * sound + (n + 2) * size_of::<Speeds>()) as u64
    }

    #[cfg(test)]
    pub fn held(&self) -> usize {
        let sound = self.sound.iter().map(|sound| size_of_val(&sound[..]));
        sound.sum::<usize>() + size_of_val(&self.speeds[..])
    }
}

impl Scheme<LANES, KEPT> for Pentadiagonal {
    const REACH: usize = 2;

    fn order(_: usize) -> [usize; 5] {
        [0, 1, 2, 3, 4]
    }

    fn eliminate(
        &mut self,
        index: usize,
        cell: &Cell,
        batch: &Batch<LANES>,
        points: &mut Points<LANES, KEPT>,
    ) {
        let (d, n) = (batch.direction, batch.n);
        let rho = cell.derived.of(RHO);
        let velocity = cell.derived.of(VELOCITY + d);
        let sound = &self.sound[index];
        let mut places = batch.first.map(|first| first - batch.step);
        for speeds in &mut self.speeds[..n + 2] {
            let gather = |from: &[f64]| Lanes::gather(from, places);
            // The largest of the coefficients of the five equations: that of the energy.
            let diffusion = gather(rho) * (VISCOSITY * CONDUCTION) + Lanes::all(DIFFUSION[d]);
            *speeds = Speeds {
                fluid: gather(velocity) * self.first,
                sound: gather(sound) * self.first,
                spread: diffusion * self.second,
            };
            places.iter_mut().for_each(|place| *place += batch.step);
        }
        let fourth = self.dt * DISSIPATION;
        let speeds = &self.speeds[..n + 2];
        let (r, kept) = (&mut points.r[..n + 2], &mut points.kept[..n + 2]);
        for i in 0..n {
            let at_end = i == 0 && cell.ends[d][0] || i + 1 == n && cell.ends[d][1];
            let here = if at_end { 5.0 } else { 6.0 } * fourth;
            let far = Lanes::all(fourth);
            let [before, own, after] = [&speeds[i], &speeds[i + 1], &speeds[i + 2]];
            let near = Lanes::all(-4.0 * fourth);
            let own = own.spread * 2.0 + Lanes::all(1.0 + here);
            let low = near - before.fluid - before.spread;
            let high = near + after.fluid - after.spread;
            let (done, left) = r.split_at_mut(i + 2);
            let (kept_done, kept_left) = kept.split_at_mut(i + 2);
            let mut equations = Equations {
                own,
                far,
                done: [&done[i], &done[i + 1]],
                kept_done: [&kept_done[i], &kept_done[i + 1]],
                r: &mut left[0],
                kept: &mut kept_left[0],
            };
            equations.eliminate::<0, 0, 3>(low, high);
            equations.eliminate::<2, 3, 4>(low - before.sound, high + after.sound);
            equations.eliminate::<4, 4, 5>(low + before.sound, high - after.sound);
        }
    }

    fn substitute(points: &mut Points<LANES, KEPT>, n: usize) {
        let r = &mut points.r[..n + 4];
        let kept = &points.kept[..n + 4];
        for i in (2..n + 2).rev() {
            let [one, two] = [r[i + 1], r[i + 2]];
            for m in 0..5 {
                let k = [0, 0, 0, 2, 4][m];
                r[i][m] = r[i][m] - kept[i][k] * one[m] - kept[i][k + 1] * two[m];
            }
        }
    }

    #[inline(always)]
    fn finish(direction: usize, solved: [Number; 5]) -> [Number; 5] {
        match direction {
            0 => from_x(solved),
            1 => from_y(solved),
            // The rest needs the flow.
            _ => solved,
        }
    }
}

/// The equations of a point.
struct Equations<'a> {
    /// Factors of the point itself and of those two away.
    own: Number,
    far: Number,
    /// The two points before.
    done: [&'a [Number; 5]; 2],
    kept_done: [&'a [Number; KEPT]; 2],
    r: &'a mut [Number; 5],
    kept: &'a mut [Number; KEPT],
}

impl Equations<'_> {
    /// Eliminates the points before in the system of components `FIRST..END`, whose factors of the
    /// points next to it are `low` and `high`. It keeps its factors from `K` on.
    #[inline(always)]
    fn eliminate<const K: usize, const FIRST: usize, const END: usize>(
        &mut self,
        low: Number,
        high: Number,
    ) {
        let ([k2, k1], [r2, r1]) = (self.kept_done, self.done);
        let low = low - self.far * k2[K];
        let own = self.own - self.far * k2[K + 1] - low * k1[K];
        let scale = own.inverse();
        self.kept[K] = (high - low * k1[K + 1]) * scale;
        self.kept[K + 1] = self.far * scale;
        for m in FIRST..END {
            self.r[m] = (self.r[m] - self.far * r2[m] - low * r1[m]) * scale;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_eliminated_and_substituted_solves_the_equations() {
        let number = |seed: usize| {
            Lanes::<LANES>(std::array::from_fn(|lane| {
                ((seed * 5 + lane * 3) % 11) as f64 / 11.0
            }))
        };
        let far = Lanes::all(0.25);
        // Factors of the points before, at and after a point, in the three systems.
        let (own, low, high) = (
            |i: usize| number(i) + Lanes::all(4.0),
            |i: usize, k: usize| number(i + 2 * k + 1) - Lanes::all(1.0),
            |i: usize, k: usize| number(i + 3 * k + 2) - Lanes::all(1.0),
        );
        let n = 6;
        let mut points = Points::<LANES, KEPT>::new(n + 4);
        for i in 2..n + 2 {
            points.r[i] = std::array::from_fn(|m| number(i + 7 * m));
        }
        let rhs = points.r.clone();
        for i in 2..n + 2 {
            let (done, r) = points.r.split_at_mut(i);
            let (kept_done, kept) = points.kept.split_at_mut(i);
            let mut equations = Equations {
                own: own(i),
                far,
                done: [&done[i - 2], &done[i - 1]],
                kept_done: [&kept_done[i - 2], &kept_done[i - 1]],
                r: &mut r[0],
                kept: &mut kept[0],
            };
            equations.eliminate::<0, 0, 3>(low(i, 0), high(i, 0));
            equations.eliminate::<2, 3, 4>(low(i, 1), high(i, 1));
            equations.eliminate::<4, 4, 5>(low(i, 2), high(i, 2));
        }
        Pentadiagonal::substitute(&mut points, n);
        for (i, rhs) in rhs.iter().enumerate().take(n + 2).skip(2) {
            for (m, k) in [0, 0, 0, 1, 2].into_iter().enumerate() {
                let x = |at: usize| points.r[at][m];
                let left = far * (x(i - 2) + x(i + 2))
                    + low(i, k) * x(i - 1)
                    + own(i) * x(i)
                    + high(i, k) * x(i + 1);
                for lane in 0..LANES {
                    let off = left.0[lane] - rhs[m].0[lane];
                    assert!(off.abs() < 1e-12, "{i} {m} {lane}: {off}");
                }
            }
        }
    }
}
