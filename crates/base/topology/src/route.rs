//! Routes of messages through the network.
//!
//! Any graph: shortest paths by breadth-first search, once per leaf switch. On a fat tree the
//! choice among them is the destination-modulo rule (Zahavi, "Fat-tree routing and node ordering
//! providing contention free traffic for MPI global collectives", 2012). Tori and dragonflies have
//! their own rules.

mod dragonfly;
mod torus;

use crate::cache::UNREACHED;
use crate::error::TopologyError;
use crate::model::{LinkIndex, NodeIndex, Route, Routing, SwitchIndex, Vertex};
use crate::shape::Shape;
use crate::topology::Topology;

impl Topology {
    /// The links that messages of a pair take; none from a node to itself.
    ///
    /// # Errors
    /// [`TopologyError::NoPath`] if nothing connects the two, [`TopologyError::NoSuch`] for an
    /// index of another topology.
    pub fn routes(
        &self,
        from: NodeIndex,
        to: NodeIndex,
        routing: Routing,
    ) -> Result<Route, TopologyError> {
        self.check(Vertex::Node(from))?;
        self.check(Vertex::Node(to))?;
        if from == to {
            return Ok(Route::default());
        }
        let route = match &self.shape {
            Shape::Torus(torus) => torus.route(self, from, to, routing),
            Shape::Dragonfly(dragonfly) => dragonfly.route(self, from, to, routing),
            Shape::Graph => self.shortest(from, to, routing),
        };
        route.ok_or_else(|| TopologyError::NoPath {
            from: self.name(Vertex::Node(from)).to_owned(),
            to: self.name(Vertex::Node(to)).to_owned(),
        })
    }

    /// Switches on a shortest path: 0 within a node, 1 below one leaf; `None` if nothing connects
    /// the two, or for an index of another topology.
    pub fn distance(&self, from: NodeIndex, to: NodeIndex) -> Option<u32> {
        self.check(Vertex::Node(from)).ok()?;
        self.check(Vertex::Node(to)).ok()?;
        if from == to {
            return Some(0);
        }
        match &self.shape {
            Shape::Torus(torus) => torus.distance(from, to),
            Shape::Dragonfly(dragonfly) => dragonfly.distance(self, from, to),
            Shape::Graph if self.direct(from, to).is_some() => Some(0),
            Shape::Graph => {
                let distances = self.distances_to(to);
                let nearest = self.switches_of(from).map(|s| distances[s.get()]).min()?;
                (nearest != UNREACHED).then_some(u32::from(nearest))
            }
        }
    }

    fn direct(&self, from: NodeIndex, to: NodeIndex) -> Option<LinkIndex> {
        self.link_between(Vertex::Node(from), Vertex::Node(to))
    }

    fn shortest(&self, from: NodeIndex, to: NodeIndex, routing: Routing) -> Option<Route> {
        if let Some(link) = self.direct(from, to) {
            let shares = vec![(link, 1.0)];
            return Some(Route { shares, hops: 0 });
        }
        let distances = self.distances_to(to);
        match routing {
            Routing::Deterministic => self.one_way(from, to, &distances),
            Routing::Multipath => self.all_ways(from, to, &distances),
        }
    }

    /// Links of a vertex that lead nearer to the node. `left` is how many switches remain beyond
    /// it, at least 1.
    fn nearer<'a>(
        &'a self,
        at: Vertex,
        left: u16,
        distances: &'a [u16],
    ) -> impl Iterator<Item = LinkIndex> + Clone + 'a {
        self.links_from(at)
            .filter(move |l| match self.links()[l.get()].to {
                Vertex::Node(_) => false,
                Vertex::Switch(switch) => distances[switch.get()] == left,
            })
    }

    /// At each vertex the destination's index selects the cable; the quotient selects further up.
    fn one_way(&self, from: NodeIndex, to: NodeIndex, distances: &[u16]) -> Option<Route> {
        let hops = self.first_distance(from, distances)?;
        let mut shares = Vec::with_capacity(usize::from(hops) + 1);
        let mut at = Vertex::Node(from);
        let mut index = to.get();
        for left in (1..=hops).rev() {
            let candidates = self.nearer(at, left, distances);
            let (link, links) = self.pick(candidates, index)?;
            index /= links;
            at = self.links()[link.get()].to;
            shares.push((link, 1.0));
        }
        shares.push((self.link_between(at, Vertex::Node(to))?, 1.0));
        Some(Route {
            shares,
            hops: u32::from(hops),
        })
    }

    /// Every cable of the links that lead nearer takes an equal part of the traffic at a vertex.
    fn all_ways(&self, from: NodeIndex, to: NodeIndex, distances: &[u16]) -> Option<Route> {
        let hops = self.first_distance(from, distances)?;
        let mut shares: Vec<(LinkIndex, f64)> = Vec::new();
        let mut front = vec![(Vertex::Node(from), 1.0)];
        let mut next: Vec<(Vertex, f64)> = Vec::new();
        for left in (1..=hops).rev() {
            for (at, share) in &front {
                let candidates = self.nearer(*at, left, distances);
                let cables = |l: LinkIndex| f64::from(self.links()[l.get()].cables);
                let total: f64 = candidates.clone().map(cables).sum();
                for link in candidates {
                    let part = share * cables(link) / total;
                    shares.push((link, part));
                    next.push((self.links()[link.get()].to, part));
                }
            }
            next.sort_unstable_by_key(|(vertex, _)| *vertex);
            front.clear();
            for (vertex, part) in next.drain(..) {
                match front.last_mut() {
                    Some((last, sum)) if *last == vertex => *sum += part,
                    _ => front.push((vertex, part)),
                }
            }
        }
        for (at, share) in &front {
            let last = self.link_between(*at, Vertex::Node(to));
            shares.extend(last.map(|link| (link, *share)));
        }
        // Rounding must not make the sum of parts exceed 1.
        for (_, share) in &mut shares {
            *share = share.min(1.0);
        }
        Some(Route {
            shares,
            hops: u32::from(hops),
        })
    }

    fn first_distance(&self, from: NodeIndex, distances: &[u16]) -> Option<u16> {
        let switches = self.switches_of(from);
        let nearest = switches.map(|s: SwitchIndex| distances[s.get()]).min()?;
        (nearest != UNREACHED).then_some(nearest)
    }
}
