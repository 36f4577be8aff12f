//! Tori and meshes: dimension-order routing.

use crate::model::{LinkIndex, NodeIndex, Route, Routing, Vertex};
use crate::shape::{Torus, coordinates, node_links};
use crate::topology::Topology;

/// The path from one coordinate to another.
#[derive(Clone, Copy)]
struct Way {
    /// Steps, at least 1.
    steps: u32,
    up: bool,
    /// Whether the other direction is equally long.
    tie: bool,
}

impl Torus {
    fn switch(&self, node: NodeIndex) -> usize {
        node.get() / self.nodes_per_switch as usize
    }

    /// Dimensions in which two switches differ, with the stride and the path.
    fn ways(&self, from: usize, to: usize) -> Vec<(usize, usize, Way)> {
        let pairs = coordinates(&self.dims, from).zip(coordinates(&self.dims, to));
        let way = |((d, stride, a), (_, _, b)): ((usize, usize, u32), (usize, usize, u32))| {
            let up = b.checked_sub(a).unwrap_or(b + self.dims[d] - a);
            let down = self.dims[d] - up;
            let ring = self.wrap && self.dims[d] > 2;
            let way = match ring {
                true => Way {
                    steps: up.min(down),
                    up: up <= down,
                    tie: up == down,
                },
                false => Way {
                    steps: a.abs_diff(b),
                    up: b > a,
                    tie: false,
                },
            };
            (a != b).then_some((d, stride, way))
        };
        pairs.filter_map(way).collect()
    }

    /// Switches on a shortest path between two different nodes.
    pub(crate) fn distance(&self, from: NodeIndex, to: NodeIndex) -> Option<u32> {
        let ways = self.ways(self.switch(from), self.switch(to));
        Some(1 + ways.iter().map(|(_, _, way)| way.steps).sum::<u32>())
    }

    /// Links of a number of steps in one direction of a dimension.
    fn walk(
        &self,
        topology: &Topology,
        from: usize,
        (d, way): (usize, Way),
        share: f64,
        shares: &mut Vec<(LinkIndex, f64)>,
    ) -> Option<usize> {
        let mut at = from;
        for _ in 0..way.steps {
            let place = 2 * (at * self.dims.len() + d) + usize::from(!way.up);
            let link = self.neighbours.get(place).copied().flatten()?;
            shares.push((link, share));
            let Vertex::Switch(next) = topology.link(link)?.to else {
                return None;
            };
            at = next.get();
        }
        Some(at)
    }

    pub(crate) fn route(
        &self,
        topology: &Topology,
        from: NodeIndex,
        to: NodeIndex,
        routing: Routing,
    ) -> Option<Route> {
        let (first, last) = (self.switch(from), self.switch(to));
        let ways = self.ways(first, last);
        let mut shares = vec![(node_links(from)[0], 1.0)];
        match routing {
            Routing::Deterministic => {
                let mut at = first;
                for (d, _, way) in &ways {
                    at = self.walk(topology, at, (*d, *way), 1.0, &mut shares)?;
                }
            }
            Routing::Multipath => self.all_orders(topology, (first, last), &ways, &mut shares)?,
        }
        shares.push((node_links(to)[1], 1.0));
        let hops = 1 + ways.iter().map(|(_, _, way)| way.steps).sum::<u32>();
        Some(Route { shares, hops })
    }

    /// Of all n! orders of n dimensions, |S|! (n - 1 - |S|)! traverse dimension d right after those
    /// of the set S. Traversals with different S or d share no link.
    fn all_orders(
        &self,
        topology: &Topology,
        (first, last): (usize, usize),
        ways: &[(usize, usize, Way)],
        shares: &mut Vec<(LinkIndex, f64)>,
    ) -> Option<()> {
        let n = ways.len();
        let factorial = |k: usize| (1..=k).map(|i| i as f64).product::<f64>();
        for (i, (d, _, way)) in ways.iter().enumerate() {
            for set in (0..1usize << n).filter(|set| set >> i & 1 == 0) {
                let done = set.count_ones() as usize;
                let share = factorial(done) * factorial(n - 1 - done) / factorial(n);
                let mut at = first;
                for (j, (other, stride, _)) in ways.iter().enumerate() {
                    if set >> j & 1 == 1 {
                        let size = self.dims[*other] as usize;
                        at = at - first / stride % size * stride + last / stride % size * stride;
                    }
                }
                match way.tie {
                    false => {
                        self.walk(topology, at, (*d, *way), share, shares)?;
                    }
                    true => {
                        for up in [true, false] {
                            let way = Way { up, ..*way };
                            self.walk(topology, at, (*d, way), share / 2.0, shares)?;
                        }
                    }
                }
            }
        }
        Some(())
    }
}
