//! The order of ranks over nodes, if it has a name.

use super::Assignment;
use idlewave_topology::split_number;

/// How ranks are distributed over the nodes, in the order of first use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All ranks of a node are consecutive.
    Block,
    /// Rank r is on node r modulo the number of nodes.
    Cyclic,
    /// Blocks of this many ranks, at least 2, go round the nodes.
    Plane(u32),
    /// None of these.
    Arbitrary,
}

impl Order {
    /// The order of an assignment; block takes precedence.
    pub fn of(assignment: &Assignment) -> Self {
        let ranks = assignment.ranks();
        let nodes = assignment.nodes().len();
        if ranks.windows(2).all(|w| w[0].node <= w[1].node) {
            return Self::Block;
        }
        // Until the first block is full, no rank is on the second node.
        let size = ranks.iter().take_while(|s| s.node == 0).count();
        let round = |(r, slot): (usize, &super::Slot)| slot.node == r / size % nodes;
        match ranks.iter().enumerate().all(round) {
            true if size == 1 => Self::Cyclic,
            true => Self::Plane(size as u32),
            false => Self::Arbitrary,
        }
    }
}

/// Whether the nodes are in the order of their names, by trailing number: the order in which Slurm
/// and Flux use the nodes of a job, however they were requested.
pub(super) fn by_name(assignment: &Assignment) -> bool {
    places_by_name(assignment).windows(2).all(|w| w[0] < w[1])
}

/// The index of each node in name order.
pub(super) fn places_by_name(assignment: &Assignment) -> Vec<usize> {
    let key = |i: usize| {
        let name = assignment.nodes()[i].name.as_str();
        let (prefix, digits) = split_number(name);
        let number = digits.and_then(|d| d.parse::<u64>().ok());
        (prefix, number, name)
    };
    let mut order: Vec<usize> = (0..assignment.nodes().len()).collect();
    order.sort_by_key(|&i| key(i));
    let mut places = vec![0; order.len()];
    for (place, i) in order.into_iter().enumerate() {
        places[i] = place;
    }
    places
}
