//! The kernel's records of a run in the form that the analysis needs: timelines of the CPUs on
//! which watched threads ran or waited, and the events of these threads. Events of other threads
//! are not kept.

use crate::ExplainError;
use crate::ran::Ran;
use crate::timeline::{Builder, BurstSpan, CpuTimeline, InterruptSpan};
use idlewave_run::tables::{
    Burst, Bursts, EndReason, Interrupts, Migrations, Table, TaskKind, Tasks, Wakeups,
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

impl OwnBurst {
    fn of(row: &Burst) -> Self {
        Self {
            begin: row.begin_ns,
            end: row.end_ns,
            cpu: row.cpu,
            end_reason: row.end_reason,
        }
    }

    /// Whether the thread's next burst continues this one on another CPU, because the thread was
    /// migrated while it ran: by the balancer, which preempts it, or by a change of its affinity,
    /// for which it waits until the stopper has migrated and woken it.
    fn goes_on_in(
        &self,
        next: &Self,
        (node, pid): (NodeId, Pid),
        by_stopper: &BTreeSet<(NodeId, Pid, u64)>,
    ) -> bool {
        let between = (node, pid, self.end)..=(node, pid, next.begin.max(self.end));
        self.cpu != next.cpu
            && match self.end_reason {
                EndReason::Preempted => true,
                EndReason::Uninterruptible => by_stopper.range(between).next().is_some(),
                _ => false,
            }
    }
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
    /// Of watched threads only, like wake-ups and migrations.
    pub(crate) bursts: BTreeMap<Pid, Vec<OwnBurst>>,
    pub(crate) wakeups: BTreeMap<Pid, Vec<(u64, Cpu)>>,
    pub(crate) migrations: BTreeMap<Pid, Vec<(u64, Cpu)>>,
    /// Where threads that were migrated while running continued: CPU and start of the burst there.
    pub(crate) continued: BTreeSet<(Cpu, u64)>,
}

impl Kernels {
    /// Reads what matters to the watched threads from the tables of the kernel's view; all empty if
    /// there was none. Rows of nodes that the manifest does not list are ignored.
    pub fn read(
        run: &RunReader,
        tasks: &Tasks,
        watched: impl Iterator<Item = (NodeId, Pid)>,
        ran: &Ran,
    ) -> Result<Self, ExplainError> {
        let nodes = run.manifest().nodes.iter();
        let mut kernels = Self(
            nodes
                .map(|n| (n.node, Kernel::empty(n.node, n.trace.mode)))
                .collect(),
        );
        let watched: BTreeSet<(NodeId, Pid)> = watched
            .filter(|(node, pid)| *pid != Pid::IDLE && kernels.0.contains_key(node))
            .collect();
        if watched.is_empty() {
            return Ok(kernels);
        }
        let by_stopper = kernels.read_wakeups(run, &stoppers(tasks), &watched)?;
        kernels.read_migrations(run, &watched)?;
        let mut timelines = kernels.beginning(&watched, ran);
        kernels.read_bursts(run, &watched, &by_stopper, &mut timelines)?;
        read_interrupts(run, &mut timelines)?;
        for ((node, cpu), timeline) in timelines {
            if let Some(kernel) = kernels.of_mut(node) {
                kernel.cpus.insert(cpu, timeline.finish());
            }
        }
        Ok(kernels)
    }

    /// Reads when watched threads were woken. Returns when stoppers woke any thread.
    fn read_wakeups(
        &mut self,
        run: &RunReader,
        stoppers: &BTreeSet<(NodeId, Pid)>,
        watched: &BTreeSet<(NodeId, Pid)>,
    ) -> Result<BTreeSet<(NodeId, Pid, u64)>, ExplainError> {
        let mut by_stopper = BTreeSet::new();
        run.for_each::<Wakeups>(|w| {
            if stoppers.contains(&(w.node, w.waker)) {
                by_stopper.insert((w.node, w.pid, w.time_ns));
            }
            if !watched.contains(&(w.node, w.pid)) {
                return;
            }
            if let Some(kernel) = self.0.get_mut(&w.node) {
                let list = kernel.wakeups.entry(w.pid).or_default();
                list.push((w.time_ns, w.target_cpu));
            }
        })?;
        for kernel in self.0.values_mut() {
            kernel.wakeups.values_mut().for_each(|l| l.sort_unstable());
        }
        Ok(by_stopper)
    }

    fn read_migrations(
        &mut self,
        run: &RunReader,
        watched: &BTreeSet<(NodeId, Pid)>,
    ) -> Result<(), ExplainError> {
        run.for_each::<Migrations>(|m| {
            if !watched.contains(&(m.node, m.pid)) {
                return;
            }
            if let Some(kernel) = self.0.get_mut(&m.node) {
                let moves = kernel.migrations.entry(m.pid).or_default();
                moves.push((m.time_ns, m.to));
            }
        })?;
        for kernel in self.0.values_mut() {
            kernel
                .migrations
                .values_mut()
                .for_each(|l| l.sort_unstable());
        }
        Ok(())
    }

    /// The timelines that are needed: of the CPUs on which watched threads ran, and of those for
    /// which they were woken or to which they were moved, because they may have waited there.
    fn beginning(&self, watched: &BTreeSet<(NodeId, Pid)>, ran: &Ran) -> Timelines {
        let mut timelines = Timelines::new();
        for &(node, pid) in watched {
            let ran_on = ran
                .thread(node, pid)
                .into_iter()
                .flat_map(|t| t.cpus.iter());
            let kernel = &self.0[&node];
            let lists = [&kernel.wakeups, &kernel.migrations];
            let waited = lists
                .into_iter()
                .filter_map(|list| list.get(&pid))
                .flatten();
            for cpu in ran_on.chain(waited.map(|(_, cpu)| *cpu)) {
                timelines.entry((node, cpu)).or_default();
            }
        }
        timelines
    }

    fn read_bursts(
        &mut self,
        run: &RunReader,
        watched: &BTreeSet<(NodeId, Pid)>,
        by_stopper: &BTreeSet<(NodeId, Pid, u64)>,
        timelines: &mut Timelines,
    ) -> Result<(), ExplainError> {
        let mut before: BTreeMap<(NodeId, Pid), OwnBurst> = BTreeMap::new();
        let mut rows = run.in_order::<Bursts>(|b| b.begin_ns)?;
        while let Some(row) = rows.next_row()? {
            let here = timelines.get_mut(&(row.node, row.cpu));
            if row.pid != Pid::IDLE {
                let burst = OwnBurst::of(&row);
                let thread = (row.node, row.pid);
                let last = before.insert(thread, burst);
                let goes_on = last.is_some_and(|last| last.goes_on_in(&burst, thread, by_stopper));
                if let Some(kernel) = self.0.get_mut(&row.node) {
                    if goes_on && here.is_some() {
                        kernel.continued.insert((row.cpu, row.begin_ns));
                    }
                    if watched.contains(&thread) {
                        kernel.bursts.entry(row.pid).or_default().push(burst);
                    }
                }
            }
            if let Some(timeline) = here {
                timeline.burst(BurstSpan {
                    begin: row.begin_ns,
                    end: row.end_ns,
                    pid: row.pid,
                });
            }
        }
        Ok(())
    }

    /// Whether nothing was recorded of this node although another node was recorded: see
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
    /// Keeps only which nodes there are and how they were traced.
    pub(crate) fn forget_records(&mut self) {
        for kernel in self.0.values_mut() {
            *kernel = Kernel::empty(kernel.node, kernel.mode);
        }
    }
    /// The records of all nodes, in order.
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
            wakeups: BTreeMap::new(),
            migrations: BTreeMap::new(),
            continued: BTreeSet::new(),
        }
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
}

