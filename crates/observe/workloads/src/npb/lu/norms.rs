//! What is verified: norms over the inner points, and an integral over six faces.

use super::field::Field;
use super::share::Share;
use crate::WorkloadError;
use crate::npb::cfd::{C2, State, exact_solution};
use crate::stopwatch::Stopwatch;
use idlewave_fabric::{Fabric, Reduction};
use std::ops::RangeInclusive;

/// Calls `each` with every inner point.
fn each_inner(share: &Share, mut each: impl FnMut([usize; 3])) {
    for k in share.inner(2) {
        for j in share.inner(1) {
            for i in share.inner(0) {
                each([i, j, k]);
            }
        }
    }
}

/// Root mean squares over the inner points of all ranks, from the sums of this one.
fn root_mean<F: Fabric>(
    share: &Share,
    mut sums: State,
    watch: &mut Stopwatch<'_, F>,
) -> Result<State, WorkloadError> {
    watch.allreduce(&mut sums, Reduction::Sum)?;
    let points = (share.grid - 2).pow(3) as f64;
    Ok(sums.map(|sum| (sum / points).sqrt()))
}

/// Root mean squares of a field.
pub fn norms<F: Fabric>(
    field: &Field,
    share: &Share,
    watch: &mut Stopwatch<'_, F>,
) -> Result<State, WorkloadError> {
    let mut sums = [0.0; 5];
    for k in share.inner(2) {
        for j in share.inner(1) {
            for state in field.row(share.inner(0), j, k) {
                for m in 0..5 {
                    sums[m] += state[m] * state[m];
                }
            }
        }
    }
    root_mean(share, sums, watch)
}

/// Root mean squares of the difference from the exact solution.
pub fn errors<F: Fabric>(
    u: &Field,
    share: &Share,
    watch: &mut Stopwatch<'_, F>,
) -> Result<State, WorkloadError> {
    let mut sums = [0.0; 5];
    each_inner(share, |point| {
        let [x, y, z] = std::array::from_fn(|d| share.place(d, point[d] as isize));
        let exact = exact_solution(x, y, z);
        let found = u.states[u.index(point)];
        for m in 0..5 {
            sums[m] += (exact[m] - found[m]).powi(2);
        }
    });
    root_mean(share, sums, watch)
}

/// The box whose surface is integrated over, in points of the whole grid.
fn surface(grid: usize) -> [RangeInclusive<usize>; 3] {
    [1..=grid - 2, 1..=grid - 3, 2..=grid - 2]
}

/// Integral of the pressure over the surface of a box, by the trapezoidal rule.
pub fn surface_integral<F: Fabric>(
    u: &Field,
    share: &Share,
    watch: &mut Stopwatch<'_, F>,
) -> Result<f64, WorkloadError> {
    let surface = surface(share.grid);
    let mut sum = 0.0;
    each_inner(share, |point| {
        let at: [usize; 3] = std::array::from_fn(|d| share.origin[d] + point[d]);
        if (0..3).all(|d| surface[d].contains(&at[d])) {
            let on_face = |d: usize| at[d] == *surface[d].start() || at[d] == *surface[d].end();
            let weight = |d: usize| if on_face(d) { 0.5 } else { 1.0 };
            // A point on an edge or corner counts for every face that it is on.
            let faces = (0..3).filter(|&d| on_face(d));
            let weight: f64 = faces
                .map(|d| weight((d + 1) % 3) * weight((d + 2) % 3))
                .sum();
            let [density, x, y, z, energy] = u.states[u.index(point)];
            sum += weight * C2 * (energy - 0.5 * (x * x + y * y + z * z) / density);
        }
    });
    let mut sum = [sum];
    watch.allreduce(&mut sum, Reduction::Sum)?;
    let spacing = 1.0 / (share.grid - 1) as f64;
    Ok(sum[0] * spacing * spacing)
}
