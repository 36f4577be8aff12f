//! Requirements of a placement, and its result.

use crate::error::PlaceError;
use crate::order::Order;
use crate::select::Selection;
use idlewave_network::{Network, Place};
use idlewave_topology::{NodeIndex, Topology, Vertex};
use idlewave_units::Bytes;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Resources of a job, and the effort of the search.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Ranks per node to consider, each at least 1; empty: from 1 to the most cores of a node.
    pub ranks_per_node: Vec<u32>,
    /// Allowed nodes, in any order; `None`: all free compute nodes.
    pub nodes: Option<Vec<NodeIndex>>,
    /// Memory that each rank needs; `None` if unknown.
    pub memory_per_rank: Option<Bytes>,
    /// Most nodes; `None`: all of them.
    pub max_nodes: Option<u32>,
    /// Ranks on each node in the measurement of the program's computation, at least 1.
    pub measured_with: u32,
    /// Swaps tried in all, divided among the rank counts per node; fewer if ranks have more than 16
    /// partners each. 0: no local search.
    pub trials: u64,
    /// Seed of the search. The same seed gives the same candidates.
    pub seed: u64,
}

impl Default for Job {
    /// All free nodes, all rank counts per node, about a second of search for thousands of ranks.
    fn default() -> Self {
        Job {
            ranks_per_node: Vec::new(),
            nodes: None,
            memory_per_rank: None,
            max_nodes: None,
            measured_with: 1,
            trials: 200_000,
            seed: 0,
        }
    }
}

/// How a placement was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct How {
    /// Selection of the nodes.
    pub selection: Selection,
    /// Order of the ranks.
    pub order: Order,
    /// Whether ranks per node differ by one at most; otherwise all nodes but the last are full.
    pub even: bool,
    /// Whether local search made it better.
    pub improved: bool,
}

/// Whether the nodes have enough memory for their ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryVerdict {
    /// On all nodes.
    Fits,
    /// Not on this node, the first such node.
    Exceeds {
        /// The node.
        node: NodeIndex,
        /// Memory that its ranks need together.
        needed: Bytes,
        /// Its memory.
        there: Bytes,
    },
    /// The memory of a rank, or of a node in use, is unknown, and no node is known to have too
    /// little.
    Unknown,
}

/// A placement.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Most ranks on a node.
    pub ranks_per_node: u32,
    /// Nodes in use, in the order in which they were filled.
    pub nodes: Vec<NodeIndex>,
    /// The place of each rank. In block and cyclic order the ranks of a node take turns among its
    /// memory domains with free cores. Mapped and improved placements choose domains, so a batch
    /// system needs a rank file for them.
    pub places: Vec<Place>,
    /// How it was found.
    pub how: How,
    /// The objective of the search in seconds: the largest load of a resource or a rank
    /// (docs/place.md).
    pub bound_seconds: f64,
    /// Whether memory is enough.
    pub memory: MemoryVerdict,
}

/// A node with its cores.
pub(crate) type WithCores = (NodeIndex, u32);

/// If nodes are in disconnected parts, those of the part with the most cores (the first if tied):
/// messages must get through.
fn of_one_part(
    topology: &Topology,
    nodes: Vec<WithCores>,
    ranks: u32,
) -> Result<Vec<WithCores>, PlaceError> {
    let part_of = topology.part_of_nodes();
    let part = |node: &WithCores| part_of.get(node.0.get()).copied();
    let mut cores: BTreeMap<Option<u32>, u64> = BTreeMap::new();
    for node in &nodes {
        *cores.entry(part(node)).or_default() += u64::from(node.1);
    }
    let parts = cores.len();
    let most = cores
        .into_iter()
        .max_by_key(|(part, cores)| (*cores, Reverse(*part)));
    match most {
        Some((largest, _)) if parts == 1 || largest.is_none() => Ok(nodes),
        Some((largest, cores)) if cores >= u64::from(ranks) => Ok(nodes
            .into_iter()
            .filter(|node| part(node) == largest)
            .collect()),
        Some((_, cores)) => Err(PlaceError::Parted {
            ranks,
            parts,
            cores,
        }),
        None => Ok(nodes),
    }
}

impl Job {
    /// The allowed nodes, in the order of the topology; in a disconnected network, those of one
    /// part.
    pub(crate) fn allowed(
        &self,
        network: &Network,
        ranks: u32,
    ) -> Result<Vec<WithCores>, PlaceError> {
        let topology = network.topology();
        let all = topology.nodes();
        let mut indices: Vec<NodeIndex> = match &self.nodes {
            Some(nodes) => nodes.clone(),
            None => topology
                .node_indices()
                .filter(|n| all[n.get()].is_available())
                .collect(),
        };
        indices.sort_unstable();
        indices.dedup();
        let mut nodes = Vec::with_capacity(indices.len());
        for index in indices {
            let Some(node) = all.get(index.get()) else {
                let (index, count) = (index.get(), all.len());
                return Err(PlaceError::NoSuchNode { index, count });
            };
            let Some(cores) = node.cores else {
                let node = topology.name(Vertex::Node(index)).to_owned();
                return Err(PlaceError::UnknownCores { node });
            };
            nodes.push((index, cores));
        }
        if nodes.is_empty() {
            return Err(PlaceError::NoNodes { ranks });
        }
        let cores: u64 = nodes.iter().map(|n| u64::from(n.1)).sum();
        if cores >= u64::from(ranks) {
            nodes = of_one_part(topology, nodes, ranks)?;
        }
        if cores < u64::from(ranks) {
            let nodes = nodes.len();
            return Err(PlaceError::TooFewCores {
                ranks,
                nodes,
                cores,
            });
        }
        Ok(nodes)
    }

    /// The rank counts per node to consider, in rising order.
    pub(crate) fn numbers(&self, nodes: &[WithCores], ranks: u32) -> Result<Vec<u32>, PlaceError> {
        let most = nodes.iter().map(|n| n.1).max().unwrap_or(0);
        let mut numbers = match self.ranks_per_node.is_empty() {
            // More than all ranks on a node is the same as all.
            true => (1..=most.min(ranks)).collect(),
            false => self.ranks_per_node.clone(),
        };
        numbers.sort_unstable();
        numbers.dedup();
        match numbers.first() {
            Some(0) => Err(PlaceError::Nothing {
                what: "0 ranks per node",
            }),
            _ => Ok(numbers),
        }
    }

    /// Whether memory suffices with this many ranks on these nodes.
    pub(crate) fn memory(&self, network: &Network, counts: &[(NodeIndex, u32)]) -> MemoryVerdict {
        let Some(each) = self.memory_per_rank else {
            return MemoryVerdict::Unknown;
        };
        let mut verdict = MemoryVerdict::Fits;
        for &(node, ranks) in counts {
            let there = network
                .topology()
                .nodes()
                .get(node.get())
                .and_then(|n| n.memory);
            let needed = Bytes::new(each.get().saturating_mul(u64::from(ranks)));
            match there {
                Some(there) if needed.get() > there.get() => {
                    return MemoryVerdict::Exceeds {
                        node,
                        needed,
                        there,
                    };
                }
                Some(_) => {}
                None => verdict = MemoryVerdict::Unknown,
            }
        }
        verdict
    }
}
