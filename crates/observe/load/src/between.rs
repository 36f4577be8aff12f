//! What the links between switches carry, from what adapters send and receive.
//!
//! Counters of adapters do not say where a message goes. Within a group of nodes that talk among
//! themselves, such as those of a job, the traffic of a pair is estimated as proportional to what
//! the one sends and the other receives (the gravity model: Zhang et al., "Fast accurate computation
//! of large-scale IP traffic matrices from link loads", SIGMETRICS 2003). The bounds hold whatever
//! the pairs: a link carries at most what its sources send and at most what its destinations
//! receive, and at least what its sources send beyond what destinations on other ways receive.

use idlewave_topology::{LinkIndex, NodeIndex, Routing, Topology, TopologyError, Vertex};
use std::collections::BTreeMap;

/// The most active nodes of a group: the ways of all pairs are looked up.
pub const MOST_NODES: usize = 512;

/// A rate in bytes per second with what it may lie between.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    /// The estimate.
    pub value: f64,
    /// At least.
    pub low: f64,
    /// At most.
    pub high: f64,
}

/// What a node sends and receives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Node {
    /// The node.
    pub node: NodeIndex,
    /// Sent.
    pub out: Bounds,
    /// Received.
    pub into: Bounds,
}

/// Pairs of a group whose way uses a link.
#[derive(Default)]
struct Uses {
    value: f64,
    sources: Vec<bool>,
    destinations: Vec<bool>,
    /// Per source, the destinations that it reaches over this link.
    pairs: Vec<(usize, usize)>,
}

/// The load of each link between switches that a group's traffic may use, by the deterministic
/// routes; a link on none of these ways is missing.
///
/// # Errors
/// Nodes that nothing connects.
pub fn between(
    topology: &Topology,
    group: &[Node],
) -> Result<BTreeMap<LinkIndex, Bounds>, TopologyError> {
    let received: f64 = group.iter().map(|node| node.into.value).sum();
    let mut uses: BTreeMap<LinkIndex, Uses> = BTreeMap::new();
    for (i, from) in group.iter().enumerate() {
        let others = received - from.into.value;
        for (j, to) in group.iter().enumerate() {
            if i == j || from.out.high <= 0.0 || to.into.high <= 0.0 {
                continue;
            }
            let part = match others > 0.0 {
                true => from.out.value * to.into.value / others,
                false => 0.0,
            };
            let route = topology.routes(from.node, to.node, Routing::Deterministic)?;
            for (link, share) in route.shares {
                let ends = topology.link(link).map(|link| (link.from, link.to));
                if !matches!(ends, Some((Vertex::Switch(_), Vertex::Switch(_)))) {
                    continue;
                }
                let of = uses.entry(link).or_insert_with(|| Uses {
                    sources: vec![false; group.len()],
                    destinations: vec![false; group.len()],
                    ..Uses::default()
                });
                of.value += part * share;
                of.sources[i] = true;
                of.destinations[j] = true;
                of.pairs.push((i, j));
            }
        }
    }
    let bounds = uses.into_iter().map(|(link, of)| (link, of.bounds(group)));
    Ok(bounds.collect())
}

