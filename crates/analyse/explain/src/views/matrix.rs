//! Every thread by CPU: total time, number of bursts, average burst.

use super::scope::Scope;
use super::seen::Seen;
use super::threads::{Thread, Threads};
use super::walk::{Step, walk};
use crate::ExplainError;
use idlewave_run::RunReader;
use idlewave_units::{Cpu, CpuSet, Nanos, NodeId, Pid};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// Every thread by CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Matrix {
    /// From the first to the last burst in the scope.
    pub watched: Nanos,
    /// The CPUs on which something ran, of all nodes.
    pub cpus: CpuSet,
    /// The threads, most CPU time first.
    pub threads: Vec<MatrixRow>,
}

/// A thread by CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MatrixRow {
    /// Who it is.
    pub thread: Thread,
    /// Where it ran, in order of CPUs.
    pub cells: Vec<MatrixCell>,
}

/// A thread on one CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MatrixCell {
    /// The CPU, on the thread's node.
    pub cpu: Cpu,
    /// Time on it.
    pub time: Nanos,
    /// Bursts on it.
    pub bursts: u64,
    /// Mean burst.
    pub average: Nanos,
}

/// The view.
pub fn matrix(
    run: &RunReader,
    threads: &Threads,
    scope: &Scope,
    stop: &AtomicBool,
) -> Result<Matrix, ExplainError> {
    let mut sums: BTreeMap<(NodeId, Pid), BTreeMap<Cpu, (u64, u64)>> = BTreeMap::new();
    let mut seen = Seen::default();
    walk(run, scope, stop, |step| {
        let Step::Ran(ran) = step else {
            return;
        };
        let Some((begin, end)) = scope.clip(ran.begin, ran.end) else {
            return;
        };
        seen.add(&ran, begin, end);
        let cells = sums.entry((ran.node, ran.pid)).or_default();
        let cell = cells.entry(ran.cpu).or_default();
        *cell = (cell.0 + end - begin, cell.1 + 1);
    })?;
    let mut rows: Vec<MatrixRow> = sums
        .into_iter()
        .map(|((node, pid), cells)| MatrixRow {
            thread: threads.of(node, pid),
            cells: cells
                .into_iter()
                .map(|(cpu, (time, bursts))| MatrixCell {
                    cpu,
                    time: Nanos::from_nanos(time),
                    bursts,
                    average: Nanos::from_nanos(time / bursts),
                })
                .collect(),
        })
        .collect();
    let time = |row: &MatrixRow| row.cells.iter().map(|c| c.time).sum::<Nanos>();
    rows.sort_by_key(|r| (Reverse(time(r)), r.thread.node, r.thread.pid));
    Ok(Matrix {
        watched: Nanos::from_nanos(seen.watched()),
        cpus: seen.cpus(),
        threads: rows,
    })
}
