//! One node's cores and memory from hwloc's XML (`lstopo --of xml`), versions 1 and 2.
//!
//! Source: hwloc's manual, "Importing and exporting topologies from/to XML files"; in version 2 a
//! NUMA node is a child beside the cores that it serves, in version 1 it is above them.

use super::{Content, Machine, Read};
use crate::model::MemoryDomain;
use crate::read::{Format, ReadError};
use idlewave_units::Bytes;
use idlewave_units::foreign::one_line;
use roxmltree::{Document, Node, NodeId, ParsingOptions};
use std::collections::HashMap;

/// Most elements; a machine has a few thousand.
const MOST_ELEMENTS: u32 = 100_000;
/// Deepest nesting searched for cores; hwloc has about twelve levels.
const DEEPEST: usize = 64;
/// Most attributes of an element; an hwloc object has about twenty. The XML parser compares each
/// with all others.
const MOST_ATTRIBUTES: usize = 256;
/// Most NUMA domains; machines have some hundred at most.
const MOST_DOMAINS: usize = 4_096;

/// Reads a machine.
///
/// # Errors
/// Text that is not XML or has no machine; invalid numbers.
pub(super) fn read(text: &str) -> Result<Read, ReadError> {
    let structure = |why: String| ReadError::Structure {
        format: "hwloc XML",
        why,
    };
    let options = ParsingOptions {
        // The document type names a file, which is not read.
        allow_dtd: true,
        nodes_limit: MOST_ELEMENTS,
        ..ParsingOptions::default()
    };
    refuse_dear(text).map_err(structure)?;
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
            let why = "it has several machines; save each in its own file";
            return Err(structure(why.to_owned()));
        }
    };
    let memories: Vec<Node<'_, '_>> = objects("NUMANode").collect();
    if memories.len() > MOST_DOMAINS {
        let count = memories.len();
        return Err(structure(format!(
            "it has {count} NUMA nodes, at most {MOST_DOMAINS} are supported"
        )));
    }
    // For each object with memory below it, the first one.
    let mut beside: HashMap<NodeId, usize> = HashMap::new();
    let mut own: HashMap<NodeId, usize> = HashMap::new();
    for (place, memory) in memories.iter().enumerate() {
        own.insert(memory.id(), place);
        if let Some(above) = memory.parent() {
            beside.entry(above.id()).or_insert(place);
        }
    }
    let mut cores = vec![0; memories.len()];
    let (mut all_cores, mut homeless) = (0, 0);
    for core in objects("Core") {
        all_cores += 1;
        // The NUMA node above a core, or the first beside one of its ancestors.
        let mut above = core.ancestors().take(DEEPEST).map(|n| n.id());
        match above.find_map(|id| own.get(&id).or_else(|| beside.get(&id))) {
            Some(home) => cores[*home] += 1,
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
        notes.push(
            "the machine has hardware threads but no cores: the number of cores is unknown"
                .to_owned(),
        );
        domains.clear();
    } else if homeless > 0 && !domains.is_empty() {
        notes.push(format!(
            "{homeless} core(s) have no NUMA node: memory domains are unknown"
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

/// Rejects what hwloc never writes and what would make its parser extremely slow: elements with
/// very many attributes, namespaces, and entities, which may contain either.
fn refuse_dear(text: &str) -> Result<(), String> {
    if text.contains("<!ENTITY") {
        return Err("it defines entities, which hwloc never does".to_owned());
    }
    if text.contains("xmlns") {
        return Err("it has namespaces, which hwloc never uses".to_owned());
    }
    let mut attributes = 0;
    let mut quote = None;
    let mut inside = false;
    for byte in text.bytes() {
        match (inside, quote, byte) {
            (true, None, b'"' | b'\'') => quote = Some(byte),
            (true, Some(open), _) if byte == open => quote = None,
            (true, Some(_), _) => {}
            (true, None, b'=') => attributes += 1,
            (true, None, b'>') => inside = false,
            (false, _, b'<') => (inside, attributes) = (true, 0),
            _ => {}
        }
        if attributes > MOST_ATTRIBUTES {
            return Err(format!(
                "an element has more than {MOST_ATTRIBUTES} attributes"
            ));
        }
    }
    Ok(())
}

/// The object's own memory; `None` if it has none.
fn bytes(object: &Node<'_, '_>) -> Result<Option<Bytes>, ReadError> {
    let Some(text) = object.attribute("local_memory") else {
        return Ok(None);
    };
    let number = text.parse::<u64>().map_err(|_| {
        let document = object.document();
        let line = document.text_pos_at(object.range().start).row;
        let text = format!("local_memory=\"{text}\"");
        ReadError::line(line as usize, &text, "its value is not a number of bytes")
    })?;
    Ok(Some(number).filter(|n| *n > 0).map(Bytes::new))
}
