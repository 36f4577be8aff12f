//! The Lennard-Jones force, and its sum over a list of pairs.
//!
//! u(r) = 4 (r^-12 - r^-6) - u0 within the cut-off, 0 beyond; u0 makes the potential continuous
//! there, so that energy is conserved. The force still jumps by 0.039 at the cut-off. Lengths are
//! in units of sigma, energies in units of epsilon.

use super::particles::Vector;

/// Pairs farther apart do not interact.
pub const CUTOFF: f64 = 2.5;
const CUTOFF_SQUARED: f64 = CUTOFF * CUTOFF;

/// Force along the line between two particles divided by their distance, from the square of the
/// distance; positive where they repel.
#[inline(always)]
pub fn force_over_distance(square: f64) -> f64 {
    let inverse = 1.0 / square;
    let sixth = inverse * inverse * inverse;
    (48.0 * sixth - 24.0) * sixth * inverse
}

/// Potential of a pair within the cut-off, from the square of its distance, without the shift.
fn bare_potential(square: f64) -> f64 {
    let sixth = 1.0 / (square * square * square);
    4.0 * sixth * (sixth - 1.0)
}

/// Potential of a pair from the square of its distance.
pub fn potential(square: f64) -> f64 {
    if square < CUTOFF_SQUARED {
        bare_potential(square) - bare_potential(CUTOFF_SQUARED)
    } else {
        0.0
    }
}

/// For every owned particle the particles close to it: the owned ones that follow it, and all
/// ghosts.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    /// Where the partners of each owned particle start, plus the end of the last ones.
    pub starts: Vec<u32>,
    /// Indices of the partners.
    pub partners: Vec<u32>,
}

impl Pairs {
    /// Partners of owned particle `index`.
    #[inline(always)]
    pub fn of(&self, index: usize) -> &[u32] {
        &self.partners[self.starts[index] as usize..self.starts[index + 1] as usize]
    }
}

/// Pairs processed together, so that the compiler can vectorize.
const LANES: usize = 4;

#[inline(always)]
fn between(from: &Vector, to: &Vector) -> (Vector, f64) {
    let d = [from[0] - to[0], from[1] - to[1], from[2] - to[2]];
    (d, d[0] * d[0] + d[1] * d[1] + d[2] * d[2])
}

/// Puts the forces on the first `own` particles into `forces`. A pair of owned particles is visited
/// once and acts on both; what accumulates for ghosts is meaningless.
pub fn forces(positions: &[Vector], own: usize, pairs: &Pairs, forces: &mut Vec<Vector>) {
    forces.clear();
    forces.resize(positions.len(), [0.0; 3]);
    let forces = &mut forces[..positions.len()];
    for i in 0..own {
        let here = positions[i];
        let mut sum = forces[i];
        let (groups, rest) = pairs.of(i).as_chunks_of::<LANES>();
        for group in groups {
            let mut away = [[0.0; LANES]; 3];
            for (lane, &j) in group.iter().enumerate() {
                let there = &positions[j as usize];
                for d in 0..3 {
                    away[d][lane] = here[d] - there[d];
                }
            }
            let mut strength = [0.0; LANES];
            for lane in 0..LANES {
                let [x, y, z] = [away[0][lane], away[1][lane], away[2][lane]];
                let square = x * x + y * y + z * z;
                let inside = force_over_distance(square);
                strength[lane] = if square < CUTOFF_SQUARED { inside } else { 0.0 };
            }
            for (lane, &j) in group.iter().enumerate() {
                let there = &mut forces[j as usize];
                for d in 0..3 {
                    let f = strength[lane] * away[d][lane];
                    sum[d] += f;
                    there[d] -= f;
                }
            }
        }
        for &j in rest {
            let (away, square) = between(&here, &positions[j as usize]);
            if square < CUTOFF_SQUARED {
                let strength = force_over_distance(square);
                let there = &mut forces[j as usize];
                for d in 0..3 {
                    sum[d] += strength * away[d];
                    there[d] -= strength * away[d];
                }
            }
        }
        forces[i] = sum;
    }
}

/// `slice::as_chunks`, which the oldest supported compiler lacks.
trait AsChunks {
    fn as_chunks_of<const N: usize>(&self) -> (impl Iterator<Item = &[u32; N]>, &[u32]);
}

