//! The right-hand side: the operator R(U) less the forcing term.

use super::field::{Field, HALO};
use super::share::Share;
use crate::npb::cfd::{C1, C2, C3, C4, C5, DIFFUSION, DISSIPATION, State};
use std::array::from_fn;

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
            heat: (1.0 - C1 * C5) * kinetic + C1 * C5 * volume * u[4],
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

/// Weights of dissipation along a dimension, of second and fourth order. Next to a face of the cube
/// the fourth-order stencil loses what lies beyond it.
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
            viscosity: inverse * inverse * C3 * C4,
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
        // Beyond the lowest and the highest plane the weight is 0: any other will do.
        let (bottom, top) = (k.saturating_sub(2), (k + 2).min(share.size[2] - 1));
        let level = |other: usize| first + other * plane - k * plane;
        let around: [[&[State]; 5]; 3] = [
            from_fn(|s| states(first + s - 2)),
            from_fn(|s| states(first + s * row - 2 * row)),
            [
                states(level(bottom)),
                states(first - plane),
                states(first),
                states(first + plane),
                states(level(top)),
            ],
        ];
        let place = first - k * plane;
        let primitives = |k: usize, from: usize| &self.planes[k % 3][from..][..n];
        let near: [[&[Primitive]; 3]; 3] = [
            from_fn(|s| primitives(k, place + s - 1)),
            from_fn(|s| primitives(k, place + s * row - row)),
            from_fn(|s| primitives(k + s - 1, place)),
        ];
        let (wx, wy, wz) = (
            &self.weights[0][..n],
            &self.weights[1][j - share.inner(1).start],
            &self.weights[2][k - 1],
        );
        let forcing = forcing.row(inner.clone(), j, k);
        let forcing = &forcing[..n];
        let result = &mut result.states[first..][..n];
        for i in 0..n {
            let mut sum = forcing[i].map(|f| -f);
            self.add::<0>(
                &wx[i],
                around[0].map(|s| &s[i]),
                near[0].map(|p| &p[i]),
                &mut sum,
            );
            self.add::<1>(
                wy,
                around[1].map(|s| &s[i]),
                near[1].map(|p| &p[i]),
                &mut sum,
            );
            self.add::<2>(
                wz,
                around[2].map(|s| &s[i]),
                near[2].map(|p| &p[i]),
                &mut sum,
            );
            result[i] = sum;
        }
    }

    /// Adds what the neighbours along a dimension contribute to a point: the five states and the
    /// three primitives around it, in ascending order.
    #[inline(always)]
    fn add<const D: usize>(
        &self,
        weights: &State,
        u: [&State; 5],
        [below, at, above]: [&Primitive; 3],
        sum: &mut State,
    ) {
        let (low, high) = (below.flux::<D>(u[1]), above.flux::<D>(u[3]));
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
