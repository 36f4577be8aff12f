//! The arrays of one cell.

use crate::npb::cfd::{State, exact_solution};
use crate::npb::shares::share;
use std::ops::Range;

/// Points of the border on each side.
pub const BORDER: usize = 2;

/// Arrays of `N` quantities, one after the other.
#[derive(Clone, Debug)]
pub struct Components<const N: usize> {
    values: Vec<f64>,
    each: usize,
}

impl<const N: usize> Components<N> {
    fn new(points: usize) -> Self {
        let each = Self::room(points);
        Self {
            values: vec![0.0; N * each],
            each,
        }
    }

    /// Numbers per quantity: an odd number of cache lines, so that a point's quantities are spread
    /// over the sets of the cache.
    const fn room(points: usize) -> usize {
        8 * (points.div_ceil(8) | 1)
    }

    /// One quantity at all points.
    pub fn of(&self, m: usize) -> &[f64] {
        &self.values[m * self.each..][..self.each]
    }

    /// All quantities at all points.
    pub fn all_mut(&mut self) -> [&mut [f64]; N] {
        let mut parts = self.values.chunks_exact_mut(self.each);
        std::array::from_fn(|_| parts.next().unwrap_or_default())
    }

    /// These points of all quantities.
    pub fn rows_mut(&mut self, points: Range<usize>) -> [&mut [f64]; N] {
        self.all_mut().map(|all| &mut all[points.clone()])
    }

    /// These points of all quantities.
    pub fn rows(&self, points: Range<usize>) -> [&[f64]; N] {
        std::array::from_fn(|m| &self.of(m)[points.clone()])
    }

    /// All quantities at one point.
    pub fn at(&self, point: usize) -> [f64; N] {
        std::array::from_fn(|m| self.values[m * self.each + point])
    }

    /// Sets all quantities at one point.
    pub fn set(&mut self, point: usize, to: [f64; N]) {
        for (m, to) in to.into_iter().enumerate() {
            self.values[m * self.each + point] = to;
        }
    }
}

/// In [`Cell::derived`]: one over the density.
pub const RHO: usize = 0;
/// Velocity along the first direction; the others follow.
pub const VELOCITY: usize = 1;
/// Pressure.
pub const PRESSURE: usize = 4;
/// What is conducted in the balance of energy.
pub const HEAT: usize = 5;

/// A box of the grid's inner points. All its arrays include the border.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Whether the boundary of the grid is before and after it, along each direction.
    pub ends: [[bool; 2]; 3],
    /// Points along each direction, without the border.
    pub n: [usize; 3],
    /// Steps in the arrays from a point to the next along each direction.
    pub steps: [usize; 3],
    /// Its first point in the arrays.
    pub first: usize,
    /// Its first point in the grid.
    origin: [usize; 3],
    /// Intervals of the grid along each direction.
    intervals: f64,
    /// Density, momentum along each direction, and energy.
    pub u: Components<5>,
    /// What [`derive`](Self::derive) derives from them: see the constants.
    pub derived: Components<6>,
    /// The right-hand side and then the correction.
    pub rhs: Components<5>,
    /// What makes the exact solution steady, times the time step.
    pub forcing: Components<5>,
}

impl Cell {
    /// The cell at a place of a grid of `grid` points along each direction that is cut into `side`
    /// cells along each.
    pub fn new(place: [usize; 3], side: usize, grid: usize) -> Self {
        let shares = Self::shares(place, side, grid);
        let n = Self::size(place, side, grid);
        let [x, y, z] = n.map(|n| n + 2 * BORDER);
        let steps = [1, x, x * y];
        let points = x * y * z;
        Self {
            ends: place.map(|at| [at == 0, at + 1 == side]),
            n,
            steps,
            first: BORDER * steps.iter().sum::<usize>(),
            origin: shares.map(|share| share.start as usize + 1),
            intervals: (grid - 1) as f64,
            u: Components::new(points),
            derived: Components::new(points),
            rhs: Components::new(points),
            forcing: Components::new(points),
        }
    }

    /// The inner points along each direction, counted from the first one of the grid.
    fn shares(place: [usize; 3], side: usize, grid: usize) -> [Range<u32>; 3] {
        place.map(|at| share(grid as u32 - 2, side as u32, at as u32))
    }

    /// Its points along each direction; see [`new`](Self::new).
    pub fn size(place: [usize; 3], side: usize, grid: usize) -> [usize; 3] {
        Self::shares(place, side, grid).map(|share| share.len())
    }

    /// Numbers that a cell of `n` points along each direction holds.
    pub const fn numbers(n: usize) -> usize {
        21 * Components::<1>::room((n + 2 * BORDER).pow(3))
    }

