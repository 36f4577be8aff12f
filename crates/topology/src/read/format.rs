//! Which format text has.

use super::{
    Read, ReadError, hwloc, ibnetdiscover, scontrol_node, toml_form, topology_conf, topology_yaml,
};

/// Longest file that is read: a million nodes with long names, twice.
const MOST_BYTES: usize = 1 << 30;

/// A format that describes nodes or what joins them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Slurm's `topology.conf`.
    TopologyConf,
    /// Slurm's `topology.yaml`.
    TopologyYaml,
    /// What `scontrol show topology` prints.
    ScontrolTopology,
    /// What `scontrol show node` prints.
    ScontrolNode,
    /// What `ibnetdiscover` prints.
    Ibnetdiscover,
    /// hwloc's XML, as `lstopo --of xml` writes it.
    Hwloc,
    /// idlewave's own form.
    Toml,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 7] = [
        Format::TopologyConf,
        Format::TopologyYaml,
        Format::ScontrolTopology,
        Format::ScontrolNode,
        Format::Ibnetdiscover,
        Format::Hwloc,
        Format::Toml,
    ];

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Format::TopologyConf => "topology.conf",
            Format::TopologyYaml => "topology.yaml",
            Format::ScontrolTopology => "scontrol show topology",
            Format::ScontrolNode => "scontrol show node",
            Format::Ibnetdiscover => "ibnetdiscover",
            Format::Hwloc => "hwloc XML",
            Format::Toml => "TOML of idlewave",
        }
    }

    /// The format of text by its first telling line; `None` where no line tells.
    pub fn guess(text: &str) -> Option<Format> {
        let text = text.trim_start_matches('\u{feff}');
        for line in text.lines() {
            let line = line.trim();
            let lower = line
                .get(..line.len().min(512))
                .unwrap_or(line)
                .to_ascii_lowercase();
            let starts = |starts: &[&str]| starts.iter().any(|s| lower.starts_with(s));
            let key = |key: &str| {
                let value = lower.strip_prefix(key).map(str::trim_start);
                value.is_some_and(|v| v.starts_with('='))
            };
            if line.is_empty() || line.starts_with('#') || line == "---" {
                continue;
            }
            if starts(&["<"]) {
                return Some(Format::Hwloc);
            }
            if starts(&["switchname="]) && lower.split_whitespace().any(|w| w.starts_with("level="))
            {
                return Some(Format::ScontrolTopology);
            }
            if starts(&["switchname=", "blockname=", "blocksizes=", "include "]) {
                return Some(Format::TopologyConf);
            }
            if starts(&["nodename="]) {
                return Some(Format::ScontrolNode);
            }
            if starts(&["-"]) || lower == "topology:" {
                return Some(Format::TopologyYaml);
            }
            if starts(&[
                "vendid=",
                "switch\t",
                "switch ",
                "ca\t",
                "ca ",
                "rt\t",
                "non-chassis",
                "chassis ",
            ]) {
                return Some(Format::Ibnetdiscover);
            }
            let tables = ["[[node]]", "[[switch]]", "[[link]]"];
            if starts(&tables) || toml_form::KEYS.iter().any(|k| key(k)) {
                return Some(Format::Toml);
            }
            return None;
        }
        None
    }
}

/// Reads bytes of any of the formats.
///
/// # Errors
/// Bytes that are no text or of no format, and what the format's reader finds wrong.
pub fn read(bytes: &[u8]) -> Result<Read, ReadError> {
    read_as(bytes, None, None)
}

/// Reads bytes of a format that is known, or guessed where it is not. `name` is that of a topology of a
/// `topology.yaml`, which may hold several.
///
/// # Errors
/// As [`read`]; a name where the format has none.
pub fn read_as(
    bytes: &[u8],
    format: Option<Format>,
    name: Option<&str>,
) -> Result<Read, ReadError> {
    if bytes.len() > MOST_BYTES {
        return Err(ReadError::TooLong {
            bytes: bytes.len(),
            most: MOST_BYTES,
        });
    }
    let text = std::str::from_utf8(bytes).map_err(|e| ReadError::NoText {
        offset: e.valid_up_to(),
    })?;
    let text = text.trim_start_matches('\u{feff}');
    let format = format.or_else(|| Format::guess(text));
    let format = format.ok_or(ReadError::NoFormat)?;
    match (format, name) {
        (Format::TopologyYaml, name) => topology_yaml::read(text, name),
        (_, Some(name)) => Err(ReadError::Files {
            why: format!("only a topology.yaml has topologies with names such as {name:?}"),
        }),
        (Format::TopologyConf | Format::ScontrolTopology, None) => {
            topology_conf::read(text, format)
        }
        (Format::ScontrolNode, None) => scontrol_node::read(text),
        (Format::Ibnetdiscover, None) => ibnetdiscover::read(text),
        (Format::Hwloc, None) => hwloc::read(text),
        (Format::Toml, None) => toml_form::read(text),
    }
}
