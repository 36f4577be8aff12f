//! Which rank runs on which core of which node: the input of all writers.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A node that ranks run on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssignedNode {
    /// Name in the batch system.
    pub name: String,
    /// Cores of the node; `None` if unknown.
    pub cores: Option<u32>,
    /// Memory domains of the node; at least 1.
    pub domains: u32,
}

/// The place of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Index into the nodes.
    pub node: usize,
    /// Logical core of that node, from 0.
    pub core: u32,
    /// Memory domain of that core, from 0.
    pub domain: u32,
}

/// Why an assignment is not possible.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BatchError {
    /// There are no ranks.
    #[error("place 0 ranks")]
    NoRanks,
    /// A rank is on a node that is not in the list.
    #[error("place rank {rank} on node number {node}: there are only {nodes}")]
    NoSuchNode {
        /// The rank.
        rank: usize,
        /// The node's number.
        node: usize,
        /// Number of nodes.
        nodes: usize,
    },
    /// Nodes are not in the order in which ranks first use them, or one is never used.
    #[error(
        "place ranks on \"{node}\": nodes must be in the order of their first use, each with a rank"
    )]
    NotInOrder {
        /// Name of the first node that is out of order.
        node: String,
    },
    /// Two nodes have the same name.
    #[error("use the node name \"{0}\": it is given twice")]
    SameName(String),
    /// A name that could be misread in a file or a command line.
    #[error(
        "use \"{0}\" as the name of a node: only letters, digits, '.', '_' and '-' are allowed"
    )]
    BadName(String),
    /// A core or a memory domain that the node does not have.
    #[error(
        "place rank {rank} on core {core} in memory domain {domain} of {node}: the node has no such place"
    )]
    NoSuchCore {
        /// The rank.
        rank: usize,
        /// Its core.
        core: u32,
        /// Its memory domain.
        domain: u32,
        /// Name of the node.
        node: String,
    },
    /// Two ranks on one core.
    #[error("place rank {rank} on core {core} of {node}: it is used by another rank")]
    Taken {
        /// The second rank.
        rank: usize,
        /// The core.
        core: u32,
        /// Name of the node.
        node: String,
    },
}

/// A placement by node names. Nodes are in the order in which ranks first use them, and no two
/// ranks share a core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Assignment {
    nodes: Vec<AssignedNode>,
    ranks: Vec<Slot>,
}

impl Assignment {
    /// Checks that `ranks`, the place of each rank in order, is possible on `nodes`.
    pub fn new(nodes: Vec<AssignedNode>, ranks: Vec<Slot>) -> Result<Self, BatchError> {
        if ranks.is_empty() {
            return Err(BatchError::NoRanks);
        }
        check_names(&nodes)?;
        check_places(&nodes, &ranks)?;
        Ok(Self { nodes, ranks })
    }

    /// The nodes, in the order of their first use.
    pub fn nodes(&self) -> &[AssignedNode] {
        &self.nodes
    }

    /// The place of each rank.
    pub fn ranks(&self) -> &[Slot] {
        &self.ranks
    }

    /// Name of the node of each rank, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.ranks.iter().map(|s| self.nodes[s.node].name.as_str())
    }

    /// Number of ranks on each node.
    pub fn ranks_of_nodes(&self) -> Vec<u32> {
        let mut counts = vec![0; self.nodes.len()];
        for slot in &self.ranks {
            counts[slot.node] += 1;
        }
        counts
    }

    /// Ranks per node, if equal on all nodes.
    pub fn even(&self) -> Option<u32> {
        let counts = self.ranks_of_nodes();
        let first = *counts.first()?;
        counts.iter().all(|&c| c == first).then_some(first)
    }
}

fn check_names(nodes: &[AssignedNode]) -> Result<(), BatchError> {
    let mut seen = std::collections::BTreeSet::new();
    for node in nodes {
        let name = &node.name;
        let letters = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        // A leading '-' would be read as an option.
        if name.is_empty() || name.starts_with('-') || !name.chars().all(letters) {
            return Err(BatchError::BadName(name.escape_default().to_string()));
        }
        if !seen.insert(name) {
            return Err(BatchError::SameName(name.clone()));
        }
    }
    Ok(())
}

fn check_places(nodes: &[AssignedNode], ranks: &[Slot]) -> Result<(), BatchError> {
    let mut used = 0;
    let mut taken = std::collections::BTreeSet::new();
    for (rank, slot) in ranks.iter().enumerate() {
        let node = nodes.get(slot.node).ok_or(BatchError::NoSuchNode {
            rank,
            node: slot.node,
            nodes: nodes.len(),
        })?;
        if slot.node > used {
            let node = nodes[used].name.clone();
            return Err(BatchError::NotInOrder { node });
        }
        used = used.max(slot.node + 1);
        let (core, domain, name) = (slot.core, slot.domain, node.name.clone());
        if node.cores.is_some_and(|cores| core >= cores) || domain >= node.domains {
            let node = name;
            return Err(BatchError::NoSuchCore {
                rank,
                core,
                domain,
                node,
            });
        }
        if !taken.insert((slot.node, core)) {
            let node = name;
            return Err(BatchError::Taken { rank, core, node });
        }
    }
    match nodes.get(used) {
        Some(node) => Err(BatchError::NotInOrder {
            node: node.name.clone(),
        }),
        None => Ok(()),
    }
}
