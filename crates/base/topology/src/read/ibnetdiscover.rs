//! The saved output of `ibnetdiscover`: switches and adapters of an InfiniBand network with the
//! cables of their ports.
//!
//! Source: ibnetdiscover(8) of infiniband-diags (rdma-core 50); rates of lanes from the InfiniBand
//! architecture specification, volume 2.

use super::{Content, Read};
use crate::model::{Cable, Node, NodeIndex, Switch, SwitchIndex, Vertex};
use crate::read::{Format, ReadError};
use crate::topology::{MAX_CABLES, Topology, count, free_name, is_name};
use idlewave_units::BytesPerSecond;
use std::collections::{BTreeMap, HashMap, HashSet};

/// What a block describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Switch,
    Adapter,
    Router,
}

/// A block: one switch, adapter or router.
struct Device {
    line: usize,
    kind: Kind,
    guid: String,
    description: String,
}

/// A line of a port with a cable.
struct Port {
    line: usize,
    /// The device and the number of the port.
    own: (usize, u32),
    peer: (String, u32),
    capacity: Option<BytesPerSecond>,
}

/// Reads the network.
///
/// Adapters whose descriptions start with the same host name are ports of one node. Parallel cables
/// become one link.
///
/// # Errors
/// An invalid line of a port, duplicate devices, or a cable to a missing device.
pub(super) fn read(text: &str) -> Result<Read, ReadError> {
    let mut devices: Vec<Device> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut ports: Vec<Port> = Vec::new();
    for (place, content) in text.lines().enumerate() {
        let line = place + 1;
        let trimmed = content.trim();
        let word = trimmed.split_whitespace().next().unwrap_or_default();
        let kind = match word {
            "Switch" => Some(Kind::Switch),
            "Ca" => Some(Kind::Adapter),
            "Rt" => Some(Kind::Router),
            _ => None,
        };
        if let Some(kind) = kind {
            let device = device(line, kind, trimmed)?;
            if let Some(first) = places.insert(device.guid.clone(), devices.len()) {
                return Err(ReadError::Repeated {
                    line,
                    what: "the device",
                    name: device.guid,
                    first: devices[first].line,
                });
            }
            devices.push(device);
        } else if trimmed.starts_with('[') {
            let Some(own) = devices.len().checked_sub(1) else {
                let why = "a port must follow its Switch or Ca";
                return Err(ReadError::line(line, trimmed, why));
            };
            ports.push(port(line, own, trimmed)?);
            count("cables", ports.len() as u64, 0, 2 * MAX_CABLES as u64)?;
        }
        // Other lines are identifiers (vendid=...), headings and comments.
    }
    assemble(&devices, &places, &ports)
}

/// `Switch 36 "S-0002c90200000001" # "description" ...`
fn device(line: usize, kind: Kind, text: &str) -> Result<Device, ReadError> {
    let (before, comment) = text.split_once('#').unwrap_or((text, ""));
    let guid = quoted(before).filter(|guid| is_name(guid));
    let Some(guid) = guid else {
        let why = "the identifier of the device in quotes is missing";
        return Err(ReadError::line(line, text, why));
    };
    Ok(Device {
        line,
        kind,
        guid: guid.to_owned(),
        description: quoted(comment).unwrap_or_default().trim().to_owned(),
    })
}

/// `[1](guid) "S-0002c90200000001"[17] # ... 4xHDR`
fn port(line: usize, own: usize, text: &str) -> Result<Port, ReadError> {
    let wrong = || {
        let why = "a port is written as [number] \"device\"[number]";
        ReadError::line(line, text, why)
    };
    let number = |text: &str| {
        let (number, _) = text.strip_prefix('[')?.split_once(']')?;
        number.trim().parse::<u32>().ok()
    };
    let own_port = number(text).ok_or_else(wrong)?;
    let (_, behind) = text.split_once('"').ok_or_else(wrong)?;
    let (guid, behind) = behind.split_once('"').ok_or_else(wrong)?;
    let peer_port = number(behind.trim_start()).ok_or_else(wrong)?;
    let comment = behind.split_once('#').map_or("", |(_, comment)| comment);
    // After the description, which may contain anything.
    let behind = comment.rsplit('"').next().unwrap_or_default();
    Ok(Port {
        line,
        own: (own, own_port),
        peer: (guid.to_owned(), peer_port),
        capacity: behind.split_whitespace().find_map(rate),
    })
}

fn quoted(text: &str) -> Option<&str> {
    let (_, behind) = text.split_once('"')?;
    Some(behind.split_once('"')?.0)
}

