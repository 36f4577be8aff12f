//! The Ousterhout matrix: which gangs run together.
//!
//! Columns are slots (CPUs of nodes), rows are turns: all gangs of a row run at once, one row at a time. A gang has its *home* in one row. Where its
//! slots are free in another row it runs there too, as an *alternate*; an alternate never stands in the way of a home.
//!
//! J. K. Ousterhout, "Scheduling techniques for concurrent systems", ICDCS 1982. Packing: first fit of its section on the matrix method, or by
//! blocks of 2^k nodes with the least load first: D. G. Feitelson, L. Rudolph, "Distributed hierarchical control for parallel processing", Computer
//! 23(5), 1990. Bringing rows together after a departure: D. G. Feitelson, "Packing schemes for gang scheduling", JSSPP 1996.
//!
//! Everything is a function of the calls made before: no clock, no random numbers.

mod compact;
mod error;
mod grid;
mod pack;

pub use compact::Move;
pub use error::MatrixError;
pub use grid::{Cell, Home, Matrix, RowId};
pub use pack::{Demand, Packing};
