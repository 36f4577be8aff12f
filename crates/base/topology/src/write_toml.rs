//! Writes a topology in idlewave's own format.

use crate::form::{DomainForm, Form, Kind, LinkForm, NodeForm, SwitchForm};
use crate::hostlist::fold;
use crate::model::{Link, Node, Vertex};
use crate::shape::Shape;
use crate::topology::Topology;
use idlewave_units::{Bytes, BytesPerSecond};

/// The text of a topology; reading it gives an equal one. Tori, hypercubes and dragonflies are written as
/// numbers, all others as nodes, switches and links.
pub fn write_toml(topology: &Topology) -> String {
    let mut form = Form {
        node: nodes(topology),
        ..Form::default()
    };
    match &topology.shape {
        Shape::Graph => {
            form.switch = switches(topology);
            form.link = links(topology);
        }
        Shape::Torus(cube) if !cube.wrap && cube.dims.iter().all(|&size| size == 2) => {
            form.kind = Kind::Hypercube;
            form.dimension = Some(cube.dims.len() as u32);
            form.nodes_per_switch = Some(cube.nodes_per_switch);
        }
        Shape::Torus(torus) => {
            form.kind = Kind::Torus;
            form.dims = Some(torus.dims.clone());
            form.wrap = Some(torus.wrap);
            form.nodes_per_switch = Some(torus.nodes_per_switch);
        }
        Shape::Dragonfly(dragonfly) => {
            let numbers = dragonfly.numbers;
            form.kind = Kind::Dragonfly;
            form.groups = Some(numbers.groups);
            form.switches_per_group = Some(numbers.switches_per_group);
            form.nodes_per_switch = Some(numbers.nodes_per_switch);
            form.global_links_per_switch = Some(numbers.global_links_per_switch);
        }
    }
    if form.kind != Kind::Graph {
        // Generated topologies have one capacity for nodes and one for switches.
        let of = |switches: bool| {
            let mut links = topology.links().iter();
            let link = links.find(|l| between_switches(l) == switches);
            link.and_then(Link::capacity_per_cable)
        };
        form.capacity = of(false).map(text);
        form.uplink_capacity = of(true)
            .map(text)
            .filter(|c| form.capacity.as_ref() != Some(c));
        // Nodes without known properties are left out.
        let plain = |n: &NodeForm| {
            let named = NodeForm {
                name: n.name.clone(),
                ..NodeForm::default()
            };
            *n == named
        };
        form.node.retain(|n| !plain(n));
    }
    // TOML can represent every value.
    toml::to_string(&form).unwrap_or_default()
}

fn between_switches(link: &Link) -> bool {
    matches!((link.from, link.to), (Vertex::Switch(_), Vertex::Switch(_)))
}

fn text(capacity: BytesPerSecond) -> String {
    capacity.to_string()
}

/// Consecutive nodes with equal properties as one entry.
fn nodes(topology: &Topology) -> Vec<NodeForm> {
    let same = |a: &Node, b: &Node| {
        let name = a.name.clone();
        *a == Node { name, ..b.clone() }
    };
    let groups = topology.nodes().chunk_by(same);
    groups
        .map(|group| {
            let node = &group[0];
            let domain = |d: &crate::model::MemoryDomain| DomainForm {
                cores: d.cores,
                memory: d.memory.map(Bytes::exact_text),
            };
            NodeForm {
                name: fold(group.iter().map(|n| n.name.as_str())),
                cores: node.cores,
                memory: node.memory.map(Bytes::exact_text),
                free: (!node.free).then_some(false),
                compute: (!node.compute).then_some(false),
                features: node.features.clone(),
                domains: node.domains.iter().map(domain).collect(),
            }
        })
        .collect()
}

fn switches(topology: &Topology) -> Vec<SwitchForm> {
    let groups = topology.switches().chunk_by(|a, b| a.level == b.level);
    groups
        .map(|group| SwitchForm {
            name: fold(group.iter().map(|s| s.name.as_str())),
            level: group[0].level,
        })
        .collect()
}

/// One direction of each cable; consecutive ones to the same vertex as one entry.
fn links(topology: &Topology) -> Vec<LinkForm> {
    let cables: Vec<&Link> = topology.links().iter().step_by(2).collect();
    let same = |a: &&Link, b: &&Link| (a.to, a.cables, a.capacity) == (b.to, b.cables, b.capacity);
    cables
        .chunk_by(same)
        .map(|group| LinkForm {
            from: fold(group.iter().map(|l| topology.name(l.from))),
            to: topology.name(group[0].to).to_owned(),
            cables: Some(group[0].cables).filter(|c| *c != 1),
            capacity: group[0].capacity_per_cable().map(text),
        })
        .collect()
}
