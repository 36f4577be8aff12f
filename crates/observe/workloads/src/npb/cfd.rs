//! What LU, SP and BT share: the simulated application, a synthetic system of five nonlinear
//! partial differential equations on the unit cube whose steady solution is known (RNR-94-007,
//! section 3.2 to 3.3).
//!
//! The five unknowns are density, momentum along x, y and z, and energy. With the operator R that
//! holds fluxes, viscous terms and fourth-order dissipation, the programs integrate
//! dU/dt = R(U) - R(exact) until U is near the exact solution. Fluxes are those of the compressible
//! Navier-Stokes equations.

use super::kernel::Check;

/// Density, momentum along x, y and z, and energy.
pub type State = [f64; 5];

/// Ratio of specific heats (k1 in the specification, c1 in NPB).
pub const C1: f64 = 1.4;
/// C1 - 1: the pressure is C2 times the inner energy.
pub const C2: f64 = 0.4;
/// Viscosity.
const C3: f64 = 0.1;
/// Scale of the viscosity.
const C4: f64 = 1.0;
/// Scale of the heat flux.
const C5: f64 = 1.4;
/// Of the terms of second order in the velocities.
pub const VISCOSITY: f64 = C3 * C4;
/// Conduction of heat per viscosity.
pub const CONDUCTION: f64 = C1 * C5;
/// Coefficients of the second-order dissipation along x, y and z, the same for all unknowns.
pub const DIFFUSION: [f64; 3] = [0.75, 0.75, 1.0];
/// Coefficient of the fourth-order dissipation: a quarter of the largest [`DIFFUSION`].
pub const DISSIPATION: f64 = 1.0 / 4.0;

/// The largest relative difference from published values that the specification allows.
pub const TOLERANCE: f64 = 1e-8;

/// The norms of each unknown's residual, or error, beside the published ones.
pub fn norm_checks(what: &str, found: State, published: State) -> impl Iterator<Item = Check> {
    (1..)
        .zip(found.into_iter().zip(published))
        .map(move |(number, (found, published))| Check {
            name: format!("norm {number} of the {what}"),
            found,
            published,
            tolerance: TOLERANCE,
        })
}

/// Coefficients of the exact solution: for each unknown those of 1, then x, y, z, then their
/// squares, cubes and fourth powers.
const COEFFICIENTS: [[f64; 13]; 5] = [
    [
        2.0, 0.0, 0.0, 4.0, 5.0, 3.0, 0.5, 0.02, 0.01, 0.03, 0.5, 0.4, 0.3,
    ],
    [
        1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.01, 0.03, 0.02, 0.4, 0.3, 0.5,
    ],
    [
        2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.04, 0.03, 0.05, 0.3, 0.5, 0.4,
    ],
    [
        2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.03, 0.05, 0.04, 0.2, 0.1, 0.3,
    ],
    [
        5.0, 4.0, 3.0, 2.0, 0.1, 0.4, 0.3, 0.05, 0.04, 0.03, 0.1, 0.3, 0.2,
    ],
];

/// The exact steady solution at a point of the unit cube.
pub fn exact_solution(xi: f64, eta: f64, zeta: f64) -> State {
    let place = [xi, eta, zeta];
    COEFFICIENTS.map(|c| {
        let along = |d: usize| {
            let x = place[d];
            x * (c[1 + d] + x * (c[4 + d] + x * (c[7 + d] + x * c[10 + d])))
        };
        c[0] + along(0) + along(1) + along(2)
    })
}

/// The state to start from: the exact solution on the six faces of the cube, and inside what their
/// values give by transfinite interpolation. On a face a coordinate is exactly 0 or 1: a quotient of
/// integers, not a multiple of the spacing.
pub fn initial_solution(xi: f64, eta: f64, zeta: f64) -> State {
    let place = [xi, eta, zeta];
    if place.iter().any(|&x| x == 0.0 || x == 1.0) {
        return exact_solution(xi, eta, zeta);
    }
    // Between the two faces across a dimension.
    let between = |d: usize| {
        let on_face = |x: f64| {
            let mut foot = place;
            foot[d] = x;
            exact_solution(foot[0], foot[1], foot[2])
        };
        let (low, high) = (on_face(0.0), on_face(1.0));
        let x = place[d];
        std::array::from_fn::<f64, 5, _>(|m| (1.0 - x) * low[m] + x * high[m])
    };
    let [p, q, r] = [between(0), between(1), between(2)];
    std::array::from_fn(|m| {
        let (p, q, r) = (p[m], q[m], r[m]);
        p + q + r - p * q - q * r - r * p + p * q * r
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_solution_is_the_polynomial_of_the_specification() {
        // At the origin only the constants are left; at the opposite corner all coefficients add up.
        assert_eq!(exact_solution(0.0, 0.0, 0.0), [2.0, 1.0, 2.0, 2.0, 5.0]);
        let sums = COEFFICIENTS.map(|c| c.iter().sum::<f64>());
        for (found, sum) in exact_solution(1.0, 1.0, 1.0).iter().zip(sums) {
            assert!((found - sum).abs() < 1e-13);
        }
        // Energy: 5 + 4/2 + 0.1/4 + 0.05/8 + 0.1/16 at x = 1/2.
        assert!((exact_solution(0.5, 0.0, 0.0)[4] - 7.0375).abs() < 1e-14);
        // Density: 2 + 4/2 + 0.5/4 + 0.03/8 + 0.3/16 at z = 1/2.
        assert!((exact_solution(0.0, 0.0, 0.5)[0] - 4.1475).abs() < 1e-14);
    }

    #[test]
    fn the_start_is_exact_on_the_faces_alone() {
        let (a, b) = (0.3, 0.6);
        for place in [
            [0.0, a, b],
            [1.0, a, b],
            [a, 0.0, b],
            [a, 1.0, b],
            [a, b, 0.0],
            [a, b, 1.0],
        ] {
            let [x, y, z] = place;
            assert_eq!(initial_solution(x, y, z), exact_solution(x, y, z));
        }
        let (start, exact) = (initial_solution(a, b, b), exact_solution(a, b, b));
        assert!(start.iter().zip(exact).all(|(s, e)| (s - e).abs() > 0.1));
    }
}
