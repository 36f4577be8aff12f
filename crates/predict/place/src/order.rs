//! Assignment of ranks to the selected nodes.

use crate::slots::{domains_in_turn, of_domains};
use crate::ways::Ways;
use idlewave_network::Place;
use idlewave_topology::NodeIndex;

/// The order of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Order {
    /// Consecutive ranks on a node until it is full.
    Block,
    /// Consecutive ranks on consecutive nodes, in turn.
    Cyclic,
    /// By the communication graph.
    Mapped,
    /// By the communication graph, as mapped by Scotch.
    Scotch,
    /// As given by the user.
    Given,
}

/// Nodes with the ranks that each has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub nodes: Vec<NodeIndex>,
    pub counts: Vec<u32>,
}

impl Layout {
    /// The site of each rank, filling node by node.
    pub fn block(&self, ways: &Ways) -> Vec<u32> {
        let mut sites = Vec::new();
        for (&node, &count) in self.nodes.iter().zip(&self.counts) {
            sites.extend(sites_of(ways, node, count));
        }
        sites
    }

    /// The site of each rank, taking turns among the nodes with a free slot.
    pub fn cyclic(&self, ways: &Ways) -> Vec<u32> {
        let most = self.counts.iter().copied().max().unwrap_or(0) as usize;
        let nodes = self.nodes.iter().zip(&self.counts);
        let nodes: Vec<Vec<u32>> = nodes
            .map(|(&node, &count)| sites_of(ways, node, count).collect())
            .collect();
        let turn = |local: usize| nodes.iter().filter_map(move |sites| sites.get(local));
        (0..most).flat_map(turn).copied().collect()
    }

    /// All sites with the number of ranks of each.
    pub fn sites(&self, ways: &Ways) -> Vec<(u32, u32)> {
        let mut sites = Vec::new();
        for (&node, &count) in self.nodes.iter().zip(&self.counts) {
            let first = ways.site(Place { node, domain: 0 });
            let domains = of_domains(count, ways.cores(node));
            sites.extend((first..).zip(domains).filter(|&(_, ranks)| ranks > 0));
        }
        sites
    }
}

/// Sites of the local ranks of a node.
fn sites_of<'w>(ways: &'w Ways, node: NodeIndex, count: u32) -> impl Iterator<Item = u32> + 'w {
    let domains = domains_in_turn(ways.cores(node)).take(count as usize);
    domains.map(move |domain| ways.site(Place { node, domain }))
}
