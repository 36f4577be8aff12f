//! Topologies from text of other tools. Pure functions of bytes; which files are read is the caller's matter.

mod blocks;
mod combine;
mod error;
mod format;
mod hwloc;
mod ibnetdiscover;
mod scontrol_node;
mod toml_form;
mod topology_conf;
mod topology_yaml;
mod tree;
mod yaml;

pub use combine::{Combined, combine};
pub use error::ReadError;
pub use format::{Format, read, read_as};

use crate::model::{MemoryDomain, Node};
use crate::topology::Topology;
use idlewave_units::Bytes;

/// What was read from one file.
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
    /// Nodes and what joins them.
    Topology(Box<Topology>),
    /// Nodes without what joins them.
    Nodes(Vec<Node>),
    /// One machine, of which there may be many.
    Machine(Machine),
    /// Slurm's flat topology: it names no nodes and no switches.
    Flat,
}

/// What hwloc tells of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The host on which it was saved; `None` where the file does not tell.
    pub name: Option<String>,
    /// Cores; `None` where it has only hardware threads.
    pub cores: Option<u32>,
    /// Main memory.
    pub memory: Option<Bytes>,
    /// NUMA domains; empty where they are not known.
    pub domains: Vec<MemoryDomain>,
}
