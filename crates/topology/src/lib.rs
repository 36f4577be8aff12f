//! Which nodes a cluster has, how they are joined, and along which directed links the messages of two nodes travel.
//!
//! At the start of the flow: it imports nothing but units. A [`Topology`] is read from what a resource manager or a
//! network already knows, or built from a few numbers ([`Topology::star`], [`Topology::fat_tree`],
//! [`Topology::torus`], [`Topology::dragonfly`]). docs/topologies.md describes the formats and the rules of routing.

mod build;
mod cache;
mod capacity;
mod error;
mod model;
mod route;
mod topology;

pub use build::{Dragonfly, FatTree, Pods};
pub use capacity::{BytesPerSecond, UnitError, parse_memory, write_memory};
pub use error::TopologyError;
pub use model::{
    Cable, Link, LinkIndex, MemoryDomain, Node, NodeIndex, Switch, SwitchIndex, Vertex,
};
pub use route::{Route, Routing};
pub use topology::{MAX_CABLES, MAX_NODES, MAX_SWITCHES, Topology};
