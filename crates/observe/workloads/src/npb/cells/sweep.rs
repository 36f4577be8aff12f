//! Sweeps: independent systems of equations along all lines of one direction, solved from the first
//! cell of a line to the last (elimination) and back (substitution).
//!
//! A stage of a sweep works on one cell of each rank, then sends what the next stage continues from
//! to the rank that has the next cells.

use super::cell::{Cell, Components};
use super::flow::Flow;
use super::lanes::Lanes;
use crate::WorkloadError;
use crate::stopwatch::Stopwatch;
use idlewave_fabric::{Fabric, Tag};

/// How a program solves the systems along `L` lines at once. Elimination leaves `K` coefficients per
/// point for the substitution.
pub trait Scheme<const L: usize, const K: usize> {
    /// Points before, or after, that an equation refers to.
    const REACH: usize;

    /// Components in the order in which it wants them, for this direction.
    fn order(direction: usize) -> [usize; 5];

    /// Eliminates what refers to points before, in the lines of `batch` in the cell with this index.
    fn eliminate(&mut self, index: usize, cell: &Cell, batch: &Batch<L>, points: &mut Points<L, K>);

    /// Substitutes points after.
    fn substitute(points: &mut Points<L, K>, n: usize);

    /// What becomes of a point's solution, in the order of [`order`](Self::order).
    fn finish(_direction: usize, solved: [Lanes<L>; 5]) -> [Lanes<L>; 5] {
        solved
    }
}

/// `L` lines through a cell; the last batch of a cell repeats its last line.
#[derive(Clone, Copy, Debug)]
pub struct Batch<const L: usize> {
    /// Direction of the lines.
    pub direction: usize,
    /// Points in each.
    pub n: usize,
    /// Their first points in the cell's arrays.
    pub first: [usize; L],
    /// The step from a point to the next.
    pub step: usize,
    /// Lines that are not repetitions.
    lines: usize,
}

impl<const L: usize> Batch<L> {
    /// Batches through a cell of this size.
    fn count(n: [usize; 3], direction: usize) -> usize {
        (n.iter().product::<usize>() / n[direction]).div_ceil(L)
    }

    fn all(cell: &Cell, direction: usize) -> impl Iterator<Item = Self> + use<L> {
        let (a, b) = [(1, 2), (0, 2), (0, 1)][direction];
        let (n, steps, origin) = (cell.n, cell.steps, cell.first);
        let lines = n[a] * n[b];
        (0..Self::count(cell.n, direction)).map(move |batch| {
            let first = std::array::from_fn(|lane| {
                let line = (batch * L + lane).min(lines - 1);
                origin + line % n[a] * steps[a] + line / n[a] * steps[b]
            });
            Self {
                direction,
                n: n[direction],
                first,
                step: steps[direction],
                lines: (lines - batch * L).min(L),
            }
        })
    }
}

/// The points of `L` lines, with those before and after that the equations refer to.
#[derive(Clone, Debug)]
pub struct Points<const L: usize, const K: usize> {
    /// The right-hand side, then the solution.
    pub r: Vec<[Lanes<L>; 5]>,
    /// What elimination leaves for the substitution.
    pub kept: Vec<[Lanes<L>; K]>,
}

impl<const L: usize, const K: usize> Points<L, K> {
    /// So many points outside the grid.
    pub fn new(points: usize) -> Self {
        Self {
            r: vec![[Lanes::ZERO; 5]; points],
            kept: vec![[Lanes::ZERO; K]; points],
        }
    }

    /// Points outside the grid, whose solution is zero.
    fn clear(&mut self, at: std::ops::Range<usize>) {
        self.r[at.clone()].fill([Lanes::ZERO; 5]);
        self.kept[at].fill([Lanes::ZERO; K]);
    }

    #[inline(always)]
    fn gather(&mut self, at: usize, from: &Components<5>, order: [usize; 5], batch: &Batch<L>) {
        let mut places = batch.first;
        let from = order.map(|m| from.of(m));
        for r in &mut self.r[at..at + batch.n] {
            for (r, from) in r.iter_mut().zip(from) {
                *r = Lanes::gather(from, places);
            }
            places.iter_mut().for_each(|place| *place += batch.step);
        }
    }

