//! The memory layout of the ranks, and the positions of an axis that a rank waits for.

use crate::Stencil;

/// Neighbours along one axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// Distance of the farthest lower neighbour.
    pub below: usize,
    /// Distance of the farthest upper neighbour; 0 if a rank does not wait for those.
    pub above: usize,
    pub joined: bool,
}

impl Line {
    /// Calls `visit` with the neighbours of position `at` among `side` positions.
    #[inline]
    pub fn each(self, at: usize, side: usize, mut visit: impl FnMut(usize)) {
        for distance in 1..=self.below {
            match (distance <= at, self.joined) {
                (true, _) => visit(at - distance),
                (false, true) => visit((at + side - distance % side) % side),
                (false, false) => break,
            }
        }
        for distance in 1..=self.above {
            match (at + distance < side, self.joined) {
                (true, _) => visit(at + distance),
                (false, true) => visit((at + distance) % side),
                (false, false) => break,
            }
        }
    }
}

/// The memory layout: units along the last axis, each a plane of rows. On a line each rank is a
/// unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Ranks of a row; 1 on a line.
    pub row: usize,
    /// Rows of a unit.
    pub rows: usize,
    /// Units, along the axis that is cut into tiles.
    pub units: usize,
    pub line: Line,
}

impl Layout {
    /// Only sides longer than one rank count: row, rows of a plane, and planes.
    pub fn of(stencil: &Stencil) -> Layout {
        let shape = stencil.shape;
        let mut sides = [shape.x, shape.y, shape.z].into_iter().filter(|&s| s > 1);
        let reach = stencil.reach as usize;
        let line = Line {
            below: reach,
            above: if stencil.one_sided { 0 } else { reach },
            joined: stencil.periodic,
        };
        let first = sides.next().unwrap_or(1);
        let (row, rows, units) = match (sides.next(), sides.next()) {
            (None, _) => (1, 1, first),
            (Some(second), None) => (first, 1, second),
            (Some(second), Some(third)) => (first, second, third),
        };
        Layout {
            row,
            rows,
            units,
            line,
        }
    }

    /// Ranks of a unit.
    pub fn unit(&self) -> usize {
        self.row * self.rows
    }

    /// How many units a rank's influence moves in a step.
    pub fn reach(&self) -> usize {
        self.line.below.max(self.line.above)
    }
}
