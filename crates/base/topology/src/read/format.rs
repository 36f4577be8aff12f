//! Recognition of formats.

use crate::form::KEYS;

/// A format that describes nodes or their connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Slurm's `topology.conf`.
    TopologyConf,
    /// Slurm's `topology.yaml`.
    TopologyYaml,
    /// Output of `scontrol show topology`.
    ScontrolTopology,
    /// Output of `scontrol show node`.
    ScontrolNode,
    /// Slurm's `slurm.conf`.
    SlurmConf,
    /// Output of `ibnetdiscover`.
    Ibnetdiscover,
    /// hwloc's XML, as `lstopo --of xml` writes it.
    Hwloc,
    /// idlewave's own format.
    Toml,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 8] = [
        Format::TopologyConf,
        Format::TopologyYaml,
        Format::ScontrolTopology,
        Format::ScontrolNode,
        Format::SlurmConf,
        Format::Ibnetdiscover,
        Format::Hwloc,
        Format::Toml,
    ];

    /// Display name.
    pub fn name(self) -> &'static str {
        match self {
            Format::TopologyConf => "topology.conf",
            Format::TopologyYaml => "topology.yaml",
            Format::ScontrolTopology => "scontrol show topology",
            Format::ScontrolNode => "scontrol show node",
            Format::SlurmConf => "slurm.conf",
            Format::Ibnetdiscover => "ibnetdiscover",
            Format::Hwloc => "hwloc XML",
            Format::Toml => "TOML of idlewave",
        }
    }

    /// Guesses the format from the first characteristic line; `None` if there is none.
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
                return Some(match is_slurm_conf(text) {
                    true => Format::SlurmConf,
                    false => Format::ScontrolNode,
                });
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
            if starts(&tables) || KEYS.iter().any(|k| key(k)) {
                return Some(Format::Toml);
            }
            // The first parameter may be any of about two hundred.
            let parameter = lower.split_once('=').is_some_and(|(key, _)| {
                !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric())
            });
            return (parameter && has_nodes_or_partitions(text)).then_some(Format::SlurmConf);
        }
        None
    }
}

fn starts_with(line: &str, word: &str) -> bool {
    let start = line.trim_start().get(..word.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// Whether lines of nodes come from the configuration, not from `scontrol`, which also shows the
/// state.
fn is_slurm_conf(text: &str) -> bool {
    let told = ["CPUTot=", "CPUAlloc=", "CPUEfctv="];
    let scontrol = text
        .split_whitespace()
        .any(|w| told.iter().any(|t| w.starts_with(t)));
    let written = |line: &str| {
        let name = line.split_whitespace().next().unwrap_or_default();
        starts_with(line, "PartitionName=")
            || starts_with(line, "NodeName=")
                && (name.contains(['[', ','])
                    || name.eq_ignore_ascii_case("nodename=default")
                    || line.split_whitespace().any(|w| starts_with(w, "CPUs=")))
    };
    !scontrol && text.lines().any(written)
}

fn has_nodes_or_partitions(text: &str) -> bool {
    let own = ["NodeName=", "PartitionName="];
    text.lines()
        .any(|line| own.iter().any(|word| starts_with(line, word)))
}
