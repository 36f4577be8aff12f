//! What a view is asked about: a stretch of time, a process, CPUs, a node, a rank.

use super::threads::Threads;
use crate::ExplainError;
use idlewave_run::Manifest;
use idlewave_run::tables::TaskKind;
use idlewave_units::{Cpu, CpuSet, Nanos, NodeId, Pid, Rank, named};
use serde::Serialize;
use std::collections::BTreeSet;

/// What a view is restricted to; a field that is not set restricts nothing.
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
        let last = manifest.phases.iter().map(|p| p.end_ns).max();
        if let Some(reason) = lacks(filter, manifest) {
            return Err(ExplainError::Filter(reason));
        }
        if let Some((begin, last)) = begin.zip(last).filter(|(begin, last)| begin >= last) {
            let (from, long) = (begin - start, last - start);
            let (from, long) = (Nanos::from_nanos(from), Nanos::from_nanos(long));
            let reason = format!("the run ends after {long}, before {from}");
            return Err(ExplainError::Filter(reason));
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

/// What the filter asks for but the run does not have.
fn lacks(filter: &Filter, manifest: &Manifest) -> Option<String> {
    if let Some((from, to)) = filter.from.zip(filter.to) {
        if from >= to {
            return Some("the stretch of time ends before it begins".to_owned());
        }
    }
    let asked = |node: NodeId| filter.node.is_none_or(|n| n == node);
    let nodes: Vec<_> = manifest.nodes.iter().filter(|n| asked(n.node)).collect();
    if let Some(node) = filter.node.filter(|_| nodes.is_empty()) {
        return Some(format!("the run has no node {node}"));
    }
    let online = nodes.iter().flat_map(|n| n.host.online.iter());
    let online: CpuSet = online.collect();
    let missing = filter.cpus.as_ref()?.difference(&online);
    // If another tool recorded the run, its CPUs may not be known.
    let known = nodes.iter().all(|n| !n.host.online.is_empty());
    (known && !missing.is_empty()).then(|| {
        format!(
            "the run has {} {online}, not {missing}",
            named(online.len() as u64, "CPU")
        )
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_run::testing::empty_manifest;
    use idlewave_run::{Phase, PhaseKind};

    #[test]
    fn cpus_that_a_run_has_not_are_named_where_its_cpus_are_known() {
        let mut manifest = empty_manifest();
        let set = |numbers: &[u32]| numbers.iter().copied().map(Cpu::new).collect::<CpuSet>();
        let asked = |numbers: &[u32], node: u32| Filter {
            cpus: Some(set(numbers)),
            node: Some(NodeId::new(node)),
            ..Filter::default()
        };
        manifest.nodes[0].host.online = set(&[]);
        assert_eq!(lacks(&asked(&[9], 0), &manifest), None);
        manifest.nodes[0].host.online = set(&[0, 1, 2]);
        assert_eq!(lacks(&asked(&[1, 2], 0), &manifest), None);
        let reason = lacks(&asked(&[1, 9], 0), &manifest);
        assert_eq!(reason.as_deref(), Some("the run has CPUs 0-2, not 9"));
        let reason = lacks(&asked(&[1], 7), &manifest);
        assert_eq!(reason.as_deref(), Some("the run has no node 7"));
    }

    #[test]
    fn a_stretch_after_the_end_of_the_run_is_refused() {
        let mut manifest = empty_manifest();
        let from = |ns: u64| Filter {
            from: Some(Nanos::from_nanos(ns)),
            ..Filter::default()
        };
        manifest.phases = vec![Phase {
            kind: PhaseKind::Recorded {
                library: None,
                exit_code: None,
            },
            begin_ns: 1_000,
            end_ns: 3_000,
        }];
        let threads = Threads::default();
        let scope = |ns| Scope::of(&from(ns), &manifest, &threads);
        assert!(scope(1_999).is_ok());
        let error = scope(2_000).expect_err("it begins where the run ends");
        assert!(error.to_string().contains("ends after 2.00 us"), "{error}");
    }
}
