//! Selection of nodes by topology alone.

use idlewave_topology::{NodeIndex, SwitchIndex, Topology};
use std::collections::BTreeMap;

/// How nodes were selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Selection {
    /// The first ones in the order of the topology.
    First,
    /// On the fewest leaf switches.
    Pack,
    /// In turn from all leaf switches.
    Spread,
    /// One by one, each such that the largest load of the job's own messages, on the capacity that
    /// running jobs leave, rises least.
    Greedy,
}

/// Nodes below the same leaf switch, in the order of the topology; leaves in the order of their
/// first nodes. A node without a switch is a group of its own.
pub(crate) fn leaves(topology: &Topology, nodes: &[NodeIndex]) -> Vec<Vec<NodeIndex>> {
    let mut place: BTreeMap<SwitchIndex, usize> = BTreeMap::new();
    let mut leaves: Vec<Vec<NodeIndex>> = Vec::new();
    for &node in nodes {
        let at = match topology.leaf_of(node) {
            Some(leaf) => *place.entry(leaf).or_insert(leaves.len()),
            None => leaves.len(),
        };
        if at == leaves.len() {
            leaves.push(Vec::new());
        }
        leaves[at].push(node);
    }
    leaves
}

/// A key that sorts unreachable nodes last.
pub(crate) fn farthest_last(distance: Option<u32>) -> (bool, u32) {
    (distance.is_none(), distance.unwrap_or_default())
}

/// This many of the nodes, on the fewest leaf switches: the leaf with the fewest nodes that
/// suffice; if none suffices, whole leaves from the largest on, and for the rest again the best
/// fit. This is the method of Slurm's `topology/tree` (slurm.schedmd.com, "Topology Guide"). Among
/// leaves with equally many nodes the one nearest to the first is taken.
pub(crate) fn pack(topology: &Topology, nodes: &[NodeIndex], count: usize) -> Vec<NodeIndex> {
    let mut leaves = leaves(topology, nodes);
    let mut taken: Vec<NodeIndex> = Vec::with_capacity(count);
    while taken.len() < count && !leaves.is_empty() {
        let left = count - taken.len();
        let distance = |leaf: &[NodeIndex]| match (taken.first(), leaf.first()) {
            (Some(&first), Some(&node)) => farthest_last(topology.distance(first, node)),
            _ => (false, 0),
        };
        // Leaves that suffice first, smallest first; then the others, largest first.
        let rank = |leaf: &[NodeIndex]| match leaf.len() >= left {
            true => (false, leaf.len(), distance(leaf)),
            false => (true, usize::MAX - leaf.len(), distance(leaf)),
        };
        let best = (0..leaves.len()).min_by_key(|&at| (rank(&leaves[at]), at));
        let leaf = best.map(|at| leaves.remove(at)).unwrap_or_default();
        taken.extend(leaf.into_iter().take(left));
    }
    in_order(topology, taken)
}

/// This many of the nodes, taking one from each leaf switch in turn.
pub(crate) fn spread(topology: &Topology, nodes: &[NodeIndex], count: usize) -> Vec<NodeIndex> {
    let leaves = leaves(topology, nodes);
    let longest = leaves.iter().map(Vec::len).max().unwrap_or(0);
    let turns = (0..longest).flat_map(|turn| leaves.iter().filter_map(move |l| l.get(turn)));
    in_order(topology, turns.take(count).copied().collect())
}

/// Groups nodes by leaf, so that ranks in order have near neighbours.
fn in_order(topology: &Topology, mut nodes: Vec<NodeIndex>) -> Vec<NodeIndex> {
    nodes.sort_unstable();
    leaves(topology, &nodes).into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_topology::FatTree;
    use proptest::prelude::*;

    fn tree(leaves: u32, nodes_per_leaf: u32) -> Topology {
        Topology::fat_tree(FatTree {
            nodes_per_leaf,
            leaves,
            spines: 2,
            cables_per_spine: 1,
            pods: None,
        })
        .unwrap()
    }

    fn indices(nodes: &[usize]) -> Vec<NodeIndex> {
        nodes.iter().map(|&n| NodeIndex::new(n)).collect()
    }

    #[test]
    fn packing_takes_the_leaf_that_fits_best_and_spreading_takes_turns() {
        let tree = tree(3, 4);
        // Free: 3 on the first leaf, 4 on the second, 2 on the third.
        let free = indices(&[0, 1, 3, 4, 5, 6, 7, 9, 11]);
        assert_eq!(pack(&tree, &free, 2), indices(&[9, 11]));
        assert_eq!(pack(&tree, &free, 3), indices(&[0, 1, 3]));
        assert_eq!(pack(&tree, &free, 6), indices(&[4, 5, 6, 7, 9, 11]));
        assert_eq!(spread(&tree, &free, 4), indices(&[0, 1, 4, 9]));
    }

    fn leaves_of(tree: &Topology, nodes: impl Iterator<Item = NodeIndex>) -> usize {
        let leaves = nodes.map(|n| tree.leaf_of(n));
        leaves.collect::<std::collections::BTreeSet<_>>().len()
    }

    proptest! {
        #[test]
        fn packing_uses_as_few_leaves_as_any_set_of_nodes(free in prop::collection::vec(any::<bool>(), 12), share in 0usize..100) {
            let tree = tree(4, 3);
            let nodes: Vec<usize> = (0..12).filter(|&n| free[n]).collect();
            prop_assume!(!nodes.is_empty());
            let count = 1 + share * nodes.len() / 100;
            let nodes = indices(&nodes);
            let packed = pack(&tree, &nodes, count);
            let spread = spread(&tree, &nodes, count);
            for chosen in [&packed, &spread] {
                prop_assert_eq!(chosen.len(), count);
                prop_assert!(chosen.iter().all(|n| nodes.contains(n)));
                let distinct: std::collections::BTreeSet<_> = chosen.iter().collect();
                prop_assert_eq!(distinct.len(), count);
            }
            let subsets = (0_u32..1 << nodes.len()).filter(|s| s.count_ones() as usize == count);
            let of = |s: u32| leaves_of(&tree, (0..nodes.len()).filter(|n| s >> n & 1 == 1).map(|n| nodes[n]));
            prop_assert_eq!(Some(leaves_of(&tree, packed.iter().copied())), subsets.clone().map(of).min());
            prop_assert_eq!(Some(leaves_of(&tree, spread.iter().copied())), subsets.map(of).max());
        }
    }
}
