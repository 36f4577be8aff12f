//! What the numbers in events stand for.

use super::archive::{Archive, Definitions};
use super::gathered::Gathered;
use crate::export::{ExportError, Job};
use crate::otf2;
use idlewave_units::NodeId;
use std::collections::HashMap;
use std::ffi::CString;

/// Texts with their numbers.
struct Texts<'a> {
    to: &'a Definitions<'a>,
    ids: HashMap<String, u32>,
}

impl Texts<'_> {
    fn id(&mut self, text: &str) -> Result<u32, ExportError> {
        if let Some(&id) = self.ids.get(text) {
            return Ok(id);
        }
        let id = self.ids.len() as u32;
        let bytes = CString::new(text.replace('\0', " ")).unwrap_or_default();
        self.to.text(id, &bytes)?;
        self.ids.insert(text.to_owned(), id);
        Ok(id)
    }
}

/// Writes all definitions, and returns their number.
pub(super) fn write(
    job: &Job<'_>,
    archive: &Archive<'_>,
    gathered: &Gathered,
    (begin, end): (u64, u64),
    counts: &[u64],
) -> Result<u64, ExportError> {
    let to = &archive.definitions()?;
    let mut texts = Texts {
        to,
        ids: HashMap::new(),
    };
    to.clock(begin, end - begin)?;
    let mut written = 1;
    let none = texts.id("")?;
    for (id, region) in (0..).zip(&gathered.regions.all) {
        let name = texts.id(&region.name)?;
        to.region(id, name, none, region.role(), region.paradigm())?;
        written += 1;
    }
    written += places(job, to, &mut texts, gathered)?;
    for (location, count) in gathered.survey.locations.iter().zip(counts) {
        let name = texts.id(&location.name)?;
        to.location(location.number, name, *count, location.group)?;
        written += 1;
        if let Some(thread) = location.thread {
            let name = texts.id(otf2::THREAD_PROPERTY)?;
            to.property(location.number, name, thread.get())?;
            written += 1;
        }
    }
    written += comms(to, &mut texts, gathered)?;
    Ok(written + texts.ids.len() as u64)
}

/// Hosts, ranks and processes.
fn places(
    job: &Job<'_>,
    to: &Definitions<'_>,
    texts: &mut Texts<'_>,
    gathered: &Gathered,
) -> Result<u64, ExportError> {
    let (machine, node) = (texts.id("machine")?, texts.id("node")?);
    to.tree_node(0, machine, machine, otf2::NONE)?;
    let mut written = 1;
    let mut ids: HashMap<NodeId, u32> = HashMap::new();
    for (id, sheet) in (1..).zip(&job.run.manifest().nodes) {
        let name = match sheet.host.name.as_str() {
            "" => texts.id(&format!("node {}", sheet.node))?,
            name => texts.id(name)?,
        };
        to.tree_node(id, name, node, 0)?;
        to.is_machine(id)?;
        ids.insert(sheet.node, id);
        written += 2;
    }
    for (id, group) in (0..).zip(&gathered.survey.groups) {
        let name = texts.id(&group.name)?;
        to.process(id, name, ids.get(&group.node).copied().unwrap_or(0))?;
        written += 1;
    }
    Ok(written)
}

/// Ranks and their communicators.
fn comms(
    to: &Definitions<'_>,
    texts: &mut Texts<'_>,
    gathered: &Gathered,
) -> Result<u64, ExportError> {
    let survey = &gathered.survey;
    if survey.ranks.is_empty() {
        return Ok(0);
    }
    let none = texts.id("")?;
    let number = |object: u32| survey.locations[object as usize].number;
    let all: Vec<u64> = survey
        .ranks
        .values()
        .map(|&(_, first)| number(first))
        .collect();
    to.group(0, none, otf2::GROUP_OF_LOCATIONS, &all)?;
    let mut written = 1;
    for (group, (&comm, members)) in (1..).zip(&gathered.comms.members) {
        to.group(group, none, otf2::GROUP_OF_RANKS, members)?;
        let (name, parent) = match comm {
            0 => (texts.id("MPI_COMM_WORLD")?, otf2::NONE),
            comm => (texts.id(&format!("communicator {comm}"))?, 0),
        };
        to.comm(comm, name, group, parent)?;
        written += 2;
    }
    Ok(written)
}
