//! Halo exchange: a stencil on a grid that is divided among the ranks, as most programs of partial
//! differential equations do it.
//!
//! The ranks form a grid of one, two or three dimensions, each with a block of cells of its own. A
//! step sends the faces of the block to the neighbours and receives theirs (non-blocking, all at
//! once), and replaces every cell by the mean of its six neighbours: a Jacobi sweep of the Laplace
//! equation, with the memory traffic of one. Every so many steps the largest change is combined for
//! all ranks, as programs do that wait for convergence.
//!
//! It verifies itself. The cells begin as a plane wave (periodic) or as products of sines that
//! vanish at the border (open), which a sweep multiplies by a known factor: the result is compared
//! with that in every cell, and so is every largest change. Once a thousandth of the wave is left,
//! it is set anew, so that the comparison never becomes an empty one. The checksum is that of all
//! cells with their places; it does not depend on how they are divided.

mod block;
mod links;
mod options;
mod run;
#[cfg(test)]
mod tests;
mod wave;

pub use links::Face;

/// Sizes of a halo exchange.
///
/// As text: the cells, and then, after commas, what is not as usual, as in `64`, `64x32x16`,
/// `64,steps=500`, `64,dims=1,residual=10,open`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halo {
    /// Cells of a rank's block along each edge, the last one contiguous in memory; 4 to 4096, and
    /// 2^31 in all.
    pub cells: [u32; 3],
    /// Steps, usually 100.
    pub steps: u32,
    /// Dimensions of the grid of ranks, 1 to 3, usually 3. The block has three in any case.
    pub dims: u32,
    /// The largest change is combined for all ranks every so many steps; never if 0, as usual.
    pub residual_every: u32,
    /// Whether the last block's neighbour is the first one, as usual.
    pub periodic: bool,
}
