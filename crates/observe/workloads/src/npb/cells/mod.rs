//! What BT and SP have in common (RNR-94-007, sections 3.2 to 3.7): the flow in a cube and its right-hand
//! side, cut into cells; the exchange of faces, and sweeps along lines through the cells.
//!
//! Only the points inside the grid are unknown. They are cut into cells; each cell has a border of
//! two points, which holds faces of its neighbours or the boundary of the grid.

mod cell;
mod flow;
mod lanes;
mod partition;
mod rhs;
mod sweep;
#[cfg(test)]
mod tests;
mod traffic;

pub use cell::{Cell, PRESSURE, RHO, VELOCITY};
pub use flow::{Flow, Published, most_ranks};
pub use lanes::Lanes;
pub use sweep::{Batch, Points, Scheme, Sweeps};
pub use traffic::{Costs, traffic};

/// Names of the sweeps as regions.
pub const SWEEPS: [&str; 3] = ["x sweep", "y sweep", "z sweep"];
