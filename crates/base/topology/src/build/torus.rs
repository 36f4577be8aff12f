//! Tori, meshes and hypercubes.

use super::{named_nodes, node_cables, product};
use crate::error::TopologyError;
use crate::model::{Cable, LinkIndex, Switch, SwitchIndex, Vertex};
use crate::shape::{Shape, Torus, coordinates};
use crate::topology::{MAX_SWITCHES, Topology, count};

/// Most dimensions: the parts of a multipath route double with each one.
const MOST_DIMENSIONS: usize = 8;
/// Most dimensions of a hypercube: a multipath route across 12 has 24,576 parts.
const MOST_OF_CUBE: u32 = 12;

impl Topology {
    /// A torus of switches with a node on each: [`Topology::torus_of`] with one node per switch.
    ///
    /// # Errors
    /// As for [`Topology::torus_of`].
    pub fn torus(dims: &[u32], wrap: bool) -> Result<Self, TopologyError> {
        Self::torus_of(dims, wrap, 1)
    }

    /// A torus (`wrap`) or a mesh of switches with this many nodes on each.
    ///
    /// Nodes `n1`, ... are numbered with the first coordinate varying fastest. Switches are named
    /// by their coordinates, `at-0-2-1`. A ring of two is one cable.
    ///
    /// # Errors
    /// 0 or more than 8 dimensions, a number is 0, or a limit of a topology is exceeded.
    pub fn torus_of(
        dims: &[u32],
        wrap: bool,
        nodes_per_switch: u32,
    ) -> Result<Self, TopologyError> {
        count("dimensions", dims.len() as u64, 1, MOST_DIMENSIONS as u64)?;
        Self::grid(dims, wrap, nodes_per_switch)
    }

    /// A hypercube: 2^`dimension` switches, joined where one bit of their numbers differs, with
    /// this many nodes on each.
    ///
    /// Node `n1` is on switch 0; the switch of number 6 in three dimensions is `at-0-1-1`, the
    /// lowest bit first. The deterministic route corrects the lowest differing bit first (e-cube:
    /// Sullivan and Bashkow, "A large scale, homogeneous, fully distributed parallel machine",
    /// 1977).
    ///
    /// # Errors
    /// A dimension of 0 or above 12, or a limit of a topology is exceeded.
    pub fn hypercube(dimension: u32, nodes_per_switch: u32) -> Result<Self, TopologyError> {
        let (given, most) = (u64::from(dimension), u64::from(MOST_OF_CUBE));
        count("dimensions", given, 1, most)?;
        // Dimension-order routing on a mesh of two switches in each dimension.
        Self::grid(&vec![2; dimension as usize], false, nodes_per_switch)
    }

    fn grid(dims: &[u32], wrap: bool, nodes_per_switch: u32) -> Result<Self, TopologyError> {
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
        // Index of the cable up from each switch in each dimension.
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
                // No two cables have the same ends, so each one is two links at its index.
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