/// Data rate of `4xHDR`: lanes times the data rate of a lane after encoding.
fn rate(width_and_speed: &str) -> Option<BytesPerSecond> {
    let (width, speed) = width_and_speed.split_once('x')?;
    let lanes = width
        .parse::<u32>()
        .ok()
        .filter(|w| [1, 2, 4, 8, 12].contains(w))?;
    // Gbit/s of a lane: 8 of 10 bits are data up to QDR, 64 of 66 from FDR-10 on.
    let lane = match speed {
        "SDR" => 2.5 * 0.8,
        "DDR" => 5.0 * 0.8,
        "QDR" => 10.0 * 0.8,
        "FDR10" => 10.3125 * 64.0 / 66.0,
        "FDR" => 14.0625 * 64.0 / 66.0,
        "EDR" => 25.78125 * 64.0 / 66.0,
        // Nominal data rates of lanes with four-level signals.
        "HDR" => 50.0,
        "NDR" => 100.0,
        "XDR" => 200.0,
        _ => return None,
    };
    BytesPerSecond::from_bits(f64::from(lanes) * lane * 1e9)
}

fn assemble(
    devices: &[Device],
    places: &HashMap<String, usize>,
    ports: &[Port],
) -> Result<Read, ReadError> {
    let names = switch_names(devices);
    let (mut nodes, mut switches) = (Vec::new(), Vec::new());
    let mut of_host: HashMap<String, usize> = HashMap::new();
    let mut vertices: Vec<Option<Vertex>> = Vec::with_capacity(devices.len());
    let (mut routers, mut aggregation, mut unnamed) = (0, 0, 0);
    for (place, device) in devices.iter().enumerate() {
        let vertex = match device.kind {
            Kind::Router => {
                routers += 1;
                None
            }
            // An adapter inside a switch, for operations in the switch.
            Kind::Adapter if device.description.contains("Aggregation Node") => {
                aggregation += 1;
                None
            }
            Kind::Adapter => {
                let host = host(&device.description).unwrap_or_else(|| {
                    unnamed += 1;
                    device.guid.clone()
                });
                let node = *of_host.entry(host.clone()).or_insert_with(|| {
                    nodes.push(Node::new(host));
                    nodes.len() - 1
                });
                Some(Vertex::Node(NodeIndex::new(node)))
            }
            Kind::Switch => {
                let name = names.get(&place).cloned().unwrap_or_default();
                switches.push(Switch::new(name));
                Some(Vertex::Switch(SwitchIndex::new(switches.len() - 1)))
            }
        };
        vertices.push(vertex);
    }
    // A host may have the name of a switch.
    let mut taken: HashSet<String> = switches.iter().map(|s| s.name.clone()).collect();
    for switch in &mut switches {
        if of_host.contains_key(&switch.name) {
            let wanted = format!("{}-switch", switch.name);
            let is_taken = |name: &str| of_host.contains_key(name) || taken.contains(name);
            switch.name = free_name(&wanted, is_taken);
            taken.insert(switch.name.clone());
        }
    }
    let cables = cables(devices, places, ports, &vertices)?;
    if nodes.is_empty() {
        return Err(ReadError::Nothing {
            what: "an adapter (a line that begins with Ca)",
        });
    }
    let mut notes = Vec::new();
    let mut note = |number: usize, text: &str| {
        if number > 0 {
            notes.push(format!("{number} {text}"));
        }
    };
    note(routers, "router(s) left out, with their cables");
    note(aggregation, "aggregation node(s) inside switches left out");
    note(
        unnamed,
        "node(s) are named after their adapter, which has no host name",
    );
    let topology = Topology::from_cables(nodes, switches, &cables)?;
    Ok(Read {
        format: Format::Ibnetdiscover,
        content: Content::Topology(Box::new(topology)),
        notes,
    })
}

/// Each cable is listed at both of its ends, or at one if the other did not respond.
fn cables(
    devices: &[Device],
    places: &HashMap<String, usize>,
    ports: &[Port],
    vertices: &[Option<Vertex>],
) -> Result<Vec<Cable>, ReadError> {
    let mut cables = Vec::new();
    let mut used: HashMap<(usize, u32), (usize, u32)> = HashMap::new();
    let mut lines: HashSet<(usize, u32)> = HashSet::new();
    for port in ports {
        let name = |(device, number): (usize, u32)| format!("{}[{number}]", devices[device].guid);
        let Some(peer) = places.get(&port.peer.0).copied() else {
            let why = "no Switch, Ca or Rt line describes the device at its other end";
            return Err(ReadError::line(port.line, &port.peer.0, why));
        };
        let peer = (peer, port.peer.1);
        if !lines.insert(port.own) {
            let why = "this port already has a line";
            return Err(ReadError::line(port.line, &name(port.own), why));
        }
        let ends = [(port.own, peer), (peer, port.own)];
        if used.get(&port.own) == Some(&peer) {
            continue;
        }
        for (a, b) in ends {
            if let Some(other) = used.insert(a, b) {
                let why = format!("{} already has a cable to {}", name(a), name(other));
                return Err(ReadError::line(port.line, &name(b), why));
            }
        }
        if let (Some(a), Some(b)) = (vertices[port.own.0], vertices[peer.0]) {
            // A cable from a device to itself connects nothing: two ports of a host, a test loop.
            if a != b {
                cables.push(Cable {
                    capacity: port.capacity,
                    ..Cable::new(a, b)
                });
            }
        }
    }
    Ok(cables)
}

