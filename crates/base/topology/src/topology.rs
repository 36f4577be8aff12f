//! The graph: built from vertices and cables, checked once, then queried.

use crate::cache::Distances;
use crate::error::TopologyError;
use crate::model::{Cable, Link, LinkIndex, Node, NodeIndex, Switch, SwitchIndex, Vertex};
use crate::shape::Shape;
use idlewave_units::foreign::cut;
use idlewave_units::{Bytes, BytesPerSecond};
use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Most nodes of a topology.
pub const MAX_NODES: usize = 1_000_000;
/// Most switches of a topology.
pub const MAX_SWITCHES: usize = 1_000_000;
/// Most connected pairs of vertices.
pub const MAX_CABLES: usize = 8_000_000;
/// Most parallel cables between two vertices.
const MAX_PARALLEL: u32 = 4096;
/// Longest name in bytes; host names are shorter.
pub(crate) const LONGEST_NAME: usize = 255;

/// Nodes, switches and the directed links between them.
///
/// Cables are full duplex: each is two links, one per direction, next to each other in
/// [`Topology::links`]. Parallel cables are one link with a count. Can be shared by threads.
#[derive(Clone, Debug)]
pub struct Topology {
    nodes: Vec<Node>,
    switches: Vec<Switch>,
    links: Vec<Link>,
    names: HashMap<String, Vertex>,
    /// Outgoing links of nodes, then of switches: `outgoing[starts[v]..starts[v + 1]]`.
    outgoing: Vec<LinkIndex>,
    starts: Vec<usize>,
    pub(crate) shape: Shape,
    distances: Distances,
}

/// The same nodes, switches and links in the same order, however they were made.
impl PartialEq for Topology {
    fn eq(&self, other: &Self) -> bool {
        self.nodes == other.nodes && self.switches == other.switches && self.links == other.links
    }
}

impl Topology {
    /// A topology of any form with shortest-path routing.
    ///
    /// Cables with the same two ends become one link; its capacity is unknown if that of any of
    /// them is. Switches without a level get their distance from the nearest node.
    ///
    /// # Errors
    /// Duplicate or invalid names, ends that do not exist or are equal, counts beyond
    /// [`MAX_NODES`], [`MAX_SWITCHES`] or [`MAX_CABLES`], 0 or more than 4096 parallel cables, or
    /// no node. Disconnected parts are allowed.
    pub fn from_cables(
        nodes: Vec<Node>,
        switches: Vec<Switch>,
        cables: &[Cable],
    ) -> Result<Self, TopologyError> {
        Self::shaped(nodes, switches, cables, Shape::Graph)
    }

    pub(crate) fn shaped(
        nodes: Vec<Node>,
        switches: Vec<Switch>,
        cables: &[Cable],
        shape: Shape,
    ) -> Result<Self, TopologyError> {
        count("nodes", nodes.len() as u64, 1, MAX_NODES as u64)?;
        count("switches", switches.len() as u64, 0, MAX_SWITCHES as u64)?;
        count("cables", cables.len() as u64, 0, MAX_CABLES as u64)?;
        let names = names(&nodes, &switches)?;
        let mut topology = Self {
            names,
            outgoing: Vec::new(),
            starts: Vec::new(),
            links: Vec::new(),
            nodes,
            switches,
            shape,
            distances: Distances::default(),
        };
        topology.links = topology.merged(cables)?;
        topology.sort_outgoing();
        let switches_of = |node| topology.switches_of(node).collect();
        topology.distances = Distances::new(topology.node_indices().map(switches_of));
        topology.fill_levels();
        Ok(topology)
    }

