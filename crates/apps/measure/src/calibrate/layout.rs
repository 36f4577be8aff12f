//! Chooses the ranks that take part in a probe.

use crate::MeasureError;
use idlewave_fabric::Nodes;
use idlewave_network::{Distance, Probe};
use idlewave_units::{NodeId, Rank};

/// The ranks of a job by node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The same number of ranks on each node.
    nodes: Vec<Vec<Rank>>,
    /// The partner of the first node, below the same leaf as far as known.
    near: Option<usize>,
    /// A partner below another leaf.
    far: Option<usize>,
}

/// Whether a host name and a listed name mean the same node; one of them may include its domain.
fn same(host: &str, listed: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or("").to_owned();
    host == listed || short(host) == short(listed)
}

impl Layout {
    /// Builds the layout from the nodes of a job and the names below each leaf.
    ///
    /// # Errors
    /// Fewer than two ranks, or a node below none of the leaves although leaves are given, or below
    /// two.
    pub fn new(nodes: &Nodes, leaves: &[Vec<String>]) -> Result<Self, MeasureError> {
        let all: Vec<Vec<Rank>> = (0..nodes.count())
            .map(|node| nodes.ranks_of(NodeId::new(node)).collect())
            .collect();
        let each = all.iter().map(Vec::len).min().unwrap_or(0);
        if each * all.len() < 2 {
            return Err(MeasureError::option(
                "calibrate with one rank",
                "a message needs two ranks",
                "start two or more, ideally as many per node as a job may have: mpirun -n 8 --map-by ppr:4:node idlewave place calibrate",
            ));
        }
        let mut leaf_of = Vec::new();
        for name in nodes.names() {
            let mut of_node = leaves
                .iter()
                .enumerate()
                .filter(|(_, leaf)| leaf.iter().any(|listed| same(name, listed)));
            let leaf = of_node.next().map(|(at, _)| at);
            if of_node.next().is_some() {
                return Err(MeasureError::option(
                    "--leaf",
                    format!("node {name} is below two leaves"),
                    "name every node of the job in one --leaf NODE,NODE,...",
                ));
            }
            if leaf.is_none() && !leaves.is_empty() {
                return Err(MeasureError::option(
                    "--leaf",
                    format!("node {name} is below none of the leaves"),
                    "name every node of the job in one --leaf NODE,NODE,...",
                ));
            }
            leaf_of.push(leaf);
        }
        let find = |near: bool| {
            (1..all.len()).find(|&node| (leaf_of.get(node) == leaf_of.first()) == near)
        };
        let far = find(false);
        Ok(Self {
            nodes: all.iter().map(|ranks| ranks[..each].to_vec()).collect(),
            // Without a neighbour below the same leaf, use the one below another; hops are then not
            // distinguished.
            near: find(true).or(far),
            far: far.filter(|_| find(true).is_some()),
        })
    }

    /// The number of nodes.
    pub fn nodes(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// The number of ranks per node.
    pub fn per_node(&self) -> u32 {
        self.nodes.first().map_or(0, |ranks| ranks.len() as u32)
    }

    /// The distances available.
    pub fn ways(&self) -> Vec<Distance> {
        let mut ways = Vec::new();
        if self.per_node() > 1 {
            ways.push(Distance::Inside);
        }
        ways.extend(self.near.map(|_| Distance::Outside));
        ways.extend(self.far.map(|_| Distance::Across));
        ways
    }

    /// The members of the world in which `probe` runs; for pairs, first those that begin, then
    /// their partners in the same order.
    pub fn members(&self, probe: &Probe) -> Vec<Rank> {
        let pairs = |way: Distance, pairs: usize| -> Vec<Rank> {
            let first = &self.nodes[0];
            let other = match way {
                Distance::Inside => return first[..2 * pairs].to_vec(),
                Distance::Outside => self.near,
                Distance::Across => self.far,
            };
            let other = &self.nodes[other.unwrap_or(0)];
            [&first[..pairs], &other[..pairs]].concat()
        };
        match *probe {
            Probe::PingPong { way, .. } => pairs(way, 1),
            Probe::Stream { way, pairs: k, .. } => pairs(way, k as usize),
            Probe::AllToAll { per_node, .. } => {
                let of_node = self.nodes.iter().map(|ranks| &ranks[..per_node as usize]);
                of_node.collect::<Vec<_>>().concat()
            }
            Probe::Memory { ranks, .. } => self.nodes[0][..ranks as usize].to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(numbers: &[u32]) -> Vec<Rank> {
        numbers.iter().copied().map(Rank::new).collect()
    }

    /// Three nodes with two ranks each, dealt in turn.
    fn layout(far: bool) -> Layout {
        Layout {
            nodes: vec![ranks(&[0, 3]), ranks(&[1, 4]), ranks(&[2, 5])],
            near: Some(1),
            far: far.then_some(2),
        }
    }

    #[test]
    fn pairs_are_of_two_nodes_and_senders_come_first() {
        let layout = layout(true);
        let stream = |way, pairs| Probe::Stream {
            way,
            pairs,
            both_ways: false,
            bytes: 8,
            messages: 1,
        };
        assert_eq!(layout.members(&stream(Distance::Inside, 1)), ranks(&[0, 3]));
        let two = layout.members(&stream(Distance::Outside, 2));
        assert_eq!(two, ranks(&[0, 3, 1, 4]));
        assert_eq!(layout.members(&stream(Distance::Across, 1)), ranks(&[0, 2]));
        let all = Probe::AllToAll {
            nodes: 3,
            per_node: 1,
            bytes: 8,
            calls: 1,
        };
        assert_eq!(layout.members(&all), ranks(&[0, 1, 2]));
        assert_eq!(
            layout.ways(),
            [Distance::Inside, Distance::Outside, Distance::Across]
        );
        assert_eq!(super::tests::layout(false).ways().len(), 2);
    }

    #[test]
    fn a_node_below_two_leaves_is_refused() {
        let nodes = Nodes::from_leaders(&[0, 0], &["n0".to_owned(), "n0".to_owned()]);
        let below = |leaves: &[&str]| {
            let leaves: Vec<Vec<String>> = leaves.iter().map(|l| vec![(*l).to_owned()]).collect();
            Layout::new(&nodes, &leaves).map_err(|error| error.to_string())
        };
        assert!(below(&["n0", "n1"]).is_ok());
        let refused = below(&["n0", "n0.cluster"]).unwrap_err();
        assert!(refused.contains("node n0 is below two leaves"), "{refused}");
    }

    #[test]
    fn names_match_with_and_without_their_domain() {
        assert!(same("n1.cluster", "n1") && same("n1", "n1") && !same("n1", "n10"));
    }
}