impl Uses {
    fn bounds(mut self, group: &[Node]) -> Bounds {
        let sum = |chosen: &[bool], of: &dyn Fn(&Node) -> f64| -> f64 {
            let all = group.iter().zip(chosen);
            all.filter(|(_, chosen)| **chosen)
                .map(|(node, _)| of(node))
                .sum()
        };
        let sent = sum(&self.sources, &|node| node.out.high);
        let received = sum(&self.destinations, &|node| node.into.high);
        let high = sent.min(received);
        // Destinations that some source reaches by another way may receive all that they do from it.
        self.pairs.sort_unstable();
        let sources = || (0..group.len()).filter(|i| self.sources[*i]);
        let elsewhere: Vec<bool> = (0..group.len())
            .map(|j| sources().any(|i| i != j && self.pairs.binary_search(&(i, j)).is_err()))
            .collect();
        let least = sum(&self.sources, &|node| node.out.low);
        let low = (least - sum(&elsewhere, &|node| node.into.high)).max(0.0);
        Bounds {
            value: self.value.clamp(low.min(high), high),
            low: low.min(high),
            high,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_topology::FatTree;
    use proptest::prelude::*;

    /// `leaves` leaves of two nodes each below one spine.
    fn tree(leaves: u32) -> Topology {
        Topology::fat_tree(FatTree {
            nodes_per_leaf: 2,
            leaves,
            spines: 1,
            cables_per_spine: 1,
            pods: None,
        })
        .unwrap()
    }

    fn exact(value: f64) -> Bounds {
        Bounds {
            value,
            low: value,
            high: value,
        }
    }

    fn group(rates: &[(f64, f64)]) -> Vec<Node> {
        let node = |(at, &(out, into)): (usize, &(f64, f64))| Node {
            node: NodeIndex::new(at),
            out: exact(out),
            into: exact(into),
        };
        rates.iter().enumerate().map(node).collect()
    }

    fn load(topology: &Topology, group: &[Node], from: &str, to: &str) -> Option<Bounds> {
        let [a, b] = [from, to].map(|name| topology.vertex(name).unwrap());
        let link = topology.link_between(a, b).unwrap();
        between(topology, group).unwrap().get(&link).copied()
    }

    #[test]
    fn where_only_one_pair_talks_its_way_is_known_exactly() {
        let tree = tree(2);
        // n1 sends, n3 receives.
        let group = group(&[(100.0, 0.0), (0.0, 0.0), (0.0, 100.0), (0.0, 0.0)]);
        assert_eq!(load(&tree, &group, "leaf1", "spine1"), Some(exact(100.0)));
        assert_eq!(load(&tree, &group, "spine1", "leaf2"), Some(exact(100.0)));
        assert_eq!(load(&tree, &group, "leaf2", "spine1"), None);
    }

    #[test]
    fn four_equal_nodes_send_two_thirds_up_and_may_send_none_or_all() {
        let tree = tree(2);
        let group = group(&[(30.0, 30.0); 4]);
        // Each sends 10 to each other: two of three parts leave the leaf, from two nodes.
        let up = load(&tree, &group, "leaf1", "spine1").unwrap();
        assert!((up.value - 40.0).abs() < 1e-9, "{up:?}");
        assert_eq!((up.low, up.high), (0.0, 60.0));
    }

    #[test]
    fn what_a_leaf_cannot_keep_must_leave_it() {
        let tree = tree(2);
        // n1 and n2 send 50 each; of these n2 receives 20 at most, n3 the rest.
        let group = group(&[(50.0, 0.0), (50.0, 20.0), (0.0, 80.0), (0.0, 0.0)]);
        let up = load(&tree, &group, "leaf1", "spine1").unwrap();
        assert_eq!((up.low, up.high), (80.0, 80.0));
        assert_eq!(up.value, 80.0);
    }

    proptest! {
        /// Bounds hold for the loads of any true traffic of which only the sums are known.
        #[test]
        fn bounds_hold_whatever_the_pairs(
            traffic in prop::collection::vec(0..1000_u32, 64),
        ) {
            let tree = tree(4);
            let of = |i: usize, j: usize| if i == j { 0.0 } else { f64::from(traffic[8 * i + j]) };
            let sum = |f: &dyn Fn(usize) -> f64| (0..8).map(f).sum::<f64>();
            let rates: Vec<(f64, f64)> =
                (0..8).map(|i| (sum(&|j| of(i, j)), sum(&|j| of(j, i)))).collect();
            let mut truth: BTreeMap<LinkIndex, f64> = BTreeMap::new();
            for i in 0..8 {
                for j in (0..8).filter(|j| *j != i) {
                    let ends = [i, j].map(NodeIndex::new);
                    let route = tree.routes(ends[0], ends[1], Routing::Deterministic).unwrap();
                    for (link, share) in route.shares {
                        *truth.entry(link).or_default() += share * of(i, j);
                    }
                }
            }
            for (link, bounds) in between(&tree, &group(&rates)).unwrap() {
                let truth = truth.get(&link).copied().unwrap_or(0.0);
                prop_assert!(bounds.low <= truth + 1e-6 && truth <= bounds.high + 1e-6, "{truth} {bounds:?}");
                prop_assert!(bounds.low <= bounds.value && bounds.value <= bounds.high);
            }
        }
    }
}
