//! Where the particles start: a face-centred cubic lattice with random velocities.

use super::grid::Grid;
use super::particles::{Particle, Vector};
use idlewave_stats::random::bits_at;

/// Edge of a lattice cell, which holds four particles: density 0.5.
pub const CELL: f64 = 2.0;

/// The sites of a cell, a quarter of its edge off the corner so that none lies on a border between
/// boxes.
const SITES: [Vector; 4] = [
    [0.25, 0.25, 0.25],
    [0.75, 0.75, 0.25],
    [0.75, 0.25, 0.75],
    [0.25, 0.75, 0.75],
];

/// Velocities are multiples of this, so that their sum is exact in any order.
const GRAIN: f64 = 1.0 / (1 << 20) as f64;

/// Velocity of particle `id`: each component uniform with the variance of `temperature`. The draw
/// depends on nothing else, so the decomposition does not matter.
fn velocity(seed: u64, id: u64, temperature: f64) -> Vector {
    let largest = ((3.0 * temperature).sqrt() / GRAIN).round() as u64;
    let component = |c: u64| {
        // 2 largest + 1 values; the modulo bias is below 2^-40.
        let drawn = bits_at(seed, 3 * id + c) % (2 * largest + 1);
        (drawn as f64 - largest as f64) * GRAIN
    };
    [component(0), component(1), component(2)]
}

/// Index along `dimension` of the box that holds coordinate `x`, in a system of length `length`.
pub fn box_of(grid: &Grid, dimension: usize, x: f64, length: f64) -> u32 {
    let boxes = grid.boxes(dimension);
    ((x * f64::from(boxes) / length) as u32).min(boxes - 1)
}

/// Calls `put` with every particle of `grid`'s own box in a lattice of `cells` cells. Their
/// velocities do not sum to zero yet.
pub fn fill(
    grid: &Grid,
    cells: [u32; 3],
    seed: u64,
    temperature: f64,
    mut put: impl FnMut(Particle),
) {
    let length = cells.map(|n| f64::from(n) * CELL);
    // Cells that overlap the box.
    let range = |d: usize| {
        let (index, boxes, n) = (
            u64::from(grid.index(d)),
            u64::from(grid.boxes(d)),
            u64::from(cells[d]),
        );
        index * n / boxes..((index + 1) * n).div_ceil(boxes)
    };
    for z in range(2) {
        for y in range(1) {
            for x in range(0) {
                let cell = x + u64::from(cells[0]) * (y + u64::from(cells[1]) * z);
                for (site, offset) in SITES.iter().enumerate() {
                    let corner = [x as f64, y as f64, z as f64];
                    let position = [0, 1, 2].map(|d| (corner[d] + offset[d]) * CELL);
                    if (0..3).all(|d| box_of(grid, d, position[d], length[d]) == grid.index(d)) {
                        let id = 4 * cell + site as u64;
                        put(Particle {
                            id,
                            position,
                            velocity: velocity(seed, id, temperature),
                        });
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_units::Rank;

    fn filled(shape: [u32; 3], cells: [u32; 3], seed: u64) -> Vec<Particle> {
        let mut all = Vec::new();
        for rank in 0..shape.iter().product() {
            fill(&Grid::new(shape, Rank::new(rank)), cells, seed, 1.0, |p| {
                all.push(p)
            });
        }
        all.sort_by_key(|p| p.id);
        all
    }

    #[test]
    fn every_decomposition_holds_the_same_particles() {
        let cells = [5, 4, 7];
        let alone = filled([1, 1, 1], cells, 11);
        assert_eq!(alone.len(), 4 * 5 * 4 * 7);
        assert!(alone.iter().enumerate().all(|(i, p)| p.id == i as u64));
        for shape in [[2, 1, 1], [2, 2, 2], [1, 3, 4]] {
            assert_eq!(filled(shape, cells, 11), alone);
        }
        assert_ne!(filled([1, 1, 1], cells, 12), alone);
    }

    #[test]
    fn density_is_one_half_and_no_two_sites_are_closer_than_the_lattice_allows() {
        let all = filled([1, 1, 1], [3, 3, 3], 1);
        assert_eq!(all.len() as f64 / (3.0 * CELL).powi(3), 0.5);
        let nearest = (0..all.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
        let nearest = nearest
            .map(|(i, j)| {
                (0..3)
                    .map(|d| (all[i].position[d] - all[j].position[d]).powi(2))
                    .sum::<f64>()
            })
            .fold(f64::INFINITY, f64::min);
        assert!((nearest - 2.0).abs() < 1e-12, "{nearest}");
    }

    #[test]
    fn velocities_have_the_temperature_and_an_exact_sum() {
        let all = filled([1, 1, 1], [12, 12, 12], 5);
        let n = all.len() as f64;
        let square: f64 = all.iter().flat_map(|p| p.velocity).map(|v| v * v).sum();
        // 3 n components of variance 1, whose squares have a standard deviation of 0.894.
        let off = (square / (3.0 * n) - 1.0).abs();
        assert!(off < 5.0 * 0.894 / (3.0 * n).sqrt(), "{off}");
        let forth: f64 = all.iter().map(|p| p.velocity[0]).sum();
        let back: f64 = all.iter().rev().map(|p| p.velocity[0]).sum();
        assert_eq!(forth, back);
    }
}
