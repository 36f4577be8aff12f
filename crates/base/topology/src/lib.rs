//! The nodes of a cluster, how they are connected, and the directed links that a message between
//! two nodes takes.
//!
//! Start of the flow: imports units only. A [`Topology`] is read from what a resource manager or a
//! network already knows ([`read`], [`combine`]), or built from a few numbers ([`Topology::star`],
//! [`Topology::fat_tree`], [`Topology::torus`], [`Topology::dragonfly`]). [`write_topology_conf`]
//! and [`write_toml`] write it. docs/topologies.md describes the formats and the routing rules.

mod build;
mod cache;
mod error;
mod form;
mod hostlist;
mod model;
mod read;
mod route;
mod shape;
mod summary;
mod topology;
mod write_toml;
mod write_topology_conf;

pub use build::{FatTree, Pods};
pub use error::TopologyError;
pub use hostlist::{HostlistError, expand as expand_hostlist, fold as fold_hostlist, split_number};
pub use model::{
    Cable, Link, LinkIndex, MemoryDomain, Node, NodeIndex, Route, Routing, Switch, SwitchIndex,
    Vertex,
};
pub use read::{
    Combined, Content, Format, Machine, NodeList, Read, ReadError, combine, names_in_description,
    read, read_as,
};
pub use shape::Dragonfly;
pub use summary::Level;
pub use topology::{MAX_CABLES, MAX_NODES, MAX_SWITCHES, Topology};
pub use write_toml::write_toml;
pub use write_topology_conf::{NoTree, write_topology_conf};
