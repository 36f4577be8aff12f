//! Placements of a program on a network: how many processes per node, which nodes, which order of ranks, and what each would cost.
//!
//! Place in the flow: last before rendering. A [`Program`](idlewave_network::Program) and a [`Network`](idlewave_network::Network) go
//! in. docs/place.md has the algorithms.

pub mod batch;
mod bisect;
mod candidates;
mod error;
mod greedy;
mod improve;
mod job;
mod loads;
mod mapped;
mod order;
mod peaks;
mod random;
mod select;
mod slots;
pub mod testing;
mod traffic;
mod ways;

pub use candidates::candidates;
pub use error::PlaceError;
pub use job::{Candidate, How, Job, MemoryVerdict};
pub use order::Order;
pub use select::Selection;
pub use slots::{even_nodes, full_nodes};
pub use traffic::Traffic;
