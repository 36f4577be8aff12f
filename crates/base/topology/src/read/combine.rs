//! One topology from several files: connections from one, node properties from others.

use super::{Content, Format, Machine, NodeList, Read, ReadError};
use crate::hostlist;
use crate::model::Node;
use crate::topology::{Topology, free_name};
use idlewave_units::counted;
use idlewave_units::foreign::cut;
use std::collections::{HashMap, HashSet};

/// A topology from everything that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Combined {
    /// Nodes and their connections.
    pub topology: Topology,
    /// What was assumed or left out, one line each.
    pub notes: Vec<String>,
    /// What makes placements unreliable, one line each.
    pub warnings: Vec<String>,
}

/// Most names in a message, before it is cut.
const MOST_NAMES: usize = 1_000;
/// Most domains, or features, of all nodes together: a million nodes with 64 each.
pub(super) const MOST_SHARED: usize = 64_000_000;

/// Combines the contents of several files.
///
/// At most one of them says what connects the nodes; if none does, one switch is assumed. At most
/// one is the batch system's list of nodes: hosts of the topology that are missing from it stay in
/// the network and get no ranks. A single hwloc machine describes every node with the same or an
/// unknown number of cores; several describe the hosts on which they were saved.
///
/// # Errors
/// Two topologies, two lists of nodes, no nodes, a list without any node of the topology, or a
/// machine that is not one of the nodes.
pub fn combine(files: Vec<Read>) -> Result<Combined, ReadError> {
    let (mut notes, mut warnings) = (Vec::new(), Vec::new());
    let mut fabric = false;
    let (mut topology, mut nodes, mut machines) = (None, None, Vec::new());
    let files_error = |why: &str| ReadError::Files {
        why: why.to_owned(),
    };
    let mut flat = false;
    for file in files {
        notes.extend(file.notes);
        let taken = match file.content {
            Content::Topology(read) => {
                fabric = file.format == Format::Ibnetdiscover;
                topology.replace(*read).is_some()
            }
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
            let why = format!("another file already gives what {name} gives; use only one of them");
            return Err(ReadError::Files { why });
        }
    }
    if flat && topology.is_some() {
        return Err(files_error(
            "one file says that the topology is flat, another one has switches",
        ));
    }
    let mut topology = match (topology, nodes) {
        (Some(mut topology), Some(nodes)) => {
            fill(&mut topology, &nodes, &mut notes)?;
            topology
        }
        (Some(topology), None) => {
            if fabric {
                of_fabric(&topology, &mut notes, &mut warnings);
            }
            topology
        }
        (None, nodes) => {
            let nodes = match (nodes, machines.len()) {
                (Some(list), _) => list.nodes,
                (None, 1) if !flat => {
                    let name = machines.first().and_then(|m| m.name.clone());
                    vec![Node::new(name.unwrap_or_else(|| "n1".to_owned()))]
                }
                _ => {
                    return Err(files_error(
                        "none of them has nodes; add `scontrol show node` or a topology",
                    ));
                }
            };
            if nodes.len() > 1 {
                let note = "no file says what connects the nodes: one switch is assumed";
                notes.push(note.to_owned());
            }
            one_switch(nodes)?
        }
    };
    apply(&mut topology, &machines, &mut notes)?;
    Ok(Combined {
        topology,
        notes,
        warnings,
    })
}

fn one_switch(nodes: Vec<Node>) -> Result<Topology, ReadError> {
    let names: HashSet<&str> = nodes.iter().map(|n| n.name.as_str()).collect();
    let name = free_name("switch1", |name| names.contains(name));
    Ok(Topology::on_one_switch(nodes, &name)?)
}

/// Looks up a host in the list by node name, host name, or either up to the first dot.
struct Places<'a> {
    names: HashMap<&'a str, usize>,
    hosts: &'a HashMap<String, usize>,
    /// `None` if several nodes share it.
    short: HashMap<&'a str, Option<usize>>,
}

