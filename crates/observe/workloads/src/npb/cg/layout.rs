//! Which block of the matrix a rank holds, and whom it exchanges with.
//!
//! Ranks form a grid of `rows` by `columns`, with as many columns as rows or twice as many. A rank
//! holds a block of the matrix, and of every vector the part that belongs to the block's columns. A
//! product with the matrix gives one addend of its rows' elements; the ranks of one grid row add
//! theirs up and pass the sums to where they are columns (`exchange`).

use crate::npb::shares::share;
use idlewave_units::Rank;
use std::ops::Range;

/// The place of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Columns of the grid of ranks.
    grid_columns: u32,
    /// Columns of the grid per row of it: 1 or 2.
    halves: u32,
    /// Row of this rank in the grid.
    row: u32,
    /// Column of this rank in the grid.
    column: u32,
    /// Rows of the matrix.
    pub rows: Range<u32>,
    /// Columns of the matrix.
    pub columns: Range<u32>,
}

/// The part `index` of a range that is divided into one or two.
fn part(whole: &Range<u32>, parts: u32, index: u32) -> Range<u32> {
    let part = share(whole.end - whole.start, parts, index);
    whole.start + part.start..whole.start + part.end
}

impl Layout {
    /// The place of a rank for a matrix of this order; `ranks` is a power of two.
    pub fn of(order: u32, rank: u32, ranks: u32) -> Self {
        let grid_rows = 1 << (ranks.ilog2() / 2);
        let grid_columns = ranks / grid_rows;
        let halves = grid_columns / grid_rows;
        let (row, column) = (rank / grid_columns, rank % grid_columns);
        Self {
            grid_columns,
            halves,
            row,
            column,
            rows: share(order, grid_rows, row),
            columns: part(
                &share(order, grid_rows, column / halves),
                halves,
                column % halves,
            ),
        }
    }

    /// The ranks of this grid row to exchange with, one after the other, so that all have the sum
    /// of all.
    pub fn partners(&self) -> impl Iterator<Item = Rank> + use<> {
        let (first, column) = (self.row * self.grid_columns, self.column);
        let steps = self.grid_columns.ilog2();
        (0..steps).map(move |step| Rank::new(first + (column ^ (1 << step))))
    }

    /// The partners with the rows whose sums each one gets. With twice as many columns as rows in the
    /// grid, two neighbours share a row block: each goes on with half of it.
    pub fn passed_on(&self) -> impl Iterator<Item = (Rank, Range<usize>)> {
        let rows = std::iter::once(self.other()).chain(std::iter::repeat(self.own()));
        self.partners().zip(rows)
    }

    /// The rows, counted from the block's first, whose sums this rank gets.
    pub fn own(&self) -> Range<usize> {
        self.half(self.column % self.halves)
    }

    /// The rows whose sums its first partner gets.
    pub fn other(&self) -> Range<usize> {
        self.half((self.column ^ 1) % self.halves)
    }

    fn half(&self, index: u32) -> Range<usize> {
        let half = share(self.rows.end - self.rows.start, self.halves, index);
        half.start as usize..half.end as usize
    }

    /// The rank that needs this one's sums and has those this one needs.
    pub fn transposed(&self) -> Rank {
        let row = self.column / self.halves;
        let column = self.row * self.halves + self.column % self.halves;
        Rank::new(row * self.grid_columns + column)
    }
}
