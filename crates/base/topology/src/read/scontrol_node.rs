//! Output of `scontrol show node`, with or without `-o`: cores, memory, state and features of
//! nodes.
//!
//! Source: the manual page scontrol(1) of Slurm 25.05, and its states in sinfo(1).

use super::{Content, NodeList, Read};
use crate::model::Node;
use crate::read::{Format, ReadError};
use crate::topology::{MAX_NODES, count};
use idlewave_units::Bytes;
use std::collections::HashMap;

/// Values of a node by key; the first occurrence counts, since free text comes last.
struct Record<'a> {
    line: usize,
    values: HashMap<&'a str, (usize, &'a str)>,
}

/// Reads the nodes.
///
/// # Errors
/// Invalid numbers, with their line; a node that is listed twice.
pub(super) fn read(text: &str) -> Result<Read, ReadError> {
    let mut records: Vec<Record<'_>> = Vec::new();
    for (place, line) in text.lines().enumerate() {
        let line_number = place + 1;
        for (word_place, word) in line.split_whitespace().enumerate() {
            // A word without `=` continues the value before it.
            let Some((key, value)) = word.split_once('=') else {
                continue;
            };
            if key == "NodeName" && word_place == 0 {
                records.push(Record {
                    line: line_number,
                    values: HashMap::new(),
                });
                count("nodes", records.len() as u64, 1, MAX_NODES as u64)?;
            }
            match records.last_mut() {
                Some(record) => {
                    record.values.entry(key).or_insert((line_number, value));
                }
                None => {
                    let why = "the first line of a node must start with NodeName=";
                    return Err(ReadError::line(line_number, word, why));
                }
            }
        }
    }
    if records.is_empty() {
        let what = "a line with NodeName=";
        return Err(ReadError::Nothing { what });
    }
    let mut lines: HashMap<String, usize> = HashMap::new();
    let mut list = NodeList::default();
    for record in &records {
        let node = record.node()?;
        if let Some(first) = lines.insert(node.name.clone(), record.line) {
            return Err(ReadError::Repeated {
                line: record.line,
                what: "node",
                name: node.name,
                first,
            });
        }
        let host = record.text("NodeHostName").filter(|h| *h != node.name);
        if let Some(host) = host {
            list.hosts.insert(host.to_owned(), list.nodes.len());
        }
        list.nodes.push(node);
    }
    Ok(Read {
        format: Format::ScontrolNode,
        content: Content::Nodes(list),
        notes: Vec::new(),
    })
}

impl Record<'_> {
    fn text(&self, key: &str) -> Option<&str> {
        let (_, value) = self.values.get(key)?;
        Some(*value).filter(|v| *v != "(null)" && !v.is_empty())
    }

    fn number(&self, key: &str) -> Result<Option<u64>, ReadError> {
        let Some((line, value)) = self.values.get(key) else {
            return Ok(None);
        };
        let number = value.parse::<u32>().map_err(|_| {
            let text = format!("{key}={value}");
            ReadError::line(*line, &text, "its value is not a number below 2^32")
        });
        number.map(|n| Some(u64::from(n)))
    }

    fn node(&self) -> Result<Node, ReadError> {
        let name = self.text("NodeName").unwrap_or_default();
        if !crate::topology::is_name(name) {
            return Err(ReadError::line(
                self.line,
                name,
                "it is not a valid node name",
            ));
        }
        let sockets = self.number("Sockets")?;
        let per_socket = self.number("CoresPerSocket")?;
        let threads = self.number("ThreadsPerCore")?.filter(|t| *t > 0);
        let cpus = self.number("CPUTot")?;
        let cores = match (sockets, per_socket) {
            (Some(sockets), Some(cores)) => Some(sockets * cores),
            _ => cpus.map(|cpus| cpus / threads.unwrap_or(1)),
        };
        let memory = self.number("RealMemory")?;
        let mebibytes = |m: u64| Bytes::new(m.saturating_mul(1 << 20));
        let features = ["ActiveFeatures", "AvailableFeatures", "Features"];
        let features = features.iter().find_map(|key| self.text(key));
        let features = features.unwrap_or_default().split(',').map(str::to_owned);
        Ok(Node {
            cores: cores.and_then(|c| u32::try_from(c).ok()).filter(|c| *c > 0),
            // Slurm prints 1 if its configuration does not say (slurm.conf(5), RealMemory).
            memory: memory.filter(|m| *m > 1).map(mebibytes),
            free: self.text("State").is_none_or(is_free),
            features: features.filter(|f| !f.is_empty()).collect(),
            ..Node::new(name)
        })
    }
}

/// Whether a job can have the whole node: it is idle, and no flag excludes jobs. Powered-down nodes
/// are free.
fn is_free(state: &str) -> bool {
    let mut parts = state.split('+');
    let base = parts.next().unwrap_or_default();
    // `~` and `#`: powered down and powering up. Others, such as `*` (does not respond), exclude
    // jobs.
    let base = base.trim_end_matches(['~', '#']);
    let harmless = [
        "CLOUD",
        "DYNAMIC_NORM",
        "DYNAMIC_FUTURE",
        "POWERED_DOWN",
        "POWERING_UP",
    ];
    base == "IDLE" && parts.all(|flag| harmless.contains(&flag))
}

#[cfg(test)]
mod tests {
    use super::is_free;

    #[test]
    fn only_idle_nodes_that_take_jobs_are_free() {
        for state in ["IDLE", "IDLE~", "IDLE+CLOUD+POWERED_DOWN", "IDLE#"] {
            assert!(is_free(state), "{state}");
        }
        for state in [
            "IDLE*",
            "IDLE+DRAIN",
            "MIXED",
            "ALLOCATED",
            "DOWN",
            "IDLE+RESERVED",
            "IDLE+PLANNED",
            "",
        ] {
            assert!(!is_free(state), "{state}");
        }
    }
}