    /// Numbers that it holds.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        let [u, derived] = [self.u.values.len(), self.derived.values.len()];
        u + derived + self.rhs.values.len() + self.forcing.values.len()
    }

    /// Points, the border included.
    pub fn points_with_border(&self) -> usize {
        self.n.iter().map(|n| n + 2 * BORDER).product()
    }

    /// From the first to the last point that is at most one step in each direction outside the cell.
    pub fn one_step_outside(&self) -> Range<usize> {
        let edge: usize = self.steps.iter().sum();
        let last: usize = (0..3).map(|d| (self.n[d] - 1) * self.steps[d]).sum();
        self.first - edge..self.first + last + edge + 1
    }

    /// The points of a box that begins and ends at these points of the cell.
    fn within(
        &self,
        begin: [usize; 3],
        end: [usize; 3],
    ) -> impl Iterator<Item = usize> + Clone + use<> {
        let (first, steps) = (self.first, self.steps);
        (begin[2]..end[2]).flat_map(move |z| {
            (begin[1]..end[1]).flat_map(move |y| {
                let row = first + y * steps[1] + z * steps[2];
                row + begin[0]..row + end[0]
            })
        })
    }

    /// The points of the outermost layers on a side.
    pub fn layers(
        &self,
        direction: usize,
        last: bool,
        layers: usize,
    ) -> impl Iterator<Item = usize> + Clone + use<> {
        let (mut begin, mut end) = ([0; 3], self.n);
        if last {
            begin[direction] = end[direction] - layers;
        } else {
            end[direction] = layers;
        }
        self.within(begin, end)
    }

    /// The points of all rows along x.
    pub fn rows(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let n = self.n[0];
        self.within([0; 3], [1, self.n[1], self.n[2]])
            .map(move |at| at..at + n)
    }

    /// The points of a box, in the arrays and in the unit cube. It begins and ends at these distances
    /// from the cell's first point.
    fn places(
        &self,
        begin: [isize; 3],
        end: [isize; 3],
    ) -> impl Iterator<Item = (usize, [f64; 3])> + use<> {
        let steps = self.steps.map(|step| step as isize);
        let (first, origin, intervals) = (self.first as isize, self.origin, self.intervals);
        let coordinate = move |d: usize, at: isize| (origin[d] as isize + at) as f64 / intervals;
        (begin[2]..end[2]).flat_map(move |z| {
            (begin[1]..end[1]).flat_map(move |y| {
                (begin[0]..end[0]).map(move |x| {
                    let at = first + x + y * steps[1] + z * steps[2];
                    let place = [coordinate(0, x), coordinate(1, y), coordinate(2, z)];
                    (at as usize, place)
                })
            })
        })
    }

    /// Sets the points and the border within the grid to this solution.
    pub fn set(&mut self, solution: impl Fn(f64, f64, f64) -> State) {
        // A quiet gas beyond the grid, so that nothing there divides by zero.
        for (m, all) in self.u.all_mut().into_iter().enumerate() {
            all.fill(if m == 0 { 1.0 } else { 0.0 });
        }
        let border = |end: bool| if end { 1 } else { BORDER as isize };
        let begin = self.ends.map(|[before, _]| -border(before));
        let end = std::array::from_fn(|d| self.n[d] as isize + border(self.ends[d][1]));
        for (at, [xi, eta, zeta]) in self.places(begin, end) {
            self.u.set(at, solution(xi, eta, zeta));
        }
    }

    /// Corrects the solution.
    pub fn add(&mut self) {
        for row in self.rows() {
            let rhs = self.rhs.rows(row.clone());
            for (u, rhs) in self.u.rows_mut(row).into_iter().zip(rhs) {
                for (u, rhs) in u.iter_mut().zip(rhs) {
                    *u += rhs;
                }
            }
        }
    }

    /// Adds the squares of the distances to the exact solution.
    pub fn add_errors(&self, sums: &mut State) {
        let end = self.n.map(|n| n as isize);
        for (at, [xi, eta, zeta]) in self.places([0; 3], end) {
            let exact = exact_solution(xi, eta, zeta);
            for ((sum, u), exact) in sums.iter_mut().zip(self.u.at(at)).zip(exact) {
                *sum += (u - exact).powi(2);
            }
        }
    }

    /// Adds the squares of the right-hand side.
    pub fn add_residuals(&self, sums: &mut State) {
        for row in self.rows() {
            for (sum, row) in sums.iter_mut().zip(self.rhs.rows(row)) {
                *sum += row.iter().map(|r| r * r).sum::<f64>();
            }
        }
    }

    /// Appends the outermost layers on a side, as many as a border has.
    pub fn put_face(&self, direction: usize, last: bool, message: &mut Vec<f64>) {
        for at in self.layers(direction, last, BORDER) {
            message.extend(self.u.at(at));
        }
    }

    /// Takes the border on a side; returns the rest of the message.
    pub fn take_face<'m>(&mut self, direction: usize, last: bool, message: &'m [f64]) -> &'m [f64] {
        let step = BORDER * self.steps[direction];
        let (face, rest) = message.split_at(Self::face_length(self.n, direction));
        let places = self.layers(direction, last, BORDER);
        for (at, values) in places.zip(face.chunks_exact(5)) {
            let at = if last { at + step } else { at - step };
            self.u.set(at, std::array::from_fn(|m| values[m]));
        }
        rest
    }

    /// Numbers in the message of a face of a cell of this size.
    pub fn face_length(n: [usize; 3], direction: usize) -> usize {
        5 * BORDER * (n.iter().product::<usize>() / n[direction])
    }
}