    #[inline(always)]
    fn scatter(
        &self,
        at: usize,
        to: &mut Components<5>,
        order: [usize; 5],
        batch: &Batch<L>,
        finish: impl Fn([Lanes<L>; 5]) -> [Lanes<L>; 5],
    ) {
        let mut places = batch.first;
        let to = to.all_mut();
        for r in &self.r[at..at + batch.n] {
            let r = finish(*r);
            for (r, m) in r.iter().zip(order) {
                for (&place, &value) in places[..batch.lines].iter().zip(&r.0) {
                    to[m][place] = value;
                }
            }
            places.iter_mut().for_each(|place| *place += batch.step);
        }
    }
}

fn put<const L: usize, const N: usize>(points: &[[Lanes<L>; N]], message: &mut Vec<f64>) {
    message.extend(points.iter().flatten().flat_map(|lanes| lanes.0));
}

/// Takes the numbers of these points from the beginning of a message.
fn take<const L: usize, const N: usize>(points: &mut [[Lanes<L>; N]], message: &mut &[f64]) {
    for lanes in points.iter_mut().flatten() {
        let (values, rest) = message
            .split_first_chunk()
            .expect("a message as long as its lines");
        lanes.0 = *values;
        *message = rest;
    }
}

/// Room for the sweeps of a rank.
#[derive(Clone, Debug)]
pub struct Sweeps<const L: usize, const K: usize> {
    points: Points<L, K>,
    /// What elimination left in all cells but the last.
    kept: Vec<Vec<[Lanes<L>; K]>>,
    incoming: Vec<f64>,
    outgoing: Vec<f64>,
}

const FORWARDS: u32 = 16;
const BACKWARDS: u32 = 32;

impl<const L: usize, const K: usize> Sweeps<L, K> {
    /// Room for a flow and equations of this reach.
    pub fn new(flow: &Flow, reach: usize) -> Self {
        let [points, kept, message] = Self::room(flow.longest_line(), flow.partition.side(), reach);
        Self {
            points: Points::new(points),
            kept: vec![vec![[Lanes::ZERO; K]; kept]; flow.partition.side() - 1],
            incoming: Vec::with_capacity(message),
            outgoing: Vec::with_capacity(message),
        }
    }

    /// Points of a line, points that are kept of a cell, and numbers in the longest message.
    const fn room(n: usize, side: usize, reach: usize) -> [usize; 3] {
        let batches = (n * n).div_ceil(L);
        let message = if side == 1 {
            0
        } else {
            Self::forwards(batches, reach)
        };
        [n + 2 * reach, batches * n, message]
    }

    /// Numbers that elimination passes on from so many batches.
    const fn forwards(batches: usize, reach: usize) -> usize {
        batches * reach * (5 + K) * L
    }

    /// Numbers that elimination passes on through a face of a cell of this size.
    pub fn forwards_through(n: [usize; 3], direction: usize, reach: usize) -> usize {
        Self::forwards(Batch::<L>::count(n, direction), reach)
    }

    /// Numbers that substitution passes on.
    pub fn backwards_through(n: [usize; 3], direction: usize, reach: usize) -> usize {
        Batch::<L>::count(n, direction) * reach * 5 * L
    }

    /// Bytes of the arrays at most.
    pub const fn memory(grid: u32, ranks: u32, reach: usize) -> u64 {
        let side = ranks.isqrt() as usize;
        let [points, kept, message] = Self::room(Flow::longest(grid, ranks), side, reach);
        8 * (points * (5 + K) * L + (side - 1) * kept * K * L + 2 * message) as u64
    }

    /// Numbers in the longest message of a rank, faces included, at most.
    pub const fn longest_message(grid: u32, ranks: u32, reach: usize) -> usize {
        let side = ranks.isqrt() as usize;
        let [_, _, sweep] = Self::room(Flow::longest(grid, ranks), side, reach);
        let faces = Flow::longest_message(grid, ranks);
        if faces > sweep { faces } else { sweep }
    }

