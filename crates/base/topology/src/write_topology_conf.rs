//! Writes a topology as Slurm's `topology.conf`.
//!
//! Slurm supports trees only. Switches of one level that connect the same switches below, like the
//! spines of a fat tree, become one; a comment lists them.

use crate::hostlist::fold;
use crate::model::{Link, NodeIndex, SwitchIndex, Vertex};
use crate::topology::Topology;
use std::collections::BTreeMap;
use std::fmt::Write;
use thiserror::Error;

/// Why a topology cannot be written as `topology.conf`. Fits "failed to ...".
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoTree {
    /// Switches of the same level are connected, as in tori and dragonflies.
    #[error(
        "write a tree: {a} and {b} are on the same level and connected; Slurm describes such networks with the plugin \
         topology/3d_torus or as topology/flat"
    )]
    SameLevel {
        /// A switch.
        a: String,
        /// The other one.
        b: String,
    },
    /// Two nodes are connected without a switch.
    #[error(
        "write a tree: {a} and {b} are connected without a switch; Slurm describes such networks as topology/flat"
    )]
    NoSwitch {
        /// A node.
        a: String,
        /// The other one.
        b: String,
    },
    /// No node takes jobs.
    #[error("write a tree: no node of the network runs jobs; add the cluster's list of nodes")]
    NoNodes,
    /// A node without a cable.
    #[error(
        "write a tree: no cable connects {name} to a switch; leave it out, or use topology/flat"
    )]
    Alone {
        /// The node.
        name: String,
    },
}

/// The text of a tree topology: a line for each switch with its nodes or switches, leaves first.
///
/// A node on several leaves is listed on the first. Hosts that run no jobs, and switches without
/// nodes below, are left out. `LinkSpeed` is in Mbit/s, for one cable to the children, the slowest
/// if they differ.
///
/// # Errors
/// [`NoTree`] if the network is not a tree.
pub fn write_topology_conf(topology: &Topology) -> Result<String, NoTree> {
    let name = |v| topology.name(v).to_owned();
    let level = |s: SwitchIndex| topology.switches()[s.get()].level;
    for link in topology.links() {
        let ends = || (name(link.from), name(link.to));
        match (link.from, link.to) {
            (Vertex::Node(_), Vertex::Node(_)) => {
                let (a, b) = ends();
                return Err(NoTree::NoSwitch { a, b });
            }
            (Vertex::Switch(s), Vertex::Switch(t))
                if level(s) == level(t) && level(s).is_some() =>
            {
                let (a, b) = ends();
                return Err(NoTree::SameLevel { a, b });
            }
            _ => {}
        }
    }
    // Slurm rejects a file with unknown hosts.
    let compute = |n: &NodeIndex| topology.nodes()[n.get()].compute;
    if !topology.nodes().iter().any(|n| n.compute) {
        return Err(NoTree::NoNodes);
    }
    let (mut nodes_of, mut rails) = (vec![Vec::new(); topology.switches().len()], 0);
    for node in topology.node_indices().filter(compute) {
        let Some(leaf) = topology.leaf_of(node) else {
            let name = name(Vertex::Node(node));
            return Err(NoTree::Alone { name });
        };
        nodes_of[leaf.get()].push(topology.nodes()[node.get()].name.as_str());
        rails += usize::from(topology.switches_of(node).nth(1).is_some());
    }

    let mut text =
        String::from("# Slurm's topology/tree, written by idlewave. LinkSpeed is in Mbit/s.\n");
    if rails > 0 {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(
            text,
            "# {rails} node(s) on several leaf switches are listed on the first one."
        );
    }
    for group in groups(topology, &nodes_of) {
        let names: Vec<&str> = group
            .switches
            .iter()
            .map(|s| topology.name(Vertex::Switch(*s)))
            .collect();
        if names.len() > 1 {
            let _ = writeln!(
                text,
                "# {} replaces {}",
                names[0],
                fold(names.iter().copied())
            );
        }
        let _ = write!(text, "SwitchName={}", names[0]);
        if !group.nodes.is_empty() {
            let _ = write!(text, " Nodes={}", fold(group.nodes.iter().copied()));
        }
        if !group.below.is_empty() {
            let _ = write!(text, " Switches={}", fold(group.below.iter().copied()));
        }
        if let Some(speed) = group.speed {
            let _ = write!(text, " LinkSpeed={speed}");
        }
        text.push('\n');
    }
    Ok(text)
}

