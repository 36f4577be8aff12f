//! The flow on one rank.

use super::cell::{BORDER, Cell};
use super::partition::Partition;
use super::rhs::Terms;
use crate::WorkloadError;
use crate::npb::cfd::{State, exact_solution, initial_solution, norm_checks};
use crate::npb::kernel::Check;
use crate::npb::shares::share;
use crate::stopwatch::Stopwatch;
use idlewave_fabric::{Fabric, Reduction, Tag};

/// What a step changes, and what it needs.
#[derive(Debug)]
pub struct Flow {
    /// Points along each direction, boundary included.
    pub grid: u32,
    /// Time step.
    pub dt: f64,
    /// The place of the rank.
    pub partition: Partition,
    /// Its cells.
    pub cells: Vec<Cell>,
    terms: Terms,
    messages: Vec<f64>,
}

/// The most ranks for a grid: every cell has as many points as the border, along each direction.
pub const fn most_ranks(grid: u32) -> u32 {
    ((grid - 2) / BORDER as u32).pow(2)
}

impl Flow {
    /// The flow before the first step.
    pub fn new<F: Fabric>(grid: u32, dt: f64, watch: &Stopwatch<'_, F>) -> Self {
        let partition = Partition::new(watch.rank(), watch.size());
        let terms = Terms::new(grid, dt);
        let cells = partition.places().map(|place| {
            let mut cell = Cell::new(place, partition.side(), grid as usize);
            cell.set(exact_solution);
            cell.set_forcing(&terms);
            cell.set(initial_solution);
            cell
        });
        let mut flow = Self {
            grid,
            dt,
            partition,
            cells: cells.collect(),
            terms,
            messages: Vec::new(),
        };
        flow.messages = Vec::with_capacity(flow.most_in_message());
        flow
    }

    /// Bytes of the arrays of a rank at most.
    pub const fn memory(grid: u32, ranks: u32) -> u64 {
        let (side, n) = (ranks.isqrt() as usize, Self::longest(grid, ranks));
        8 * (side * Cell::numbers(n) + Self::longest_message(grid, ranks)) as u64
    }

    /// Numbers in the longest message of faces, at most.
    pub const fn longest_message(grid: u32, ranks: u32) -> usize {
        5 * BORDER * Self::longest(grid, ranks).pow(2) * (ranks.isqrt() as usize - 1)
    }

    /// Points along a direction in the largest cell.
    pub const fn longest(grid: u32, ranks: u32) -> usize {
        share(grid - 2, ranks.isqrt(), 0).end as usize
    }

    /// Points of the cells of a rank with their borders, at most.
    pub const fn most_points_with_border(grid: u32, ranks: u32) -> usize {
        ranks.isqrt() as usize * (Self::longest(grid, ranks) + 2 * BORDER).pow(3)
    }

    /// Points along a direction in the largest cell of the rank.
    pub fn longest_line(&self) -> usize {
        let sides = self.cells.iter().flat_map(|cell| cell.n);
        sides.max().unwrap_or(0)
    }

    /// Bytes of the arrays.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        let cells = self.cells.iter().map(Cell::held).sum::<usize>();
        8 * (cells + self.messages.capacity())
    }

    /// Numbers in the longest message of faces.
    fn most_in_message(&self) -> usize {
        let lengths = (0..3).map(|d| {
            let faces = self.cells.iter().map(|cell| Cell::face_length(cell.n, d));
            let all: usize = faces.clone().sum();
            all - faces.min().unwrap_or(0)
        });
        lengths.max().unwrap_or(0)
    }

    /// The cell at this place along a direction.
    pub fn at(&self, direction: usize, place: usize) -> usize {
        // Cells are in the order of their places along z.
        self.partition.place_at(direction, place)[2]
    }

    /// The flow before the first step, again.
    pub fn set_initial(&mut self) {
        for cell in &mut self.cells {
            cell.set(initial_solution);
        }
    }

    /// Exchanges faces and computes the right-hand side.
    ///
    /// # Errors
    /// Another rank failed.
    pub fn rhs<F: Fabric>(&mut self, watch: &mut Stopwatch<'_, F>) -> Result<(), WorkloadError> {
        watch.region("faces");
        self.exchange(watch)?;
        watch.region("rhs");
        for cell in &mut self.cells {
            cell.derive();
            cell.compute_rhs(&self.terms);
        }
        Ok(())
    }

    /// One message to each of the six neighbours, with faces of all cells but the last on that side.
    fn exchange<F: Fabric>(&mut self, watch: &mut Stopwatch<'_, F>) -> Result<(), WorkloadError> {
        let side = self.partition.side();
        if side == 1 {
            return Ok(());
        }
        let faces = self.partition.faces();
        let mut posted = Vec::with_capacity(6);
        for (i, face) in faces.iter().enumerate() {
            let length = face.length(face.filled.clone(), |at| {
                self.cells[self.at(face.direction, at)].n
            });
            posted.push((watch.post(face.from, Tag(i as u32), length)?, length));
        }
        for (i, face) in faces.iter().enumerate() {
            self.messages.clear();
            for place in face.sent.clone() {
                let at = self.at(face.direction, place);
                self.cells[at].put_face(face.direction, face.last, &mut self.messages);
            }
            watch.send(face.to, Tag(i as u32), &self.messages)?;
        }
        for (face, (posted, length)) in faces.iter().zip(posted) {
            self.messages.resize(length, 0.0);
            watch.take(posted, &mut self.messages)?;
            let mut rest = &self.messages[..];
            for place in face.filled.clone() {
                let at = self.at(face.direction, place);
                rest = self.cells[at].take_face(face.direction, !face.last, rest);
            }
        }
        watch.flush()
    }

    /// Corrects the solution.
    pub fn add(&mut self) {
        self.cells.iter_mut().for_each(Cell::add);
    }

    /// The norms of the residual and of the error, compared with published ones.
    ///
    /// # Errors
    /// Another rank failed.
    pub fn checks<F: Fabric>(
        &mut self,
        watch: &mut Stopwatch<'_, F>,
        published: &Published,
    ) -> Result<Vec<Check>, WorkloadError> {
        self.rhs(watch)?;
        let mut sums = [[0.0; 5]; 2];
        for cell in &self.cells {
            cell.add_residuals(&mut sums[0]);
            cell.add_errors(&mut sums[1]);
        }
        watch.allreduce(sums.as_flattened_mut(), Reduction::Sum)?;
        let points = f64::from(self.grid - 2).powi(3);
        let norms = |kind: usize, unit: f64| sums[kind].map(|sum| (sum / points).sqrt() / unit);
        let residual = norm_checks("residual", norms(0, self.dt), published[0]);
        let error = norm_checks("error", norms(1, 1.0), published[1]);
        Ok(residual.chain(error).collect())
    }
}

/// Norms of the residual and of the error of each component.
pub type Published = [State; 2];
