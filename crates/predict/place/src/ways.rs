//! Routes between places, each computed once, as costs: shares of a resource's time per byte.
//!
//! Nodes with one cable each to the same switch differ only in that cable, since routes are chosen
//! by the destination (docs/topologies.md). So a route is kept per sender's switch and receiving
//! node, with the sender's own cable kept separately: for 1,024 nodes on 32 switches that is 32,768
//! routes, not a million.

use idlewave_network::{Network, NetworkError, Place, Resource};
use idlewave_topology::{NodeIndex, SwitchIndex, Vertex};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// One multiplication and one fold: keys are pairs of small numbers that no attacker chooses.
#[derive(Default)]
pub(crate) struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = (self.0 ^ key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

/// A map with keys of one number.
pub(crate) type Numbered<V> = HashMap<u64, V, BuildHasherDefault<Mixed>>;

/// Sender's class in the upper half, receiving node in the lower one; within a node the two sites,
/// and this bit.
const WITHIN: u64 = 1 << 63;

/// Time of a resource per byte, in the unit of the caller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cost {
    pub resource: u32,
    pub per_byte: f64,
}

/// All routes requested so far.
pub(crate) struct Ways<'n> {
    network: &'n Network,
    /// Seconds of one unit of cost.
    unit: f64,
    /// Sites are memory domains, those of a node next to each other: each node's first one, and the
    /// node of each.
    first_site: Vec<u32>,
    node_of: Vec<u32>,
    /// Cores of each site.
    cores: Vec<u32>,
    /// For each node, its class of nodes that differ only in their cable.
    class_of: Vec<u32>,
    /// For each node, its own cable's part of all of its outgoing routes; empty if the routes
    /// include it.
    heads: Vec<Vec<Cost>>,
    /// For each node with one cable, the cost of arriving on it.
    tails: Vec<Option<Cost>>,
    known: Numbered<u32>,
    begins: Vec<u32>,
    costs: Vec<Cost>,
    limits: Vec<f64>,
    latency_ns: Vec<u64>,
    within: Vec<bool>,
    dearest: f64,
    /// By the ranks on a node, how much longer they compute than in the measurement.
    slow: Vec<f64>,
}

impl<'n> Ways<'n> {
    /// No routes yet, for this many ranks, whose computation was measured with `measured_with` on
    /// each node. Costs are in units of this many seconds.
    pub fn new(network: &'n Network, unit: f64, ranks: u32, measured_with: u32) -> Self {
        let parameters = network.parameters();
        let before = parameters.slow_down(measured_with.max(1)).value;
        let slow = (0..=ranks).map(|k| parameters.slow_down(k.max(1)).value / before);
        let slow = slow.collect();
        let nodes = network.topology().nodes().len();
        let mut first_site = Vec::with_capacity(nodes + 1);
        let mut node_of = Vec::with_capacity(nodes);
        let mut cores: Vec<u32> = Vec::with_capacity(nodes);
        for (node, known) in (0..).zip(network.topology().nodes()) {
            first_site.push(node_of.len() as u32);
            let domains = known.domains.iter().map(|d| d.cores);
            cores.extend(domains.filter(|&cores| cores > 0));
            // A node without known domains is one domain.
            if cores.len() == node_of.len() {
                cores.push(u32::MAX);
            }
            node_of.resize(cores.len(), node);
        }
        first_site.push(node_of.len() as u32);
        let mut ways = Ways {
            network,
            unit,
            first_site,
            node_of,
            cores,
            class_of: Vec::new(),
            heads: vec![Vec::new(); nodes],
            tails: vec![None; nodes],
            known: Numbered::default(),
            begins: vec![0],
            costs: Vec::new(),
            limits: Vec::new(),
            latency_ns: Vec::new(),
            within: Vec::new(),
            dearest: 0.0,
            slow,
        };
        ways.classify();
        ways
    }

    fn classify(&mut self) {
        let topology = self.network.topology();
        let mut resource_of = vec![None; topology.links().len()];
        let mut adapter_of = vec![None; topology.nodes().len()];
        for (at, resource) in self.network.resources().iter().enumerate() {
            match resource {
                Resource::Link(link) => resource_of[link.get()] = Some(at as u32),
                Resource::Adapter(node) => adapter_of[node.get()] = Some(at as u32),
                Resource::Memory(..) | Resource::Switch(_) => {}
            }
        }
        let mut classes: HashMap<(SwitchIndex, u64, u32), u32> = HashMap::new();
        let mut count = 0;
        for node in topology.node_indices() {
            let mut links = topology.links_from(Vertex::Node(node));
            let only = links.next().filter(|_| links.next().is_none());
            let to = only.map(|link| topology.links()[link.get()]);
            let resource = only.and_then(|link| resource_of[link.get()]);
            let class = match (to.map(|l| (l.to, l.cables)), resource) {
                (Some((Vertex::Switch(switch), cables)), Some(resource)) => {
                    // The cable's capacity bounds each message.
                    let capacity = self.network.capacity()[resource as usize].to_bits();
                    let heads = [Some(resource), adapter_of[node.get()]];
                    let heads = heads.into_iter().flatten().map(|r| self.cost(r, 1.0));
                    self.heads[node.get()] = heads.collect();
                    let back = only.and_then(|link| *resource_of.get(link.opposite().get())?);
                    self.tails[node.get()] = back.map(|r| self.cost(r, 1.0));
                    *classes.entry((switch, capacity, cables)).or_insert(count)
                }
                _ => count,
            };
            count = count.max(class + 1);
            self.class_of.push(class);
        }
    }