/// The kernel threads that migrate running threads (`migration/N`, `kernel/sched/core.c`).
fn stoppers(tasks: &Tasks) -> BTreeSet<(NodeId, Pid)> {
    tasks
        .rows()
        .filter(|t| t.kind == TaskKind::Kernel && t.name.starts_with("migration/"))
        .map(|t| (t.node, t.pid))
        .collect()
}

/// Visits when threads were woken to run, not only to be migrated.
pub(crate) fn for_each_activation(
    run: &RunReader,
    tasks: &Tasks,
    mut visit: impl FnMut(NodeId, Pid, u64),
) -> Result<(), ExplainError> {
    let stoppers = stoppers(tasks);
    run.for_each::<Wakeups>(|w| {
        if !stoppers.contains(&(w.node, w.waker)) {
            visit(w.node, w.pid, w.time_ns);
        }
    })?;
    Ok(())
}

/// Timelines under construction.
type Timelines = BTreeMap<(NodeId, Cpu), Builder>;

/// Lays the interrupts over the bursts.
fn read_interrupts(run: &RunReader, timelines: &mut Timelines) -> Result<(), ExplainError> {
    // Simulated interrupts are exactly as long as recorded.
    let medians = match run.manifest().simulated {
        None => medians(run)?,
        Some(_) => BTreeMap::new(),
    };
    let mut rows = run.in_order::<Interrupts>(|i| i.begin_ns)?;
    while let Some(row) = rows.next_row()? {
        if let Some(timeline) = timelines.get_mut(&(row.node, row.cpu)) {
            let span = InterruptSpan {
                begin: row.begin_ns,
                end: row.end_ns,
                source: row.source,
                depth: row.depth,
            };
            timeline.interrupt(span, medians.get(&(row.node, row.source)).copied());
        }
    }
    Ok(())
}

/// Median durations of the sources of interrupts, as far as they are meaningful.
fn medians(run: &RunReader) -> Result<BTreeMap<(NodeId, u32), u64>, ExplainError> {
    let mut durations: BTreeMap<(NodeId, u32), Vec<u64>> = BTreeMap::new();
    run.for_each::<Interrupts>(|i| {
        let of_source = durations.entry((i.node, i.source)).or_default();
        of_source.push(i.end_ns.saturating_sub(i.begin_ns));
    })?;
    let enough = durations
        .into_iter()
        .filter(|(_, d)| d.len() >= MEDIAN_NEEDS);
    let median = |mut d: Vec<u64>| {
        let middle = d.len() / 2;
        *d.select_nth_unstable(middle).1
    };
    Ok(enough.map(|(source, d)| (source, median(d))).collect())
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
        let own = [
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
        let thread = (NodeId::new(0), Pid::new(7));
        let by_stopper = [(7, 220), (8, 320)].map(|(pid, time)| (thread.0, Pid::new(pid), time));
        let by_stopper = BTreeSet::from(by_stopper);
        let goes_on = |pair: &[OwnBurst]| pair[0].goes_on_in(&pair[1], thread, &by_stopper);
        let found: Vec<_> = own.windows(2).map(goes_on).collect();
        assert_eq!(found, [true, true, false, false, false]);
    }
}
