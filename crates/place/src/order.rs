//! Which rank goes to which of the selected nodes.

use crate::slots::of_domains;
use crate::ways::Ways;
use idlewave_network::Place;
use idlewave_topology::NodeIndex;

/// How ranks were ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Order {
    /// Consecutive ranks on a node until it is full.
    Block,
    /// Consecutive ranks on consecutive nodes, in turn.
    Cyclic,
    /// By the communication graph.
    Mapped,
    /// By the communication graph, as Scotch was asked to map it.
    Scotch,
}

/// Nodes with the ranks that each has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub nodes: Vec<NodeIndex>,
    pub counts: Vec<u32>,
}

impl Layout {
    /// The site of each rank, filling node after node.
    pub fn block(&self, ways: &Ways) -> Vec<u32> {
        let mut sites = Vec::new();
        for (&node, &count) in self.nodes.iter().zip(&self.counts) {
            sites.extend((0..count).map(|local| site(ways, node, local)));
        }
        sites
    }

    /// The site of each rank, taking turns among the nodes that have a slot left.
    pub fn cyclic(&self, ways: &Ways) -> Vec<u32> {
        let most = self.counts.iter().copied().max().unwrap_or(0);
        let turn = |local: u32| {
            let nodes = self.nodes.iter().zip(&self.counts);
            let with_slot = nodes.filter(move |&(_, &count)| count > local);
            with_slot.map(move |(&node, _)| site(ways, node, local))
        };
        (0..most).flat_map(turn).collect()
    }

    /// All sites with the ranks that each gets.
    pub fn sites(&self, ways: &Ways) -> Vec<(u32, u32)> {
        let mut sites = Vec::new();
        for (&node, &count) in self.nodes.iter().zip(&self.counts) {
            let first = ways.site(Place { node, domain: 0 });
            let domains = of_domains(count, ways.domains(node));
            sites.extend((first..).zip(domains).filter(|&(_, ranks)| ranks > 0));
        }
        sites
    }
}

fn site(ways: &Ways, node: NodeIndex, local: u32) -> u32 {
    let domain = local % ways.domains(node);
    ways.site(Place { node, domain })
}
