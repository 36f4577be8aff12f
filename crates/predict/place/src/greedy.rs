//! Selects nodes one after the other, each where the job's own messages find the most capacity.
//!
//! The ranks of the next node, in order, are known, and so is their traffic with the nodes selected
//! before. The next node is the free one on which the largest load rises least, on the capacities
//! that running jobs leave; among equals the one with the least total load, then the least latency,
//! then the first in the order of packing. All traffic of a node counts on its own cable from the
//! start.
//!
//! Equivalent nodes of one switch are tried once, except on small clusters. So the cost is nodes x
//! switches x partners of a node, not nodes x nodes.

use crate::peaks::Peaks;
use crate::select::{farthest_last, pack};
use crate::traffic::Traffic;
use crate::ways::{Cost, Ways};
use idlewave_network::{NetworkError, Place};
use idlewave_topology::NodeIndex;
use std::collections::{BTreeMap, VecDeque};

/// Up to this many nodes, all of them are tried each time: routes to nodes of one switch can
/// differ.
const FEW_NODES: usize = 128;

/// If there are more than [`FEW_NODES`] groups of equivalent nodes, this many are tried per node:
/// those nearest to the heaviest partner.
const MOST_TRIED: usize = 64;

/// Traffic of the next node with a selected one.
#[derive(Clone, Copy, Default)]
struct Exchange {
    out: u64,
    into: u64,
    messages: u64,
}

struct Greedy<'t, 'w, 'n> {
    traffic: &'t Traffic,
    ways: &'w mut Ways<'n>,
    loads: Peaks,
    total: i64,
    selected: Vec<NodeIndex>,
    /// For each rank, the index of its node among those to be selected.
    block: Vec<u32>,
}

/// Nodes for blocks of this many consecutive ranks, in the order of the blocks.
pub(crate) fn greedy(
    traffic: &Traffic,
    ways: &mut Ways,
    free: &[NodeIndex],
    counts: &[u32],
) -> Result<Vec<NodeIndex>, NetworkError> {
    let network = ways.network();
    let blocks = (0..).zip(counts).flat_map(|(b, &n)| (0..n).map(move |_| b));
    let mut greedy = Greedy {
        block: blocks.collect(),
        loads: Peaks::new(network.resources().len()),
        total: 0,
        selected: Vec::with_capacity(counts.len()),
        traffic,
        ways,
    };
    let mut groups = greedy.groups(free, counts.len());
    let mut first = 0;
    for &count in counts {
        let ranks = first..first + count;
        greedy.select(ranks, &mut groups)?;
        first += count;
    }
    Ok(greedy.selected)
}

impl Greedy<'_, '_, '_> {
    /// Equivalent nodes, in the order of packing.
    fn groups(&self, free: &[NodeIndex], count: usize) -> Vec<VecDeque<(usize, NodeIndex)>> {
        let topology = self.ways.network().topology();
        let mut order = pack(topology, free, count);
        let mut packed = vec![false; topology.nodes().len()];
        order.iter().for_each(|n| packed[n.get()] = true);
        order.extend(free.iter().filter(|n| !packed[n.get()]));
        let key = |node: NodeIndex| match free.len() <= FEW_NODES {
            true => (0, node.get() as u64),
            false => {
                let into = self.ways.cable(node).1;
                (
                    1 + self.ways.class(node),
                    into.map_or(0, |c| c.per_byte.to_bits()),
                )
            }
        };
        let mut groups: BTreeMap<(u32, u64), VecDeque<(usize, NodeIndex)>> = BTreeMap::new();
        for (place, node) in order.into_iter().enumerate() {
            groups
                .entry(key(node))
                .or_default()
                .push_back((place, node));
        }
        groups.into_values().collect()
    }

    fn select(
        &mut self,
        ranks: std::ops::Range<u32>,
        groups: &mut [VecDeque<(usize, NodeIndex)>],
    ) -> Result<(), NetworkError> {
        let own = self.selected.len() as u32;
        let mut exchanges: BTreeMap<u32, Exchange> = BTreeMap::new();
        let (mut out, mut into) = (0, 0);
        for rank in ranks {
            for edge in self.traffic.edges_of(rank) {
                let block = self.block[edge.peer as usize];
                if block == own {
                    continue;
                }
                (out, into) = (out + edge.out, into + edge.into);
                if block < own {
                    let with = exchanges.entry(block).or_default();
                    with.out += edge.out;
                    with.into += edge.into;
                    with.messages +=
                        edge.messages + self.traffic.edge(edge.mirror as usize).messages;
                }
            }
        }
        let heaviest = exchanges.iter().max_by_key(|(_, e)| e.out + e.into);
        let near = heaviest.map(|(&block, _)| self.selected[block as usize]);
        let mut best = None;
        for group in self.tried(groups, near) {
            let Some(&(place, node)) = groups[group].front() else {
                continue;
            };
            let before = self.total;
            let latency = self.put(node, &exchanges)?;
            let (full_out, full_into) = self.ways.cable(node);
            let full = |cost: Option<Cost>, bytes: u64| {
                cost.map_or(0, |c| (bytes as f64 * c.per_byte).round() as i64)
            };
            let alone = full(full_out, out).max(full(full_into, into));
            let key = (
                self.loads.peak().max(alone),
                self.total,
                latency,
                place,
                group,
            );
            self.total = before;
            self.loads.undo();
            if best.is_none_or(|best| key < best) {
                best = Some(key);
            }
        }
        if let Some((.., group)) = best {
            if let Some((_, node)) = groups[group].pop_front() {
                self.put(node, &exchanges)?;
                self.loads.keep();
                self.selected.push(node);
            }
        }
        Ok(())
    }

    /// Groups with a node left; if there are many, the nearest ones.
    fn tried(
        &self,
        groups: &[VecDeque<(usize, NodeIndex)>],
        near: Option<NodeIndex>,
    ) -> Vec<usize> {
        let topology = self.ways.network().topology();
        let left = (0..groups.len()).filter(|&g| !groups[g].is_empty());
        let mut left: Vec<usize> = left.collect();
        if left.len() > FEW_NODES {
            left.sort_by_cached_key(|&g| {
                let (place, node) = groups[g].front().copied().unwrap_or((0, NodeIndex::new(0)));
                let distance = near.map_or(Some(0), |near| topology.distance(near, node));
                (farthest_last(distance), place)
            });
            left.truncate(MOST_TRIED);
        }
        left
    }

    /// Adds the traffic of the next node as if it were this one. Returns the total latency of its
    /// messages, nanoseconds.
    fn put(
        &mut self,
        node: NodeIndex,
        exchanges: &BTreeMap<u32, Exchange>,
    ) -> Result<u64, NetworkError> {
        let site = self.ways.site(Place { node, domain: 0 });
        let mut latency = 0;
        for (&block, exchange) in exchanges {
            let mut longest = 0;
            let other = self.selected[block as usize];
            let other = self.ways.site(Place {
                node: other,
                domain: 0,
            });
            for (from, to, bytes) in [(site, other, exchange.out), (other, site, exchange.into)] {
                let way = self.ways.find(from, to)?;
                longest = longest.max(self.ways.latency_ns(way));
                let costs = self.ways.head(way, from).iter().chain(self.ways.costs(way));
                for cost in costs {
                    let more = (bytes as f64 * cost.per_byte + 0.5) as i64;
                    self.loads.add(cost.resource, more);
                    self.total += more;
                }
            }
            latency += exchange.messages * longest;
        }
        Ok(latency)
    }
}
