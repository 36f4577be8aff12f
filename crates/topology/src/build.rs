//! Topologies from a few numbers.

mod dragonfly;
mod fat_tree;
mod torus;

pub use dragonfly::Dragonfly;
pub use fat_tree::{FatTree, Pods};

use crate::error::TopologyError;
use crate::model::{Cable, LinkIndex, Node, NodeIndex, Switch, SwitchIndex, Vertex};
use crate::topology::{MAX_NODES, Topology, count};

/// How ways are found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    /// Shortest ways through any graph.
    Graph,
    /// One dimension after the other.
    Torus(torus::Torus),
    /// Local, global, local.
    Dragonfly(dragonfly::Joined),
}

impl Shape {
    pub(crate) fn coordinates(&self, switch: SwitchIndex) -> Vec<u32> {
        match self {
            Shape::Graph => Vec::new(),
            Shape::Torus(torus) => torus.coordinates(switch),
            Shape::Dragonfly(joined) => {
                let (each, at) = (joined.numbers.switches_per_group, switch.get() as u32);
                vec![at % each, at / each]
            }
        }
    }
}

impl Topology {
    /// So many nodes `n1`, `n2`, ... on one switch `switch1`.
    ///
    /// # Errors
    /// No node or more than [`MAX_NODES`].
    pub fn star(nodes: usize) -> Result<Self, TopologyError> {
        Self::on_one_switch(named_nodes(nodes as u64)?, "switch1")
    }

    /// These nodes on one switch of this name.
    pub(crate) fn on_one_switch(nodes: Vec<Node>, switch: &str) -> Result<Self, TopologyError> {
        let cables = node_cables(nodes.len(), nodes.len());
        Self::from_cables(nodes, vec![Switch::new(switch)], &cables)
    }
}

/// Free nodes `n1`, `n2`, ...
fn named_nodes(nodes: u64) -> Result<Vec<Node>, TopologyError> {
    count("nodes", nodes, 1, MAX_NODES as u64)?;
    Ok((1..=nodes).map(|n| Node::new(format!("n{n}"))).collect())
}

/// Cables from node `n` to switch `n / concentration`.
fn node_cables(nodes: usize, concentration: usize) -> Vec<Cable> {
    let cable = |n: usize| {
        Cable::new(
            Vertex::Node(NodeIndex::new(n)),
            Vertex::Switch(SwitchIndex::new(n / concentration)),
        )
    };
    (0..nodes).map(cable).collect()
}

/// The links from a node to its switch and back, where the cables of nodes come first.
fn node_links(node: NodeIndex) -> [LinkIndex; 2] {
    [0, 1].map(|direction| LinkIndex::new(2 * node.get() + direction))
}

/// The product of numbers each of which may be anything.
fn product(factors: &[u32]) -> u64 {
    let multiply = |product: u64, factor: &u32| product.saturating_mul(u64::from(*factor));
    factors.iter().fold(1, multiply)
}
