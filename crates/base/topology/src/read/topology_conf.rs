//! Slurm's `topology.conf`, and the output of `scontrol show topology`, which has the same keys.
//!
//! Source: the manual pages topology.conf(5) and scontrol(1) of Slurm 25.05.

use super::tree::{self, Parent};
use super::{Content, Read, blocks};
use crate::read::{Format, ReadError};
use idlewave_units::BytesPerSecond;

/// The note for every tree from Slurm.
pub(super) const NOTE: &str =
    "Slurm does not say how many cables connect two switches: one is assumed";

/// No line of either plugin has more keys.
const MOST_KEYS: usize = 64;

/// A pair in a line. The key is in lower case.
struct Pair<'a> {
    key: String,
    value: &'a str,
}

/// Reads a tree or blocks from lines of `Key=Value`.
///
/// # Errors
/// A line that belongs to neither plugin, with its number; children that do not form a tree.
pub(super) fn read(text: &str, format: Format) -> Result<Read, ReadError> {
    let mut switches = Vec::new();
    let mut found: Vec<Parent> = Vec::new();
    let mut unread = 0;
    for (line, content) in lines(text) {
        let pairs = pairs(line, &content)?;
        let Some(first) = pairs.first() else { continue };
        match first.key.as_str() {
            "switchname" => {
                let switch = switch(line, &pairs, format)?;
                let stated = pairs.iter().any(|pair| pair.key == "linkspeed");
                unread += usize::from(stated && switch.capacity.is_none());
                switches.push(switch);
            }
            "blockname" => found.push(block(line, &pairs)?),
            "blocksizes" if pairs.len() == 1 => blocks::check_sizes(line, first.value)?,
            "include" => {
                let why = "included files are not read: replace this line by their content";
                return Err(ReadError::line(line, &content, why));
            }
            _ => {
                let why = "a line must start with SwitchName=, BlockName= or BlockSizes=";
                return Err(ReadError::line(line, &content, why));
            }
        }
    }
    let (topology, note) = match (switches.is_empty(), found.is_empty()) {
        (false, true) => (tree::topology(&switches)?, NOTE),
        (true, false) => (blocks::topology(found)?, blocks::NOTE),
        (true, true) => {
            let what = "a line with SwitchName= or BlockName=";
            return Err(ReadError::Nothing { what });
        }
        (false, false) => {
            let line = found.first().map_or(1, |b| b.line);
            let why = "the file also has switches; Slurm accepts only one of the two";
            return Err(ReadError::line(line, "BlockName=", why));
        }
    };
    let mut notes = vec![note.to_owned()];
    // scontrol prints it for every switch, whether or not it was set.
    if unread > 0 && format == Format::TopologyConf {
        notes.push(format!(
            "LinkSpeed of {unread} switch(es) is not a rate with a unit: the capacity of their cables is unknown"
        ));
    }
    Ok(Read {
        format,
        content: Content::Topology(Box::new(topology)),
        notes,
    })
}

/// Lines without comments, continued lines joined; each with the number of its first line.
pub(super) fn lines(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (place, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim_end();
        let (content, goes_on) = match line.strip_suffix('\\') {
            Some(before) => (before, true),
            None => (line, false),
        };
        let (first, mut joined) = open.take().unwrap_or((place + 1, String::new()));
        joined.push_str(content);
        match goes_on {
            true => open = Some((first, joined)),
            false => lines.push((first, joined)),
        }
    }
    lines.extend(open);
    lines
}

fn pairs(line: usize, content: &str) -> Result<Vec<Pair<'_>>, ReadError> {
    let mut pairs: Vec<Pair<'_>> = Vec::new();
    for word in content.split_whitespace() {
        let Some((key, value)) = word.split_once('=') else {
            // `Include file` has no equals sign.
            if pairs.is_empty() && word.eq_ignore_ascii_case("include") {
                let key = "include".to_owned();
                return Ok(vec![Pair { key, value: "" }]);
            }
            return Err(ReadError::line(line, word, "it is not Key=Value"));
        };
        let key = key.to_ascii_lowercase();
        if pairs.iter().any(|pair| pair.key == key) {
            return Err(ReadError::line(line, &key, "this key is given twice"));
        }
        if pairs.len() == MOST_KEYS {
            return Err(ReadError::line(line, &key, "the line has too many keys"));
        }
        pairs.push(Pair { key, value });
    }
    Ok(pairs)
}

fn switch(line: usize, pairs: &[Pair<'_>], format: Format) -> Result<Parent, ReadError> {
    let mut parent = Parent {
        line,
        ..Parent::default()
    };
    for pair in pairs {
        // scontrol prints this for an empty value.
        let nothing = format == Format::ScontrolTopology && pair.value == "(null)";
        let value = if nothing { "" } else { pair.value };
        match pair.key.as_str() {
            "switchname" => parent.name = value.to_owned(),
            "nodes" => parent.nodes = value.to_owned(),
            "switches" => parent.switches = value.to_owned(),
            // The unit of a bare number is not defined by Slurm.
            "linkspeed" => parent.capacity = value.parse::<BytesPerSecond>().ok(),
            "level" if format == Format::ScontrolTopology => {}
            _ => {
                let why = "the keys of a switch are Nodes=, Switches= and LinkSpeed=";
                return Err(ReadError::line(line, &pair.key, why));
            }
        }
    }
    if format == Format::ScontrolTopology && !parent.switches.is_empty() {
        // Slurm prints all nodes below a switch, not just its own.
        parent.nodes.clear();
    }
    if parent.nodes.is_empty() && parent.switches.is_empty() {
        let why = "a switch needs children: Nodes= or Switches=";
        return Err(ReadError::line(line, &parent.name, why));
    }
    one_name(parent)
}

fn block(line: usize, pairs: &[Pair<'_>]) -> Result<Parent, ReadError> {
    let mut parent = Parent {
        line,
        ..Parent::default()
    };
    for pair in pairs {
        match pair.key.as_str() {
            "blockname" => parent.name = pair.value.to_owned(),
            "nodes" => parent.nodes = pair.value.to_owned(),
            // Printed by scontrol.
            "blockindex" | "blocksize" | "aggregatedblock" => {}
            _ => {
                return Err(ReadError::line(
                    line,
                    &pair.key,
                    "the key of a block is Nodes=",
                ));
            }
        }
    }
    one_name(parent)
}

/// Lines define one switch each.
fn one_name(parent: Parent) -> Result<Parent, ReadError> {
    match crate::topology::is_name(&parent.name) {
        true => Ok(parent),
        false => {
            let why = "it is not the name of one switch or block";
            Err(ReadError::line(parent.line, &parent.name, why))
        }
    }
}
