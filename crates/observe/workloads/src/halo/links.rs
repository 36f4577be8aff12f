//! Which faces a rank exchanges with which neighbour.

use super::Halo;
use idlewave_run::Decomposition;
use idlewave_units::{Bytes, Rank};

/// Bytes after the cells of a message: the number of the last step, as far as the sender knows.
pub const TRAILER: usize = 8;

/// A face of a rank's block and the neighbour beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Face {
    /// The neighbour.
    pub rank: Rank,
    /// The dimension of the block that it lies across, 0 to 2.
    pub dimension: usize,
    /// Whether it is the upper face.
    pub upwards: bool,
    /// Bytes of the message, each way, in every step.
    pub bytes: Bytes,
}

impl Halo {
    /// Ranks along each dimension of the block.
    pub fn sides(&self, ranks: u32) -> [u32; 3] {
        let grid = Decomposition::balanced(ranks, self.dims);
        std::array::from_fn(|d| grid.sides().get(d).copied().unwrap_or(1))
    }

    /// Cells of a face across a dimension.
    pub(super) fn face_cells(&self, dimension: usize) -> usize {
        let all: usize = self.cells.iter().map(|&c| c as usize).product();
        all / self.cells[dimension] as usize
    }

    /// A rank's position in the grid; the last dimension varies fastest.
    pub(super) fn place(&self, ranks: u32, rank: u32) -> [u32; 3] {
        let [_, b, c] = self.sides(ranks);
        [rank / c / b, rank / c % b, rank % c]
    }

    /// The faces a rank exchanges in every step, in the order in which it starts them; for each it
    /// sends and receives one message. A dimension with one rank has no faces. In a periodic
    /// dimension with two ranks, both faces go to the same rank.
    pub fn faces(&self, ranks: u32, rank: Rank) -> Vec<Face> {
        let sides = self.sides(ranks);
        let grid = Decomposition::of_sides(&sides, ranks);
        let links = grid.map(|grid| grid.links(rank.get())).unwrap_or_default();
        let place = self.place(ranks, rank.get());
        let mut faces = Vec::with_capacity(links.len());
        for link in links {
            let (dimension, upwards) = ((link.direction / 2) as usize, link.direction % 2 == 1);
            let border = match upwards {
                true => sides[dimension] - 1,
                false => 0,
            };
            if self.periodic || place[dimension] != border {
                faces.push(Face {
                    rank: Rank::new(link.rank),
                    dimension,
                    upwards,
                    bytes: Bytes::new((8 * self.face_cells(dimension) + TRAILER) as u64),
                });
            }
        }
        faces
    }

    /// The most exchanges it takes for information to get from rank 0 to another rank.
    pub(super) fn diameter(&self, ranks: u32) -> u32 {
        let far = |side: u32| if self.periodic { side / 2 } else { side - 1 };
        self.sides(ranks).into_iter().map(far).sum()
    }

    /// Most memory a rank needs: two fields with a border of one cell, and for every face a message
    /// each way.
    pub fn memory_per_rank(&self, ranks: u32) -> Bytes {
        let field: u64 = self.cells.iter().map(|&c| u64::from(c) + 2).product();
        let sides = self.sides(ranks.max(1));
        // Both faces of a dimension, if it has neighbours.
        let message = |d: usize| (8 * self.face_cells(d) + TRAILER) as u64;
        let faces: u64 = (0..3)
            .filter(|&d| sides[d] > 1)
            .map(|d| 2 * message(d))
            .sum();
        Bytes::new(2 * 8 * field + 2 * faces)
    }
}