fn short(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

impl<'a> Places<'a> {
    fn new(list: &'a NodeList) -> Self {
        let mut short_names: HashMap<&str, Option<usize>> = HashMap::new();
        let names = list.nodes.iter().map(|n| n.name.as_str()).zip(0..);
        let hosts = list
            .hosts
            .iter()
            .map(|(host, place)| (host.as_str(), *place));
        for (name, place) in names.clone().chain(hosts) {
            let one = short_names.entry(short(name)).or_insert(Some(place));
            *one = one.filter(|one| *one == place);
        }
        Self {
            names: names.collect(),
            hosts: &list.hosts,
            short: short_names,
        }
    }

    fn exact(&self, host: &str) -> Option<usize> {
        let by_name = self.names.get(host);
        by_name.or_else(|| self.hosts.get(host)).copied()
    }
}

/// Copies cores, memory, state, features and name from the list to the same nodes of the topology;
/// the topology's other nodes are no compute nodes.
fn fill(
    topology: &mut Topology,
    list: &NodeList,
    notes: &mut Vec<String>,
) -> Result<(), ReadError> {
    let places = Places::new(list);
    let hosts: Vec<String> = topology.nodes().iter().map(|n| n.name.clone()).collect();
    let mut of_host: Vec<Option<usize>> = hosts.iter().map(|h| places.exact(h)).collect();
    let mut taken = vec![false; list.nodes.len()];
    for place in of_host.iter_mut() {
        // Two hosts may match one node, one by its name and one by its host name.
        match *place {
            Some(at) if !taken[at] => taken[at] = true,
            _ => *place = None,
        }
    }
    let mut ambiguous: HashMap<&str, usize> = HashMap::new();
    for host in &hosts {
        *ambiguous.entry(short(host)).or_default() += 1;
    }
    for (host, place) in hosts.iter().zip(of_host.iter_mut()) {
        let only = ambiguous.get(short(host)) == Some(&1);
        let found = places.short.get(short(host)).copied().flatten();
        if let Some(at) = found.filter(|at| place.is_none() && only && !taken[*at]) {
            *place = Some(at);
            taken[at] = true;
        }
    }
    if !taken.contains(&true) {
        return Err(ReadError::NoneListed {
            list: named(list.nodes.iter().map(|n| n.name.as_str())),
            topology: named(hosts.iter().map(String::as_str)),
        });
    }
    topology.update_nodes(|index, node| {
        let Some(read) = of_host[index.get()].map(|at| &list.nodes[at]) else {
            node.compute = false;
            return;
        };
        if let Some(cores) = read.cores {
            node.set_cores(cores);
        }
        node.memory = read.memory.or(node.memory);
        node.free = read.free;
        node.features.clone_from(&read.features);
    });
    let renamed = of_host.iter().zip(topology.node_indices());
    let renamed: Vec<_> = renamed
        .filter_map(|(place, index)| Some((index, list.nodes[(*place)?].name.as_str())))
        .filter(|(index, name)| hosts[index.get()] != *name)
        .collect();
    if !renamed.is_empty() {
        topology.rename_nodes(&renamed)?;
    }
    let nodes = topology.nodes();
    let others = nodes.iter().filter(|n| !n.compute);
    let busy = nodes.iter().filter(|n| n.compute && !n.free);
    let absent = list.nodes.iter().zip(&taken).filter(|(_, taken)| !**taken);
    for (names, one, several) in [
        (
            others.map(|n| n.name.as_str()).collect::<Vec<_>>(),
            "missing from the list of nodes",
            "missing from the list of nodes",
        ),
        (
            busy.map(|n| n.name.as_str()).collect(),
            "not free",
            "not free",
        ),
        (
            absent.map(|(n, _)| n.name.as_str()).collect(),
            "missing from the topology",
            "missing from the topology",
        ),
    ] {
        let all = || named(names.iter().copied());
        match names.len() {
            0 => {}
            1 => notes.push(format!("no ranks on 1 node {one}: {}", all())),
            n => notes.push(format!("no ranks on {n} nodes {several}: {}", all())),
        }
    }
    Ok(())
}

/// Names, folded and cut.
fn named<'a>(names: impl Iterator<Item = &'a str>) -> String {
    // More names would be cut anyway.
    cut(&hostlist::fold(names.take(MOST_NAMES)))
}

/// What a fabric does not say: which of its hosts run jobs.
fn of_fabric(topology: &Topology, notes: &mut Vec<String>, warnings: &mut Vec<String>) {
    let names = || topology.nodes().iter().map(|n| n.name.as_str());
    let stem = |name| hostlist::split_number(short(name)).0;
    let mut stems: HashMap<&str, usize> = HashMap::new();
    for name in names() {
        *stems.entry(stem(name)).or_default() += 1;
    }
    let most = stems.iter().max_by_key(|(stem, count)| (**count, **stem));
    let others = names().filter(|name| Some(&stem(name)) != most.map(|(stem, _)| stem));
    let others: Vec<&str> = others.collect();
    match others.is_empty() {
        true => notes.push("ibnetdiscover does not say which hosts run jobs: all hosts are assumed to".to_owned()),
        false => warnings.push(format!(
            "ibnetdiscover does not say which hosts run jobs, and {} are named differently from the other nodes: add `scontrol show node`, or leave them out with --exclude",
            named(others.into_iter())
        )),
    }
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
                None => Some("one of the hwloc machines does not name its host".to_owned()),
                Some(name) if topology.node(name).is_none() => Some(format!(
                    "the hwloc machine {name:?} is not one of the nodes"
                )),
                Some(name) => by_host
                    .insert(name, machine)
                    .map(|_| format!("two hwloc machines describe host {name:?}")),
            };
            if let Some(why) = why {
                return Err(ReadError::Files { why });
            }
        }
    }
    let Some(first) = machines.first() else {
        return Ok(());
    };
    let shared = machines.iter().map(|m| m.domains.len()).max().unwrap_or(0);
    if shared.saturating_mul(topology.nodes().len()) > MOST_SHARED {
        let why = format!("{shared} memory domains on each node are too many");
        return Err(ReadError::Files { why });
    }
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
            // The resource manager's value takes precedence.
            node.memory = node.memory.or(machine.memory);
            if !machine.domains.is_empty() {
                node.domains = machine.domains.clone();
            }
        }
    });
    if taken == 0 {
        let why = "no node has as many cores as the hwloc machine";
        return Err(ReadError::Files {
            why: why.to_owned(),
        });
    }
    if machines.len() == 1 && all > 1 {
        notes.push(format!(
            "the hwloc machine describes {taken} of {all}",
            all = counted(all, "node")
        ));
    }
    Ok(())
}
