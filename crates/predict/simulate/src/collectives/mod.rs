//! Collective operations as messages: the algorithm that an MPI library chooses, and what each
//! member then sends and receives.

mod calls;
mod select;

pub use calls::{Call, Kind, Step};
pub use select::{Algorithms, Library};
