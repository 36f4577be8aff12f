//! What the cells must hold: an eigenvector of the sweep, whose eigenvalue is the factor.

use super::Halo;
use std::f64::consts::PI;

/// The wave is reset when this share of it is left.
const LEAST: f64 = 1e-3;

/// The wave on the whole grid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wave {
    /// Phase per cell along each dimension.
    slopes: [f64; 3],
    periodic: bool,
    /// A sweep multiplies the wave by this.
    pub factor: f64,
    /// Sweeps until it is reset.
    pub lifetime: u32,
}

impl Wave {
    /// One wavelength across a periodic grid, half of one across an open one.
    pub fn new(halo: &Halo, ranks: u32) -> Self {
        let sides = halo.sides(ranks);
        let slopes: [f64; 3] = std::array::from_fn(|d| {
            let cells = u64::from(halo.cells[d]) * u64::from(sides[d]);
            match halo.periodic {
                true => 2.0 * PI / cells as f64,
                // Zero in the two cells beyond the border.
                false => PI / (cells + 1) as f64,
            }
        });
        // sin(a - s) + sin(a + s) = 2 cos(s) sin(a), along each dimension.
        let factor = slopes.iter().map(|slope| slope.cos()).sum::<f64>() / 3.0;
        let lifetime = (LEAST.ln() / factor.abs().ln()).floor();
        Self {
            slopes,
            periodic: halo.periodic,
            factor,
            lifetime: lifetime.clamp(1.0, f64::from(u32::MAX)) as u32,
        }
    }

    /// The initial wave in a cell: the same bits on whichever rank the cell lies.
    pub fn at(&self, cell: [u64; 3]) -> f64 {
        let phase = |d: usize, offset: f64| self.slopes[d] * (cell[d] as f64 + offset);
        match self.periodic {
            // No symmetry about any cell, so that a wrong neighbour gives a wrong value.
            true => (phase(0, 0.0) + phase(1, 0.0) + phase(2, 0.0) + 1.0).sin(),
            false => (0..3).map(|d| phase(d, 1.0).sin()).product(),
        }
    }

    /// The share left after this many sweeps.
    pub fn left(&self, sweeps: u32) -> f64 {
        // A lifetime beyond i32::MAX needs tens of thousands of cells along every edge of the grid.
        self.factor.powi(sweeps.min(i32::MAX as u32) as i32)
    }

    /// The largest change in the last of `sweeps` sweeps, for a wave whose largest value is
    /// `largest`.
    pub fn change(&self, largest: f64, sweeps: u32) -> f64 {
        largest * (self.left(sweeps) - self.left(sweeps.saturating_sub(1))).abs()
    }
}
