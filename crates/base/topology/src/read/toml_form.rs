//! idlewave's own format: a few numbers, or every node, switch and cable.

use super::combine::MOST_SHARED;
use super::{Content, Read};
use crate::build::{FatTree, Pods};
use crate::form::{DomainForm, Form, Kind, LinkForm, NodeForm};
use crate::hostlist;
use crate::model::{Cable, MemoryDomain, Node, NodeIndex, Switch, SwitchIndex, Vertex};
use crate::read::{Format, ReadError};
use crate::shape::Dragonfly;
use crate::topology::{MAX_CABLES, MAX_NODES, MAX_SWITCHES, Topology, count};
use idlewave_units::foreign::at_line;
use std::collections::HashMap;
use std::fmt::Display;
use std::str::FromStr;

fn structure(why: impl Into<String>) -> ReadError {
    let format = "the TOML text";
    let why = why.into();
    ReadError::Structure { format, why }
}

/// Reads a topology.
///
/// # Errors
/// Text that is not TOML, unknown, missing or misplaced keys, unknown or duplicate names.
pub(super) fn read(text: &str) -> Result<Read, ReadError> {
    let form: Form =
        toml::from_str(text).map_err(|e| structure(at_line(text, e.span(), e.message())))?;
    form.only_keys_of_its_kind().map_err(structure)?;
    let mut shared = 0;
    for table in &form.node {
        let each = table.domains.len().max(table.features.len());
        // Names are at least as long as their list has commas.
        if each > 1 {
            shared += each.saturating_mul(names(&table.name)?.len());
        }
        if shared > MOST_SHARED {
            return Err(structure(
                "its nodes have more than 64 million domains or features in all",
            ));
        }
    }
    let mut topology = match form.kind {
        Kind::Graph => graph(&form)?,
        _ => built(&form)?,
    };
    if let Some(cores) = form.cores {
        count("cores", u64::from(cores), 1, u64::from(u32::MAX))?;
        topology.update_nodes(|_, node| node.cores = node.cores.or(Some(cores)));
    }
    if let memory @ Some(_) = amount(form.memory.as_ref())? {
        topology.update_nodes(|_, node| node.memory = node.memory.or(memory));
    }
    for node in topology.nodes().iter().filter(|n| !n.domains.is_empty()) {
        let in_domains = node.cores_of_domains();
        if let Some(cores) = node.cores.filter(|&c| u64::from(c) != in_domains) {
            return Err(structure(format!(
                "node {:?} has {cores} cores, and {in_domains} in its domains",
                node.name
            )));
        }
    }
    Ok(Read {
        format: Format::Toml,
        content: Content::Topology(Box::new(topology)),
        notes: Vec::new(),
    })
}

fn names(list: &str) -> Result<Vec<String>, ReadError> {
    hostlist::expand(list).map_err(|e| structure(e.to_string()))
}

/// A capacity or an amount of memory.
fn amount<T: FromStr<Err: Display>>(text: Option<&String>) -> Result<Option<T>, ReadError> {
    let read = text.map(|t| t.parse()).transpose();
    read.map_err(|e: T::Err| structure(e.to_string()))
}

/// From numbers; tables of nodes override properties of single nodes.
fn built(form: &Form) -> Result<Topology, ReadError> {
    let wanted = |number: Option<u32>, key: &str| {
        let why = || structure(format!("{} needs the key {key}", form.kind.name()));
        number.ok_or_else(why)
    };
    let topology = match form.kind {
        Kind::Star => Topology::star(wanted(form.nodes, "nodes")? as usize),
        Kind::FatTree => Topology::fat_tree(FatTree {
            nodes_per_leaf: wanted(form.nodes_per_leaf, "nodes_per_leaf")?,
            leaves: wanted(form.leaves, "leaves")?,
            spines: wanted(form.spines, "spines")?,
            cables_per_spine: form.cables_per_spine.unwrap_or(1),
            pods: match (form.pods, form.cores_per_spine, form.cables_per_core) {
                (None, None, None) => None,
                (pods, cores, cables) => Some(Pods {
                    pods: wanted(pods, "pods, as it has keys of the third level,")?,
                    cores_per_spine: wanted(cores, "cores_per_spine, as it has pods,")?,
                    cables_per_core: cables.unwrap_or(1),
                }),
            },
        }),
        Kind::Torus => {
            let dims = form.dims.as_deref();
            let dims = dims.ok_or_else(|| structure("a torus needs the key dims"))?;
            let nodes = form.nodes_per_switch.unwrap_or(1);
            Topology::torus_of(dims, form.wrap.unwrap_or(true), nodes)
        }
        Kind::Hypercube => Topology::hypercube(
            wanted(form.dimension, "dimension")?,
            form.nodes_per_switch.unwrap_or(1),
        ),
        Kind::Dragonfly => Topology::dragonfly(Dragonfly {
            groups: wanted(form.groups, "groups")?,
            switches_per_group: wanted(form.switches_per_group, "switches_per_group")?,
            nodes_per_switch: wanted(form.nodes_per_switch, "nodes_per_switch")?,
            global_links_per_switch: wanted(
                form.global_links_per_switch,
                "global_links_per_switch",
            )?,
        }),
        Kind::Graph => return graph(form),
    };
    let mut topology = topology?;
    if let Some(rate) = amount(form.capacity.as_ref())? {
        topology = topology.with_capacity(rate);
    }
    if let Some(rate) = amount(form.uplink_capacity.as_ref())? {
        topology = topology.with_uplink_capacity(rate);
    }
    let mut changed: HashMap<NodeIndex, Node> = HashMap::new();
    for table in &form.node {
        for name in names(&table.name)? {
            let index = topology.node(&name);
            let index = index.ok_or_else(|| {
                let kind = form.kind.name();
                structure(format!("the {kind} has no node {name:?}"))
            })?;
            let node = node(table, name)?;
            if let Some(twice) = changed.insert(index, node) {
                return Err(structure(format!("node {:?} is defined twice", twice.name)));
            }
        }
    }
    topology.update_nodes(|index, node| {
        if let Some(new) = changed.remove(&index) {
            *node = new;
        }
    });
    Ok(topology)
}

