//! The parts of a topology: nodes, switches and directed links.

use idlewave_units::{Bytes, BytesPerSecond};

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// From an index, counted from 0. Indices beyond 2^32 - 1 become the maximum, which no
            /// topology reaches.
            pub const fn new(place: usize) -> Self {
                if place > u32::MAX as usize {
                    return Self(u32::MAX);
                }
                Self(place as u32)
            }
            /// The index, counted from 0.
            pub const fn get(self) -> usize {
                self.0 as usize
            }
        }
    };
}

index!(
    /// Index of a node in [`crate::Topology::nodes`].
    NodeIndex
);
index!(
    /// Index of a switch in [`crate::Topology::switches`].
    SwitchIndex
);
index!(
    /// Index of a directed link in [`crate::Topology::links`].
    LinkIndex
);

impl LinkIndex {
    /// The other direction of the same cables, which is beside it.
    pub const fn opposite(self) -> Self {
        Self(self.0 ^ 1)
    }
}

/// A machine on which ranks can be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name, unique among nodes and switches.
    pub name: String,
    /// Cores (not hardware threads); `None` if the source does not say.
    pub cores: Option<u32>,
    /// Main memory; `None` if the source does not say.
    pub memory: Option<Bytes>,
    /// NUMA domains in the order of the source; empty if the source does not say.
    pub domains: Vec<MemoryDomain>,
    /// Whether a new job can use it: `false` if it is down, drained, reserved or allocated.
    pub free: bool,
    /// Whether the batch system allocates it at all: `false` for login nodes and storage servers.
    pub compute: bool,
    /// Features that a job can request, as the resource manager names them.
    pub features: Vec<String>,
}

impl Node {
    /// A free node with nothing else known.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            cores: None,
            memory: None,
            domains: Vec::new(),
            free: true,
            compute: true,
            features: Vec::new(),
        }
    }

    /// Whether ranks may be placed on it.
    pub fn is_available(&self) -> bool {
        self.compute && self.free
    }

    /// Sets its number of cores. Domains with a different total are dropped.
    pub(crate) fn set_cores(&mut self, cores: u32) {
        self.cores = Some(cores);
        if self.cores_of_domains() != u64::from(cores) {
            self.domains.clear();
        }
    }

    /// Total cores of its domains.
    pub(crate) fn cores_of_domains(&self) -> u64 {
        self.domains.iter().map(|d| u64::from(d.cores)).sum()
    }
}

/// Cores of a node that share a memory (a NUMA domain).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryDomain {
    /// Cores closest to this memory; 0 for memory without cores.
    pub cores: u32,
    /// Its size; `None` if the source does not say.
    pub memory: Option<Bytes>,
}

/// A switch. It forwards messages and sends none itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Its name, unique among nodes and switches.
    pub name: String,
    /// 1 for a leaf, one more per step up. `None` if it reaches no node.
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
    /// Where its messages go.
    pub to: Vertex,
    /// Capacity of all its cables together; `None` if the source does not say.
    pub capacity: Option<BytesPerSecond>,
    /// Parallel cables, at least 1. A message takes one of them.
    pub cables: u32,
}

impl Link {
    /// Capacity of one of its cables; `None` if the source does not say.
    pub fn capacity_per_cable(&self) -> Option<BytesPerSecond> {
        // Not a product with the inverse, which would not lead back to the total capacity.
        BytesPerSecond::new(self.capacity?.get() / f64::from(self.cables))
    }
}

/// Full-duplex cables between two vertices: two links of a topology.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cable {
    /// One end.
    pub a: Vertex,
    /// The other end.
    pub b: Vertex,
    /// Capacity of one cable in one direction; `None` if unknown.
    pub capacity: Option<BytesPerSecond>,
    /// Number of parallel cables, at least 1.
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

/// Which of the shortest paths messages take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Routing {
    /// One path per pair of nodes, chosen by the destination.
    Deterministic,
    /// All shortest paths in equal parts: packet spraying, or the mean over many flows.
    Multipath,
}

/// The route between a pair of nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Route {
    /// Links with the share of the traffic that each carries, above 0 and at most 1; each link
    /// once. For a deterministic route in order from source to destination, all shares 1.
    pub shares: Vec<(LinkIndex, f64)>,
    /// Switches on the path, on the longest if there are several: 0 within a node and along a
    /// direct cable.
    pub hops: u32,
}
