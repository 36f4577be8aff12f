//! Orders of ranks from outside: another program gets the rank count of each node and assigns the
//! ranks.
//!
//! This crate runs nothing. [`layouts`](crate::layouts) lists what to map, the caller runs a
//! mapper, and [`candidates_with`](crate::candidates_with) scores its answers like its own.

use crate::error::PlaceError;
use crate::traffic::Traffic;

/// Ranks on nodes, by the indices of the nodes in a list of sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    sizes: Vec<u32>,
    node_of: Vec<u32>,
}

impl Mapping {
    /// The answer for one of [`layouts`](crate::layouts): for each rank the index of its node among
    /// the sizes.
    ///
    /// # Errors
    /// The number of ranks does not match, nodes do not exist, or a node has more than twice as
    /// many ranks as slots. Mappers balance within a tolerance, and a small excess is repaired.
    pub fn new(sizes: Vec<u32>, node_of: Vec<u32>) -> Result<Self, PlaceError> {
        let wanted: u64 = sizes.iter().map(|&size| u64::from(size)).sum();
        if wanted != node_of.len() as u64 {
            let there = node_of.len();
            return Err(PlaceError::OtherRanks { there, wanted });
        }
        let slots = sizes.iter().copied().max().unwrap_or(0);
        let mut counts = vec![0_u32; sizes.len()];
        for (rank, &node) in (0..).zip(&node_of) {
            let nodes = sizes.len();
            let Some(count) = counts.get_mut(node as usize) else {
                return Err(PlaceError::OtherNode { rank, node, nodes });
            };
            *count += 1;
        }
        let fullest = (0..).zip(&counts).max_by_key(|(_, count)| **count);
        match fullest {
            Some((node, &ranks)) if ranks > slots.saturating_mul(2) => {
                Err(PlaceError::Unbalanced { node, ranks, slots })
            }
            _ => Ok(Mapping { sizes, node_of }),
        }
    }

    /// The intended rank count of each node.
    pub fn sizes(&self) -> &[u32] {
        &self.sizes
    }

    /// The index of each rank's node, with no more ranks on any node than on the fullest one of the
    /// layout: a batch system has that many slots. From an overfull node, the rank that loses least
    /// moves to the node of a partner, or to the first node with a slot.
    pub(crate) fn within_slots(&self, traffic: &Traffic) -> Vec<u32> {
        let slots = self.sizes.iter().copied().max().unwrap_or(0);
        let mut node_of = self.node_of.clone();
        let mut on: Vec<Vec<u32>> = vec![Vec::new(); self.sizes.len()];
        for (rank, &node) in (0..).zip(&node_of) {
            on[node as usize].push(rank);
        }
        for node in 0..self.sizes.len() {
            while on[node].len() > slots as usize {
                let has_slot = |to: u32| on[to as usize].len() < slots as usize;
                let Some(first) = (0..self.sizes.len() as u32).find(|&to| has_slot(to)) else {
                    return node_of;
                };
                let moves = on[node].iter().flat_map(|&rank| {
                    let edges = traffic.edges_of(rank);
                    let partners = edges.iter().map(|edge| node_of[edge.peer as usize]);
                    let to = partners.filter(|&to| has_slot(to)).chain([first]);
                    to.map(move |to| (rank, to))
                });
                let tie = |rank: u32, node: u32| -> i128 {
                    let edges = traffic.edges_of(rank).iter();
                    let there = edges.filter(|edge| node_of[edge.peer as usize] == node);
                    there.map(|e| i128::from(e.out) + i128::from(e.into)).sum()
                };
                let loss = |&(rank, to): &(u32, u32)| tie(rank, node as u32) - tie(rank, to);
                let Some((rank, to)) = moves.min_by_key(|step| (loss(step), *step)) else {
                    return node_of;
                };
                on[node].retain(|&other| other != rank);
                on[to as usize].push(rank);
                node_of[rank as usize] = to;
            }
        }
        node_of
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::program_of;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_mapping_is_refused_with_numbers() {
        let refused = |sizes: &[u32], node_of: &[u32]| {
            let mapping = Mapping::new(sizes.to_vec(), node_of.to_vec());
            mapping.unwrap_err().to_string()
        };
        assert!(refused(&[2, 2], &[0, 1, 0]).contains("3 ranks instead of 4"));
        assert!(refused(&[2, 2], &[0, 1, 2, 0]).contains("rank 2 is on node 2, but there are 2"));
        assert!(refused(&[1, 1, 1], &[0, 0, 0]).contains("3 ranks are on node 0, which has 1"));
        assert!(Mapping::new(vec![2, 2], vec![0, 0, 0, 0]).is_ok());
    }

    #[test]
    fn the_rank_that_loses_least_leaves_a_node_with_too_many() {
        // 0, 1 and 2 belong together; 3 goes to the other node, where 5 is alone.
        let program = program_of(6, &[(0, 1, 90), (1, 2, 90), (0, 2, 90), (3, 5, 50)], 0);
        let traffic = Traffic::new(&program);
        let too_many = Mapping::new(vec![3, 3], vec![0, 0, 0, 0, 1, 1]).unwrap();
        assert_eq!(too_many.within_slots(&traffic), [0, 0, 0, 1, 1, 1]);
        let fits = Mapping::new(vec![3, 3], vec![1, 0, 1, 0, 1, 0]).unwrap();
        assert_eq!(fits.within_slots(&traffic), [1, 0, 1, 0, 1, 0]);
    }

    proptest! {
        #[test]
        fn no_node_has_more_than_its_slots_and_no_rank_leaves_without_need(
            node_of in prop::collection::vec(0u32..5, 20),
            messages in prop::collection::vec((0u32..20, 0u32..20, 0u64..1_000), 0..40),
        ) {
            let sizes = vec![4; 5];
            let traffic = Traffic::new(&program_of(20, &messages, 0));
            if let Ok(mapping) = Mapping::new(sizes, node_of.clone()) {
                let counts = |of: &[u32]| -> Vec<usize> {
                    (0..5).map(|node| of.iter().filter(|&&n| n == node).count()).collect()
                };
                let repaired = mapping.within_slots(&traffic);
                prop_assert!(counts(&repaired).iter().all(|&count| count <= 4));
                let moved = node_of.iter().zip(&repaired).filter(|(a, b)| a != b).count();
                let surplus: usize = counts(&node_of).iter().map(|&c| c.saturating_sub(4)).sum();
                prop_assert_eq!(moved, surplus);
            }
        }
    }
}
