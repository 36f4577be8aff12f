//! The right-hand side: the operator R(U) less the forcing term.

use super::field::{Field, HALO};
use super::share::Share;
use crate::npb::cfd::{C2, CONDUCTION, DIFFUSION, DISSIPATION, State, VISCOSITY};
use crate::npb::traffic::Operation;
use std::array::from_fn;

/// Nanoseconds per inner point in one run of class W on one core of a virtual machine: only its ratio
/// to other costs matters.
const COST: u64 = 69;

/// What [`Residual::apply`] does.
pub fn traffic(share: &Share) -> Operation {
    let points = (0..3).map(|d| share.inner(d).len()).product::<usize>();
    Operation::Compute(COST * points as u64)
}

/// What the fluxes of a point depend on, besides its state.
#[derive(Clone, Copy, Debug, Default)]
struct Primitive {
    velocity: [f64; 3],
    pressure: f64,
    /// What drives the flux of heat, without the share of the velocity along it.
    heat: f64,
}

impl Primitive {
    #[inline(always)]
    fn new(u: &State) -> Self {
        let volume = 1.0 / u[0];
        let velocity = [volume * u[1], volume * u[2], volume * u[3]];
        let [x, y, z] = velocity;
        let kinetic = 0.5 * (x * x + y * y + z * z);
        Self {
            velocity,
            pressure: C2 * (u[4] - u[0] * kinetic),
            heat: (1.0 - CONDUCTION) * kinetic + CONDUCTION * volume * u[4],
        }
    }

    /// The convective flux along a dimension.
    #[inline(always)]
    fn flux<const D: usize>(&self, u: &State) -> State {
        let v = self.velocity[D];
        let mut flux = [
            u[1 + D],
            u[1] * v,
            u[2] * v,
            u[3] * v,
            (u[4] + self.pressure) * v,
        ];
        flux[1 + D] += self.pressure;
        flux
    }
}

/// The operator R on the points of one rank.
#[derive(Debug)]
pub struct Residual {
    /// 1 / (2 spacing) and viscosity / spacing².
    convection: f64,
    viscosity: f64,
    /// Weights of the five states around each inner point, along each dimension.
    weights: [Vec<State>; 3],
    /// Primitives of three planes; those of plane k are in the one with number k modulo 3.
    planes: [Vec<Primitive>; 3],
}

/// Weights of dissipation along a dimension, of second and fourth order. Near a face of the cube the
/// fourth-order stencil loses the points on the face and beyond it.
fn weights(share: &Share, d: usize) -> Vec<State> {
    let last = share.grid - 1;
    let second = (last * last) as f64 * DIFFUSION[d];
    let weights = |local: usize| {
        let at = share.origin[d] + local;
        let fourth = match at {
            1 => [0.0, 0.0, 5.0, -4.0, 1.0],
            2 => [0.0, -4.0, 6.0, -4.0, 1.0],
            _ if at + 1 == last => [1.0, -4.0, 5.0, 0.0, 0.0],
            _ if at + 2 == last => [1.0, -4.0, 6.0, -4.0, 0.0],
            _ => [1.0, -4.0, 6.0, -4.0, 1.0],
        };
        let neighbours = [0.0, 1.0, -2.0, 1.0, 0.0];
        from_fn(|n| second * neighbours[n] - DISSIPATION * fourth[n])
    };
    share.inner(d).map(weights).collect()
}

impl Residual {
    /// For the share of a rank.
    pub fn new(share: &Share) -> Self {
        let inverse = (share.grid - 1) as f64;
        let [x, y, _] = share.size;
        let (points, _) = Field::layout([x, y, 1]);
        Self {
            convection: 0.5 * inverse,
            viscosity: inverse * inverse * VISCOSITY,
            weights: from_fn(|d| weights(share, d)),
            planes: from_fn(|_| vec![Primitive::default(); points]),
        }
    }

    /// Bytes of its arrays.
    pub fn bytes(share: &Share) -> usize {
        let [x, y, _] = share.size;
        let (points, _) = Field::layout([x, y, 1]);
        let inner: usize = (0..3).map(|d| share.inner(d).len()).sum();
        3 * points * size_of::<Primitive>() + inner * size_of::<State>()
    }

    #[cfg(test)]
    pub fn held(&self) -> usize {
        let planes: usize = self.planes.iter().map(Vec::capacity).sum();
        let weights: usize = self.weights.iter().map(Vec::capacity).sum();
        planes * size_of::<Primitive>() + weights * size_of::<State>()
    }

    /// Sets the inner points of `result` to R(`u`) - `forcing`. `u` holds the points of the
    /// neighbours.
    pub fn apply(&mut self, share: &Share, u: &Field, forcing: &Field, result: &mut Field) {
        self.fill(share, u, 0);
        self.fill(share, u, 1);
        for k in share.inner(2) {
            self.fill(share, u, k + 1);
            for j in share.inner(1) {
                self.row(share, u, forcing, result, j, k);
            }
        }
    }

