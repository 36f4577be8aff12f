//! The threads of a run by name.

use crate::ExplainError;
use idlewave_run::RunReader;
use idlewave_run::tables::{TaskKind, Tasks};
use idlewave_units::{NodeId, Pid, Rank};
use serde::Serialize;
use std::collections::BTreeMap;

/// A thread with its names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Thread {
    /// Its node.
    pub node: NodeId,
    /// Its number.
    pub pid: Pid,
    /// Its process, if known.
    pub process: Option<Pid>,
    /// Its name; "pid 7" where the run does not name it.
    pub name: String,
    /// The name of its process, if that differs.
    pub program: Option<String>,
    /// What it is: "kernel", "user", "rank", "own", "program", "unknown", "idle".
    #[serde(serialize_with = "kind_name")]
    pub kind: TaskKind,
    /// The rank, if it is one.
    pub rank: Option<Rank>,
}

fn kind_name<S: serde::Serializer>(kind: &TaskKind, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(match kind {
        TaskKind::Idle => "idle",
        TaskKind::Kernel => "kernel",
        TaskKind::User => "user",
        TaskKind::Rank => "rank",
        TaskKind::Own => "own",
        TaskKind::Unknown => "unknown",
        TaskKind::Program => "program",
    })
}

/// All threads that the run names, in order of node and number.
#[derive(Clone, Debug, Default)]
pub struct Threads(BTreeMap<(NodeId, Pid), Thread>);

impl Threads {
    /// Reads the run's table.
    pub fn read(run: &RunReader) -> Result<Self, ExplainError> {
        let mut all = BTreeMap::new();
        run.for_each::<Tasks>(|t| {
            let thread = Thread {
                node: t.node,
                pid: t.pid,
                process: t.process,
                name: t.name,
                program: None,
                kind: t.kind,
                rank: None,
            };
            all.insert((t.node, t.pid), thread);
        })?;
        for sheet in &run.manifest().ranks {
            for &pid in &sheet.threads {
                if let Some(thread) = all.get_mut(&(sheet.node, pid)) {
                    thread.rank = Some(sheet.rank);
                }
            }
        }
        let named: Vec<((NodeId, Pid), String)> = all
            .iter()
            .filter_map(|(&key, t)| {
                let process = t.process.filter(|p| *p != t.pid)?;
                let name = &all.get(&(t.node, process))?.name;
                (*name != t.name).then(|| (key, name.clone()))
            })
            .collect();
        for (key, name) in named {
            if let Some(thread) = all.get_mut(&key) {
                thread.program = Some(name);
            }
        }
        Ok(Self(all))
    }

    /// All threads.
    pub fn iter(&self) -> impl Iterator<Item = &Thread> {
        self.0.values()
    }

    /// A thread, even if the run does not name it.
    pub fn of(&self, node: NodeId, pid: Pid) -> Thread {
        self.0.get(&(node, pid)).cloned().unwrap_or_else(|| Thread {
            node,
            pid,
            process: None,
            name: format!("pid {pid}"),
            program: None,
            kind: TaskKind::Unknown,
            rank: None,
        })
    }
}
