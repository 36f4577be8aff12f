//! Which cells of the grid a rank owns.
//!
//! The grid is cut into q³ cells for q² ranks. A rank owns q of them, on a diagonal: one in each
//! slice across each direction, so that all ranks work on every stage of a sweep. All neighbours of
//! its cells in one direction belong to the same rank.

use super::cell::Cell;
use idlewave_units::Rank;
use std::ops::Range;

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

    /// The place of its cell in this slice across a direction.
    pub fn place_at(&self, direction: usize, slice: usize) -> [usize; 3] {
        let z = match direction {
            0 => slice + self.side - self.column,
            1 => self.row + self.side - slice,
            _ => slice,
        };
        self.place(z % self.side)
    }

    /// The six kinds of faces that it exchanges, unless it is alone.
    pub fn faces(&self) -> [Faces; 6] {
        std::array::from_fn(|i| {
            let (direction, last) = (i / 2, i % 2 == 1);
            let [after, before] = self.neighbours(direction);
            let (but_last, but_first) = (0..self.side - 1, 1..self.side);
            let (to, from, sent, filled) = match last {
                true => (after, before, but_last, but_first),
                false => (before, after, but_first, but_last),
            };
            Faces {
                direction,
                last,
                to,
                from,
                sent,
                filled,
            }
        })
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

/// The faces of a rank's cells on one side, which all go to the same rank.
#[derive(Clone, Debug)]
pub struct Faces {
    /// The direction across which they are.
    pub direction: usize,
    /// Whether they are the last points along it, or the first ones.
    pub last: bool,
    /// The rank that gets them.
    pub to: Rank,
    /// The rank from which such faces come.
    pub from: Rank,
    /// The slices whose cells are sent.
    pub sent: Range<usize>,
    /// The slices whose borders are filled with what comes.
    pub filled: Range<usize>,
}

impl Faces {
    /// Numbers in the message with the faces of these slices; `size` is that of the cell in a slice.
    pub fn length(&self, slices: Range<usize>, size: impl Fn(usize) -> [usize; 3]) -> usize {
        let faces = slices.map(|slice| Cell::face_length(size(slice), self.direction));
        faces.sum()
    }
}
