//! Placements of a program on a network: how many processes per node, which nodes, which order of ranks, and what each would cost.
//!
//! Place in the flow: last before rendering. A [`Program`](idlewave_network::Program) and a [`Network`](idlewave_network::Network) go
//! in. docs/place.md has the algorithms.

mod batch;

pub use batch::*;
