//! Dragonflies (Kim, Dally, Scott, Abts, "Technology-driven, highly-scalable dragonfly topology", 2008): groups of
//! switches, all joined within a group, and each two groups joined by global cables.

use super::{Shape, named_nodes, node_cables, node_links, product};
use crate::error::TopologyError;
use crate::model::{Cable, LinkIndex, NodeIndex, Switch, SwitchIndex, Vertex};
use crate::route::{Route, Routing};
use crate::topology::{MAX_CABLES, MAX_SWITCHES, Topology, count};
use std::collections::HashMap;

/// The numbers of a dragonfly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dragonfly {
    /// Groups. A group has `switches_per_group * global_links_per_switch` global ports, and needs `groups - 1` at least.
    pub groups: u32,
    /// Switches of each group, each joined with each other of its group by one cable.
    pub switches_per_group: u32,
    /// Nodes on each switch.
    pub nodes_per_switch: u32,
    /// Global ports of each switch.
    pub global_links_per_switch: u32,
}

/// What routing needs to know of a dragonfly.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Joined {
    pub(crate) numbers: Dragonfly,
    /// Global links from one group to another, in the order of their ports.
    global: HashMap<(u32, u32), Vec<LinkIndex>>,
}

impl Topology {
    /// A dragonfly of nodes `n1`, ... on switches `g1s1`, ... (group and switch).
    ///
    /// Port `k` of a group (the ports of its first switch come first) leads to the group number `k mod (groups - 1)`
    /// of the others, for as many whole rounds as there are ports; ports that are left over stay empty. So each two
    /// groups are joined by the same number of cables.
    ///
    /// # Errors
    /// A number that is 0, too few global ports, and more of anything than a topology may have.
    pub fn dragonfly(numbers: Dragonfly) -> Result<Self, TopologyError> {
        let Dragonfly {
            groups,
            switches_per_group,
            nodes_per_switch,
            global_links_per_switch,
        } = numbers;
        let most = u64::from(u32::MAX);
        count("groups", u64::from(groups), 1, most)?;
        count("switches per group", u64::from(switches_per_group), 1, most)?;
        count("nodes per switch", u64::from(nodes_per_switch), 1, most)?;
        let ports = product(&[switches_per_group, global_links_per_switch]);
        let others = u64::from(groups) - 1;
        if ports < others {
            let groups = u64::from(groups);
            return Err(TopologyError::GlobalPorts { groups, ports });
        }
        let switches = product(&[groups, switches_per_group]);
        count("switches", switches, 1, MAX_SWITCHES as u64)?;
        let nodes = named_nodes(switches.saturating_mul(u64::from(nodes_per_switch)))?;
        let local = product(&[groups, switches_per_group, switches_per_group]) / 2;
        let global = ports.saturating_mul(u64::from(groups)) / 2;
        let joined = local
            .saturating_add(global)
            .saturating_add(nodes.len() as u64);
        count("cables", joined, 1, MAX_CABLES as u64)?;

        let per_group = switches_per_group as usize;
        let vertex = |switch: usize| Vertex::Switch(SwitchIndex::new(switch));
        let mut cables = node_cables(nodes.len(), nodes_per_switch as usize);
        for group in 0..groups as usize {
            let first = group * per_group;
            for a in first..first + per_group {
                cables.extend((a + 1..first + per_group).map(|b| Cable::new(vertex(a), vertex(b))));
            }
        }
        let rounds = ports.checked_div(others).unwrap_or(0);
        // The switch of a group with the port of a round to another group.
        let end = |group: u64, other: u64, round: u64| {
            let port = round * others + if other < group { other } else { other - 1 };
            let switch = port / u64::from(global_links_per_switch);
            (group * u64::from(switches_per_group) + switch) as usize
        };
        for a in 0..u64::from(groups) {
            for b in a + 1..u64::from(groups) {
                cables.extend(
                    (0..rounds).map(|round| {
                        Cable::new(vertex(end(a, b, round)), vertex(end(b, a, round)))
                    }),
                );
            }
        }
        let name = |s| Switch::new(format!("g{}s{}", s / per_group + 1, s % per_group + 1));
        let switches = (0..switches as usize).map(name).collect();
        let shape = Shape::Dragonfly(Joined {
            numbers,
            global: HashMap::new(),
        });
        let mut topology = Self::shaped(nodes, switches, &cables, shape)?;
        let mut global: HashMap<(u32, u32), Vec<LinkIndex>> = HashMap::new();
        for (place, link) in topology.links().iter().enumerate() {
            if let (Vertex::Switch(a), Vertex::Switch(b)) = (link.from, link.to) {
                let groups = [a, b].map(|s| (s.get() / per_group) as u32);
                if groups[0] != groups[1] {
                    let links = global.entry((groups[0], groups[1])).or_default();
                    links.push(LinkIndex::new(place));
                }
            }
        }
        topology.shape = Shape::Dragonfly(Joined { numbers, global });
        Ok(topology)
    }
}

