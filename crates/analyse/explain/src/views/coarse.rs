//! What the counters of /proc say where the kernel was not traced: how much, but not when.
//!
//! The counters are read once before and once after the measurement, so they also hold what
//! happened between its phases. They resolve interrupts, softirqs and steal by CPU, and CPU time and
//! run-queue wait by thread.

use super::scope::Scope;
use super::threads::{Thread, Threads};
use crate::ExplainError;
use idlewave_run::tables::{Counters, Sources, Table, TaskTimes};
use idlewave_run::{RunReader, SourceKind};
use idlewave_units::{Cpu, Nanos, NodeId};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// CPU time of a thread between two readings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CoarseTask {
    /// Who it is.
    pub thread: Thread,
    /// Time between the readings.
    pub watched: Nanos,
    /// Time on a CPU in between.
    pub ran: Nanos,
    /// Time runnable without a CPU in between.
    pub waited: Nanos,
    /// How often it was put on a CPU.
    pub slices: u64,
}

/// A counter of a CPU between two readings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CoarseCounter {
    /// Node.
    pub node: NodeId,
    /// CPU.
    pub cpu: Cpu,
    /// Class.
    pub kind: SourceKind,
    /// Name.
    pub name: String,
    /// Time between the readings.
    pub watched: Nanos,
    /// Events; for steal, which has none, the stolen nanoseconds.
    pub increase: u64,
    /// Increase per second.
    pub rate: f64,
}

/// Threads by CPU time, always of the whole measurement and of all CPUs, which these counters do not
/// resolve; empty in a traced run.
pub(super) fn tasks(
    run: &RunReader,
    scope: &Scope,
    threads: &Threads,
) -> Result<Vec<CoarseTask>, ExplainError> {
    let mut rows = Vec::new();
    run.for_each::<TaskTimes>(|t| {
        if !scope.has_thread(t.node, t.pid) {
            return;
        }
        let mut thread = threads.of(t.node, t.pid);
        thread.name = t.name;
        rows.push(CoarseTask {
            thread,
            watched: Nanos::from_nanos(t.end_ns.saturating_sub(t.begin_ns)),
            ran: t.ran,
            waited: t.waited,
            slices: t.slices,
        });
    })?;
    rows.retain(|r| r.ran > Nanos::ZERO || r.waited > Nanos::ZERO);
    rows.sort_by_key(|r| (Reverse(r.ran), r.thread.node, r.thread.pid));
    Ok(rows)
}

/// Interrupts, softirqs and steal by CPU, most first, always of the whole measurement and whoever was
/// interrupted; empty in a traced run.
pub(super) fn counters(run: &RunReader, scope: &Scope) -> Result<Vec<CoarseCounter>, ExplainError> {
    let sources = run.read::<Sources>()?;
    let named: BTreeMap<u32, (SourceKind, String)> =
        sources.rows().map(|s| (s.id, (s.kind, s.name))).collect();
    let mut rows = Vec::new();
    run.for_each::<Counters>(|c| {
        if !scope.has_cpu(c.node, c.cpu) {
            return;
        }
        let unknown = || (SourceKind::Unexplained, format!("source {}", c.source));
        let (kind, name) = named.get(&c.source).cloned().unwrap_or_else(unknown);
        let watched = c.end_ns.saturating_sub(c.begin_ns);
        rows.push(CoarseCounter {
            node: c.node,
            cpu: c.cpu,
            kind,
            name,
            watched: Nanos::from_nanos(watched),
            increase: c.increase,
            rate: c.increase as f64 / (watched.max(1) as f64 / 1e9),
        });
    })?;
    // Steal counts nanoseconds, everything else events.
    rows.sort_by(|a, b| {
        let key = |r: &CoarseCounter| (r.kind != SourceKind::Hypervisor, Reverse(r.increase));
        key(a)
            .cmp(&key(b))
            .then_with(|| (&a.name, a.node, a.cpu).cmp(&(&b.name, b.node, b.cpu)))
    });
    Ok(rows)
}
