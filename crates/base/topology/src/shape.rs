//! The structure of a topology that routing uses beyond the links.

use crate::model::{LinkIndex, NodeIndex, SwitchIndex};
use std::collections::HashMap;

/// The routing rule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    /// Shortest paths through any graph.
    Graph,
    /// One dimension after the other.
    Torus(Torus),
    /// Local, global, local.
    Dragonfly(Joined),
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

/// The structure of a torus. Switch number `x0 + d0 * (x1 + d1 * (x2 + ...))` has coordinates x.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Torus {
    pub(crate) dims: Vec<u32>,
    pub(crate) wrap: bool,
    pub(crate) nodes_per_switch: u32,
    /// Links of each switch: up and down in the first dimension, in the second, ... `None` at a
    /// border.
    pub(crate) neighbours: Vec<Option<LinkIndex>>,
}

impl Torus {
    pub(crate) fn coordinates(&self, switch: SwitchIndex) -> Vec<u32> {
        coordinates(&self.dims, switch.get())
            .map(|(_, _, x)| x)
            .collect()
    }
}

/// Each dimension with its stride and the switch's coordinate.
pub(crate) fn coordinates(
    dims: &[u32],
    switch: usize,
) -> impl Iterator<Item = (usize, usize, u32)> + '_ {
    let mut stride = 1;
    dims.iter().enumerate().map(move |(d, size)| {
        let this = stride;
        stride *= *size as usize;
        (d, this, (switch / this % *size as usize) as u32)
    })
}

/// The numbers of a dragonfly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dragonfly {
    /// Groups. A group has `switches_per_group * global_links_per_switch` global ports, and needs
    /// at least `groups - 1`.
    pub groups: u32,
    /// Switches of each group, fully connected within it by one cable each.
    pub switches_per_group: u32,
    /// Nodes on each switch.
    pub nodes_per_switch: u32,
    /// Global ports of each switch.
    pub global_links_per_switch: u32,
}

/// The structure of a dragonfly.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Joined {
    pub(crate) numbers: Dragonfly,
    /// Global links from one group to another, in the order of their ports.
    pub(crate) global: HashMap<(u32, u32), Vec<LinkIndex>>,
}

/// The links between a node and its switch, if the cables of nodes come first.
pub(crate) fn node_links(node: NodeIndex) -> [LinkIndex; 2] {
    [0, 1].map(|direction| LinkIndex::new(2 * node.get() + direction))
}