impl Joined {
    fn switch(&self, node: NodeIndex) -> SwitchIndex {
        SwitchIndex::new(node.get() / self.numbers.nodes_per_switch as usize)
    }

    fn group(&self, switch: SwitchIndex) -> u32 {
        (switch.get() / self.numbers.switches_per_group as usize) as u32
    }

    /// Global links from the group of one switch to that of another, with the switches that a message passes.
    fn global<'a>(
        &'a self,
        topology: &'a Topology,
        first: SwitchIndex,
        last: SwitchIndex,
    ) -> impl Iterator<Item = (LinkIndex, u32)> + Clone + 'a {
        let links = self.global.get(&(self.group(first), self.group(last)));
        links.into_iter().flatten().filter_map(move |index| {
            let link = topology.link(*index)?;
            let before = u32::from(link.from != Vertex::Switch(first));
            let behind = u32::from(link.to != Vertex::Switch(last));
            Some((*index, 2 + before + behind))
        })
    }

    /// Switches on the shortest way over one global cable at most, between two different nodes.
    pub(crate) fn distance(
        &self,
        topology: &Topology,
        from: NodeIndex,
        to: NodeIndex,
    ) -> Option<u32> {
        let (first, last) = (self.switch(from), self.switch(to));
        if first == last {
            return Some(1);
        }
        if self.group(first) == self.group(last) {
            return Some(2);
        }
        self.global(topology, first, last)
            .map(|(_, hops)| hops)
            .min()
    }

    /// Deterministic: of the global cables with the fewest switches, the one that the destination's index selects.
    /// Multipath: every global cable of the two groups takes the same part.
    pub(crate) fn route(
        &self,
        topology: &Topology,
        from: NodeIndex,
        to: NodeIndex,
        routing: Routing,
    ) -> Option<Route> {
        let (first, last) = (self.switch(from), self.switch(to));
        let (up, down) = ((node_links(from)[0], 1.0), (node_links(to)[1], 1.0));
        let between = |a: Vertex, b: Vertex| topology.link_between(a, b);
        let mut shares = vec![up];
        let least = self.distance(topology, from, to)?;
        if self.group(first) == self.group(last) {
            if first != last {
                shares.push((between(Vertex::Switch(first), Vertex::Switch(last))?, 1.0));
            }
            shares.push(down);
            return Some(Route {
                shares,
                hops: least,
            });
        }
        let global = self.global(topology, first, last);
        let (chosen, hops): (Vec<(LinkIndex, f64)>, u32) = match routing {
            Routing::Deterministic => {
                let shortest = global
                    .filter(|(_, hops)| *hops == least)
                    .map(|(link, _)| link);
                let (link, _) = topology.pick(shortest, to.get())?;
                (vec![(link, 1.0)], least)
            }
            Routing::Multipath => {
                let cables = |l: LinkIndex| topology.link(l).map_or(0.0, |l| f64::from(l.cables));
                let total: f64 = global.clone().map(|(l, _)| cables(l)).sum();
                let hops = global.clone().map(|(_, hops)| hops).max()?;
                (global.map(|(l, _)| (l, cables(l) / total)).collect(), hops)
            }
        };
        let mut before: Vec<(LinkIndex, f64)> = Vec::new();
        let mut behind: Vec<(LinkIndex, f64)> = Vec::new();
        let add = |to: &mut Vec<(LinkIndex, f64)>, link: LinkIndex, share: f64| match to
            .iter_mut()
            .find(|(l, _)| *l == link)
        {
            Some((_, sum)) => *sum = (*sum + share).min(1.0),
            None => to.push((link, share)),
        };
        for (link, share) in &chosen {
            let ends = topology.link(*link)?;
            if ends.from != Vertex::Switch(first) {
                add(
                    &mut before,
                    between(Vertex::Switch(first), ends.from)?,
                    *share,
                );
            }
            if ends.to != Vertex::Switch(last) {
                add(&mut behind, between(ends.to, Vertex::Switch(last))?, *share);
            }
        }
        shares.extend(before.into_iter().chain(chosen).chain(behind));
        shares.push(down);
        Some(Route { shares, hops })
    }
}
