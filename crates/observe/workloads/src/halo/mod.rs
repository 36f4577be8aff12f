//! Halo exchange: a stencil on a grid divided among the ranks, as in most solvers for partial
//! differential equations.
//!
//! The ranks form a grid of one, two or three dimensions; each has its own block of cells. A step
//! sends the faces of the block to the neighbours and receives theirs (non-blocking, all at once),
//! then replaces every cell by the mean of its six neighbours: a Jacobi sweep of the Laplace
//! equation, with its memory traffic. At a chosen interval, all ranks combine their largest change,
//! as programs that iterate to convergence do.
//!
//! It verifies itself. The cells start as a plane wave (periodic) or as products of sines that
//! vanish at the border (open). A sweep multiplies either by a known factor, so every cell and
//! every largest change has a known value to compare with. Once only a thousandth of the wave is
//! left, it is reset, so that the comparison stays meaningful. The checksum covers all cells and
//! their positions; it does not depend on how they are divided.

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
/// As text: the cells, then, after commas, the options that differ from the default, as in `64`,
/// `64x32x16`, `64,steps=500`, `64,dims=1,residual=10,open`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halo {
    /// Cells of a rank's block along each edge, the last one contiguous in memory; 4 to 4096 each,
    /// at most 2^31 in all.
    pub cells: [u32; 3],
    /// Steps; default 100.
    pub steps: u32,
    /// Dimensions of the grid of ranks, 1 to 3; default 3. The block always has three.
    pub dims: u32,
    /// Interval, in steps, at which all ranks combine their largest change; 0 (the default) for
    /// never.
    pub residual_every: u32,
    /// Whether the last block's neighbour is the first one; default true.
    pub periodic: bool,
}
