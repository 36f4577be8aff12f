//! The Ousterhout matrix: which gangs run together.
//!
//! Columns are slots (CPUs of nodes), rows are turns: all gangs of a row run at the same time, one
//! row after the other. A gang has its *home* in one row. If its slots are free in another row, it
//! also runs there as an *alternate*; an alternate never blocks a home.
//!
//! J. K. Ousterhout, "Scheduling techniques for concurrent systems", ICDCS 1982. Packing: first fit
//! as in its section on the matrix method, or by blocks of 2^k nodes with the least load first: D.
//! G. Feitelson, L. Rudolph, "Distributed hierarchical control for parallel processing", Computer
//! 23(5), 1990. Merging rows after a departure: D. G. Feitelson, "Packing schemes for gang
//! scheduling", JSSPP 1996.
//!
//! Everything is a function of the previous calls: no clock, no random numbers.

mod compact;
mod demand;
mod error;
mod grid;
mod pack;

pub use compact::Move;
pub use demand::{Demand, Packing};
pub use error::MatrixError;
pub use grid::{Cell, Home, Matrix, RowId};