    /// Two links for the cables between each two vertices.
    fn merged(&self, cables: &[Cable]) -> Result<Vec<Link>, TopologyError> {
        let mut places: HashMap<(Vertex, Vertex), usize> = HashMap::with_capacity(cables.len());
        let mut merged: Vec<Cable> = Vec::with_capacity(cables.len());
        for cable in cables {
            self.check(cable.a)?;
            self.check(cable.b)?;
            if cable.a == cable.b {
                let name = self.name(cable.a).to_owned();
                return Err(TopologyError::Loop { name });
            }
            let ends = (cable.a.min(cable.b), cable.a.max(cable.b));
            match places.entry(ends) {
                Entry::Vacant(place) => {
                    place.insert(merged.len());
                    merged.push(*cable);
                }
                Entry::Occupied(place) => {
                    let Some(other) = merged.get_mut(*place.get()) else {
                        continue;
                    };
                    let rate = |c: &Cable| c.capacity.map(|r| r.get() * f64::from(c.count));
                    let (old, new) = (rate(other), rate(cable));
                    other.count = other.count.saturating_add(cable.count);
                    let mean = |sum: f64| BytesPerSecond::new(sum / f64::from(other.count));
                    other.capacity = old.zip(new).and_then(|(a, b)| mean(a + b));
                }
            }
        }
        let mut links = Vec::with_capacity(2 * merged.len());
        for cable in merged {
            let cables = u64::from(cable.count);
            count("parallel cables", cables, 1, u64::from(MAX_PARALLEL))?;
            let link = Link {
                from: cable.a,
                to: cable.b,
                capacity: cable
                    .capacity
                    .and_then(|c| c.scaled(f64::from(cable.count))),
                cables: cable.count,
            };
            links.push(link);
            links.push(Link {
                from: cable.b,
                to: cable.a,
                ..link
            });
        }
        Ok(links)
    }

    fn sort_outgoing(&mut self) {
        let vertices = self.nodes.len() + self.switches.len();
        let mut starts = vec![0; vertices + 1];
        for link in &self.links {
            if let Some(count) = starts.get_mut(self.place(link.from) + 1) {
                *count += 1;
            }
        }
        for v in 1..starts.len() {
            starts[v] += starts[v - 1];
        }
        // Stable sort: the links of a vertex keep their order.
        let mut outgoing: Vec<LinkIndex> = (0..self.links.len()).map(LinkIndex::new).collect();
        outgoing.sort_by_key(|l| self.place(self.links[l.get()].from));
        self.outgoing = outgoing;
        self.starts = starts;
    }

    /// Levels by distance from the nodes, where the source gave none.
    fn fill_levels(&mut self) {
        if self.switches.iter().all(|s| s.level.is_some()) {
            return;
        }
        let levels = self.levels_by_distance();
        for (switch, level) in self.switches.iter_mut().zip(levels) {
            switch.level = switch.level.or(level);
        }
    }

    /// For each switch, its distance from the nearest node.
    pub(crate) fn levels_by_distance(&self) -> Vec<Option<u32>> {
        let mut levels = vec![None; self.switches.len()];
        let mut front: Vec<Vertex> = self.node_indices().map(Vertex::Node).collect();
        for level in 1.. {
            let mut next = Vec::new();
            for vertex in front {
                for link in self.links_from(vertex) {
                    if let Vertex::Switch(switch) = self.links[link.get()].to {
                        let entry = &mut levels[switch.get()];
                        if entry.is_none() {
                            *entry = Some(level);
                            next.push(Vertex::Switch(switch));
                        }
                    }
                }
            }
            if next.is_empty() {
                break;
            }
            front = next;
        }
        levels
    }

    fn place(&self, vertex: Vertex) -> usize {
        match vertex {
            Vertex::Node(node) => node.get(),
            Vertex::Switch(switch) => self.nodes.len() + switch.get(),
        }
    }

    /// Nodes in the order of the source.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Switches in the order of the source.
    pub fn switches(&self) -> &[Switch] {
        &self.switches
    }

    /// Directed links: the first direction of a cable at an even index, the opposite one after it.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Indices of all nodes, in order.
    pub fn node_indices(&self) -> impl Iterator<Item = NodeIndex> + use<> {
        (0..self.nodes.len()).map(NodeIndex::new)
    }

