//! The kernel's records of a run in the form that the analysis needs: timelines per CPU, and events
//! of single threads.

use crate::ExplainError;
use crate::timeline::{BurstSpan, CpuTimeline, InterruptSpan};
use idlewave_run::tables::{
    Bursts, EndReason, Interrupts, Migrations, Table, TaskKind, Tasks, Wakeups,
};
use idlewave_run::{RunReader, TraceMode};
use idlewave_units::{Cpu, NodeId, Pid};
use std::collections::{BTreeMap, BTreeSet};

/// A burst of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnBurst {
    pub begin: u64,
    pub end: u64,
    pub cpu: Cpu,
    /// Why it ended.
    pub end_reason: EndReason,
}

/// Kernel records of all nodes, in the order of the manifest. CPUs and thread numbers are local to
/// a node.
#[derive(Debug)]
pub struct Kernels(BTreeMap<NodeId, Kernel>);

/// Kernel records of one node.
#[derive(Debug)]
pub struct Kernel {
    pub node: NodeId,
    pub mode: TraceMode,
    pub cpus: BTreeMap<Cpu, CpuTimeline>,
    pub(crate) bursts: BTreeMap<Pid, Vec<OwnBurst>>,
    /// When each thread was woken to run, not only to be migrated.
    pub activations: BTreeMap<Pid, Vec<u64>>,
    pub(crate) wakeups: BTreeMap<Pid, Vec<(u64, Cpu)>>,
    pub(crate) migrations: BTreeMap<Pid, Vec<(u64, Cpu)>>,
    /// Where threads that were migrated while running continued: CPU and start of the burst there.
    pub(crate) continued: BTreeSet<(Cpu, u64)>,
}

impl Kernels {
    /// Reads the tables of the kernel's view; all empty if there was none. Rows of nodes that the
    /// manifest does not list are ignored.
    pub fn read(run: &RunReader) -> Result<Self, ExplainError> {
        let mut kernels: BTreeMap<NodeId, Kernel> = run
            .manifest()
            .nodes
            .iter()
            .map(|n| (n.node, Kernel::empty(n.node, n.trace.mode)))
            .collect();
        let mut spans: BTreeMap<(NodeId, Cpu), (Vec<BurstSpan>, Vec<InterruptSpan>)> =
            BTreeMap::new();
        run.for_each::<Bursts>(|b| {
            let Some(kernel) = kernels.get_mut(&b.node) else {
                return;
            };
            let span = BurstSpan {
                begin: b.begin_ns,
                end: b.end_ns,
                pid: b.pid,
            };
            spans.entry((b.node, b.cpu)).or_default().0.push(span);
            if b.pid != Pid::IDLE {
                kernel.bursts.entry(b.pid).or_default().push(OwnBurst {
                    begin: b.begin_ns,
                    end: b.end_ns,
                    cpu: b.cpu,
                    end_reason: b.end_reason,
                });
            }
        })?;
        let mut durations: BTreeMap<(NodeId, u32), Vec<u64>> = BTreeMap::new();
        run.for_each::<Interrupts>(|i| {
            durations
                .entry((i.node, i.source))
                .or_default()
                .push(i.end_ns.saturating_sub(i.begin_ns));
            let span = InterruptSpan {
                begin: i.begin_ns,
                end: i.end_ns,
                source: i.source,
                depth: i.depth,
            };
            spans.entry((i.node, i.cpu)).or_default().1.push(span);
        })?;
        // Simulated interrupts are exactly as long as recorded.
        let measured = run.manifest().simulated.is_none();
        let medians: BTreeMap<(NodeId, u32), u64> = durations
            .into_iter()
            .filter(|(_, d)| measured && d.len() >= MEDIAN_NEEDS)
            .map(|(source, mut d)| {
                let middle = d.len() / 2;
                (source, *d.select_nth_unstable(middle).1)
            })
            .collect();
        for ((node, cpu), (b, i)) in spans {
            if let Some(kernel) = kernels.get_mut(&node) {
                let timeline = CpuTimeline::build(b, i, &|s| medians.get(&(node, s)).copied());
                kernel.cpus.insert(cpu, timeline);
            }
        }
        let stoppers = stoppers(&run.read::<Tasks>()?);
        let mut by_stopper: BTreeMap<NodeId, BTreeSet<(Pid, u64)>> = BTreeMap::new();
        run.for_each::<Wakeups>(|w| {
            let Some(kernel) = kernels.get_mut(&w.node) else {
                return;
            };
            if stoppers.contains(&(w.node, w.waker)) {
                by_stopper
                    .entry(w.node)
                    .or_default()
                    .insert((w.pid, w.time_ns));
            } else {
                let times = kernel.activations.entry(w.pid).or_default();
                times.push(w.time_ns);
            }
            kernel
                .wakeups
                .entry(w.pid)
                .or_default()
                .push((w.time_ns, w.target_cpu));
        })?;
        run.for_each::<Migrations>(|m| {
            if let Some(kernel) = kernels.get_mut(&m.node) {
                let moves = kernel.migrations.entry(m.pid).or_default();
                moves.push((m.time_ns, m.to));
            }
        })?;
        for kernel in kernels.values_mut() {
            kernel.finish(&by_stopper.remove(&kernel.node).unwrap_or_default());
        }
        Ok(Self(kernels))
    }

    /// Whether nothing was recorded of this node although another one was recorded: see
    /// [`Manifest::is_not_traced`](idlewave_run::Manifest::is_not_traced).
    pub fn are_blind(&self, node: NodeId) -> bool {
        let off = |k: &Kernel| k.mode == TraceMode::Off;
        self.of(node).is_some_and(off) && !self.iter().all(off)
    }

