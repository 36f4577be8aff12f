//! Which points belong to which rank: the grid is divided along x and y, and every rank has all of
//! z.

use crate::npb::shares;
use idlewave_units::Rank;
use std::ops::Range;

/// The dimensions that are divided.
pub const DIVIDED: [usize; 2] = [0, 1];
/// Fewest points of a rank along x or y.
const LEAST: usize = 3;

/// The points of one rank, and its neighbours. Local coordinates count from its first point.
#[derive(Clone, Debug)]
pub struct Share {
    /// Points along each edge of the whole grid.
    pub grid: usize,
    /// Own points along x, y and z.
    pub size: [usize; 3],
    /// Position of the first own point in the whole grid.
    pub origin: [usize; 3],
    /// The ranks beyond the lower and the upper face across x and y.
    pub neighbours: [[Option<Rank>; 2]; 2],
}

impl Share {
    /// Ranks along x and y: as near to a square as a power of two allows.
    pub fn sides(ranks: u32) -> [u32; 2] {
        let doublings = ranks.max(1).ilog2();
        [1 << doublings.div_ceil(2), 1 << (doublings / 2)]
    }

    /// The most ranks for a grid: the largest square.
    pub fn most(grid: usize) -> u32 {
        1 << (2 * (grid / LEAST).ilog2())
    }

    /// The share of a rank.
    pub fn new(grid: usize, ranks: u32, rank: Rank) -> Self {
        let sides = Self::sides(ranks);
        let place = [rank.get() % sides[0], rank.get() / sides[0]];
        let mut share = Self {
            grid,
            size: [grid; 3],
            origin: [0; 3],
            neighbours: [[None; 2]; 2],
        };
        for d in DIVIDED {
            let own = shares::share(grid as u32, sides[d], place[d]);
            share.origin[d] = own.start as usize;
            share.size[d] = own.len();
            let step = [1, sides[0]][d];
            let below = (place[d] > 0).then(|| Rank::new(rank.get() - step));
            let above = (place[d] + 1 < sides[d]).then(|| Rank::new(rank.get() + step));
            share.neighbours[d] = [below, above];
        }
        share
    }

    /// A share that needs as much memory as any rank's: the most points along x and y, and the most
    /// neighbours that a rank has there.
    pub fn fullest(grid: usize, ranks: u32) -> Self {
        let mut share = Self::new(grid, 1, Rank::new(0));
        let someone = Some(Rank::new(0));
        for d in DIVIDED {
            let side = Self::sides(ranks)[d];
            share.size[d] = grid.div_ceil(side as usize);
            share.origin[d] = usize::from(side > 2);
            share.neighbours[d] = match side {
                1 => [None, None],
                2 => [None, someone],
                _ => [someone, someone],
            };
        }
        share
    }

    /// Number of neighbours across a dimension that is divided.
    pub fn neighbours_across(&self, d: usize) -> usize {
        self.neighbours[d].iter().flatten().count()
    }

    /// Own points that are not on a face of the cube, along a dimension.
    pub fn inner(&self, d: usize) -> Range<usize> {
        let (origin, size) = (self.origin[d], self.size[d]);
        let first = usize::from(origin == 0);
        first..size - usize::from(origin + size == self.grid)
    }

    /// Coordinate of a point in the unit cube.
    pub fn place(&self, d: usize, local: isize) -> f64 {
        (self.origin[d] as isize + local) as f64 / (self.grid - 1) as f64
    }
}
