//! Collective operations as messages: which algorithm an MPI library takes, and what each member sends and receives by it.

mod calls;
mod select;

pub use calls::{Call, Kind, Step};
pub use select::{Algorithms, Library};
