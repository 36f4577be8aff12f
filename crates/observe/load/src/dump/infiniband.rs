//! What the tools of infiniband-diags print (perfquery(8), ibqueryerrors(8), iblinkinfo(8)).

use super::port::{Counts, Device, Port};
use crate::error::LoadError;
use crate::rate::Counter;

/// The number that stands for all ports of a device together.
const ALL_PORTS: &str = "255";

/// `perfquery`, one output after the other:
///
/// ```text
/// # Port extended counters: Lid 12 port 1 (CapMask: 0x5300)
/// PortXmitData:....................36298026860928
/// ```
pub(super) fn perfquery(text: &str) -> Result<Vec<Port>, LoadError> {
    let mut ports: Vec<Port> = Vec::new();
    let mut open: Option<Open> = None;
    for (at, line) in text.lines().enumerate() {
        if let Some(head) = line.strip_prefix('#') {
            ports.extend(open.take().and_then(Open::close));
            open = heading(head).map_err(|why| LoadError::line(at + 1, line, why))?;
            continue;
        }
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        let Some(open) = &mut open else { continue };
        let count = match key.trim() {
            "PortXmitData" => &mut open.sent,
            "PortRcvData" => &mut open.received,
            _ => continue,
        };
        let value = value.trim_start_matches('.').trim().parse::<u64>();
        let why = "expected a number after the dots";
        *count = Some(value.map_err(|_| LoadError::line(at + 1, line, why))?);
    }
    ports.extend(open.and_then(Open::close));
    Ok(ports)
}

/// A port whose counters follow.
struct Open {
    lid: u32,
    port: String,
    counter: Counter,
    sent: Option<u64>,
    received: Option<u64>,
}

impl Open {
    fn close(self) -> Option<Port> {
        let counts = self.sent.zip(self.received).map(|(sent, received)| Counts {
            counter: self.counter,
            sent,
            received,
        });
        (self.port != ALL_PORTS).then_some(Port {
            of: Device {
                lid: Some(self.lid),
                ..Device::default()
            },
            port: self.port,
            peer: None,
            counts,
        })
    }
}

/// The port of a heading; `None` for other counters.
fn heading(head: &str) -> Result<Option<Open>, &'static str> {
    let Some((what, rest)) = head.split_once(':') else {
        return Ok(None);
    };
    let counter = match what.trim() {
        "Port counters" => Counter::Words32,
        "Port extended counters" => Counter::Words64,
        _ => return Ok(None),
    };
    let words: Vec<&str> = rest.split_whitespace().collect();
    let ["Lid", lid, "port", port, ..] = words.as_slice() else {
        return Err("expected Lid and port: query by LID, not by a path");
    };
    let lid = lid.parse().map_err(|_| "the LID is no number")?;
    let port: u32 = port.parse().map_err(|_| "the port is no number")?;
    Ok(Some(Open {
        lid,
        port: port.to_string(),
        counter,
        sent: None,
        received: None,
    }))
}

/// `ibqueryerrors --data -r`:
///
/// ```text
/// Data Counters for 0x0002c902004b1b48 "leaf1"
///    GUID 0x0002c902004b1b48 port 3: [PortXmitData == 198 (1.1MB)] [PortRcvData == 155 (2.2MB)]
///        Link info:    7   3[  ] ==( 4X 25.78125 Gbps Active/  LinkUp)==>  0x0002c903000e0b72  9  1[  ] "n1 HCA-1" ( )
/// ```
pub(super) fn ibqueryerrors(text: &str) -> Result<Vec<Port>, LoadError> {
    let mut ports: Vec<Port> = Vec::new();
    let mut device = Device::default();
    for (at, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        if let Some((_, rest)) = line.split_once(" for 0x").filter(|_| line == trimmed) {
            let guid = rest.split_whitespace().next().unwrap_or_default();
            device = Device {
                lid: None,
                guid: Some(format!("0x{guid}")),
                name: quoted(rest),
            };
        } else if let Some(rest) = trimmed.strip_prefix("GUID 0x") {
            let wrong = |why| LoadError::line(at + 1, line, why);
            let (head, counters) = rest.split_once(':').ok_or_else(|| wrong("no counters"))?;
            let port = head.split_whitespace().last().unwrap_or_default();
            if port == "ALL" || port == ALL_PORTS {
                continue;
            }
            let port: u32 = port.parse().map_err(|_| wrong("the port is no number"))?;
            let value = |name| count(counters, name).map_err(wrong);
            let both = value("[PortXmitData == ")?.zip(value("[PortRcvData == ")?);
            ports.push(Port {
                of: device.clone(),
                port: port.to_string(),
                peer: None,
                counts: both.map(|(sent, received)| Counts {
                    counter: Counter::Words64,
                    sent,
                    received,
                }),
            });
        } else if let Some(rest) = trimmed.strip_prefix("Link info:") {
            let Some((own, peer)) = link(rest) else {
                return Err(LoadError::line(at + 1, line, "not the form of a link"));
            };
            if let Some(last) = ports.last_mut().filter(|p| p.port == own.port) {
                last.of.lid = own.device.lid;
                last.peer = peer.map(|end| end.device);
            }
        }
    }
    Ok(ports)
}

