//! Topologies from text of other tools. Pure functions of bytes; the caller chooses the files.

mod any_format;
mod blocks;
mod combine;
mod error;
mod format;
mod hwloc;
mod ibnetdiscover;
mod scontrol_node;
mod slurm_conf;
mod toml_form;
mod topology_conf;
mod topology_yaml;
mod tree;
mod yaml;

pub use any_format::{read, read_as};
pub use combine::{Combined, combine};
pub use error::ReadError;
pub use format::Format;
pub use ibnetdiscover::names_in_description;

use crate::model::{MemoryDomain, Node};
use crate::topology::Topology;
use idlewave_units::Bytes;
use std::collections::HashMap;

/// The content of one file.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// The format of the file.
    pub format: Format,
    /// What it describes.
    pub content: Content,
    /// What was assumed or left out, one line each.
    pub notes: Vec<String>,
}

/// What a file describes.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Nodes and their connections.
    Topology(Box<Topology>),
    /// Nodes without connections.
    Nodes(NodeList),
    /// One machine, which may represent many.
    Machine(Machine),
    /// Slurm's flat topology: it names no nodes or switches.
    Flat,
}

/// The nodes of a batch system.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeList {
    /// The nodes, by the names that jobs use.
    pub nodes: Vec<Node>,
    /// Host names that differ from the node's name, with the index of the node.
    pub hosts: HashMap<String, usize>,
}

/// hwloc's description of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The host on which it was saved; `None` if the file does not say.
    pub name: Option<String>,
    /// Cores; `None` if it has hardware threads only.
    pub cores: Option<u32>,
    /// Main memory.
    pub memory: Option<Bytes>,
    /// NUMA domains; empty if unknown.
    pub domains: Vec<MemoryDomain>,
}
