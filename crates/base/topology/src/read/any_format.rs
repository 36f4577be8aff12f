//! Reads text of any supported format.

use super::{
    Format, Read, ReadError, hwloc, ibnetdiscover, scontrol_node, slurm_conf, toml_form,
    topology_conf, topology_yaml,
};

/// Longest supported file: a million nodes with long names, twice.
const MOST_BYTES: usize = 1 << 30;

/// Reads text of any supported format.
///
/// # Errors
/// The bytes are not text or not in a supported format, or the format's reader finds an error.
pub fn read(bytes: &[u8]) -> Result<Read, ReadError> {
    read_as(bytes, None, None)
}

/// Reads text of a given format, or of a guessed one. `name` selects one of the topologies in a
/// `topology.yaml`.
///
/// # Errors
/// As for [`read`]; a name for a format without names.
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
            why: format!("only a topology.yaml has named topologies such as {name:?}"),
        }),
        (Format::TopologyConf | Format::ScontrolTopology, None) => {
            topology_conf::read(text, format)
        }
        (Format::ScontrolNode, None) => scontrol_node::read(text),
        (Format::SlurmConf, None) => slurm_conf::read(text),
        (Format::Ibnetdiscover, None) => ibnetdiscover::read(text),
        (Format::Hwloc, None) => hwloc::read(text),
        (Format::Toml, None) => toml_form::read(text),
    }
}
