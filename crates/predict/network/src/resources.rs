//! Resources that messages share: the memory of nodes, adapters, links and switches, with a
//! direction if they have one.

use crate::error::NetworkError;
use crate::maxmin::Use;
use crate::parameters::NetworkParameters;
use crate::program::Program;
use crate::quantity::Origin;
use crate::stage::{Stage, Way};
use idlewave_topology::{LinkIndex, NodeIndex, Routing, SwitchIndex, Topology, Vertex};
use std::collections::HashMap;

/// The place of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Its node.
    pub node: NodeIndex,
    /// Its memory domain there, from 0.
    pub domain: u32,
}

/// A resource that messages share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Messages within a node, by memory domain.
    Memory(NodeIndex, u32),
    /// Both directions of a node's adapters together.
    Adapter(NodeIndex),
    /// A directed link: out of a node, into one, or between switches.
    Link(LinkIndex),
    /// Forwarding in a switch.
    Switch(SwitchIndex),
}

/// The value of [`NetworkParameters`] that determines the cost of a resource, a path or an end of a
/// message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Parameter {
    /// The slow-down of computation by the ranks of a node.
    SlowDown,
    /// Overhead of messages.
    Overhead,
    /// Latency within a node.
    InsideLatency,
    /// Bandwidth of a message within a node.
    InsideBandwidth,
    /// Latency between nodes, by the first switch.
    OutsideLatency,
    /// Bandwidth of a message between nodes.
    OutsideBandwidth,
    /// Memory shared by messages within a node.
    Memory,
    /// An adapter, out of the node.
    AdapterOut,
    /// An adapter, into the node.
    AdapterInto,
    /// An adapter, both directions.
    AdapterBoth,
    /// A switch.
    Switch,
    /// A link between switches: from the topology, not from a parameter.
    Link,
}

/// Nodes on a network with all resources that messages share.
#[derive(Clone, Debug)]
pub struct Network {
    topology: Topology,
    parameters: NetworkParameters,
    routing: Routing,
    resources: Vec<Resource>,
    /// Bytes per second that other jobs leave of each resource.
    capacity: Vec<f64>,
    /// Bytes per second of each resource in all.
    whole: Vec<f64>,
    /// Traffic of other jobs, bytes per second.
    taken: Vec<f64>,
    /// Index of the memory of each node among the resources.
    memory: Vec<u32>,
    adapters: Option<u32>,
    /// Each link's resource; `None` if it is no limit.
    links: Vec<Option<u32>>,
    switches: Option<u32>,
    /// Measured over nominal bandwidth of links.
    efficiency: f64,
    unknown_links: u32,
}

/// Slack for programs that are replayed with slack: a hundredth of a message is far below the
/// uncertainty of any bandwidth.
const SLACK: f64 = 0.01;

/// Other jobs never take all of a resource: a new flow gets its share.
const LEAST_LEFT: f64 = 0.1;

impl Network {
    /// A network of equal nodes.
    ///
    /// A node's links have the capacity of its adapter, or less if the topology says so. Links
    /// between switches with unknown capacity are no limit
    /// ([`unknown_links`](Self::unknown_links)). If the adapter was measured and the topology gives
    /// the nominal capacity of its link, links between switches get the same fraction of their
    /// nominal capacity.
    ///
    /// # Errors
    /// Invalid parameters.
    pub fn new(
        topology: Topology,
        parameters: NetworkParameters,
        routing: Routing,
    ) -> Result<Self, NetworkError> {
        parameters.check()?;
        let mut network = Network {
            efficiency: efficiency(&topology, &parameters),
            topology,
            parameters,
            routing,
            resources: Vec::new(),
            capacity: Vec::new(),
            whole: Vec::new(),
            taken: Vec::new(),
            memory: Vec::new(),
            adapters: None,
            links: Vec::new(),
            switches: None,
            unknown_links: 0,
        };
        network.add_all();
        network.whole.clone_from(&network.capacity);
        network.taken = vec![0.0; network.whole.len()];
        Ok(network)
    }