    /// Records of one node; `None` if the manifest does not list it.
    pub fn of(&self, node: NodeId) -> Option<&Kernel> {
        self.0.get(&node)
    }
    /// Records of one node, mutable.
    pub fn of_mut(&mut self, node: NodeId) -> Option<&mut Kernel> {
        self.0.get_mut(&node)
    }
    /// All, in order of nodes.
    pub fn iter(&self) -> impl Iterator<Item = &Kernel> {
        self.0.values()
    }
}

impl Kernel {
    pub(crate) fn empty(node: NodeId, mode: TraceMode) -> Self {
        Self {
            node,
            mode,
            cpus: BTreeMap::new(),
            bursts: BTreeMap::new(),
            activations: BTreeMap::new(),
            wakeups: BTreeMap::new(),
            migrations: BTreeMap::new(),
            continued: BTreeSet::new(),
        }
    }

    fn finish(&mut self, by_stopper: &BTreeSet<(Pid, u64)>) {
        for own in self.bursts.values_mut() {
            own.sort_by_key(|b| (b.begin, b.end));
        }
        for list in self
            .wakeups
            .values_mut()
            .chain(self.migrations.values_mut())
        {
            list.sort_unstable();
        }
        self.continued = continued(&self.bursts, by_stopper);
    }

    /// Whether every switch and interrupt of the traced CPUs was recorded (except counted losses).
    pub fn sees_everything(&self) -> bool {
        self.mode == TraceMode::Tracefs
    }
    /// The bursts of a thread, in order.
    pub fn bursts_of(&self, pid: Pid) -> &[OwnBurst] {
        self.bursts.get(&pid).map_or(&[], Vec::as_slice)
    }
    /// Whether the burst on `cpu` that starts at `begin` continues a thread that was migrated there
    /// while running.
    pub fn continues(&self, cpu: Cpu, begin: u64) -> bool {
        self.continued.contains(&(cpu, begin))
    }
    /// When and where a thread that is not running was last woken in `begin..=end`. A woken thread
    /// was asleep before; if it ran in between, those switches are missing.
    pub fn woken(&self, pid: Pid, begin: u64, end: u64) -> Option<(u64, Cpu)> {
        let list = self.wakeups.get(&pid)?;
        let last = list.partition_point(|w| w.0 <= end).checked_sub(1)?;
        Some(list[last]).filter(|w| w.0 >= begin)
    }
    /// The migrations of a thread in `begin..end`.
    pub fn moves(&self, pid: Pid, begin: u64, end: u64) -> impl Iterator<Item = (u64, Cpu)> + '_ {
        let list = self.migrations.get(&pid).map_or(&[][..], Vec::as_slice);
        let first = list.partition_point(|m| m.0 < begin);
        list[first..].iter().copied().take_while(move |m| m.0 < end)
    }
    /// The thread other than idle that had `cpu` longest in `begin..end`.
    pub fn dominating(&self, cpu: Cpu, begin: u64, end: u64) -> Option<Pid> {
        let mut time: BTreeMap<Pid, u64> = BTreeMap::new();
        for piece in self.cpus.get(&cpu)?.between(begin, end) {
            if let Some(pid) = piece.owner.filter(|&p| p != Pid::IDLE) {
                *time.entry(pid).or_default() += piece.end - piece.begin;
            }
        }
        time.into_iter()
            .max_by_key(|&(pid, t)| (t, std::cmp::Reverse(pid)))
            .map(|(pid, _)| pid)
    }
}

/// The kernel threads that migrate running threads (`migration/N`, `kernel/sched/core.c`).
fn stoppers(tasks: &Tasks) -> BTreeSet<(NodeId, Pid)> {
    tasks
        .rows()
        .filter(|t| t.kind == TaskKind::Kernel && t.name.starts_with("migration/"))
        .map(|t| (t.node, t.pid))
        .collect()
}

/// Where threads continued that were migrated while running: by the balancer, which preempts them,
/// or by a change of their affinity, for which they wait until the stopper has migrated and woken
/// them.
fn continued(
    bursts: &BTreeMap<Pid, Vec<OwnBurst>>,
    by_stopper: &BTreeSet<(Pid, u64)>,
) -> BTreeSet<(Cpu, u64)> {
    let mut out = BTreeSet::new();
    for (&pid, own) in bursts {
        for pair in own.windows(2) {
            let (before, after) = (pair[0], pair[1]);
            let ran_on = match before.end_reason {
                EndReason::Preempted => true,
                EndReason::Uninterruptible => by_stopper
                    .range((pid, before.end)..=(pid, after.begin))
                    .next()
                    .is_some(),
                _ => false,
            };
            if ran_on && before.cpu != after.cpu {
                out.insert((after.cpu, after.begin));
            }
        }
    }
    out
}

/// With fewer interrupts the median is not meaningful.
const MEDIAN_NEEDS: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_moved_while_it_runs_goes_on_and_one_that_slept_begins_anew() {
        let burst = |cpu, begin, end_reason| OwnBurst {
            begin,
            end: begin + 10,
            cpu: Cpu::new(cpu),
            end_reason,
        };
        let own = vec![
            burst(0, 100, EndReason::Preempted),
            burst(1, 200, EndReason::Uninterruptible),
            // Woken by the stopper at 220.
            burst(0, 300, EndReason::Uninterruptible),
            // Woken by its disk.
            burst(1, 400, EndReason::Sleeping),
            burst(0, 500, EndReason::Preempted),
            // Preempted, but not moved.
            burst(0, 600, EndReason::Exited),
        ];
        let pid = Pid::new(7);
        let found = continued(
            &BTreeMap::from([(pid, own)]),
            &BTreeSet::from([(pid, 220), (Pid::new(8), 320)]),
        );
        let expected = [(Cpu::new(0), 300), (Cpu::new(1), 200)];
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
    }
}