/// The number after a name in brackets; `None` if there is no such name.
fn count(counters: &str, name: &str) -> Result<Option<u64>, &'static str> {
    let Some((_, rest)) = counters.split_once(name) else {
        return Ok(None);
    };
    let digits: &str = rest.split([' ', ']']).next().unwrap_or_default();
    let value = digits.parse().map_err(|_| "expected a number after ==")?;
    Ok(Some(value))
}

/// `iblinkinfo`, with a heading per device, or all on one line (`-l`):
///
/// ```text
/// Switch: 0x0002c902004b1b48 leaf1:
///            7    3[  ] ==( 4X       25.78125 Gbps Active/  LinkUp)==>       9    1[  ] "n1 HCA-1" ( )
/// ```
pub(super) fn iblinkinfo(text: &str) -> Result<Vec<Port>, LoadError> {
    let mut ports = Vec::new();
    let mut device = Device::default();
    for (at, line) in text.lines().enumerate() {
        if line.contains("==(") {
            let Some((own, peer)) = link(line) else {
                return Err(LoadError::line(at + 1, line, "not the form of a link"));
            };
            let of = Device {
                lid: own.device.lid,
                guid: own.device.guid.or_else(|| device.guid.clone()),
                name: own.device.name.or_else(|| device.name.clone()),
            };
            ports.push(Port {
                of,
                port: own.port,
                peer: peer.map(|end| end.device),
                counts: None,
            });
            continue;
        }
        let heading = ["Switch:", "CA:", "Router:"];
        let heading = heading.iter().find_map(|kind| line.strip_prefix(kind));
        if let Some(rest) = heading {
            let rest = rest.trim().trim_end_matches(':');
            let (first, name) = rest.split_once(' ').unwrap_or((rest, ""));
            let with_guid = first.starts_with("0x");
            device = Device {
                lid: None,
                guid: with_guid.then(|| first.to_owned()),
                name: Some(if with_guid { name } else { rest }.trim().to_owned()),
            };
            device.name = device.name.filter(|name| !name.is_empty());
        }
    }
    Ok(ports)
}

/// An end of a link.
struct End {
    device: Device,
    port: String,
}

/// Both ends of a line `[0x1 ["name"]] LID PORT[ ] ==( ... )==> [0x2] LID PORT[ ] "name"`; the
/// second is `None` if the link is down. `None` for another form.
fn link(line: &str) -> Option<(End, Option<End>)> {
    let (own, rest) = line.split_once("==(")?;
    let (_, peer) = rest.split_once("==>")?;
    Some((end(own)?, end(peer).filter(|end| !end.device.is_unknown())))
}

fn end(text: &str) -> Option<End> {
    // The name may stand before the numbers, or after them.
    let name = quoted(text);
    let mut plain = text.to_owned();
    if let Some((before, _, after)) = around_quotes(text) {
        plain = format!("{before} {after}");
    }
    let (numbers, _) = plain.split_once('[')?;
    let words: Vec<&str> = numbers.split_whitespace().collect();
    let guid = words.iter().find(|word| word.starts_with("0x"));
    let plain: Vec<u32> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let (lid, port) = match plain.as_slice() {
        [.., lid, port] => (Some(*lid), port.to_string()),
        [port] => (None, port.to_string()),
        [] => (None, String::new()),
    };
    Some(End {
        device: Device {
            lid,
            guid: guid.map(|guid| (*guid).to_owned()),
            name,
        },
        port,
    })
}

fn around_quotes(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('"')?;
    let (inside, after) = rest.split_once('"')?;
    Some((before, inside, after))
}

/// What is in quotes, without blanks around it; `None` if that is nothing.
fn quoted(text: &str) -> Option<String> {
    let (_, inside, _) = around_quotes(text)?;
    let inside = inside.trim();
    (!inside.is_empty()).then(|| inside.to_owned())
}