    fn add(&mut self, resource: Resource, capacity: f64) -> u32 {
        let index = self.resources.len() as u32;
        self.resources.push(resource);
        self.capacity.push(capacity);
        index
    }

    fn add_all(&mut self) {
        for node in self.topology.node_indices() {
            let first = self.resources.len() as u32;
            self.memory.push(first);
            for domain in 0..self.domains(node) {
                self.add(Resource::Memory(node, domain), self.parameters.memory.value);
            }
        }
        if let Some(both) = self.parameters.adapter.both {
            self.adapters = Some(self.resources.len() as u32);
            for node in self.topology.node_indices() {
                self.add(Resource::Adapter(node), both.value);
            }
        }
        for at in 0..self.topology.links().len() {
            let link = self.topology.links()[at];
            let stated = link.capacity.map(|c| c.get());
            let adapter = match (link.from, link.to) {
                (Vertex::Node(_), _) => Some(self.parameters.adapter.out.value),
                (_, Vertex::Node(_)) => Some(self.parameters.adapter.into.value),
                _ => None,
            };
            let capacity = match (adapter, stated) {
                (Some(adapter), stated) => Some(adapter.min(stated.unwrap_or(adapter))),
                (None, Some(stated)) => Some(stated * self.efficiency),
                (None, None) => None,
            };
            let resource = capacity.map(|c| self.add(Resource::Link(LinkIndex::new(at)), c));
            self.unknown_links += u32::from(resource.is_none());
            self.links.push(resource);
        }
        if let Some(switch) = self.parameters.switch {
            self.switches = Some(self.resources.len() as u32);
            for at in self.topology.switch_indices() {
                self.add(Resource::Switch(at), switch.value);
            }
        }
    }

    /// The topology.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The parameters.
    pub fn parameters(&self) -> &NetworkParameters {
        &self.parameters
    }

    /// All shared resources, by index.
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// Bytes per second that other jobs leave of each resource.
    pub fn capacity(&self) -> &[f64] {
        &self.capacity
    }

    /// Number of links between switches with unknown capacity: these are no limit.
    pub fn unknown_links(&self) -> u32 {
        self.unknown_links
    }

    /// Memory domains of a node; 1 if unknown.
    pub fn domains(&self, node: NodeIndex) -> u32 {
        let domains = self.topology.nodes().get(node.get());
        domains.map_or(1, |n| {
            n.domains.iter().filter(|d| d.cores > 0).count().max(1) as u32
        })
    }

    /// Subtracts the traffic of other jobs from one node to another, bytes per second. At least a
    /// tenth of every resource remains.
    ///
    /// # Errors
    /// The two nodes are not connected.
    pub fn add_load(
        &mut self,
        from: NodeIndex,
        to: NodeIndex,
        rate: f64,
    ) -> Result<(), NetworkError> {
        let place = |node| Place { node, domain: 0 };
        for one in self.way(place(from), place(to))?.uses {
            self.take(one.resource, one.share * rate);
        }
        Ok(())
    }

    /// Subtracts the traffic of other jobs over one link, bytes per second, from the link and from
    /// the adapter or switch that it passes there: the links of a path one by one are as the path
    /// with [`Network::add_load`]. At least a tenth of every resource remains. A link of another
    /// topology changes nothing.
    pub fn add_link_load(&mut self, link: LinkIndex, rate: f64) {
        let Some(of) = self.topology.link(link) else {
            return;
        };
        let ends = [of.from, of.to];
        let adapter = |end| match end {
            Vertex::Node(node) => self.adapters.map(|first| first + node.get() as u32),
            Vertex::Switch(_) => None,
        };
        let switch = match of.to {
            Vertex::Switch(switch) => self.switches.map(|first| first + switch.get() as u32),
            Vertex::Node(_) => None,
        };
        let own = self.links.get(link.get()).copied().flatten();
        let resources = ends.map(adapter).into_iter().chain([own, switch]);
        for at in resources.flatten().collect::<Vec<_>>() {
            self.take(at, rate);
        }
    }