    /// Bytes of messages under way at most, faces included.
    pub const fn under_way(grid: u32, ranks: u32, reach: usize) -> u64 {
        let side = ranks.isqrt() as usize;
        // Six faces are sent and received at once; a sweep sends once or twice per stage.
        let buffers = if side > 6 { 2 * side } else { 12 };
        8 * (buffers * Self::longest_message(grid, ranks, reach)) as u64
    }

    /// Bytes of the arrays.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        let points = size_of_val(&self.points.r[..]) + size_of_val(&self.points.kept[..]);
        let kept = self.kept.iter().map(|kept| size_of_val(&kept[..]));
        let messages = self.incoming.capacity() + self.outgoing.capacity();
        points + kept.sum::<usize>() + 8 * messages
    }

    /// Solves all systems along a direction.
    ///
    /// # Errors
    /// Another rank failed.
    pub fn sweep<S: Scheme<L, K>, F: Fabric>(
        &mut self,
        flow: &mut Flow,
        scheme: &mut S,
        direction: usize,
        watch: &mut Stopwatch<'_, F>,
    ) -> Result<(), WorkloadError> {
        let order = S::order(direction);
        let reach = S::REACH;
        let finish = |solved| S::finish(direction, solved);
        let [next, before] = flow.partition.neighbours(direction);
        let last = flow.partition.side() - 1;
        let (forwards, backwards) = (
            Tag(FORWARDS + direction as u32),
            Tag(BACKWARDS + direction as u32),
        );
        let points = &mut self.points;
        for stage in 0..=last {
            let index = flow.at(direction, stage);
            let cell = &mut flow.cells[index];
            let n = cell.n[direction];
            let (own, after) = (reach..reach + n, reach + n..n + 2 * reach);
            if stage > 0 {
                let length = Self::forwards_through(cell.n, direction, reach);
                self.incoming.resize(length, 0.0);
                watch.receive(before, forwards, &mut self.incoming)?;
            }
            let mut message = &self.incoming[..];
            self.outgoing.clear();
            for (number, batch) in Batch::all(cell, direction).enumerate() {
                if stage > 0 {
                    take(&mut points.r[..reach], &mut message);
                    take(&mut points.kept[..reach], &mut message);
                } else {
                    points.clear(0..reach);
                }
                points.gather(reach, &cell.rhs, order, &batch);
                scheme.eliminate(index, cell, &batch, points);
                if stage < last {
                    put(&points.r[n..n + reach], &mut self.outgoing);
                    put(&points.kept[n..n + reach], &mut self.outgoing);
                    self.kept[stage][number * n..][..n].copy_from_slice(&points.kept[own.clone()]);
                    points.scatter(reach, &mut cell.rhs, order, &batch, |r| r);
                } else {
                    points.clear(after.clone());
                    S::substitute(points, n);
                    if stage > 0 {
                        put(&points.r[reach..2 * reach], &mut self.outgoing);
                    }
                    points.scatter(reach, &mut cell.rhs, order, &batch, finish);
                }
            }
            if stage < last {
                watch.send(next, forwards, &self.outgoing)?;
            } else if stage > 0 {
                watch.send(before, backwards, &self.outgoing)?;
            }
        }
        for stage in (0..last).rev() {
            let index = flow.at(direction, stage);
            let cell = &mut flow.cells[index];
            let n = cell.n[direction];
            let (own, after) = (reach..reach + n, reach + n..n + 2 * reach);
            let length = Self::backwards_through(cell.n, direction, reach);
            self.incoming.resize(length, 0.0);
            watch.receive(next, backwards, &mut self.incoming)?;
            let mut message = &self.incoming[..];
            self.outgoing.clear();
            for (number, batch) in Batch::all(cell, direction).enumerate() {
                points.gather(reach, &cell.rhs, order, &batch);
                points.kept[own.clone()].copy_from_slice(&self.kept[stage][number * n..][..n]);
                take(&mut points.r[after.clone()], &mut message);
                S::substitute(points, n);
                if stage > 0 {
                    put(&points.r[reach..2 * reach], &mut self.outgoing);
                }
                points.scatter(reach, &mut cell.rhs, order, &batch, finish);
            }
            if stage > 0 {
                watch.send(before, backwards, &self.outgoing)?;
            }
        }
        watch.flush()
    }
}
