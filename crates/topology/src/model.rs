//! The parts of a topology: nodes, switches and directed links.

use idlewave_units::{Bytes, BytesPerSecond};

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// The one in this place, counted from 0. Places beyond 2^32 - 1 are the last one: no topology has as many.
            pub const fn new(place: usize) -> Self {
                if place > u32::MAX as usize {
                    return Self(u32::MAX);
                }
                Self(place as u32)
            }
            /// Its place, counted from 0.
            pub const fn get(self) -> usize {
                self.0 as usize
            }
        }
    };
}

index!(
    /// A node's place in [`crate::Topology::nodes`].
    NodeIndex
);
index!(
    /// A switch's place in [`crate::Topology::switches`].
    SwitchIndex
);
index!(
    /// A directed link's place in [`crate::Topology::links`].
    LinkIndex
);

/// A machine on which ranks can be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name, unique among nodes and switches.
    pub name: String,
    /// Cores (not hardware threads); `None` where the source does not tell.
    pub cores: Option<u32>,
    /// Main memory; `None` where the source does not tell.
    pub memory: Option<Bytes>,
    /// NUMA domains in the order of the source; empty where the source does not tell.
    pub domains: Vec<MemoryDomain>,
    /// Whether a new job can have it: `false` for one that is down, drained, reserved or allocated.
    pub free: bool,
    /// Features by which a job can ask for it, as the resource manager names them.
    pub features: Vec<String>,
}

impl Node {
    /// A free node of which nothing else is known.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            cores: None,
            memory: None,
            domains: Vec::new(),
            free: true,
            features: Vec::new(),
        }
    }

    /// Gives it so many cores. Domains with another number of them are forgotten.
    pub(crate) fn set_cores(&mut self, cores: u32) {
        self.cores = Some(cores);
        if self.cores_of_domains() != u64::from(cores) {
            self.domains.clear();
        }
    }

    /// Cores of all its domains.
    pub(crate) fn cores_of_domains(&self) -> u64 {
        self.domains.iter().map(|d| u64::from(d.cores)).sum()
    }
}

/// Cores of a node that share a memory (a NUMA domain).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryDomain {
    /// Cores whose nearest memory it is; 0 for memory without cores.
    pub cores: u32,
    /// How much; `None` where the source does not tell.
    pub memory: Option<Bytes>,
}

/// A switch. It forwards messages and sends none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Its name, unique among nodes and switches.
    pub name: String,
    /// 1 for a leaf, one more for each step up. `None` for one that reaches no node.
    pub level: Option<u32>,
}

impl Switch {
    /// A switch whose level follows from the cables: its distance from the nearest node.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            level: None,
        }
    }
}

/// An end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Vertex {
    /// A node.
    Node(NodeIndex),
    /// A switch.
    Switch(SwitchIndex),
}

/// All cables from one vertex to another, in one direction. The other direction is another link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Where its messages come from.
    pub from: Vertex,
    /// Where its messages go to.
    pub to: Vertex,
    /// What all its cables carry together; `None` where the source does not tell.
    pub capacity: Option<BytesPerSecond>,
    /// Parallel cables, at least 1. One message travels along one of them.
    pub cables: u32,
}

impl Link {
    /// What one of its cables carries; `None` where the source does not tell.
    pub fn capacity_per_cable(&self) -> Option<BytesPerSecond> {
        // Not times the inverse, which does not lead back to the capacity of all of them.
        BytesPerSecond::new(self.capacity?.get() / f64::from(self.cables))
    }
}

/// Full-duplex cables between two vertices, from which a topology is made: two links.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cable {
    /// One end.
    pub a: Vertex,
    /// The other end.
    pub b: Vertex,
    /// What one cable carries in one direction; `None` where it is not known.
    pub capacity: Option<BytesPerSecond>,
    /// How many there are, at least 1.
    pub count: u32,
}

impl Cable {
    /// One cable of unknown capacity.
    pub fn new(a: Vertex, b: Vertex) -> Self {
        Self {
            a,
            b,
            capacity: None,
            count: 1,
        }
    }
}
