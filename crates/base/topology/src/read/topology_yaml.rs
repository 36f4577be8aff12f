//! Slurm's `topology.yaml`: named topologies, each a tree, blocks or flat.
//!
//! Source: the manual page topology.yaml(5) of Slurm 25.05.

use super::tree::{self, Parent};
use super::yaml::{self, Kind, Value};
use super::{Content, Read, blocks, topology_conf};
use crate::read::{Format, ReadError};
use std::collections::HashMap;

/// Reads the named topology; without a name, the first cluster default, or else the first.
///
/// # Errors
/// Text that is not YAML or of another structure; an unknown name; children that do not form a
/// tree.
pub(super) fn read(text: &str, name: Option<&str>) -> Result<Read, ReadError> {
    let Some(document) = yaml::parse(text)? else {
        return Err(ReadError::Nothing { what: "a topology" });
    };
    let listed = list(&document, "a list of topologies")?;
    let mut names: Vec<&str> = Vec::new();
    let mut lines: HashMap<&str, usize> = HashMap::new();
    for entry in listed {
        let own = word(field(entry, "topology")?, "a name")?;
        if let Some(first) = lines.insert(own, entry.line) {
            return Err(ReadError::Repeated {
                line: entry.line,
                what: "topology",
                name: own.to_owned(),
                first,
            });
        }
        names.push(own);
    }
    let chosen = match name {
        Some(name) => listed.iter().zip(&names).find(|(_, own)| **own == name),
        None => {
            let default = |(entry, _): &(&Value, &&str)| {
                optional(entry, "cluster_default").is_ok_and(|v| v.is_some_and(is_true))
            };
            let mut all = listed.iter().zip(&names);
            all.clone().find(default).or_else(|| all.next())
        }
    };
    let Some((entry, own)) = chosen else {
        let why = match name {
            Some(name) => format!("it has no topology {name:?}; it has {}", names.join(", ")),
            None => "the list of topologies is empty".to_owned(),
        };
        return Err(ReadError::line(
            document.line,
            name.unwrap_or_default(),
            why,
        ));
    };
    let mut notes = Vec::new();
    if listed.len() > 1 {
        let others = listed.len() - 1;
        notes.push(format!(
            "of its {} topologies, {own} is used and {others} ignored",
            listed.len()
        ));
    }
    let content = content(entry, &mut notes)?;
    Ok(Read {
        format: Format::TopologyYaml,
        content,
        notes,
    })
}

fn content(entry: &Value, notes: &mut Vec<String>) -> Result<Content, ReadError> {
    known(
        entry,
        &["topology", "cluster_default", "tree", "block", "flat"],
    )?;
    let tree = optional(entry, "tree")?;
    let block = optional(entry, "block")?;
    let flat = optional(entry, "flat")?;
    match (tree, block, flat) {
        (Some(tree), None, None) => {
            known(tree, &["switches"])?;
            let listed = list(field(tree, "switches")?, "a list of switches")?;
            let switch = |value| {
                known(value, &["switch", "children", "nodes"])?;
                parent(value, "switch")
            };
            let parents: Vec<Parent> = listed.iter().map(switch).collect::<Result<_, _>>()?;
            notes.push(topology_conf::NOTE.to_owned());
            Ok(Content::Topology(Box::new(tree::topology(&parents)?)))
        }
        (None, Some(block), None) => {
            known(block, &["block_sizes", "blocks"])?;
            if let Some(sizes) = optional(block, "block_sizes")? {
                for size in list(sizes, "a list of sizes")? {
                    blocks::check_sizes(size.line, word(size, "a size")?)?;
                }
            }
            let listed = list(field(block, "blocks")?, "a list of blocks")?;
            let read = |value| {
                known(value, &["block", "nodes"])?;
                parent(value, "block")
            };
            let parents: Vec<Parent> = listed.iter().map(read).collect::<Result<_, _>>()?;
            notes.push(blocks::NOTE.to_owned());
            Ok(Content::Topology(Box::new(blocks::topology(parents)?)))
        }
        (None, None, Some(flat)) if matches!(flat.kind, Kind::Map(_)) || is_true(flat) => {
            Ok(Content::Flat)
        }
        _ => {
            let why = "a topology needs one of tree, block and flat: true";
            Err(ReadError::line(entry.line, "topology", why))
        }
    }
}

fn parent(value: &Value, key: &str) -> Result<Parent, ReadError> {
    let text = |key: &str| {
        let value = optional(value, key)?;
        let text = value.map(|v| word(v, "a list of names")).transpose()?;
        Ok::<_, ReadError>(text.unwrap_or_default().to_owned())
    };
    let parent = Parent {
        line: value.line,
        name: word(field(value, key)?, "a name")?.to_owned(),
        nodes: text("nodes")?,
        switches: text("children")?,
        capacity: None,
    };
    if parent.nodes.trim().is_empty() && parent.switches.trim().is_empty() {
        let why = "it has no children, neither nodes nor switches";
        return Err(ReadError::line(value.line, &parent.name, why));
    }
    Ok(parent)
}

fn is_true(value: &Value) -> bool {
    let yes = |text: &str| {
        ["true", "yes", "on"]
            .iter()
            .any(|y| text.eq_ignore_ascii_case(y))
    };
    matches!(&value.kind, Kind::Text(text) if yes(text))
}

/// An error for a value that is not of the expected kind.
fn expected(value: &Value, what: &str) -> ReadError {
    let text = match &value.kind {
        Kind::Text(text) => text.as_str(),
        Kind::List(_) => "- ",
        Kind::Map(map) => map.first().map_or("{}", |(_, key, _)| key.as_str()),
    };
    ReadError::line(value.line, text, format!("expected {what}"))
}

fn list<'a>(value: &'a Value, what: &str) -> Result<&'a [Value], ReadError> {
    match &value.kind {
        Kind::List(list) => Ok(list),
        _ => Err(expected(value, what)),
    }
}

fn word<'a>(value: &'a Value, what: &str) -> Result<&'a str, ReadError> {
    match &value.kind {
        Kind::Text(text) => Ok(text),
        _ => Err(expected(value, what)),
    }
}

fn optional<'a>(value: &'a Value, key: &str) -> Result<Option<&'a Value>, ReadError> {
    let Kind::Map(map) = &value.kind else {
        return Err(expected(value, &format!("{key}:")));
    };
    let mut found = map.iter().filter(|(_, own, _)| own == key);
    let first = found.next();
    match found.next() {
        Some((line, _, _)) => Err(ReadError::line(*line, key, "this key is given twice")),
        None => Ok(first.map(|(_, _, value)| value)),
    }
}

fn field<'a>(value: &'a Value, key: &str) -> Result<&'a Value, ReadError> {
    optional(value, key)?.ok_or_else(|| expected(value, &format!("{key}:")))
}

/// Rejects keys other than these.
fn known(value: &Value, keys: &[&str]) -> Result<(), ReadError> {
    let Kind::Map(map) = &value.kind else {
        return Err(expected(value, &keys.join(" or ")));
    };
    match map.iter().find(|(_, key, _)| !keys.contains(&key.as_str())) {
        None => Ok(()),
        Some((line, key, _)) => {
            let why = format!("expected one of {}", keys.join(", "));
            Err(ReadError::line(*line, key, why))
        }
    }
}
