//! What a view is asked about: a stretch of time, a process, CPUs, a node, a rank.

use super::threads::Threads;
use crate::ExplainError;
use idlewave_run::Manifest;
use idlewave_run::tables::TaskKind;
use idlewave_units::{Cpu, CpuSet, Nanos, NodeId, Pid, Rank};
use serde::Serialize;
use std::collections::BTreeSet;

/// What a view is restricted to; everything where nothing is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Filter {
    /// From this time after the start of the run.
    pub from: Option<Nanos>,
    /// Until this time after the start of the run.
    pub to: Option<Nanos>,
    /// Name or number of a process or thread.
    pub process: Option<String>,
    /// CPUs.
    pub cpus: Option<CpuSet>,
    /// A node.
    pub node: Option<NodeId>,
    /// The threads of a rank.
    pub rank: Option<Rank>,
}

impl Filter {
    /// Whether anything is left out.
    pub fn is_set(&self) -> bool {
        *self != Self::default()
    }
}

/// A filter in the terms of one run.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Start of the run, from which its times count.
    pub start: u64,
    /// Start of the stretch.
    pub begin: u64,
    /// End of the stretch.
    pub end: u64,
    threads: Option<BTreeSet<(NodeId, Pid)>>,
    cpus: Option<CpuSet>,
    node: Option<NodeId>,
}

impl Scope {
    /// The scope of a filter.
    ///
    /// # Errors
    /// The filter asks for something that the run does not have.
    pub fn of(
        filter: &Filter,
        manifest: &Manifest,
        threads: &Threads,
    ) -> Result<Self, ExplainError> {
        let start = manifest.phases.iter().map(|p| p.begin_ns).min();
        let start = start.unwrap_or(0);
        let at = |time: Option<Nanos>| time.map(|t| start.saturating_add(t.get()));
        let (begin, end) = (at(filter.from), at(filter.to));
        if let (Some(begin), Some(end)) = (begin, end) {
            if begin >= end {
                return Err(ExplainError::Filter(
                    "the stretch of time ends before it begins".to_owned(),
                ));
            }
        }
        if let Some(node) = filter.node {
            if !manifest.nodes.iter().any(|n| n.node == node) {
                return Err(ExplainError::Filter(format!("the run has no node {node}")));
            }
        }
        Ok(Self {
            start,
            begin: begin.unwrap_or(0),
            end: end.unwrap_or(u64::MAX),
            threads: chosen(filter, manifest, threads)?,
            cpus: filter.cpus.clone(),
            node: filter.node,
        })
    }

    /// Whether this thread is asked about.
    pub fn has_thread(&self, node: NodeId, pid: Pid) -> bool {
        let chosen = |all: &BTreeSet<(NodeId, Pid)>| all.contains(&(node, pid));
        self.has_node(node) && self.threads.as_ref().is_none_or(chosen)
    }

    /// Whether this CPU is asked about.
    pub fn has_cpu(&self, node: NodeId, cpu: Cpu) -> bool {
        self.has_node(node) && self.cpus.as_ref().is_none_or(|set| set.contains(cpu))
    }

    /// Whether this moment lies in the stretch.
    pub fn has_time(&self, time: u64) -> bool {
        (self.begin..self.end).contains(&time)
    }

    /// The part of a span that lies in the stretch; `None` if none does.
    pub fn clip(&self, begin: u64, end: u64) -> Option<(u64, u64)> {
        let cut = (begin.max(self.begin), end.min(self.end));
        // An empty span lies in the stretch like a moment.
        let inside = cut.0 < cut.1 || (begin == end && self.has_time(begin));
        inside.then_some(cut)
    }

    fn has_node(&self, node: NodeId) -> bool {
        self.node.is_none_or(|n| n == node)
    }
}

/// The threads that the filter names; `None` for all.
fn chosen(
    filter: &Filter,
    manifest: &Manifest,
    threads: &Threads,
) -> Result<Option<BTreeSet<(NodeId, Pid)>>, ExplainError> {
    let mut found: Option<BTreeSet<(NodeId, Pid)>> = None;
    if let Some(wanted) = &filter.process {
        let number = wanted.parse().ok().map(Pid::new);
        let matching = threads.iter().filter(|t| {
            t.name == *wanted
                || t.program.as_ref() == Some(wanted)
                || number.is_some_and(|n| t.pid == n || t.process == Some(n))
        });
        let set: BTreeSet<_> = matching
            .filter(|t| t.kind != TaskKind::Idle)
            .map(|t| (t.node, t.pid))
            .collect();
        if set.is_empty() {
            let text = format!("the run has no process or thread `{wanted}`");
            return Err(ExplainError::Filter(text));
        }
        found = Some(set);
    }
    if let Some(rank) = filter.rank {
        let sheet = manifest.ranks.iter().find(|r| r.rank == rank);
        let sheet =
            sheet.ok_or_else(|| ExplainError::Filter(format!("the run has no rank {rank}")))?;
        let of_rank: BTreeSet<_> = sheet.threads.iter().map(|&pid| (sheet.node, pid)).collect();
        found = Some(match found {
            Some(set) => set.intersection(&of_rank).copied().collect(),
            None => of_rank,
        });
    }
    Ok(found)
}
