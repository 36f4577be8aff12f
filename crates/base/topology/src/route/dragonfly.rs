//! Dragonflies: local, global, local.

use crate::model::{LinkIndex, NodeIndex, Route, Routing, SwitchIndex, Vertex};
use crate::shape::{Joined, node_links};
use crate::topology::Topology;

impl Joined {
    fn switch(&self, node: NodeIndex) -> SwitchIndex {
        SwitchIndex::new(node.get() / self.numbers.nodes_per_switch as usize)
    }

    fn group(&self, switch: SwitchIndex) -> u32 {
        (switch.get() / self.numbers.switches_per_group as usize) as u32
    }

    /// Global links between the groups of two switches, with the number of switches that a message
    /// passes.
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

    /// Switches on the shortest path over at most one global cable, between two different nodes.
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

    /// Deterministic: of the global cables with the fewest switches, the one that the destination's
    /// index selects. Multipath: every global cable between the two groups takes an equal part.
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
