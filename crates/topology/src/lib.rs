//! Which nodes a cluster has, how they are joined, and along which directed links the messages of two nodes travel.
//!
//! At the start of the flow: it imports nothing but units. A [`Topology`] is read from what a resource manager or a
//! network already knows ([`read`], [`combine`]), or built from a few numbers ([`Topology::star`],
//! [`Topology::fat_tree`], [`Topology::torus`], [`Topology::dragonfly`]). [`write_topology_conf`] and [`write_toml`]
//! write it. docs/topologies.md describes the formats and the rules of routing.

mod build;
mod cache;
mod error;
mod form;
mod hostlist;
mod model;
mod read;
mod route;
mod summary;
mod topology;
mod write_toml;
mod write_topology_conf;

pub use build::{Dragonfly, FatTree, Pods};
pub use error::TopologyError;
pub use hostlist::{HostlistError, expand as expand_hostlist, fold as fold_hostlist, split_number};
pub use model::{
    Cable, Link, LinkIndex, MemoryDomain, Node, NodeIndex, Switch, SwitchIndex, Vertex,
};
pub use read::{Combined, Content, Format, Machine, Read, ReadError, combine, read, read_as};
pub use route::{Route, Routing};
pub use summary::Level;
pub use topology::{MAX_CABLES, MAX_NODES, MAX_SWITCHES, Topology};
pub use write_toml::write_toml;
pub use write_topology_conf::{NoTree, write_topology_conf};
