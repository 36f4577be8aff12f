//! Tori and meshes: dimension-order routing.

use super::{Shape, named_nodes, node_cables, node_links, product};
use crate::error::TopologyError;
use crate::model::{Cable, LinkIndex, NodeIndex, Switch, SwitchIndex, Vertex};
use crate::route::{Route, Routing};
use crate::topology::{MAX_SWITCHES, Topology, count};

/// Most dimensions: the parts of a multipath route double with each.
const MOST_DIMENSIONS: usize = 8;

/// What routing needs to know of a torus. Switch number `x0 + d0 * (x1 + d1 * (x2 + ...))` has coordinates x.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Torus {
    pub(crate) dims: Vec<u32>,
    pub(crate) wrap: bool,
    pub(crate) nodes_per_switch: u32,
    /// Links of each switch: up and down in the first dimension, in the second, ... `None` at a border.
    neighbours: Vec<Option<LinkIndex>>,
}

/// How to get from one coordinate to another.
#[derive(Clone, Copy)]
struct Way {
    /// Steps, at least 1.
    steps: u32,
    up: bool,
    /// The other direction is as long.
    tie: bool,
}

impl Topology {
    /// A torus of switches with a node on each: [`Topology::torus_of`] with one node per switch.
    ///
    /// # Errors
    /// As there.
    pub fn torus(dims: &[u32], wrap: bool) -> Result<Self, TopologyError> {
        Self::torus_of(dims, wrap, 1)
    }

    /// A torus (`wrap`) or a mesh of switches with so many nodes on each.
    ///
    /// Nodes `n1`, ... are counted with the first coordinate as the fastest. Switches are named by their
    /// coordinates, `at-0-2-1`. A ring of two is one cable.
    ///
    /// # Errors
    /// No or more than 8 dimensions, a number that is 0, and more of anything than a topology may have.
    pub fn torus_of(
        dims: &[u32],
        wrap: bool,
        nodes_per_switch: u32,
    ) -> Result<Self, TopologyError> {
        count("dimensions", dims.len() as u64, 1, MOST_DIMENSIONS as u64)?;
        count(
            "nodes per switch",
            u64::from(nodes_per_switch),
            1,
            u64::from(u32::MAX),
        )?;
        let switches = product(dims);
        count("switches", switches, 1, MAX_SWITCHES as u64)?;
        let nodes = named_nodes(switches.saturating_mul(u64::from(nodes_per_switch)))?;
        let switches = switches as usize;
        let mut cables = node_cables(nodes.len(), nodes_per_switch as usize);
        // Place of the cable up from each switch in each dimension.
        let mut up = vec![None; switches * dims.len()];
        let vertex = |s: usize| Vertex::Switch(SwitchIndex::new(s));
        for switch in 0..switches {
            for (d, stride, x) in coordinates(dims, switch) {
                let size = dims[d];
                let next = match x + 1 {
                    last if last == size && wrap && size > 2 => {
                        switch - (size as usize - 1) * stride
                    }
                    last if last == size => continue,
                    _ => switch + stride,
                };
                up[switch * dims.len() + d] = Some(cables.len());
                cables.push(Cable::new(vertex(switch), vertex(next)));
            }
        }
        let mut neighbours = vec![None; 2 * switches * dims.len()];
        for switch in 0..switches {
            for (d, _, _) in coordinates(dims, switch) {
                let place = switch * dims.len() + d;
                let Some(cable) = up[place] else { continue };
                // No two cables have the same ends, so that each is two links in its place.
                neighbours[2 * place] = Some(LinkIndex::new(2 * cable));
                if let Vertex::Switch(next) = cables[cable].b {
                    let place = next.get() * dims.len() + d;
                    neighbours[2 * place + 1] = Some(LinkIndex::new(2 * cable + 1));
                }
            }
        }
        let name = |switch: usize| {
            let places = coordinates(dims, switch).map(|(_, _, x)| format!("-{x}"));
            Switch::new(format!("at{}", places.collect::<String>()))
        };
        let shape = Torus {
            dims: dims.to_vec(),
            wrap,
            nodes_per_switch,
            neighbours,
        };
        let switches = (0..switches).map(name).collect();
        Self::shaped(nodes, switches, &cables, Shape::Torus(shape))
    }
}

/// Each dimension with its stride and the switch's coordinate.
fn coordinates(dims: &[u32], switch: usize) -> impl Iterator<Item = (usize, usize, u32)> + '_ {
    let mut stride = 1;
    dims.iter().enumerate().map(move |(d, size)| {
        let this = stride;
        stride *= *size as usize;
        (d, this, (switch / this % *size as usize) as u32)
    })
}

impl Torus {
    pub(crate) fn coordinates(&self, switch: SwitchIndex) -> Vec<u32> {
        coordinates(&self.dims, switch.get())
            .map(|(_, _, x)| x)
            .collect()
    }

    fn switch(&self, node: NodeIndex) -> usize {
        node.get() / self.nodes_per_switch as usize
    }

    /// Dimensions in which two switches differ, with the stride and the way.
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

    /// Switches on a shortest way between two different nodes.
    pub(crate) fn distance(&self, from: NodeIndex, to: NodeIndex) -> Option<u32> {
        let ways = self.ways(self.switch(from), self.switch(to));
        Some(1 + ways.iter().map(|(_, _, way)| way.steps).sum::<u32>())
    }

    /// Links of so many steps in one direction of a dimension.
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

    /// Of all n! orders of n dimensions, |S|! (n - 1 - |S|)! walk dimension d just after those of the set S.
    /// Where they walk differs in S or in d, so that no link is met twice.
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