    /// Primitives of a plane, with one point more on each side that has a neighbour.
    fn fill(&mut self, share: &Share, u: &Field, k: usize) {
        let [_, row, plane] = u.strides;
        let reach = |d: usize| {
            let [below, above] = share.neighbours[d].map(|n| usize::from(n.is_some()));
            HALO - below..HALO + share.size[d] + above
        };
        let states = &u.states[k * plane..(k + 1) * plane];
        for j in reach(1) {
            let range = j * row + reach(0).start..j * row + reach(0).end;
            let primitives = &mut self.planes[k % 3][range.clone()];
            for (primitive, state) in primitives.iter_mut().zip(&states[range]) {
                *primitive = Primitive::new(state);
            }
        }
    }

    fn row(
        &self,
        share: &Share,
        u: &Field,
        forcing: &Field,
        result: &mut Field,
        j: usize,
        k: usize,
    ) {
        let inner = share.inner(0);
        let n = inner.len();
        let [_, row, plane] = u.strides;
        let first = u.index([inner.start, j, k]);
        let states = |from: usize| &u.states[from..][..n];
        let line = |stride: usize| {
            [
                states(first - 2 * stride),
                states(first - stride),
                states(first),
                states(first + stride),
                states(first + 2 * stride),
            ]
        };
        // Beyond the lowest and the highest plane the weight is 0: any other will do.
        let below = plane * k.min(2);
        let above = plane * (share.size[2] - 1 - k).min(2);
        let pile = [
            states(first - below),
            states(first - plane),
            states(first),
            states(first + plane),
            states(first + above),
        ];
        let place = first - k * plane;
        let primitives = |k: usize, from: usize| &self.planes[k % 3][from..][..n];
        let near = |stride: usize| {
            [
                primitives(k, place - stride),
                primitives(k, place),
                primitives(k, place + stride),
            ]
        };
        let stack = [
            primitives(k - 1, place),
            primitives(k, place),
            primitives(k + 1, place),
        ];
        let result = &mut result.states[first..][..n];
        for (result, forcing) in result.iter_mut().zip(forcing.row(inner, j, k)) {
            *result = forcing.map(|f| -f);
        }
        let [along_x, along_y, along_z] = &self.weights;
        let along_x = &along_x[..n];
        let (at_j, at_k) = (along_y[j - share.inner(1).start], along_z[k - 1]);
        self.add_row::<0>(|i| along_x[i], line(1), near(1), result);
        self.add_row::<1>(|_| at_j, line(row), near(row), result);
        self.add_row::<2>(|_| at_k, pile, stack, result);
    }

    /// Adds what the neighbours along a dimension contribute to the points of a row: the five states
    /// and the three primitives around each, in ascending order.
    #[inline(always)]
    fn add_row<const D: usize>(
        &self,
        weights: impl Fn(usize) -> State,
        u: [&[State]; 5],
        near: [&[Primitive]; 3],
        result: &mut [State],
    ) {
        let n = result.len();
        let [u0, u1, u2, u3, u4] = u.map(|u| &u[..n]);
        let [below, at, above] = near.map(|p| &p[..n]);
        for (i, sum) in result.iter_mut().enumerate() {
            let u = [u0[i], u1[i], u2[i], u3[i], u4[i]];
            let near = [&below[i], &at[i], &above[i]];
            self.add::<D>(&weights(i), &u, near, sum);
        }
    }

    /// The same for one point.
    #[inline(always)]
    fn add<const D: usize>(
        &self,
        weights: &State,
        u: &[State; 5],
        [below, at, above]: [&Primitive; 3],
        sum: &mut State,
    ) {
        let (low, high) = (below.flux::<D>(&u[1]), above.flux::<D>(&u[3]));
        for m in 0..5 {
            let dissipation = weights[0] * u[0][m]
                + weights[1] * u[1][m]
                + weights[2] * u[2][m]
                + weights[3] * u[3][m]
                + weights[4] * u[4][m];
            sum[m] += dissipation - self.convection * (high[m] - low[m]);
        }
        let bend = |of: fn(&Primitive) -> f64| of(below) - 2.0 * of(at) + of(above);
        let bends = [
            bend(|p| p.velocity[0]),
            bend(|p| p.velocity[1]),
            bend(|p| p.velocity[2]),
        ];
        for c in 0..3 {
            sum[1 + c] += self.viscosity * bends[c];
        }
        sum[1 + D] += self.viscosity * (1.0 / 3.0) * bends[D];
        let heat = bend(|p| p.heat + p.velocity[D] * p.velocity[D] * (1.0 / 6.0));
        sum[4] += self.viscosity * heat;
    }
}
