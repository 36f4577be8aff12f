//! Watches: a measuring thread over a stretch of time, and everything that kept it from running.

use crate::catalog::{Catalog, NOT_TRACED, SourceId};
use crate::kernel::{Kernel, Kernels};
use crate::timeline::{Actor, Piece};
use idlewave_run::SourceKind;
use idlewave_run::tables::EndReason;
use idlewave_units::{Cpu, Nanos, NodeId, Pid, Rank};
use std::collections::BTreeSet;

/// A rank, or a detour or work loop, for the length of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Index of the phase in the manifest.
    pub phase: u32,
    /// The rank, in a lockstep phase.
    pub rank: Option<Rank>,
    /// The node on which it ran.
    pub node: NodeId,
    /// The CPU it was bound to, or first ran on.
    pub cpu: Cpu,
    /// The thread.
    pub pid: Pid,
    /// Start, nanoseconds.
    pub begin: u64,
    /// End, nanoseconds.
    pub end: u64,
}

impl Watch {
    /// The thread, with its node.
    pub fn thread(&self) -> (NodeId, Pid) {
        (self.node, self.pid)
    }
}

/// Time that one source took from a watched thread, without interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The source that took it.
    pub source: SourceId,
    /// The CPU on which it was taken.
    pub cpu: Cpu,
    /// Start, nanoseconds.
    pub begin: u64,
    /// End, nanoseconds.
    pub end: u64,
}

impl Charge {
    /// Its length in nanoseconds.
    pub fn length(&self) -> u64 {
        self.end - self.begin
    }
}

/// Charges that overlap `begin..end`; they are in order and do not overlap each other.
pub fn between(charges: &[Charge], begin: u64, end: u64) -> impl Iterator<Item = &Charge> {
    let first = charges.partition_point(|c| c.end <= begin);
    charges[first..].iter().take_while(move |c| c.begin < end)
}

/// Time charged in `begin..end`.
pub fn overlap(charges: &[Charge], begin: u64, end: u64) -> u64 {
    between(charges, begin, end)
        .map(|c| c.end.min(end) - c.begin.max(begin))
        .sum()
}

/// A runnable thread waiting on an idle CPU for longer than this, in a cgroup that was throttled
/// during the run, was stopped by the bandwidth limit: wake-ups take microseconds, bandwidth
/// periods 100 ms.
const THROTTLED_FROM: Nanos = Nanos::from_millis(1);

/// What the classification needs besides the records.
pub struct Charger<'a> {
    /// The kernel records.
    pub kernels: &'a Kernels,
    /// Names.
    pub catalog: &'a mut Catalog,
    /// Nodes whose kernel counted throttling of our cgroup.
    pub throttled: BTreeSet<NodeId>,
}

