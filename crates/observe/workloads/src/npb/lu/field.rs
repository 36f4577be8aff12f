//! A state for every point of a rank, with room for those of its neighbours.

use super::share::Share;
use crate::npb::cfd::State;
use std::ops::Range;

/// Points beyond the own ones along x and y: the dissipation reaches so far.
pub const HALO: usize = 2;

/// The states. Along x they are contiguous, along z farthest apart.
#[derive(Debug)]
pub struct Field {
    /// Distance between neighbours along x, y and z.
    pub strides: [usize; 3],
    /// All states.
    pub states: Vec<State>,
}

impl Field {
    /// Points of a field, and the distances between neighbours.
    pub fn layout(size: [usize; 3]) -> (usize, [usize; 3]) {
        let (row, rows) = (size[0] + 2 * HALO, size[1] + 2 * HALO);
        (row * rows * size[2], [1, row, row * rows])
    }

    /// Zero everywhere.
    pub fn new(share: &Share) -> Self {
        let (points, strides) = Self::layout(share.size);
        Self {
            strides,
            states: vec![[0.0; 5]; points],
        }
    }

    /// Index of an own point.
    pub fn index(&self, [i, j, k]: [usize; 3]) -> usize {
        let [_, row, plane] = self.strides;
        k * plane + (j + HALO) * row + i + HALO
    }

    /// The states of some own points of a row.
    pub fn row(&self, i: Range<usize>, j: usize, k: usize) -> &[State] {
        let first = self.index([i.start, j, k]);
        &self.states[first..first + i.len()]
    }

    /// Sets every point, those of the neighbours too, to a function of its place in the cube.
    pub fn set(&mut self, share: &Share, value: impl Fn(f64, f64, f64) -> State) {
        let [row, rows] = [share.size[0] + 2 * HALO, share.size[1] + 2 * HALO];
        let along = |d: usize, n: usize, halo: usize| {
            (0..n).map(move |at| (at, share.place(d, at as isize - halo as isize)))
        };
        for (k, z) in along(2, share.size[2], 0) {
            for (j, y) in along(1, rows, HALO) {
                for (i, x) in along(0, row, HALO) {
                    self.states[(k * rows + j) * row + i] = value(x, y, z);
                }
            }
        }
    }
}