impl AsChunks for [u32] {
    #[inline(always)]
    fn as_chunks_of<const N: usize>(&self) -> (impl Iterator<Item = &[u32; N]>, &[u32]) {
        let chunks = self.chunks_exact(N);
        let rest = chunks.remainder();
        // Every chunk has N items, so none is dropped.
        (chunks.filter_map(|c| <&[u32; N]>::try_from(c).ok()), rest)
    }
}

/// Potential energy of the pairs. A pair with a ghost counts half; the ghost's owner counts the
/// other half.
pub fn energy(positions: &[Vector], own: usize, pairs: &Pairs) -> f64 {
    let mut sum = 0.0;
    for i in 0..own {
        for &j in pairs.of(i) {
            let (_, square) = between(&positions[i], &positions[j as usize]);
            let share = if (j as usize) < own { 1.0 } else { 0.5 };
            sum += share * potential(square);
        }
    }
    sum
}

/// Pairs within the cut-off that [`forces`] visits.
pub fn interactions(positions: &[Vector], own: usize, pairs: &Pairs) -> u64 {
    let near = |i: usize| {
        let here = positions[i];
        pairs
            .of(i)
            .iter()
            .filter(|&&j| between(&here, &positions[j as usize]).1 < CUTOFF_SQUARED)
            .count() as u64
    };
    (0..own).map(near).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> Pairs {
        Pairs {
            starts: vec![0, 1, 1],
            partners: vec![1],
        }
    }

    #[test]
    fn two_particles_have_the_force_and_energy_of_a_hand_calculation() {
        let mut out = Vec::new();
        for (distance, force, energy_of) in [
            // r = 1: F = 24, u = 0; shift: 4 (2.5^-12 - 2.5^-6) = -0.016316891136.
            (1.0, 24.0, 0.016_316_891_136),
            // r = 2^(1/6): the minimum, u = -1.
            (2.0_f64.powf(1.0 / 6.0), 0.0, -1.0 + 0.016_316_891_136),
            // r = 2: F = 48 / 2^13 - 24 / 2^7 = -0.181640625, u = 4 (2^-12 - 2^-6) = -0.0615234375.
            (2.0, -0.181_640_625, -0.061_523_437_5 + 0.016_316_891_136),
            (2.500_1, 0.0, 0.0),
        ] {
            // Along a diagonal: each component is the total over the root of three.
            let c = distance / 3.0_f64.sqrt();
            let positions = [[1.0, 1.0, 1.0], [1.0 + c, 1.0 + c, 1.0 + c]];
            forces(&positions, 2, &pair(), &mut out);
            for (one, other) in out[0].iter().zip(out[1]) {
                assert!((other - force / 3.0_f64.sqrt()).abs() < 1e-12 * force.abs().max(1.0));
                assert_eq!(*one, -other);
            }
            assert!((energy(&positions, 2, &pair()) - energy_of).abs() < 1e-12);
        }
    }

    #[test]
    fn the_force_is_the_slope_of_the_potential() {
        for r in [0.9, 1.0, 1.3, 1.9, 2.4] {
            let h = 1e-6;
            let slope = (potential((r + h) * (r + h)) - potential((r - h) * (r - h))) / (2.0 * h);
            let force = force_over_distance(r * r) * r;
            assert!((force + slope).abs() < 1e-7 * force.abs().max(1.0), "{r}");
        }
    }

    #[test]
    fn the_potential_is_continuous_at_the_cut_off() {
        assert!(potential(CUTOFF_SQUARED - 1e-12).abs() < 1e-12);
        assert_eq!(potential(CUTOFF_SQUARED), 0.0);
    }

    #[test]
    fn a_pair_with_a_ghost_counts_half() {
        let positions = [[0.0; 3], [1.2, 0.0, 0.0]];
        let ghost = Pairs {
            starts: vec![0, 1],
            partners: vec![1],
        };
        let half = energy(&positions, 1, &ghost);
        assert_eq!(2.0 * half, energy(&positions, 2, &pair()));
        assert_eq!(interactions(&positions, 1, &ghost), 1);
    }
}
