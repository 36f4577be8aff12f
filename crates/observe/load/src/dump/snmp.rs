//! What `snmpwalk` of Net-SNMP prints of a switch: objects of IF-MIB (RFC 2863) by name or by number.
//!
//! `sysName.0` says which switch the lines after it are of, so walks of several switches may stand
//! in one file.

use super::port::{Counts, Device, Port};
use crate::error::LoadError;
use crate::rate::Counter;
use std::collections::BTreeMap;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Object {
    SysName,
    Descr,
    In32,
    Out32,
    Name,
    In64,
    Out64,
    Alias,
}

/// Objects with their names and numbers, below 1.3.6.1.2.1.
const OBJECTS: [(Object, &str, &str); 8] = [
    (Object::SysName, "sysName", "1.5"),
    (Object::Descr, "ifDescr", "2.2.1.2"),
    (Object::In32, "ifInOctets", "2.2.1.10"),
    (Object::Out32, "ifOutOctets", "2.2.1.16"),
    (Object::Name, "ifName", "31.1.1.1.1"),
    (Object::In64, "ifHCInOctets", "31.1.1.1.6"),
    (Object::Out64, "ifHCOutOctets", "31.1.1.1.10"),
    (Object::Alias, "ifAlias", "31.1.1.1.18"),
];

/// The beginnings of mib-2 in numbers: with `-On`, without options where no MIB is loaded.
const MIB_2: [&str; 3] = [".1.3.6.1.2.1.", "iso.3.6.1.2.1.", "1.3.6.1.2.1."];

/// The object and the index of a line's left side; `None` for other objects.
fn object(left: &str) -> Option<(Object, u32)> {
    let (object, index) = left.trim().rsplit_once('.')?;
    let index = index.parse().ok()?;
    let number = MIB_2.iter().find_map(|start| object.strip_prefix(start));
    let name = object.rsplit("::").next().unwrap_or(object);
    let found = OBJECTS.iter().find(|(_, word, numbers)| match number {
        Some(number) => number == *numbers,
        None => name == *word,
    });
    found.map(|(object, _, _)| (*object, index))
}

/// Whether a text has one of the objects.
pub(super) fn is_walk(text: &str) -> bool {
    let mut lines = text.lines().filter_map(|line| line.split_once(" = "));
    lines.any(|(left, _)| object(left).is_some())
}

#[derive(Default)]
struct Interface {
    descr: Option<String>,
    name: Option<String>,
    alias: Option<String>,
    bytes32: [Option<u64>; 2],
    bytes64: [Option<u64>; 2],
}

impl Interface {
    fn called(&self) -> &str {
        let names = [&self.name, &self.descr].into_iter().flatten();
        let mut names = names.filter(|name| !name.is_empty());
        names.next().map_or("", String::as_str)
    }

    fn port(self, of: &Device, port: String) -> Port {
        let pair = |[sent, received]: [Option<u64>; 2], counter| {
            let (sent, received) = sent.zip(received)?;
            Some(Counts {
                counter,
                sent,
                received,
            })
        };
        let counts =
            pair(self.bytes64, Counter::Bytes64).or_else(|| pair(self.bytes32, Counter::Bytes32));
        let peer = self.alias.filter(|alias| !alias.is_empty());
        Port {
            of: of.clone(),
            port,
            peer: peer.map(|alias| Device {
                name: Some(alias),
                ..Device::default()
            }),
            counts,
        }
    }
}

/// The ports of a switch. Names that are not unique get the index behind them.
fn finish(of: &Device, interfaces: BTreeMap<u32, Interface>) -> Vec<Port> {
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    for one in interfaces.values() {
        *times.entry(one.called().to_owned()).or_default() += 1;
    }
    let ports = interfaces.into_iter().map(|(index, one)| {
        let port = match one.called() {
            "" => index.to_string(),
            name if times.get(name) == Some(&1) => name.to_owned(),
            name => format!("{name} ({index})"),
        };
        one.port(of, port)
    });
    ports.collect()
}

pub(super) fn walk(text: &str) -> Result<Vec<Port>, LoadError> {
    let mut ports = Vec::new();
    let mut switch = Device::default();
    let mut interfaces: BTreeMap<u32, Interface> = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        // Values of several lines continue without an object.
        let Some((left, value)) = line.split_once(" = ") else {
            continue;
        };
        let Some((object, index)) = object(left) else {
            continue;
        };
        // `No Such Instance currently exists at this OID` has no type, nor has an empty text.
        let (kind, value) = value.split_once(": ").unwrap_or(("", ""));
        let words = || Some(value.trim().trim_matches('"').trim().to_owned());
        let number = || match kind {
            "" => Ok(None),
            _ => {
                let why = "expected a counter";
                let value = value.trim().parse::<u64>();
                value
                    .map(Some)
                    .map_err(|_| LoadError::line(at + 1, line, why))
            }
        };
        if object == Object::SysName {
            let done = std::mem::take(&mut interfaces);
            ports.extend(finish(&switch, done));
            switch.name = words().filter(|name| !name.is_empty());
            continue;
        }
        let one = interfaces.entry(index).or_default();
        match object {
            Object::SysName => {}
            Object::Descr => one.descr = words(),
            Object::Name => one.name = words(),
            Object::Alias => one.alias = words(),
            Object::Out32 => one.bytes32[0] = number()?,
            Object::In32 => one.bytes32[1] = number()?,
            Object::Out64 => one.bytes64[0] = number()?,
            Object::In64 => one.bytes64[1] = number()?,
        }
    }
    ports.extend(finish(&switch, interfaces));
    if ports.iter().any(|port| port.of.is_unknown()) {
        let why = "it does not say which switch it is of: walk sysName first, into the same file";
        return Err(LoadError::Text(why.to_owned()));
    }
    Ok(ports)
}
