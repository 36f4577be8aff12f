//! Which ranks share a node.

use idlewave_sys::host_name;
use idlewave_units::{NodeId, Rank};

/// The nodes of a fabric, numbered in the order of their lowest ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    of_rank: Vec<NodeId>,
    names: Vec<String>,
}

impl Nodes {
    /// All `size` ranks on this node.
    pub(crate) fn single(size: u32) -> Self {
        Self {
            of_rank: vec![NodeId::new(0); size as usize],
            names: vec![host_name()],
        }
    }

    /// Builds the nodes from the leader (the lowest rank on its node) and the host name of each
    /// rank.
    pub fn from_leaders(leaders: &[u32], hosts: &[String]) -> Self {
        let mut first: Vec<u32> = leaders.to_vec();
        first.sort_unstable();
        first.dedup();
        let place = |leader: &u32| first.partition_point(|other| other < leader) as u32;
        Self {
            of_rank: leaders
                .iter()
                .map(|leader| NodeId::new(place(leader)))
                .collect(),
            names: first
                .iter()
                .map(|&leader| hosts.get(leader as usize).cloned().unwrap_or_default())
                .collect(),
        }
    }

    /// Number of nodes.
    pub fn count(&self) -> u32 {
        self.names.len() as u32
    }

    /// Host names by node. Two nodes may have the same one.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The node of each rank.
    pub fn of_ranks(&self) -> &[NodeId] {
        &self.of_rank
    }

    /// The node of a rank; `None` if there is no such rank.
    pub fn of_rank(&self, rank: Rank) -> Option<NodeId> {
        self.of_rank.get(rank.get() as usize).copied()
    }

    /// The ranks of a node, ascending.
    pub fn ranks_of(&self, node: NodeId) -> impl Iterator<Item = Rank> + '_ {
        let on_it = self
            .of_rank
            .iter()
            .enumerate()
            .filter(move |(_, at)| **at == node);
        on_it.map(|(rank, _)| Rank::new(rank as u32))
    }

    /// The lowest rank of a node; `None` if there is no such node.
    pub fn leader(&self, node: NodeId) -> Option<Rank> {
        self.ranks_of(node).next()
    }

    /// The index of a rank among the ranks of its node; `None` if there is no such rank.
    pub fn local_rank(&self, rank: Rank) -> Option<u32> {
        let node = self.of_rank(rank)?;
        self.ranks_of(node)
            .position(|r| r == rank)
            .map(|place| place as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_numbered_by_their_lowest_rank() {
        let hosts: Vec<String> = ["a", "b", "a", "b", "c"].map(String::from).to_vec();
        let nodes = Nodes::from_leaders(&[0, 1, 0, 1, 4], &hosts);
        assert_eq!(nodes.names(), ["a", "b", "c"]);
        assert_eq!(nodes.of_ranks(), [0, 1, 0, 1, 2].map(NodeId::new));
        assert_eq!(nodes.leader(NodeId::new(1)), Some(Rank::new(1)));
        assert_eq!(nodes.local_rank(Rank::new(3)), Some(1));
        assert_eq!(nodes.local_rank(Rank::new(5)), None);
        assert_eq!(nodes.leader(NodeId::new(3)), None);
    }
}