/// Switches merged into one in the tree.
struct Group<'a> {
    switches: Vec<SwitchIndex>,
    nodes: Vec<&'a str>,
    below: Vec<&'a str>,
    speed: Option<u32>,
}

/// Union-find: the first index of the merged set.
fn root(parents: &mut [usize], mut place: usize) -> usize {
    while parents[place] != place {
        parents[place] = parents[parents[place]];
        place = parents[place];
    }
    place
}

/// Level by level, merges switches that share a switch below them, so that each has at most one
/// above it.
fn groups<'a>(topology: &'a Topology, nodes_of: &[Vec<&'a str>]) -> Vec<Group<'a>> {
    let switches = topology.switches();
    let mut parents: Vec<usize> = (0..switches.len()).collect();
    let mut order: Vec<usize> = (0..switches.len())
        .filter(|s| switches[*s].level.is_some())
        .collect();
    order.sort_by_key(|s| (switches[*s].level, *s));
    let level = |s: usize| switches[s].level;
    let below = |s: usize| {
        let links = topology.links_from(Vertex::Switch(SwitchIndex::new(s)));
        links.filter_map(move |l| match topology.links()[l.get()].to {
            Vertex::Switch(t) if level(t.get()).is_some() && level(t.get()) < level(s) => {
                Some(t.get())
            }
            _ => None,
        })
    };
    // For each set of switches, the sets above it, by the level of the latter.
    let mut above: BTreeMap<usize, usize> = BTreeMap::new();
    for place in order.iter().copied() {
        for child in below(place) {
            let child = root(&mut parents, child);
            let own = root(&mut parents, place);
            match above.get(&child).copied() {
                None => {
                    above.insert(child, own);
                }
                Some(other) => {
                    let other = root(&mut parents, other);
                    if other != own && level(other) == level(own) {
                        let (first, second) = (own.min(other), own.max(other));
                        parents[second] = first;
                    }
                }
            }
        }
    }
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for place in order.iter().copied() {
        members
            .entry(root(&mut parents, place))
            .or_default()
            .push(place);
    }
    let mut written = vec![false; switches.len()];
    let mut groups = Vec::new();
    let mut firsts: Vec<usize> = members.keys().copied().collect();
    firsts.sort_by_key(|s| (switches[*s].level, *s));
    for first in firsts {
        let all = members.get(&first).map(Vec::as_slice).unwrap_or_default();
        let mut children: Vec<usize> = Vec::new();
        for child in all.iter().flat_map(|s| below(*s)) {
            let child = root(&mut parents, child);
            // A switch with parents on several levels is listed below the lowest of them.
            let nearest = above.get(&child).copied().map(|a| root(&mut parents, a));
            if written[child] && nearest == Some(first) {
                children.push(child);
            }
        }
        children.sort_unstable();
        children.dedup();
        let nodes: Vec<&str> = all
            .iter()
            .flat_map(|s| nodes_of[*s].iter().copied())
            .collect();
        if nodes.is_empty() && children.is_empty() {
            continue;
        }
        written[first] = true;
        groups.push(Group {
            speed: speed(topology, all),
            switches: all.iter().map(|s| SwitchIndex::new(*s)).collect(),
            below: children
                .iter()
                .map(|c| switches[*c].name.as_str())
                .collect(),
            nodes,
        });
    }
    groups
}

/// Mbit/s of the slowest cable down; `None` if one is unknown or beyond Slurm's range.
fn speed(topology: &Topology, switches: &[usize]) -> Option<u32> {
    let level = |s: SwitchIndex| topology.switches()[s.get()].level;
    let own = switches.first().and_then(|s| topology.switches()[*s].level);
    let links = switches
        .iter()
        .flat_map(|s| topology.links_from(Vertex::Switch(SwitchIndex::new(*s))));
    let down = links
        .map(|l| &topology.links()[l.get()])
        .filter(|l| match l.to {
            Vertex::Node(_) => true,
            Vertex::Switch(below) => level(below) < own,
        });
    let rates: Option<Vec<f64>> = down
        .map(|l: &Link| l.capacity_per_cable().map(|c| c.bits() / 1e6))
        .collect();
    let least = rates?.into_iter().fold(f64::INFINITY, f64::min).round();
    (1.0..=f64::from(u32::MAX))
        .contains(&least)
        .then_some(least as u32)
}