    fn take(&mut self, resource: u32, rate: f64) {
        let at = resource as usize;
        self.taken[at] += rate;
        let (whole, left) = (self.whole[at], self.whole[at] - self.taken[at]);
        self.capacity[at] = left.max(whole * LEAST_LEFT);
    }

    /// The first resource that other jobs overload: its index, their traffic and its capacity,
    /// bytes per second.
    pub fn overloaded(&self) -> Option<(u32, f64, f64)> {
        let all = self.taken.iter().zip(&self.whole);
        let mut more = (0..).zip(all).filter(|(_, (taken, whole))| taken > whole);
        more.next().map(|(at, (taken, whole))| (at, *taken, *whole))
    }

    /// The path of a message from one place to another.
    ///
    /// # Errors
    /// The two nodes are not connected.
    pub fn way(&self, from: Place, to: Place) -> Result<Way, NetworkError> {
        let memory = |place: Place| Use {
            resource: self.memory[place.node.get()] + place.domain,
            share: 1.0,
        };
        if from.node == to.node {
            let mut uses = vec![memory(from)];
            if from.domain != to.domain {
                uses.push(memory(to));
            }
            return Ok(Way {
                uses,
                limit: self.parameters.inside.bandwidth.value,
                latency_ns: self.parameters.inside.latency_ns.value.round() as u64,
            });
        }
        let route = self.topology.routes(from.node, to.node, self.routing)?;
        let mut uses = Vec::with_capacity(route.shares.len() + 2);
        let mut limit = self.parameters.outside.bandwidth.value;
        if let Some(adapters) = self.adapters {
            uses.extend([from.node, to.node].map(|node| Use {
                resource: adapters + node.get() as u32,
                share: 1.0,
            }));
        }
        let mut through: Vec<Use> = Vec::new();
        for &(link, share) in &route.shares {
            let of = self.topology.links()[link.get()];
            if let Some(resource) = self.links[link.get()] {
                uses.push(Use { resource, share });
                if self.routing == Routing::Deterministic {
                    // A message takes one of the cables, which it shares with others' traffic.
                    limit = limit.min(self.whole[resource as usize] / f64::from(of.cables));
                }
            }
            if let (Some(first), Vertex::Switch(switch)) = (self.switches, of.to) {
                let resource = first + switch.get() as u32;
                match through.iter_mut().find(|u| u.resource == resource) {
                    Some(known) => known.share += share,
                    None => through.push(Use { resource, share }),
                }
            }
        }
        uses.extend(through);
        let hops = f64::from(route.hops.saturating_sub(1)) * self.parameters.hop_ns.value;
        Ok(Way {
            uses,
            limit,
            latency_ns: (self.parameters.outside.latency_ns.value + hops).round() as u64,
        })
    }

    /// A program on this network, with its ranks at these places. `measured_with` is the number of
    /// ranks per node with which its computation was measured.
    ///
    /// # Errors
    /// The number of places differs from the number of ranks, or nodes are not connected.
    pub fn stage(
        &self,
        program: &Program,
        places: &[Place],
        measured_with: u32,
    ) -> Result<Stage, NetworkError> {
        if places.len() != program.ranks() as usize {
            let (ranks, places) = (program.ranks(), places.len());
            return Err(NetworkError::Places { ranks, places });
        }
        let mut known: HashMap<(Place, Place), u32> = HashMap::new();
        let mut ways = Vec::new();
        let mut way_of_message = Vec::with_capacity(program.messages().len());
        for message in program.messages() {
            let pair = (places[message.from as usize], places[message.to as usize]);
            let way = match known.get(&pair) {
                Some(&way) => way,
                None => {
                    ways.push(self.way(pair.0, pair.1)?);
                    known.insert(pair, ways.len() as u32 - 1);
                    ways.len() as u32 - 1
                }
            };
            way_of_message.push(way);
        }
        Ok(Stage {
            capacity: self.capacity.clone(),
            ways,
            way_of_message,
            slow_down: self.slow_down(places, measured_with),
            measured_with: measured_with.max(1),
            overhead_ns: self.parameters.overhead_ns.value.round() as u64,
            eager_limit: self.parameters.eager_limit,
            slack: match program.is_played_with_slack() {
                true => SLACK,
                false => 0.0,
            },
        })
    }

