//! One node's cores and memory from hwloc's XML (`lstopo --of xml`), versions 1 and 2.
//!
//! Source: hwloc's manual, "Importing and exporting topologies from/to XML files"; in version 2 a NUMA node is a child
//! beside the cores that it serves, in version 1 it is above them.

use super::{Content, Machine, Read};
use crate::model::MemoryDomain;
use crate::read::{Format, ReadError};
use idlewave_units::Bytes;
use idlewave_units::foreign::one_line;
use roxmltree::{Document, Node, ParsingOptions};

/// Most elements that are read: a machine has some thousand.
const MOST_ELEMENTS: u32 = 100_000;
/// Deepest nesting in which a core is looked for; hwloc has some twelve levels.
const DEEPEST: usize = 64;

/// Reads a machine.
///
/// # Errors
/// Text that is no XML or has no machine; numbers that are none.
pub(super) fn read(text: &str) -> Result<Read, ReadError> {
    let structure = |why: String| ReadError::Structure {
        format: "the XML text of hwloc",
        why,
    };
    let options = ParsingOptions {
        // Its document type names a file, which is not read.
        allow_dtd: true,
        nodes_limit: MOST_ELEMENTS,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(text, options);
    let document = document.map_err(|e| structure(one_line(&e.to_string())))?;
    let objects = |kind: &'static str| {
        let all = document.root_element().descendants();
        all.filter(move |n| is(n, kind))
    };
    let mut machines = objects("Machine");
    let machine = match (machines.next(), machines.next()) {
        (Some(machine), None) => machine,
        (None, _) => return Err(structure("it has no object of type Machine".to_owned())),
        (Some(_), Some(_)) => {
            let why = "it has several machines; save each of its own";
            return Err(structure(why.to_owned()));
        }
    };
    let memories: Vec<Node<'_, '_>> = objects("NUMANode").collect();
    let mut cores = vec![0; memories.len()];
    let (mut all_cores, mut homeless) = (0, 0);
    for core in objects("Core") {
        all_cores += 1;
        let home = memory_of(&core).and_then(|home| memories.iter().position(|m| *m == home));
        match home {
            Some(home) => cores[home] += 1,
            None => homeless += 1,
        }
    }
    let mut domains = Vec::with_capacity(memories.len());
    for (memory, cores) in memories.iter().zip(cores) {
        let memory = bytes(memory)?;
        domains.push(MemoryDomain { cores, memory });
    }
    let mut notes = Vec::new();
    if all_cores == 0 {
        notes.push("the machine has no cores, only hardware threads: they stay unknown".to_owned());
        domains.clear();
    } else if homeless > 0 && !domains.is_empty() {
        notes.push(format!(
            "{homeless} core(s) have no NUMA node: domains stay unknown"
        ));
        domains.clear();
    }
    let sums = memories.iter().map(bytes).collect::<Result<Vec<_>, _>>()?;
    let sum = sums.iter().flatten().map(|b| b.get());
    let sum = sum.fold(0, u64::saturating_add);
    let memory = match sum {
        0 => bytes(&machine)?,
        sum => Some(Bytes::new(sum)),
    };
    let info = |n: &Node<'_, '_>| n.has_tag_name("info") && n.attribute("name") == Some("HostName");
    let name = machine.children().find(info);
    let name = name.and_then(|n| n.attribute("value"));
    Ok(Read {
        format: Format::Hwloc,
        content: Content::Machine(Machine {
            name: name.map(str::to_owned),
            cores: Some(all_cores).filter(|c| *c > 0),
            memory,
            domains,
        }),
        notes,
    })
}

fn is(node: &Node<'_, '_>, kind: &str) -> bool {
    node.has_tag_name("object") && node.attribute("type") == Some(kind)
}

/// The NUMA node above a core, or the first beside one of those above it.
fn memory_of<'a, 'i>(core: &Node<'a, 'i>) -> Option<Node<'a, 'i>> {
    core.ancestors().take(DEEPEST).find_map(|above| {
        let beside = || above.children().find(|n| is(n, "NUMANode"));
        match is(&above, "NUMANode") {
            true => Some(above),
            false => beside(),
        }
    })
}

/// The object's own memory; `None` where it has none.
fn bytes(object: &Node<'_, '_>) -> Result<Option<Bytes>, ReadError> {
    let Some(text) = object.attribute("local_memory") else {
        return Ok(None);
    };
    let number = text.parse::<u64>().map_err(|_| {
        let document = object.document();
        let line = document.text_pos_at(object.range().start).row;
        let text = format!("local_memory=\"{text}\"");
        ReadError::line(line as usize, &text, "its value is no number of bytes")
    })?;
    Ok(Some(number).filter(|n| *n > 0).map(Bytes::new))
}
