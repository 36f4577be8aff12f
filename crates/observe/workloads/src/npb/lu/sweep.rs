//! The two triangular solutions of a step of symmetric successive over-relaxation.
//!
//! A point needs its three lower neighbours in the lower sweep, and its three upper ones in the
//! upper sweep. Both go plane by plane along z: a rank begins a plane when its neighbours behind
//! along x and y have sent what their last points pass on, so the ranks work as a pipeline, on a
//! wavefront across the grid of ranks.

use super::block::{Blocks, Point};
use super::field::Field;
use super::share::Share;
use crate::WorkloadError;
use crate::npb::cfd::State;
use crate::npb::traffic::{Message, Operation};
use crate::stopwatch::Stopwatch;
use idlewave_fabric::{Fabric, Tag};
use idlewave_units::Rank;

const NOTHING: State = [0.0; 5];

/// Nanoseconds per inner point of either sweep in one run of class W on one core of a virtual machine:
/// only its ratio to other costs matters.
const COST: u64 = 55;

/// States that a plane passes on along x, and along y.
fn edges(share: &Share) -> [usize; 2] {
    [1, 0].map(|d| share.inner(d).len())
}

/// The neighbours behind and ahead along x and y.
fn neighbours(share: &Share, up: bool) -> [[Option<Rank>; 2]; 2] {
    [!up, up].map(|upper| share.neighbours.map(|n| n[usize::from(upper)]))
}

/// What [`Sweeps::run`] does.
pub fn traffic(share: &Share, up: bool) -> Vec<Operation> {
    let [behind, ahead] = neighbours(share, up);
    let edges = edges(share);
    let with = |ranks: [Option<Rank>; 2]| {
        let pairs = ranks.into_iter().zip(edges);
        pairs.filter_map(|(rank, states)| Some((rank?, 5 * states)))
    };
    let receives = with(behind).map(|(from, numbers)| Message::receive(from, numbers));
    let points = (edges[0] * edges[1]) as u64;
    let compute = Operation::Compute(COST * points);
    let sends = with(ahead).map(|(to, numbers)| Operation::send(to, numbers));
    let plane = Operation::exchange(receives.collect()).into_iter();
    let plane = plane.chain([compute, Operation::Flush]).chain(sends);
    let planes = share.inner(2).len() as u32;
    vec![Operation::Repeat(planes, plane.collect()), Operation::Flush]
}

/// What is passed on within a sweep.
#[derive(Debug)]
pub struct Sweeps {
    blocks: Blocks,
    dt: f64,
    /// Share of the found change that is added to the state.
    step: f64,
    /// What the blocks of a row depend on.
    points: Vec<Point>,
    /// For each row of the plane under way: what its last point passes on along x.
    column: Vec<State>,
    /// For each point of a row: what the row before it passes on along y.
    row: Vec<State>,
    /// For each point of a plane: what the plane before it passes on along z.
    plane: Vec<State>,
}

impl Sweeps {
    /// For the share of a rank.
    pub fn new(share: &Share, dt: f64, relaxation: f64) -> Self {
        let [y, x] = edges(share);
        let spacing = 1.0 / (share.grid - 1) as f64;
        Self {
            blocks: Blocks::new(dt, spacing, relaxation),
            dt,
            step: 1.0 / (relaxation * (2.0 - relaxation)),
            points: vec![Point::default(); x],
            column: vec![NOTHING; y],
            row: vec![NOTHING; x],
            plane: vec![NOTHING; x * y],
        }
    }

    /// Bytes of its arrays.
    pub fn bytes(share: &Share) -> usize {
        let [y, x] = edges(share);
        (x + y + x * y) * size_of::<State>() + x * size_of::<Point>()
    }

    #[cfg(test)]
    pub fn held(&self) -> usize {
        let states = [&self.column, &self.row, &self.plane].map(Vec::capacity);
        states.iter().sum::<usize>() * size_of::<State>()
            + self.points.capacity() * size_of::<Point>()
    }

    /// The lower sweep (`UP`) makes of the right-hand side in `change` the first half of the change;
    /// the upper one completes it and adds it to `u`.
    pub fn run<F: Fabric, const UP: bool>(
        &mut self,
        share: &Share,
        u: &mut Field,
        change: &mut Field,
        watch: &mut Stopwatch<'_, F>,
    ) -> Result<(), WorkloadError> {
        let [behind, ahead] = neighbours(share, UP);
        let tag = |d: u32| Tag(8 + 2 * d + u32::from(UP));
        self.plane.fill(NOTHING);
        for step in share.inner(2) {
            let k = if UP { step } else { share.grid - 1 - step };
            for (d, edge) in [(0, &mut self.column), (1, &mut self.row)] {
                match behind[d as usize] {
                    Some(from) => watch.receive(from, tag(d), edge.as_flattened_mut())?,
                    None => edge.fill(NOTHING),
                }
            }
            self.plane_of::<UP>(share, u, change, k);
            // The messages of the plane before have left meanwhile.
            watch.flush()?;
            for (d, edge) in [(0, &self.column), (1, &self.row)] {
                if let Some(to) = ahead[d as usize] {
                    watch.send(to, tag(d), edge.as_flattened())?;
                }
            }
        }
        watch.flush()
    }

    fn plane_of<const UP: bool>(
        &mut self,
        share: &Share,
        u: &mut Field,
        change: &mut Field,
        k: usize,
    ) {
        let inner = share.inner(0);
        let n = inner.len();
        let rows = self.column.len();
        let (blocks, dt, step) = (self.blocks, self.dt, self.step);
        let along_y = &mut self.row[..n];
        let points = &mut self.points[..n];
        for at in 0..rows {
            let at = if UP { at } else { rows - 1 - at };
            let first = u.index([inner.start, share.inner(1).start + at, k]);
            let u = &mut u.states[first..][..n];
            let change = &mut change.states[first..][..n];
            let along_z = &mut self.plane[at * n..][..n];
            let mut along_x = self.column[at];
            // Apart from what follows, where a point waits for the one before it.
            for (point, u) in points.iter_mut().zip(&*u) {
                *point = blocks.point(u);
            }
            for i in 0..n {
                let i = if UP { i } else { n - 1 - i };
                let (u, change, point) = (&mut u[i], &mut change[i], &points[i]);
                let (y, z) = (&mut along_y[i], &mut along_z[i]);
                let mut sum = NOTHING;
                for m in 0..5 {
                    sum[m] = z[m] + y[m] + along_x[m];
                }
                let mut found = *change;
                if UP {
                    for m in 0..5 {
                        found[m] = dt * found[m] + sum[m];
                    }
                    found = blocks.solve(point, &found);
                } else {
                    let correction = blocks.solve(point, &sum);
                    for m in 0..5 {
                        found[m] += correction[m];
                        u[m] += step * found[m];
                    }
                }
                *change = found;
                [along_x, *y, *z] = blocks.passed_on::<UP>(point, &found);
            }
            self.column[at] = along_x;
        }
    }
}
