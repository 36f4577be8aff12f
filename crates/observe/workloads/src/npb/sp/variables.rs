//! Changes of variables: to the characteristics of the x direction, from those of one direction to
//! those of the next, and back.
//!
//! They are products of the eigenvectors of the Jacobians of the three fluxes.

use crate::npb::cells::{Cell, Lanes, PRESSURE, RHO, VELOCITY};
use crate::npb::cfd::{C1, C2};
use std::f64::consts::FRAC_1_SQRT_2;

/// Sets the speed of sound, in the border too.
pub fn set_sound(cell: &Cell, sound: &mut [f64]) {
    let range = cell.one_step_outside();
    let rho = &cell.derived.of(RHO)[range.clone()];
    let pressure = &cell.derived.of(PRESSURE)[range.clone()];
    for ((sound, rho), pressure) in sound[range].iter_mut().zip(rho).zip(pressure) {
        *sound = (C1 * pressure * rho).sqrt();
    }
}

/// From the conserved quantities to the characteristics of the x direction.
pub fn to_characteristics(cell: &mut Cell, sound: &[f64]) {
    for row in cell.rows() {
        let derived = cell.derived.rows(row.clone());
        let rho = derived[RHO];
        let [vx, vy, vz] = [0, 1, 2].map(|d| derived[VELOCITY + d]);
        let sound = &sound[row.clone()];
        let [r0, r1, r2, r3, r4] = cell.rhs.rows_mut(row);
        for i in 0..r0.len() {
            let [mass, mx, my, mz, energy] = [r0[i], r1[i], r2[i], r3[i], r4[i]];
            let [x, y, z] = [vx[i], vy[i], vz[i]];
            let kinetic = 0.5 * (x * x + y * y + z * z);
            let inverse = 1.0 / sound[i];
            let pressure = C2 * (kinetic * mass - x * mx - y * my - z * mz + energy);
            let scaled = FRAC_1_SQRT_2 * rho[i];
            let flow = scaled * (x * mass - mx);
            let wave = scaled * pressure * inverse;
            r0[i] = mass - pressure * (inverse * inverse);
            r1[i] = -rho[i] * (z * mass - mz);
            r2[i] = rho[i] * (y * mass - my);
            r3[i] = wave - flow;
            r4[i] = wave + flow;
        }
    }
}

/// From the characteristics of the x direction to those of the y direction.
#[inline(always)]
pub fn from_x<const L: usize>([a, b, c, d, e]: [Lanes<L>; 5]) -> [Lanes<L>; 5] {
    let (t, half) = (c * FRAC_1_SQRT_2, (d + e) * 0.5);
    [-b, a, (d - e) * FRAC_1_SQRT_2, half - t, half + t]
}

/// From those of the y direction to those of the z direction.
#[inline(always)]
pub fn from_y<const L: usize>([a, b, c, d, e]: [Lanes<L>; 5]) -> [Lanes<L>; 5] {
    let (t, half) = (a * FRAC_1_SQRT_2, (d + e) * 0.5);
    [(d - e) * FRAC_1_SQRT_2, -c, b, half - t, half + t]
}

/// From those of the z direction to the conserved quantities.
pub fn from_characteristics(cell: &mut Cell, sound: &[f64]) {
    for row in cell.rows() {
        let derived = cell.derived.rows(row.clone());
        let [vx, vy, vz] = [0, 1, 2].map(|d| derived[VELOCITY + d]);
        let [density, ..] = cell.u.rows(row.clone());
        let sound = &sound[row.clone()];
        let [r0, r1, r2, r3, r4] = cell.rhs.rows_mut(row);
        for i in 0..r0.len() {
            let [a, b, c, d, e] = [r0[i], r1[i], r2[i], r3[i], r4[i]];
            let [x, y, z] = [vx[i], vy[i], vz[i]];
            let kinetic = 0.5 * (x * x + y * y + z * z);
            let (density, sound) = (density[i], sound[i]);
            let scaled = FRAC_1_SQRT_2 * density;
            let wave = scaled / sound * (d + e);
            let mass = c + wave;
            let flow = scaled * (d - e);
            r0[i] = mass;
            r1[i] = x * mass - density * b;
            r2[i] = y * mass + density * a;
            r3[i] = z * mass + flow;
            r4[i] = density * (y * a - x * b)
                + kinetic * mass
                + (1.0 / C2) * (sound * sound) * wave
                + z * flow;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npb::cfd::exact_solution;

    #[test]
    fn once_around_all_variables_changes_nothing() {
        let mut cell = Cell::new([0; 3], 1, 8);
        cell.set(exact_solution);
        cell.derive();
        let mut sound = vec![0.0; cell.points_with_border()];
        set_sound(&cell, &mut sound);
        let points: Vec<usize> = cell.rows().flatten().collect();
        let before = |at: usize| std::array::from_fn(|m| ((at * 5 + m * 3) % 17) as f64 / 17.0);
        for &at in &points {
            cell.rhs.set(at, before(at));
        }
        to_characteristics(&mut cell, &sound);
        for &at in &points {
            let next = from_y(from_x(cell.rhs.at(at).map(|r| Lanes([r]))));
            cell.rhs.set(at, next.map(|r| r.0[0]));
        }
        from_characteristics(&mut cell, &sound);
        for &at in &points {
            for (found, wanted) in cell.rhs.at(at).iter().zip(before(at)) {
                assert!((found - wanted).abs() < 1e-13, "{found} {wanted}");
            }
        }
    }

    #[test]
    fn the_speed_of_sound_is_that_of_an_ideal_gas() {
        let mut cell = Cell::new([0; 3], 1, 8);
        // Pressure 0.4 * (3 - 0.5 * 2 * 0.25) = 1.1.
        cell.set(|_, _, _| [2.0, 1.0, 0.0, 0.0, 3.0]);
        cell.derive();
        let mut sound = vec![0.0; cell.points_with_border()];
        set_sound(&cell, &mut sound);
        assert!((sound[cell.first] - (1.4_f64 * 1.1 / 2.0).sqrt()).abs() < 1e-15);
    }
}