    /// How much longer each rank computes than in the measurement, which had `measured_with` ranks
    /// on each node.
    pub fn slow_down(&self, places: &[Place], measured_with: u32) -> Vec<f64> {
        let mut ranks_of: HashMap<NodeIndex, u32> = HashMap::new();
        for place in places {
            *ranks_of.entry(place.node).or_default() += 1;
        }
        let before = self.parameters.slow_down(measured_with.max(1)).value;
        let factor: HashMap<NodeIndex, f64> = ranks_of
            .into_iter()
            .map(|(node, ranks)| (node, self.parameters.slow_down(ranks).value / before))
            .collect();
        places.iter().map(|place| factor[&place.node]).collect()
    }

    /// Names a resource: "adapter out of n3".
    pub fn describe(&self, resource: u32) -> String {
        let node = |node: NodeIndex| self.topology.name(Vertex::Node(node)).to_owned();
        match self.resources.get(resource as usize) {
            None => "nothing".to_owned(),
            Some(&Resource::Memory(of, domain)) if self.domains(of) > 1 => {
                format!("memory of {}, domain {domain}", node(of))
            }
            Some(&Resource::Memory(of, _)) => format!("memory of {}", node(of)),
            Some(&Resource::Adapter(of)) => format!("adapter of {}, both ways", node(of)),
            Some(&Resource::Switch(of)) => {
                format!("switch {}", self.topology.name(Vertex::Switch(of)))
            }
            Some(&Resource::Link(link)) => {
                let link = self.topology.links()[link.get()];
                let (from, to) = (self.topology.name(link.from), self.topology.name(link.to));
                match (link.from, link.to) {
                    (Vertex::Node(_), _) => format!("adapter out of {from}"),
                    (_, Vertex::Node(_)) => format!("adapter into {to}"),
                    _ => format!("link {from} to {to}"),
                }
            }
        }
    }

    /// The parameter that determines a resource's capacity.
    pub fn parameter_of(&self, resource: u32) -> Parameter {
        match self.resources.get(resource as usize) {
            Some(Resource::Memory(..)) => Parameter::Memory,
            Some(Resource::Adapter(_)) => Parameter::AdapterBoth,
            Some(Resource::Switch(_)) => Parameter::Switch,
            Some(Resource::Link(link)) => {
                let link = self.topology.links()[link.get()];
                match (link.from, link.to) {
                    (Vertex::Node(_), _) => Parameter::AdapterOut,
                    (_, Vertex::Node(_)) => Parameter::AdapterInto,
                    _ => Parameter::Link,
                }
            }
            None => Parameter::Link,
        }
    }
}

/// Measured over nominal capacity of the first node's link; 1 if either is unknown.
fn efficiency(topology: &Topology, parameters: &NetworkParameters) -> f64 {
    let out = topology
        .links()
        .iter()
        .find(|l| matches!(l.from, Vertex::Node(_)));
    match out.and_then(|l| l.capacity) {
        Some(stated) if parameters.adapter.out.origin == Origin::Measured => {
            (parameters.adapter.out.value / stated.get()).min(1.0)
        }
        _ => 1.0,
    }
}

#[cfg(test)]
#[path = "resources_tests.rs"]
mod tests;