    /// Indices of all switches, in order.
    pub fn switch_indices(&self) -> impl Iterator<Item = SwitchIndex> + use<> {
        (0..self.switches.len()).map(SwitchIndex::new)
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> Option<NodeIndex> {
        match self.vertex(name)? {
            Vertex::Node(node) => Some(node),
            Vertex::Switch(_) => None,
        }
    }

    /// The node or switch of this name.
    pub fn vertex(&self, name: &str) -> Option<Vertex> {
        self.names.get(name).copied()
    }

    /// The name of a vertex; empty if it is not of this topology.
    pub fn name(&self, vertex: Vertex) -> &str {
        match vertex {
            Vertex::Node(node) => self.nodes.get(node.get()).map(|n| n.name.as_str()),
            Vertex::Switch(switch) => self.switches.get(switch.get()).map(|s| s.name.as_str()),
        }
        .unwrap_or_default()
    }

    /// The link; `None` if it is not of this topology.
    pub fn link(&self, link: LinkIndex) -> Option<&Link> {
        self.links.get(link.get())
    }

    /// The link from one vertex to another, if a cable connects them.
    pub fn link_between(&self, from: Vertex, to: Vertex) -> Option<LinkIndex> {
        // Nodes have few cables, while switches may have a port per node.
        if let (Vertex::Switch(_), Vertex::Node(_)) = (from, to) {
            return self.link_between(to, from).map(LinkIndex::opposite);
        }
        let mut links = self.links_from(from);
        links.find(|l| self.links[l.get()].to == to)
    }

    /// Outgoing links of a vertex in the order of the source; none if it is not of this topology.
    pub fn links_from(&self, vertex: Vertex) -> impl Iterator<Item = LinkIndex> + Clone + '_ {
        let place = self.place(vertex);
        let known = self.check(vertex).is_ok();
        let bounds = known.then(|| self.starts.get(place).zip(self.starts.get(place + 1)));
        let range = bounds.flatten().map_or(0..0, |(a, b)| *a..*b);
        self.outgoing.get(range).unwrap_or_default().iter().copied()
    }