impl Charger<'_> {
    /// The source charged with the unexplained time of `watch`.
    pub fn unexplained(&mut self, watch: Option<&Watch>) -> SourceId {
        match watch.is_some_and(|w| self.kernels.are_blind(w.node)) {
            true => self.catalog.intern(SourceKind::Unexplained, NOT_TRACED),
            false => self.catalog.class(SourceKind::Unexplained),
        }
    }

    /// Everything that kept `watch`'s thread from running in `begin..end`, in order of time.
    /// Unrecorded stretches yield nothing.
    pub fn charges(&mut self, watch: &Watch, begin: u64, end: u64, out: &mut Vec<Charge>) {
        let Some(kernel) = self.kernels.of(watch.node) else {
            return;
        };
        let bursts = kernel.bursts_of(watch.pid);
        let first = bursts.partition_point(|b| b.end <= begin);
        // The previous burst tells why the thread was off the CPU at `begin`.
        let mut previous = first.checked_sub(1).map(|i| bursts[i]);
        for &burst in &bursts[first..] {
            if let Some(p) = previous {
                if p.end < burst.begin && p.end < end {
                    self.off_cpu(
                        kernel,
                        watch.pid,
                        p.end,
                        p.cpu,
                        p.end_reason,
                        burst.begin,
                        (begin, end),
                        out,
                    );
                }
            }
            if burst.begin >= end {
                return;
            }
            let (from, to) = (burst.begin.max(begin), burst.end.min(end));
            if let Some(timeline) = kernel.cpus.get(&burst.cpu) {
                for piece in timeline.between(from, to) {
                    self.push(
                        kernel,
                        watch.pid,
                        burst.cpu,
                        piece,
                        SourceKind::RunQueueWait,
                        out,
                    );
                }
            }
            previous = Some(burst);
        }
    }

    /// The thread was off its CPU from `left` until `back`; only `window` matters.
    #[allow(clippy::too_many_arguments)]
    fn off_cpu(
        &mut self,
        kernel: &Kernel,
        pid: Pid,
        left: u64,
        cpu: Cpu,
        reason: EndReason,
        back: u64,
        window: (u64, u64),
        out: &mut Vec<Charge>,
    ) {
        let slept = matches!(reason, EndReason::Sleeping | EndReason::Uninterruptible);
        let woken = kernel.woken(pid, left, back);
        let (runnable, mut cpu) = match woken {
            Some((time, target)) if slept => (time, target),
            _ if slept => (back, cpu),
            _ => (left, cpu),
        };
        // A woken thread was asleep, even if that switch is missing: the idle CPU did not keep it
        // waiting before.
        let asleep_until = woken.map_or(runnable, |(time, _)| time);
        let cut = |from: u64, to: u64| {
            let (from, to) = (from.max(window.0), to.min(window.1));
            (from < to).then_some((from, to))
        };
        if let Some((begin, end)) = cut(left, runnable) {
            let source = self.catalog.class(SourceKind::Blocked);
            out.push(Charge {
                source,
                cpu,
                begin,
                end,
            });
        }
        let mut from = runnable;
        let mut idle_is = SourceKind::RunQueueWait;
        if self.throttled.contains(&kernel.node)
            && back.saturating_sub(runnable) >= THROTTLED_FROM.get()
        {
            idle_is = SourceKind::Throttled;
        }
        let moves: Vec<(u64, Cpu)> = kernel.moves(pid, runnable, back).collect();
        for (until, next_cpu) in moves
            .into_iter()
            .map(|(t, c)| (t, Some(c)))
            .chain([(back, None)])
        {
            let woken = asleep_until.clamp(from, until);
            for (from, until, idle_is) in
                [(from, woken, SourceKind::Blocked), (woken, until, idle_is)]
            {
                if let (Some((begin, end)), Some(timeline)) =
                    (cut(from, until), kernel.cpus.get(&cpu))
                {
                    for piece in timeline.between(begin, end) {
                        self.push(kernel, pid, cpu, piece, idle_is, out);
                    }
                }
            }
            from = until;
            if let Some(next) = next_cpu {
                cpu = next;
                idle_is = SourceKind::Migration;
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn push(
        &mut self,
        kernel: &Kernel,
        pid: Pid,
        cpu: Cpu,
        piece: Piece,
        idle_is: SourceKind,
        out: &mut Vec<Charge>,
    ) {
        let source = match piece.actor {
            Actor::Thread(other) if other == pid => return,
            Actor::Thread(Pid::IDLE) => self.catalog.class(idle_is),
            Actor::Thread(other) => self.catalog.thread(kernel.node, other),
            Actor::Interrupt(row) => self.catalog.interrupt(row),
            Actor::Hypervisor => self.catalog.class(SourceKind::Hypervisor),
            Actor::Unknown if kernel.sees_everything() => {
                self.catalog.class(SourceKind::Unexplained)
            }
            Actor::Unknown => self.catalog.intern(SourceKind::OtherTask, NOT_VISIBLE),
        };
        match out.last_mut() {
            Some(last) if last.source == source && last.end == piece.begin && last.cpu == cpu => {
                last.end = piece.end;
            }
            _ => out.push(Charge {
                source,
                cpu,
                begin: piece.begin,
                end: piece.end,
            }),
        }
    }
}

/// Name of another task when only the thread's own switches are visible.
pub const NOT_VISIBLE: &str = "another task (its name is not visible)";
