//! Run-queue latency: how long threads were ready before they ran, by thread and by CPU.

use super::lengths::{LengthSummary, Lengths};
use super::scope::Scope;
use super::threads::{Thread, Threads};
use super::walk::{GapKind, Step, walk};
use crate::ExplainError;
use idlewave_run::RunReader;
use idlewave_units::{Cpu, NodeId, Pid};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// Run-queue latency.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Of all threads.
    pub all: Ready,
    /// By thread, most time ready first.
    pub threads: Vec<ThreadLatency>,
    /// By the CPU on which the thread ran then, in order of nodes and CPUs.
    pub cpus: Vec<CpuLatency>,
}

/// Times between being ready and running.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ready {
    /// From the wake-up to the switch-in.
    pub woken: LengthSummary,
    /// From the preemption to the next switch-in.
    pub preempted: LengthSummary,
}

/// Latency of a thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadLatency {
    /// Who it is.
    pub thread: Thread,
    /// Its latency.
    #[serde(flatten)]
    pub ready: Ready,
}

/// Latency on a CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CpuLatency {
    /// Node.
    pub node: NodeId,
    /// CPU.
    pub cpu: Cpu,
    /// Latency there.
    #[serde(flatten)]
    pub ready: Ready,
}

#[derive(Debug, Default)]
struct Sums {
    woken: Lengths,
    preempted: Lengths,
}

impl Sums {
    fn add(&mut self, woken: bool, length: u64) {
        match woken {
            true => self.woken.add(length),
            false => self.preempted.add(length),
        }
    }

    fn total(&self) -> u64 {
        self.woken.total() + self.preempted.total()
    }

    fn summary(&self) -> Ready {
        Ready {
            woken: self.woken.summary(),
            preempted: self.preempted.summary(),
        }
    }
}

/// The view.
pub fn latency(
    run: &RunReader,
    threads: &Threads,
    scope: &Scope,
    stop: &AtomicBool,
) -> Result<Latency, ExplainError> {
    let mut all = Sums::default();
    let mut by_thread: BTreeMap<(NodeId, Pid), Sums> = BTreeMap::new();
    let mut by_cpu: BTreeMap<(NodeId, Cpu), Sums> = BTreeMap::new();
    walk(run, scope, stop, |step| {
        let Step::Gap(gap) = step else {
            return;
        };
        if !gap.kind.is_ready() {
            return;
        }
        let (woken, length) = (gap.kind == GapKind::ReadyWoken, gap.end - gap.begin);
        all.add(woken, length);
        let thread = by_thread.entry((gap.node, gap.pid)).or_default();
        thread.add(woken, length);
        by_cpu
            .entry((gap.node, gap.cpu))
            .or_default()
            .add(woken, length);
    })?;
    let mut rows: Vec<((NodeId, Pid), Sums)> = by_thread.into_iter().collect();
    rows.sort_by_key(|(key, sums)| (Reverse(sums.total()), *key));
    let row = |((node, pid), sums): ((NodeId, Pid), Sums)| ThreadLatency {
        thread: threads.of(node, pid),
        ready: sums.summary(),
    };
    Ok(Latency {
        all: all.summary(),
        threads: rows.into_iter().map(row).collect(),
        cpus: by_cpu
            .into_iter()
            .map(|((node, cpu), sums)| CpuLatency {
                node,
                cpu,
                ready: sums.summary(),
            })
            .collect(),
    })
}
