//! Which cells of the grid a rank owns.
//!
//! The grid is cut into q³ cells for q² ranks. A rank owns q of them, on a diagonal: one in each
//! slice across each direction, so that all ranks work on every stage of a sweep. All neighbours of
//! its cells in one direction belong to the same rank.

use idlewave_units::Rank;

/// One rank's place in the square of ranks.
#[derive(Clone, Copy, Debug)]
pub struct Partition {
    side: usize,
    column: usize,
    row: usize,
}

impl Partition {
    pub const fn new(rank: Rank, ranks: u32) -> Self {
        let side = ranks.isqrt();
        Self {
            side: side as usize,
            column: (rank.get() % side) as usize,
            row: (rank.get() / side) as usize,
        }
    }

    /// Cells along each direction, and of each rank.
    pub const fn side(&self) -> usize {
        self.side
    }

    /// The cell of the rank in this slice across z, as its place along each direction.
    const fn place(&self, z: usize) -> [usize; 3] {
        let (x, y) = (self.column + z, self.row + self.side - z);
        [x % self.side, y % self.side, z]
    }

    /// The places of all its cells.
    pub fn places(&self) -> impl Iterator<Item = [usize; 3]> {
        (0..self.side).map(|z| self.place(z))
    }

    /// The rank that owns the next cells along a direction, and the one that owns the cells before.
    /// The grid is not periodic: beyond its last cell there is none.
    pub fn neighbours(&self, direction: usize) -> [Rank; 2] {
        let back = self.side - 1;
        let [column, row] = [[1, 0], [0, 1], [back, 1]][direction];
        let at = |column: usize, row: usize| {
            let (column, row) = (
                (self.column + column) % self.side,
                (self.row + row) % self.side,
            );
            Rank::new((row * self.side + column) as u32)
        };
        [at(column, row), at(back * column, back * row)]
    }
}