    /// Switches with a cable to the node, in the order of its ports.
    pub fn switches_of(&self, node: NodeIndex) -> impl Iterator<Item = SwitchIndex> + '_ {
        self.switches_behind(Vertex::Node(node))
    }

    fn switches_behind(&self, vertex: Vertex) -> impl Iterator<Item = SwitchIndex> + '_ {
        self.links_from(vertex)
            .filter_map(|l| match self.links[l.get()].to {
                Vertex::Switch(switch) => Some(switch),
                Vertex::Node(_) => None,
            })
    }

    /// For each switch, how many switches a message still passes to reach the node, itself
    /// included.
    pub(crate) fn distances_to(&self, node: NodeIndex) -> Cow<'_, [u16]> {
        let neighbours = |switch| self.switches_behind(Vertex::Switch(switch));
        self.distances.to(node, self.switches.len(), neighbours)
    }

    /// The link of cable number `index`, modulo the number of cables: the first cable of each link,
    /// then the second of each, ... And the number of links.
    pub(crate) fn pick(
        &self,
        candidates: impl Iterator<Item = LinkIndex> + Clone,
        index: usize,
    ) -> Option<(LinkIndex, usize)> {
        let cables = |l: LinkIndex| self.links[l.get()].cables;
        let total: usize = candidates.clone().map(|l| cables(l) as usize).sum();
        let links = candidates.clone().count();
        let mut left = index.checked_rem(total)?;
        for round in 0.. {
            let mut in_round = candidates.clone().filter(|l| cables(*l) > round);
            let count = in_round.clone().count();
            if left < count {
                return Some((in_round.nth(left)?, links));
            }
            left -= count;
        }
        None
    }

    /// The first switch that the node is connected to.
    pub fn leaf_of(&self, node: NodeIndex) -> Option<SwitchIndex> {
        self.switches_of(node).next()
    }

    /// Changes cores, memory, state and features of nodes. Names do not change.
    pub fn update_nodes(&mut self, mut update: impl FnMut(NodeIndex, &mut Node)) {
        for (place, node) in self.nodes.iter_mut().enumerate() {
            let name = node.name.clone();
            update(NodeIndex::new(place), node);
            node.name = name;
        }
    }

    /// Renames nodes.
    ///
    /// # Errors
    /// An invalid name, or that of another node or switch.
    pub(crate) fn rename_nodes(
        &mut self,
        renamed: &[(NodeIndex, &str)],
    ) -> Result<(), TopologyError> {
        for (index, name) in renamed {
            if let Some(node) = self.nodes.get_mut(index.get()) {
                (*name).clone_into(&mut node.name);
            }
        }
        self.names = names(&self.nodes, &self.switches)?;
        Ok(())
    }

    /// Position of a switch: its coordinates in a torus or a mesh, its number in its group and the
    /// group's in a dragonfly, otherwise empty. Only for topologies built from a few numbers.
    pub fn coordinates(&self, switch: SwitchIndex) -> Vec<u32> {
        self.shape.coordinates(switch)
    }

    /// Sets the number of cores of every node. Domains with a different total are dropped.
    pub fn with_cores(mut self, cores: u32) -> Self {
        self.update_nodes(|_, node| node.set_cores(cores));
        self
    }

    /// Sets the memory of every node.
    pub fn with_memory(mut self, memory: Bytes) -> Self {
        self.update_nodes(|_, node| node.memory = Some(memory));
        self
    }

    /// Sets the capacity of every cable; a link of several cables gets the multiple.
    pub fn with_capacity(mut self, cable: BytesPerSecond) -> Self {
        for link in &mut self.links {
            link.capacity = cable.scaled(f64::from(link.cables));
        }
        self
    }

    /// Sets the capacity of every cable between two switches; those of nodes do not change.
    pub fn with_uplink_capacity(mut self, cable: BytesPerSecond) -> Self {
        for link in &mut self.links {
            if let (Vertex::Switch(_), Vertex::Switch(_)) = (link.from, link.to) {
                link.capacity = cable.scaled(f64::from(link.cables));
            }
        }
        self
    }

    pub(crate) fn check(&self, vertex: Vertex) -> Result<(), TopologyError> {
        let (what, index, count) = match vertex {
            Vertex::Node(node) => ("node", node.get(), self.nodes.len()),
            Vertex::Switch(switch) => ("switch", switch.get(), self.switches.len()),
        };
        match index < count {
            true => Ok(()),
            false => Err(TopologyError::NoSuch { what, index, count }),
        }
    }
}

/// Rejects a number outside its bounds.
pub(crate) fn count(
    what: &'static str,
    count: u64,
    least: u64,
    most: u64,
) -> Result<(), TopologyError> {
    match (least..=most).contains(&count) {
        true => Ok(()),
        false => Err(TopologyError::Count {
            what,
            count,
            least,
            most,
        }),
    }
}

/// The name, with as many `_` appended as needed to make it unique.
pub(crate) fn free_name(wanted: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut name = wanted.to_owned();
    while is_taken(&name) {
        name.push('_');
    }
    name
}

/// Whether every format can represent the name.
pub(crate) fn is_name(name: &str) -> bool {
    let forbidden = |c: char| c.is_whitespace() || c.is_control() || ",[]=#\"\\".contains(c);
    !name.is_empty() && name.len() <= LONGEST_NAME && !name.contains(forbidden)
}

fn names(nodes: &[Node], switches: &[Switch]) -> Result<HashMap<String, Vertex>, TopologyError> {
    let mut names = HashMap::with_capacity(nodes.len() + switches.len());
    let of_nodes = (0..).map(|n| Vertex::Node(NodeIndex::new(n)));
    let of_switches = (0..).map(|s| Vertex::Switch(SwitchIndex::new(s)));
    let nodes = nodes.iter().map(|n| &n.name).zip(of_nodes);
    let switches = switches.iter().map(|s| &s.name).zip(of_switches);
    for (name, vertex) in nodes.chain(switches) {
        if !is_name(name) {
            return Err(TopologyError::Name { name: cut(name) });
        }
        if names.insert(name.clone(), vertex).is_some() {
            return Err(TopologyError::Duplicate { name: name.clone() });
        }
    }
    Ok(names)
}
