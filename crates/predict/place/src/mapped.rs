//! Maps ranks to nodes by their communication: recursive bisection of the communication graph along
//! the tree of leaves, nodes and domains.
//!
//! As in G. Mercier, E. Jeannot, "Improving MPI applications performance on multicore clusters with
//! rank reordering", EuroMPI 2011, and the recursive bisection of T. Hoefler, M. Snir, "Generic
//! topology mapping strategies for large-scale parallel architectures", ICS 2011: what is cut first
//! travels farthest. Sites are split at the border nearest to the middle: first between leaves,
//! then between the nodes of a leaf, then between the domains of a node.

use crate::bisect::Graph;
use crate::order::Layout;
use crate::select::leaves;
use crate::traffic::Traffic;
use crate::ways::Ways;

/// A site, its ranks, and its position in the tree.
#[derive(Clone, Copy, Debug)]
struct Part {
    site: u32,
    ranks: u32,
    leaf: u32,
    node: u32,
}

struct Mapping<'t> {
    traffic: &'t Traffic,
    /// For each rank, its index among the ranks being split.
    local: Vec<u32>,
    at: Vec<u32>,
}

/// The site of each rank.
pub(crate) fn map(traffic: &Traffic, ways: &Ways, layout: &Layout) -> Vec<u32> {
    let mut parts = Vec::new();
    let topology = ways.network().topology();
    let mut leaf_of = vec![0; topology.nodes().len()];
    for (leaf, nodes) in (0..).zip(leaves(topology, &layout.nodes)) {
        for node in nodes {
            leaf_of[node.get()] = leaf;
        }
    }
    for (site, ranks) in layout.sites(ways) {
        let node = ways.node(site);
        let leaf = leaf_of[node as usize];
        parts.push(Part {
            site,
            ranks,
            leaf,
            node,
        });
    }
    parts.sort_by_key(|part| part.leaf);
    let mut mapping = Mapping {
        traffic,
        local: vec![0; traffic.ranks() as usize],
        at: vec![0; traffic.ranks() as usize],
    };
    let ranks: Vec<u32> = (0..traffic.ranks()).collect();
    mapping.split(ranks, &parts);
    mapping.at
}

/// The site of each rank, given its node: `node_of` holds its index among the nodes of the layout.
/// The ranks of a node are split over its domains.
pub(crate) fn map_within(
    traffic: &Traffic,
    ways: &Ways,
    layout: &Layout,
    node_of: &[u32],
) -> Vec<u32> {
    let mut mapping = Mapping {
        traffic,
        local: vec![0; traffic.ranks() as usize],
        at: vec![0; traffic.ranks() as usize],
    };
    let mut on: Vec<Vec<u32>> = vec![Vec::new(); layout.nodes.len()];
    for (rank, &node) in (0..).zip(node_of) {
        on[node as usize].push(rank);
    }
    for (&node, ranks) in layout.nodes.iter().zip(on) {
        let alone = Layout {
            nodes: vec![node],
            counts: vec![ranks.len() as u32],
        };
        let part = |(site, ranks): (u32, u32)| Part {
            site,
            ranks,
            leaf: 0,
            node: node.get() as u32,
        };
        let parts: Vec<Part> = alone.sites(ways).into_iter().map(part).collect();
        if !parts.is_empty() {
            mapping.split(ranks, &parts);
        }
    }
    mapping.at
}

/// Where to split the parts: among the borders of the highest level, at the one nearest to the
/// middle.
fn border(parts: &[Part]) -> usize {
    let total: u32 = parts.iter().map(|p| p.ranks).sum();
    let level = |at: usize| {
        let (a, b) = (parts[at - 1], parts[at]);
        match (a.leaf != b.leaf, a.node != b.node) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        }
    };
    let mut before = 0;
    let mut best = (u32::MAX, u32::MAX, 1);
    for at in 1..parts.len() {
        before += parts[at - 1].ranks;
        best = best.min((level(at), (2 * before).abs_diff(total), at));
    }
    best.2
}

impl Mapping<'_> {
    fn split(&mut self, ranks: Vec<u32>, parts: &[Part]) {
        if let [only] = parts {
            for rank in ranks {
                self.at[rank as usize] = only.site;
            }
            return;
        }
        if ranks.is_empty() {
            return;
        }
        let (left, right) = parts.split_at(border(parts));
        let size: u32 = left.iter().map(|p| p.ranks).sum();
        let first = self.graph(&ranks).bisect(size as usize);
        let of = |wanted: bool| {
            let both = ranks.iter().zip(&first);
            both.filter(|&(_, &first)| first == wanted)
                .map(|(&rank, _)| rank)
                .collect()
        };
        let (a, b): (Vec<u32>, Vec<u32>) = (of(true), of(false));
        self.split(a, left);
        self.split(b, right);
    }

    /// The traffic among these ranks. Each message counts one byte more, so that empty ones count
    /// as well.
    fn graph(&mut self, ranks: &[u32]) -> Graph {
        for (local, &rank) in (0..).zip(ranks) {
            self.local[rank as usize] = local;
        }
        let traffic = self.traffic;
        let mut graph = Graph {
            starts: vec![0],
            edges: Vec::new(),
        };
        for &rank in ranks {
            for edge in traffic.edges_of(rank) {
                let local = self.local[edge.peer as usize];
                if ranks.get(local as usize) == Some(&edge.peer) {
                    let back = traffic.edge(edge.mirror as usize);
                    let weight = edge.out + edge.into + edge.messages + back.messages;
                    graph.edges.push((local, weight as i64));
                }
            }
            graph.starts.push(graph.edges.len() as u32);
        }
        graph
    }
}
