//! Names of threads, sources, ranks and functions of a run.

use crate::export::ExportError;
use idlewave_run::findings::Findings;
use idlewave_run::tables::{Operations, Source, Sources, Task, TaskKind, Tasks};
use idlewave_run::{Manifest, RunReader, Table};
use idlewave_units::{NodeId, Pid, Rank};
use std::collections::BTreeMap;

/// What the tables refer to by number.
pub(crate) struct Names {
    /// Threads by node and number.
    pub(crate) tasks: BTreeMap<(NodeId, Pid), Task>,
    /// Rows of `sources`.
    pub(crate) sources: Vec<Source>,
    /// Rows of `operations`: names in C.
    operations: Vec<String>,
    /// Sources of the findings: name and class.
    findings: Vec<String>,
}

/// A name with its class, unless they are the same.
pub(crate) fn of_class(name: &str, class: &str) -> String {
    match name == class {
        true => name.to_owned(),
        false => format!("{name} ({class})"),
    }
}

impl Names {
    pub(crate) fn of(run: &RunReader, findings: Option<&Findings>) -> Result<Self, ExportError> {
        let tasks = run.read::<Tasks>()?;
        let mut sources: Vec<Source> = run.read::<Sources>()?.rows().collect();
        sources.sort_by_key(|source| source.id);
        let sources_found = findings.map_or(&[][..], |found| &found.sources);
        Ok(Self {
            tasks: tasks
                .rows()
                .map(|task| ((task.node, task.pid), task))
                .collect(),
            sources,
            operations: run.read::<Operations>()?.name,
            findings: sources_found
                .iter()
                .map(|source| of_class(&source.name, source.kind.label()))
                .collect(),
        })
    }

    /// Name of a thread; empty if the run does not know it.
    pub(crate) fn task(&self, node: NodeId, pid: Pid) -> &str {
        match self.tasks.get(&(node, pid)) {
            Some(task) if task.kind == TaskKind::Idle => "swapper",
            Some(task) => &task.name,
            None if pid == Pid::IDLE => "swapper",
            None => "",
        }
    }

    /// A row of `sources`.
    pub(crate) fn source(&self, id: u32) -> Option<&Source> {
        let at = self.sources.binary_search_by_key(&id, |source| source.id);
        at.ok().and_then(|at| self.sources.get(at))
    }

    /// Name of an MPI function.
    pub(crate) fn operation(&self, id: u32) -> &str {
        self.operations.get(id as usize).map_or("MPI", |name| name)
    }

    /// Name and class of a source of the findings.
    pub(crate) fn finding(&self, index: u32) -> &str {
        self.findings
            .get(index as usize)
            .map_or("unknown source", |name| name)
    }
}

/// "rank 3", with its node where there are several, and the CPU to which it was bound.
pub(crate) fn rank(manifest: &Manifest, rank: Rank) -> String {
    let mut name = format!("rank {rank}");
    let sheet = manifest.ranks.iter().find(|sheet| sheet.rank == rank);
    let Some(sheet) = sheet else {
        return name;
    };
    if manifest.nodes.len() > 1 {
        name += &format!(", node {}", node(manifest, sheet.node));
    }
    if let Some(cpu) = sheet.cpu {
        name += &format!(", CPU {cpu}");
    }
    name
}

/// Host name of a node with its number where there are several.
pub(crate) fn node(manifest: &Manifest, node: NodeId) -> String {
    let host = manifest.nodes.iter().find(|sheet| sheet.node == node);
    let host = host.map_or("", |sheet| &sheet.host.name);
    match (host, manifest.nodes.len()) {
        ("", _) => format!("{node}"),
        (host, 0 | 1) => host.to_owned(),
        (host, _) => format!("{node} ({host})"),
    }
}
