//! Placements of a program on a network: how many ranks per node, which nodes, which order of
//! ranks, and the cost of each.
//!
//! Place in the flow: last before rendering. The input is a [`Program`](idlewave_network::Program)
//! and a [`Network`](idlewave_network::Network). docs/place.md describes the algorithms.

mod advice;
pub mod batch;
mod bisect;
mod candidates;
#[cfg(test)]
mod cases;
mod error;
mod exhaustive;
mod given;
mod greedy;
mod improve;
mod job;
mod loads;
mod looped;
mod lower;
mod mapped;
mod order;
mod outside;
mod peaks;
mod random;
mod scotch;
mod select;
mod slots;
#[doc(hidden)]
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod traffic;
mod ways;

pub use advice::{Advice, Advised, Replayed, Subject, advise};
pub use candidates::{candidates, candidates_with, layouts};
pub use error::PlaceError;
pub use exhaustive::{Optimum, exhaustive};
pub use given::{GivenError, GivenRank, given_candidate, read_given, read_given_line};
pub use job::{Candidate, How, Job, MemoryVerdict};
pub use looped::{Loop, MOST_OPERATIONS, refuse_many};
pub use lower::{LowerBound, lower_bound};
pub use order::Order;
pub use outside::Mapping;
pub use scotch::{read_scotch_mapping, scotch_graph, scotch_target};
pub use select::Selection;
pub use slots::{even_nodes, full_nodes};
pub use traffic::Traffic;
