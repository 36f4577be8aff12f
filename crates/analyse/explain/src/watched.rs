//! The watched threads of a run, and their own observations.

use crate::ExplainError;
use crate::edges::Gap;
use crate::ran::{Ran, Thread};
use crate::watch::Watch;
use idlewave_run::tables::{Detours, Table, TaskKind, Tasks};
use idlewave_run::{Manifest, PhaseKind, RankSheet, RunReader, clock_error_between};
use idlewave_units::{Cpu, Nanos, NodeId, Pid, Rank};
use std::collections::{BTreeMap, BTreeSet};

/// Nodes whose kernel counted throttling of our cgroup.
pub fn throttled_nodes(manifest: &Manifest) -> BTreeSet<NodeId> {
    manifest
        .nodes
        .iter()
        .filter(|n| n.contamination.throttled.is_some_and(|t| t > 0))
        .map(|n| n.node)
        .collect()
}

/// All measuring threads of all phases. If a phase does not name its threads, the thread of idlewave
/// that had the CPU longest is taken, or else any; without the kernel's view, pid 0 stands for it.
pub fn watches(manifest: &Manifest, tasks: &Tasks, ran: &Ran) -> Vec<Watch> {
    let mut out = Vec::new();
    let mut lockstep = 0;
    let own = tasks.rows().filter(|t| t.kind == TaskKind::Own);
    let own: BTreeSet<(NodeId, Pid)> = own.map(|t| (t.node, t.pid)).collect();
    for (index, phase) in manifest.phases.iter().enumerate() {
        let watch =
            |node: NodeId, cpu: Cpu, rank: Option<Rank>, pid: Pid, begin: u64, end: u64| Watch {
                phase: index as u32,
                rank,
                node,
                cpu,
                pid,
                begin,
                end: end.max(begin),
            };
        match &phase.kind {
            PhaseKind::Detour { node, loops, .. } => {
                for l in loops {
                    let measured = ran.measured((*node, l.cpu), l.begin_ns..l.end_ns, &own);
                    let pid = measured.unwrap_or(Pid::IDLE);
                    out.push(watch(*node, l.cpu, None, pid, l.begin_ns, l.end_ns));
                }
            }
            // Its quanta are single readings: gaps that the kernel did not see are not known. In a
            // study, its other parts tell more.
            PhaseKind::FixedWork { node, .. } | PhaseKind::FixedTime { node, .. } => {
                for (cpu, time) in ran.worked(index as u32) {
                    let measured = ran.measured((*node, cpu), time.clone(), &own);
                    let pid = measured.unwrap_or(Pid::IDLE);
                    out.push(watch(*node, cpu, None, pid, time.start, time.end));
                }
            }
            PhaseKind::Recorded { .. } => {
                let (begin, end) = (phase.begin_ns, phase.end_ns);
                for rank in &manifest.ranks {
                    for &pid in &rank.threads {
                        let cpu = bound_or_first_cpu(rank, pid, ran);
                        out.push(watch(rank.node, cpu, Some(rank.rank), pid, begin, end));
                    }
                }
                // A program that called no MPI: all its threads.
                if manifest.ranks.iter().all(|r| r.threads.is_empty()) {
                    for task in tasks.rows().filter(|t| t.kind == TaskKind::Program) {
                        if let Some(thread) = ran.thread(task.node, task.pid) {
                            let cpu = thread.first_cpu();
                            out.push(watch(task.node, cpu, None, task.pid, begin, end));
                        }
                    }
                }
            }
            PhaseKind::Scaling(_) => {}
            PhaseKind::Lockstep { .. }
            | PhaseKind::MolecularDynamics { .. }
            | PhaseKind::Benchmark(_)
            | PhaseKind::PingPong { .. } => {
                for rank in &manifest.ranks[..ranks_of(manifest, &phase.kind)] {
                    let pid = rank.threads.get(lockstep).copied().unwrap_or(Pid::IDLE);
                    let cpu = bound_or_first_cpu(rank, pid, ran);
                    out.push(watch(
                        rank.node,
                        cpu,
                        Some(rank.rank),
                        pid,
                        phase.begin_ns,
                        phase.end_ns,
                    ));
                }
                lockstep += 1;
            }
        }
    }
    out
}

/// Number of ranks that took part in a phase, counted from rank 0.
pub fn ranks_of(manifest: &Manifest, kind: &PhaseKind) -> usize {
    match kind {
        PhaseKind::Lockstep { ranks, .. } => taking_part(manifest, *ranks),
        PhaseKind::Benchmark(sheet) => taking_part(manifest, Some(sheet.ranks.len() as u32)),
        _ => taking_part(manifest, None),
    }
}

/// Number of ranks of a lockstep run limited to the first `ranks`, or all.
pub fn taking_part(manifest: &Manifest, ranks: Option<u32>) -> usize {
    let all = manifest.ranks.len();
    ranks.map_or(all, |ranks| all.min(ranks as usize))
}

/// Bound of the error between the clocks of the first `ranks` ranks.
pub fn clock_error(manifest: &Manifest, ranks: usize) -> Nanos {
    let taking_part = manifest.ranks.iter().take(ranks).map(|r| r.node);
    let nodes: BTreeSet<NodeId> = taking_part.collect();
    let sheets = manifest.nodes.iter().filter(|n| nodes.contains(&n.node));
    clock_error_between(sheets.map(|n| n.alignment.as_ref()))
}

fn bound_or_first_cpu(rank: &RankSheet, pid: Pid, ran: &Ran) -> Cpu {
    let first = || ran.thread(rank.node, pid).map(Thread::first_cpu);
    rank.cpu.or_else(first).unwrap_or(Cpu::new(0))
}

pub fn is_recorded(manifest: &Manifest, watch: &Watch) -> bool {
    let phase = manifest.phases.get(watch.phase as usize);
    phase.is_some_and(|p| matches!(p.kind, PhaseKind::Recorded { .. }))
}

/// Whether it is of a benchmark or a ping-pong.
pub fn is_benchmark(manifest: &Manifest, watch: &Watch) -> bool {
    let phase = manifest.phases.get(watch.phase as usize);
    phase.is_some_and(|p| matches!(p.kind, PhaseKind::Benchmark(_) | PhaseKind::PingPong { .. }))
}

/// The gaps of every watch, in order of time.
pub fn gaps(run: &RunReader, watches: &[Watch]) -> Result<Vec<Vec<Gap>>, ExplainError> {
    let place: BTreeMap<(u32, Option<Rank>, Option<Cpu>), usize> = watches
        .iter()
        .enumerate()
        .map(|(i, w)| ((w.phase, w.rank, w.rank.is_none().then_some(w.cpu)), i))
        .collect();
    let mut out = vec![Vec::new(); watches.len()];
    run.for_each::<Detours>(|d| {
        let key = (d.phase, d.rank, d.rank.is_none().then_some(d.cpu));
        if let Some(&i) = place.get(&key) {
            // Untrusted input: no gap ends beyond the range of the clock.
            let begin = d.begin_ns.min(u64::MAX / 2);
            out[i].push(Gap {
                begin,
                length: d.length.get().min(u64::MAX / 4),
            });
        }
    })?;
    for list in &mut out {
        list.sort_by_key(|g| g.begin);
    }
    Ok(out)
}