    fn cost(&self, resource: u32, share: f64) -> Cost {
        let per_byte = share / self.network.capacity()[resource as usize] / self.unit;
        Cost { resource, per_byte }
    }

    /// The site of a place.
    pub fn site(&self, place: Place) -> u32 {
        self.first_site[place.node.get()] + place.domain
    }

    /// The place of a site.
    pub fn place(&self, site: u32) -> Place {
        let node = self.node_of[site as usize];
        Place {
            node: NodeIndex::new(node as usize),
            domain: site - self.first_site[node as usize],
        }
    }

    /// The node of a site.
    pub fn node(&self, site: u32) -> u32 {
        self.node_of[site as usize]
    }

    /// Cores of each memory domain of a node.
    pub fn cores(&self, node: NodeIndex) -> &[u32] {
        let first = &self.first_site[node.get()..];
        &self.cores[first[0] as usize..first[1] as usize]
    }

    /// The class of a node as a sender.
    pub fn class(&self, node: NodeIndex) -> u32 {
        self.class_of[node.get()]
    }

    /// The node that a resource belongs to; `None` between switches.
    pub fn owner(&self, resource: u32) -> Option<u32> {
        let links = self.network.topology().links();
        let node = match self.network.resources().get(resource as usize)? {
            Resource::Memory(node, _) | Resource::Adapter(node) => *node,
            Resource::Switch(_) => return None,
            Resource::Link(link) => match (links[link.get()].from, links[link.get()].to) {
                (Vertex::Node(node), _) | (_, Vertex::Node(node)) => node,
                _ => return None,
            },
        };
        Some(node.get() as u32)
    }

    /// Cost of a node's own cable per byte, out and in; none if it has several.
    pub fn cable(&self, node: NodeIndex) -> (Option<Cost>, Option<Cost>) {
        (
            self.heads[node.get()].first().copied(),
            self.tails[node.get()],
        )
    }

    /// The route from one site to another: looked up, or computed the first time.
    pub fn find(&mut self, from: u32, to: u32) -> Result<u32, NetworkError> {
        let nodes = (self.node_of[from as usize], self.node_of[to as usize]);
        let key = match nodes.0 == nodes.1 {
            true => WITHIN | u64::from(from) << 31 | u64::from(to),
            false => u64::from(self.class_of[nodes.0 as usize]) << 32 | u64::from(nodes.1),
        };
        match self.known.get(&key) {
            Some(&way) => Ok(way),
            None => self.compute(key, from, to),
        }
    }

    #[cold]
    fn compute(&mut self, key: u64, from: u32, to: u32) -> Result<u32, NetworkError> {
        let (from, to) = (self.place(from), self.place(to));
        let within = from.node == to.node;
        let way = self.network.way(from, to)?;
        for used in &way.uses {
            let cost = self.cost(used.resource, used.share);
            let head = &self.heads[from.node.get()];
            if within || head.iter().all(|h| h.resource != cost.resource) {
                self.costs.push(cost);
            }
        }
        let index = self.limits.len() as u32;
        self.begins.push(self.costs.len() as u32);
        let alone = 1.0 / way.limit / self.unit;
        self.dearest = self.dearest.max(alone);
        self.limits.push(alone);
        self.latency_ns.push(way.latency_ns);
        self.within.push(within);
        self.known.insert(key, index);
        Ok(index)
    }

    /// Costs of a route, without the sender's own cable.
    #[inline]
    pub fn costs(&self, way: u32) -> &[Cost] {
        let at = way as usize;
        &self.costs[self.begins[at] as usize..self.begins[at + 1] as usize]
    }

    /// Costs of the sender's own cable.
    #[inline]
    pub fn head(&self, way: u32, from: u32) -> &[Cost] {
        match self.within[way as usize] {
            true => &[],
            false => &self.heads[self.node_of[from as usize] as usize],
        }
    }

    /// Cost per byte of a single message.
    #[inline]
    pub fn alone(&self, way: u32) -> f64 {
        self.limits[way as usize]
    }

    /// How much longer this many ranks of a node compute than in the measurement; at most all
    /// ranks.
    pub fn slow_down(&self, ranks: u32) -> f64 {
        self.slow[ranks as usize]
    }

    /// The largest cost per byte of a single message on any known route.
    pub fn dearest(&self) -> f64 {
        self.dearest
    }

    /// Latency in nanoseconds.
    #[inline]
    pub fn latency_ns(&self, way: u32) -> u64 {
        self.latency_ns[way as usize]
    }

    /// Whether a route does not leave its node.
    pub fn is_within(&self, way: u32) -> bool {
        self.within[way as usize]
    }

    /// The network.
    pub fn network(&self) -> &'n Network {
        self.network
    }

    /// Seconds of one unit of cost.
    pub fn unit(&self) -> f64 {
        self.unit
    }
}

#[cfg(test)]
#[path = "ways_tests.rs"]
mod tests;
