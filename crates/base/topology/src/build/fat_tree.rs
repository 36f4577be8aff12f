//! Fat trees of two or three levels with any oversubscription.

use super::{named_nodes, node_cables, product};
use crate::error::TopologyError;
use crate::model::{Cable, Switch, SwitchIndex, Vertex};
use crate::topology::{MAX_CABLES, MAX_SWITCHES, Topology, count};

/// A fat tree: every leaf is linked to every spine. With [`Pods`], a third level links such trees.
///
/// Its oversubscription at the leaves is `nodes_per_leaf / (spines * cables_per_spine)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FatTree {
    /// Nodes on each leaf switch.
    pub nodes_per_leaf: u32,
    /// Leaf switches; with pods, those of each pod.
    pub leaves: u32,
    /// Switches of the second level; with pods, those of each pod.
    pub spines: u32,
    /// Parallel cables between each leaf and each of its spines.
    pub cables_per_spine: u32,
    /// The third level; `None` for two levels.
    pub pods: Option<Pods>,
}

/// The third level of a fat tree. Spine `j` of every pod is linked to the same `cores_per_spine`
/// core switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pods {
    /// Copies of the two lower levels.
    pub pods: u32,
    /// Core switches linked to each spine. There are `spines * cores_per_spine` in all.
    pub cores_per_spine: u32,
    /// Parallel cables between each spine and each of its core switches.
    pub cables_per_core: u32,
}

impl Topology {
    /// A fat tree of nodes `n1`, ... on switches `leaf1`, ..., `spine1`, ..., `core1`, ...
    ///
    /// # Errors
    /// A number is 0, or a limit of a topology is exceeded.
    pub fn fat_tree(tree: FatTree) -> Result<Self, TopologyError> {
        let most = u64::from(u32::MAX);
        let numbers = [
            ("nodes per leaf", tree.nodes_per_leaf),
            ("leaves", tree.leaves),
            ("spines", tree.spines),
            ("cables per spine", tree.cables_per_spine),
        ];
        for (what, number) in numbers {
            count(what, u64::from(number), 1, most)?;
        }
        // Two levels are one pod without core switches.
        let (pods, cores, cables_per_core) = match tree.pods {
            None => (1, 0, 1),
            Some(top) => {
                count("pods", u64::from(top.pods), 1, most)?;
                count("cores per spine", u64::from(top.cores_per_spine), 1, most)?;
                count("cables per core", u64::from(top.cables_per_core), 1, most)?;
                (top.pods, top.cores_per_spine, top.cables_per_core)
            }
        };
        let nodes = named_nodes(product(&[pods, tree.leaves, tree.nodes_per_leaf]))?;
        let leaves = product(&[pods, tree.leaves]);
        let spines = product(&[pods, tree.spines]);
        let tops = product(&[tree.spines, cores]);
        let switches = leaves.saturating_add(spines).saturating_add(tops);
        count("switches", switches, 1, MAX_SWITCHES as u64)?;
        let joined = product(&[pods, tree.leaves, tree.spines])
            .saturating_add(product(&[pods, tree.spines, cores]))
            .saturating_add(nodes.len() as u64);
        count("cables", joined, 1, MAX_CABLES as u64)?;

        let mut switches = Vec::new();
        for (name, number, level) in [("leaf", leaves, 1), ("spine", spines, 2), ("core", tops, 3)]
        {
            switches.extend((1..=number).map(|n| Switch {
                name: format!("{name}{n}"),
                level: Some(level),
            }));
        }
        let switch = |place: u64| Vertex::Switch(SwitchIndex::new(place as usize));
        let mut cables = node_cables(nodes.len(), tree.nodes_per_leaf as usize);
        let (per_pod, spines_per_pod) = (u64::from(tree.leaves), u64::from(tree.spines));
        for leaf in 0..leaves {
            let first = leaves + leaf / per_pod * spines_per_pod;
            cables.extend((first..first + spines_per_pod).map(|spine| Cable {
                count: tree.cables_per_spine,
                ..Cable::new(switch(leaf), switch(spine))
            }));
        }
        for spine in 0..spines {
            let first = leaves + spines + spine % spines_per_pod * u64::from(cores);
            cables.extend((first..first + u64::from(cores)).map(|core| Cable {
                count: cables_per_core,
                ..Cable::new(switch(leaves + spine), switch(core))
            }));
        }
        Self::from_cables(nodes, switches, &cables)
    }
}
