//! Topologies built from a few numbers.

mod dragonfly;
mod fat_tree;
mod torus;

pub use fat_tree::{FatTree, Pods};

use crate::error::TopologyError;
use crate::model::{Cable, Node, NodeIndex, Switch, SwitchIndex, Vertex};
use crate::topology::{MAX_NODES, Topology, count};

impl Topology {
    /// Nodes `n1`, `n2`, ... on one switch `switch1`.
    ///
    /// # Errors
    /// 0 nodes, or more than [`MAX_NODES`].
    pub fn star(nodes: usize) -> Result<Self, TopologyError> {
        Self::on_one_switch(named_nodes(nodes as u64)?, "switch1")
    }

    /// These nodes on one switch of this name.
    ///
    /// # Errors
    /// No nodes or too many, or a name twice.
    pub fn on_one_switch(nodes: Vec<Node>, switch: &str) -> Result<Self, TopologyError> {
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

/// The product of arbitrary numbers; saturates.
fn product(factors: &[u32]) -> u64 {
    let multiply = |product: u64, factor: &u32| product.saturating_mul(u64::from(*factor));
    factors.iter().fold(1, multiply)
}
