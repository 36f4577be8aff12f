//! Dragonflies (Kim, Dally, Scott, Abts, "Technology-driven, highly-scalable dragonfly topology",
//! 2008): groups of switches, fully connected within each group, and global cables between each two
//! groups.

use super::{named_nodes, node_cables, product};
use crate::error::TopologyError;
use crate::model::{Cable, LinkIndex, Switch, SwitchIndex, Vertex};
use crate::shape::{Dragonfly, Joined, Shape};
use crate::topology::{MAX_CABLES, MAX_SWITCHES, Topology, count};
use std::collections::HashMap;

impl Topology {
    /// A dragonfly of nodes `n1`, ... on switches `g1s1`, ... (group and switch).
    ///
    /// Port `k` of a group (counted from its first switch on) leads to group number
    /// `k mod (groups - 1)` of the others, for as many complete rounds as there are ports; the
    /// remaining ports stay empty. So each two groups have the same number of cables.
    ///
    /// # Errors
    /// A number is 0, there are too few global ports, or a limit of a topology is exceeded.
    pub fn dragonfly(numbers: Dragonfly) -> Result<Self, TopologyError> {
        let Dragonfly {
            groups,
            switches_per_group,
            nodes_per_switch,
            global_links_per_switch,
        } = numbers;
        let most = u64::from(u32::MAX);
        count("groups", u64::from(groups), 1, most)?;
        count("switches per group", u64::from(switches_per_group), 1, most)?;
        count("nodes per switch", u64::from(nodes_per_switch), 1, most)?;
        let ports = product(&[switches_per_group, global_links_per_switch]);
        let others = u64::from(groups) - 1;
        if ports < others {
            let groups = u64::from(groups);
            return Err(TopologyError::GlobalPorts { groups, ports });
        }
        let switches = product(&[groups, switches_per_group]);
        count("switches", switches, 1, MAX_SWITCHES as u64)?;
        let nodes = named_nodes(switches.saturating_mul(u64::from(nodes_per_switch)))?;
        let local = product(&[groups, switches_per_group, switches_per_group]) / 2;
        let global = ports.saturating_mul(u64::from(groups)) / 2;
        let joined = local
            .saturating_add(global)
            .saturating_add(nodes.len() as u64);
        count("cables", joined, 1, MAX_CABLES as u64)?;

        let per_group = switches_per_group as usize;
        let vertex = |switch: usize| Vertex::Switch(SwitchIndex::new(switch));
        let mut cables = node_cables(nodes.len(), nodes_per_switch as usize);
        for group in 0..groups as usize {
            let first = group * per_group;
            for a in first..first + per_group {
                cables.extend((a + 1..first + per_group).map(|b| Cable::new(vertex(a), vertex(b))));
            }
        }
        let rounds = ports.checked_div(others).unwrap_or(0);
        // The switch of a group with the port to another group in a round.
        let end = |group: u64, other: u64, round: u64| {
            let port = round * others + if other < group { other } else { other - 1 };
            let switch = port / u64::from(global_links_per_switch);
            (group * u64::from(switches_per_group) + switch) as usize
        };
        for a in 0..u64::from(groups) {
            for b in a + 1..u64::from(groups) {
                cables.extend(
                    (0..rounds).map(|round| {
                        Cable::new(vertex(end(a, b, round)), vertex(end(b, a, round)))
                    }),
                );
            }
        }
        let name = |s| Switch::new(format!("g{}s{}", s / per_group + 1, s % per_group + 1));
        let switches = (0..switches as usize).map(name).collect();
        let shape = Shape::Dragonfly(Joined {
            numbers,
            global: HashMap::new(),
        });
        let mut topology = Self::shaped(nodes, switches, &cables, shape)?;
        let mut global: HashMap<(u32, u32), Vec<LinkIndex>> = HashMap::new();
        for (place, link) in topology.links().iter().enumerate() {
            if let (Vertex::Switch(a), Vertex::Switch(b)) = (link.from, link.to) {
                let groups = [a, b].map(|s| (s.get() / per_group) as u32);
                if groups[0] != groups[1] {
                    let links = global.entry((groups[0], groups[1])).or_default();
                    links.push(LinkIndex::new(place));
                }
            }
        }
        topology.shape = Shape::Dragonfly(Joined { numbers, global });
        Ok(topology)
    }
}
