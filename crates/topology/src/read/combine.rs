//! One topology from several files: what joins the nodes from one, what the nodes are from others.

use super::{Content, Machine, Read, ReadError};
use crate::hostlist;
use crate::model::Node;
use crate::topology::{Topology, free_name};
use idlewave_units::foreign::cut;
use std::collections::{HashMap, HashSet};

/// A topology of all that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Combined {
    /// Nodes, and what joins them.
    pub topology: Topology,
    /// What was assumed or left out, one line each.
    pub notes: Vec<String>,
}

/// Joins what was read from several files.
///
/// One of them at most says what joins the nodes; where none does, one switch is assumed. Nodes of
/// `scontrol show node` must be the same ones. One machine of hwloc stands for every node whose number of cores is the
/// same or unknown; several are those of the hosts on which they were saved.
///
/// # Errors
/// Two topologies, two lists of nodes, no node at all, nodes that are in one file and not in the other, and a machine
/// that is none of the nodes.
pub fn combine(files: Vec<Read>) -> Result<Combined, ReadError> {
    let mut notes = Vec::new();
    let (mut topology, mut nodes, mut machines) = (None, None, Vec::new());
    let files_error = |why: &str| ReadError::Files {
        why: why.to_owned(),
    };
    let mut flat = false;
    for file in files {
        notes.extend(file.notes);
        let taken = match file.content {
            Content::Topology(read) => topology.replace(*read).is_some(),
            Content::Nodes(read) => nodes.replace(read).is_some(),
            Content::Machine(read) => {
                machines.push(read);
                false
            }
            Content::Flat => {
                flat = true;
                false
            }
        };
        if taken {
            let name = file.format.name();
            let why = format!("another one says already what {name} says; give one of the two");
            return Err(ReadError::Files { why });
        }
    }
    if flat && topology.is_some() {
        return Err(files_error(
            "one says that the topology is flat, another one has switches",
        ));
    }
    let mut topology = match (topology, nodes) {
        (Some(mut topology), Some(nodes)) => {
            fill(&mut topology, nodes)?;
            topology
        }
        (Some(topology), None) => topology,
        (None, nodes) => {
            let nodes = match (nodes, machines.len()) {
                (Some(nodes), _) => nodes,
                (None, 1) if !flat => {
                    let name = machines.first().and_then(|m| m.name.clone());
                    vec![Node::new(name.unwrap_or_else(|| "n1".to_owned()))]
                }
                _ => {
                    return Err(files_error(
                        "none of them names the nodes; add `scontrol show node` or a topology",
                    ));
                }
            };
            if nodes.len() > 1 {
                let note = "no file says what joins the nodes: one switch is assumed";
                notes.push(note.to_owned());
            }
            one_switch(nodes)?
        }
    };
    apply(&mut topology, &machines, &mut notes)?;
    Ok(Combined { topology, notes })
}

fn one_switch(nodes: Vec<Node>) -> Result<Topology, ReadError> {
    let names: HashSet<&str> = nodes.iter().map(|n| n.name.as_str()).collect();
    let name = free_name("switch1", |name| names.contains(name));
    Ok(Topology::on_one_switch(nodes, &name)?)
}

/// Names of which one side knows nothing.
fn unmatched(names: &[&str], present: &'static str, missing: &'static str) -> ReadError {
    ReadError::Unmatched {
        count: names.len(),
        present,
        missing,
        names: cut(&hostlist::fold(names.iter().copied())),
    }
}

/// Takes cores, memory, state and features from nodes of the same names.
fn fill(topology: &mut Topology, nodes: Vec<Node>) -> Result<(), ReadError> {
    let (here, there) = ("the topology", "the list of nodes");
    let unknown = |n: &&Node| topology.node(&n.name).is_none();
    let unknown: Vec<&str> = nodes
        .iter()
        .filter(unknown)
        .map(|n| n.name.as_str())
        .collect();
    if !unknown.is_empty() {
        return Err(unmatched(&unknown, there, here));
    }
    let mut by_name: HashMap<String, Node> =
        nodes.into_iter().map(|n| (n.name.clone(), n)).collect();
    let all = topology.nodes().iter().map(|n| n.name.as_str());
    let missing: Vec<&str> = all.filter(|n| !by_name.contains_key(*n)).collect();
    if !missing.is_empty() {
        return Err(unmatched(&missing, here, there));
    }
    topology.update_nodes(|_, node| {
        if let Some(read) = by_name.remove(&node.name) {
            if let Some(cores) = read.cores {
                node.set_cores(cores);
            }
            node.memory = read.memory.or(node.memory);
            node.free = read.free;
            node.features = read.features;
        }
    });
    Ok(())
}

fn apply(
    topology: &mut Topology,
    machines: &[Machine],
    notes: &mut Vec<String>,
) -> Result<(), ReadError> {
    let mut by_host: HashMap<&str, &Machine> = HashMap::new();
    if machines.len() > 1 {
        for machine in machines {
            let why = match machine.name.as_deref() {
                None => Some("one of the machines of hwloc does not tell its host".to_owned()),
                Some(name) if topology.node(name).is_none() => Some(format!(
                    "the machine of hwloc {name:?} is none of the nodes"
                )),
                Some(name) => by_host
                    .insert(name, machine)
                    .map(|_| format!("two machines of hwloc are of the host {name:?}")),
            };
            if let Some(why) = why {
                return Err(ReadError::Files { why });
            }
        }
    }
    let Some(first) = machines.first() else {
        return Ok(());
    };
    let (mut taken, all) = (0, topology.nodes().len());
    topology.update_nodes(|_, node| {
        let machine = match machines.len() {
            1 => Some(first),
            _ => by_host.get(node.name.as_str()).copied(),
        };
        let same =
            |m: &&Machine| node.cores.is_none() || m.cores.is_none() || m.cores == node.cores;
        if let Some(machine) = machine.filter(same) {
            taken += 1;
            node.cores = machine.cores.or(node.cores);
            // What the resource manager hands out comes first.
            node.memory = node.memory.or(machine.memory);
            if !machine.domains.is_empty() {
                node.domains = machine.domains.clone();
            }
        }
    });
    if taken == 0 {
        let why = "no node has as many cores as the machine of hwloc";
        return Err(ReadError::Files {
            why: why.to_owned(),
        });
    }
    if machines.len() == 1 && all > 1 {
        notes.push(format!(
            "the machine of hwloc stands for {taken} of {all} nodes"
        ));
    }
    Ok(())
}