/// The host name in an adapter's description (`node01 HCA-1`, `node01 mlx5_0`); `None` for the
/// maker's text.
fn host(description: &str) -> Option<String> {
    let makers = [
        "Mellanox Technologies",
        "InfiniHost",
        "ConnectX",
        "Infiniband HCA",
    ];
    if makers.iter().any(|maker| description.contains(maker)) {
        return None;
    }
    let first = description.split_whitespace().next()?;
    let first = first.trim_matches('\'');
    is_name(first).then(|| first.to_owned())
}

/// What a device of InfiniBand may be called here, by its description: the host name of an adapter
/// (`node01 HCA-1`), the short name of a switch, its whole description with dashes.
pub fn names_in_description(description: &str) -> Vec<String> {
    let forms = [host, short, whole];
    let mut names: Vec<String> = forms.iter().filter_map(|form| form(description)).collect();
    names.dedup();
    names
}

/// Names of switches by index: the first unique one of host-like name, whole description and
/// identifier.
fn switch_names(devices: &[Device]) -> HashMap<usize, String> {
    let switches = || {
        devices
            .iter()
            .enumerate()
            .filter(|(_, d)| d.kind == Kind::Switch)
    };
    let mut names = HashMap::new();
    let mut taken: HashSet<String> = switches().map(|(_, d)| d.guid.clone()).collect();
    for form in [short, whole] {
        let mut by_name: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (place, device) in switches().filter(|(p, _)| !names.contains_key(p)) {
            if let Some(name) = form(&device.description) {
                by_name.entry(name).or_default().push(place);
            }
        }
        for (name, places) in by_name {
            if let [place] = places.as_slice() {
                if taken.insert(name.clone()) {
                    names.insert(*place, name);
                }
            }
        }
    }
    for (place, device) in switches() {
        names.entry(place).or_insert_with(|| device.guid.clone());
    }
    names
}

/// `MF0;sw-leaf-01:MQM8700/U1` is `sw-leaf-01`; a description of one word is that word.
fn short(description: &str) -> Option<String> {
    let name = match description.split_once(';') {
        Some((_, managed)) => managed.split(':').next().unwrap_or_default(),
        None => description,
    };
    let name = name.trim().trim_matches('\'');
    is_name(name).then(|| name.to_owned())
}

/// The whole text with dashes for characters that names cannot contain.
fn whole(description: &str) -> Option<String> {
    let parts = description.split(|c: char| !c.is_alphanumeric() && !"_.".contains(c));
    let parts: Vec<&str> = parts.filter(|p| !p.is_empty()).collect();
    Some(parts.join("-")).filter(|name| is_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_what_a_lane_carries_after_its_encoding_times_the_lanes() {
        let gigabits = |text: &str| rate(text).unwrap().bits() / 1e9;
        assert_eq!(gigabits("4xSDR"), 8.0);
        assert_eq!(gigabits("8xDDR"), 32.0);
        assert_eq!(gigabits("4xQDR"), 32.0);
        assert_eq!(gigabits("4xFDR10"), 40.0);
        assert_eq!(gigabits("12xXDR"), 2400.0);
        assert!((gigabits("4xFDR") - 54.545_454).abs() < 1e-5);
        assert_eq!(gigabits("4xEDR"), 100.0);
        assert_eq!(gigabits("2xHDR"), 100.0);
        assert_eq!(gigabits("4xHDR"), 200.0);
        assert_eq!(gigabits("4xNDR"), 400.0);
        for none in ["3xHDR", "4xZDR", "HDR", "4x", "lid"] {
            assert_eq!(rate(none), None, "{none}");
        }
    }

    #[test]
    fn hosts_and_switches_are_named_by_their_descriptions() {
        assert_eq!(host("node01 HCA-1").as_deref(), Some("node01"));
        assert_eq!(host("'node02 mlx5_0'").as_deref(), Some("node02"));
        assert_eq!(host("MT4123 ConnectX6 Mellanox Technologies"), None);
        assert_eq!(host(""), None);
        assert_eq!(short("MF0;leaf-01:MQM8700/U1").as_deref(), Some("leaf-01"));
        assert_eq!(short("SwitchX -  Mellanox Technologies"), None);
        assert_eq!(
            whole("dir:IS5600/S01/U1").as_deref(),
            Some("dir-IS5600-S01-U1")
        );
    }
}