fn node(table: &NodeForm, name: String) -> Result<Node, ReadError> {
    let domain = |domain: &DomainForm| {
        Ok::<_, ReadError>(MemoryDomain {
            cores: domain.cores,
            memory: amount(domain.memory.as_ref())?,
        })
    };
    if table.cores == Some(0) {
        return Err(structure(format!(
            "node {name:?} has 0 cores; omit the key"
        )));
    }
    let in_domains: u64 = table.domains.iter().map(|d| u64::from(d.cores)).sum();
    let of_domains = u32::try_from(in_domains).ok().filter(|&cores| cores > 0);
    Ok(Node {
        cores: table.cores.or(of_domains),
        memory: amount(table.memory.as_ref())?,
        domains: table.domains.iter().map(domain).collect::<Result<_, _>>()?,
        free: table.free.unwrap_or(true),
        compute: table.compute.unwrap_or(true),
        features: table.features.clone(),
        name,
    })
}

/// From tables of everything.
fn graph(form: &Form) -> Result<Topology, ReadError> {
    let (mut nodes, mut switches) = (Vec::new(), Vec::new());
    for table in &form.node {
        for name in names(&table.name)? {
            nodes.push(node(table, name)?);
            count("nodes", nodes.len() as u64, 1, MAX_NODES as u64)?;
        }
    }
    for table in &form.switch {
        let level = table.level;
        if level == Some(0) {
            let name = &table.name;
            return Err(structure(format!(
                "switch {name:?} has level 0; leaves have level 1"
            )));
        }
        for name in names(&table.name)? {
            switches.push(Switch { name, level });
            count("switches", switches.len() as u64, 0, MAX_SWITCHES as u64)?;
        }
    }
    let mut vertices: HashMap<&str, Vertex> = HashMap::new();
    let of_nodes = (0..).map(|n| Vertex::Node(NodeIndex::new(n)));
    let of_switches = (0..).map(|s| Vertex::Switch(SwitchIndex::new(s)));
    vertices.extend(nodes.iter().map(|n| n.name.as_str()).zip(of_nodes));
    vertices.extend(switches.iter().map(|s| s.name.as_str()).zip(of_switches));
    let all = amount(form.capacity.as_ref())?;
    let upper = amount(form.uplink_capacity.as_ref())?;
    let mut cables = Vec::new();
    for table in &form.link {
        let own = amount(table.capacity.as_ref())?;
        let vertex = |name: &String| {
            let found = vertices.get(name.as_str()).copied();
            found.ok_or_else(|| {
                structure(format!(
                    "a link names {name:?}, which is not a node or switch"
                ))
            })
        };
        let (from, to) = ends(table, cables.len())?;
        for a in &from {
            for b in &to {
                let (a, b) = (vertex(a)?, vertex(b)?);
                let switches = matches!((a, b), (Vertex::Switch(_), Vertex::Switch(_)));
                cables.push(Cable {
                    a,
                    b,
                    capacity: own.or(upper.filter(|_| switches)).or(all),
                    count: table.cables.unwrap_or(1),
                });
            }
        }
    }
    Ok(Topology::from_cables(nodes, switches, &cables)?)
}

/// Names of both ends of links, up to the limit on cables.
fn ends(table: &LinkForm, there: usize) -> Result<(Vec<String>, Vec<String>), ReadError> {
    let (from, to) = (names(&table.from)?, names(&table.to)?);
    let more = from.len().saturating_mul(to.len());
    let cables = there.saturating_add(more) as u64;
    count("cables", cables, 0, MAX_CABLES as u64)?;
    Ok((from, to))
}
