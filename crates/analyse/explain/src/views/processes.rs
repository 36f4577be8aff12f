//! Every process and kernel thread: how long it ran, in how many bursts, where, how they ended, and
//! how long it was ready without running.

use super::coarse::{CoarseTask, tasks};
use super::scope::Scope;
use super::seen::Seen;
use super::threads::{Thread, Threads};
use super::walk::{Step, walk};
use crate::ExplainError;
use idlewave_run::RunReader;
use idlewave_run::tables::EndReason;
use idlewave_units::{CpuSet, Nanos, NodeId, Pid};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// Every thread that ran, most CPU time first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Processes {
    /// From the first to the last burst in the scope.
    pub watched: Nanos,
    /// Time of all CPUs on which something ran, together.
    pub cpu_time: Nanos,
    /// The threads.
    pub threads: Vec<Process>,
    /// What the counters of /proc say, where the kernel was not traced.
    pub coarse: Vec<CoarseTask>,
}

/// One thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Process {
    /// Who it is.
    pub thread: Thread,
    /// Time on a CPU.
    pub time: Nanos,
    /// Share of the time of one CPU, 0..=1.
    pub share: f64,
    /// How often it was put on a CPU.
    pub bursts: u64,
    /// Mean burst.
    pub average: Nanos,
    /// Longest burst.
    pub longest: Nanos,
    /// Bursts that were on another CPU than the one before.
    pub migrations: u64,
    /// CPUs on which it ran.
    pub cpus: CpuSet,
    /// Time ready without running: woken or preempted, but not on a CPU.
    pub waited: Nanos,
    /// How the bursts ended.
    pub ended: Ends,
}

/// How bursts ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ends {
    /// Another thread was preferred, or the thread yielded.
    pub preempted: u64,
    /// It slept.
    pub blocked: u64,
    /// It slept without reacting to signals: it waits for the disk or a lock of the kernel.
    pub uninterruptible: u64,
    /// It was stopped, traced or parked.
    pub stopped: u64,
    /// It exited.
    pub exited: u64,
    /// The trace does not say.
    pub unknown: u64,
}

impl Ends {
    fn add(&mut self, reason: EndReason) {
        let place = match reason {
            EndReason::Preempted => &mut self.preempted,
            EndReason::Sleeping => &mut self.blocked,
            EndReason::Uninterruptible => &mut self.uninterruptible,
            EndReason::Stopped => &mut self.stopped,
            EndReason::Exited => &mut self.exited,
            EndReason::Unknown => &mut self.unknown,
        };
        *place += 1;
    }
}

#[derive(Debug, Default)]
struct Sums {
    time: u64,
    bursts: u64,
    longest: u64,
    migrations: u64,
    cpus: CpuSet,
    waited: u64,
    ended: Ends,
}

/// The view.
pub fn processes(
    run: &RunReader,
    threads: &Threads,
    scope: &Scope,
    stop: &AtomicBool,
) -> Result<Processes, ExplainError> {
    let mut sums: BTreeMap<(NodeId, Pid), Sums> = BTreeMap::new();
    let mut seen = Seen::default();
    walk(run, scope, stop, |step| match step {
        Step::Gap(gap) if gap.kind.is_ready() => {
            sums.entry((gap.node, gap.pid)).or_default().waited += gap.end - gap.begin;
        }
        Step::Gap(_) => {}
        Step::Ran(ran) => {
            let Some((begin, end)) = scope.clip(ran.begin, ran.end) else {
                return;
            };
            seen.add(&ran, begin, end);
            let sum = sums.entry((ran.node, ran.pid)).or_default();
            sum.time += end - begin;
            sum.bursts += 1;
            sum.longest = sum.longest.max(end - begin);
            sum.migrations += u64::from(ran.moved);
            sum.cpus.insert(ran.cpu);
            sum.ended.add(ran.end_reason);
        }
    })?;
    let watched = seen.watched();
    let mut rows: Vec<Process> = sums
        .into_iter()
        .filter(|(_, sum)| sum.bursts > 0)
        .map(|((node, pid), sum)| Process {
            thread: threads.of(node, pid),
            time: Nanos::from_nanos(sum.time),
            share: sum.time as f64 / watched.max(1) as f64,
            bursts: sum.bursts,
            average: Nanos::from_nanos(sum.time / sum.bursts),
            longest: Nanos::from_nanos(sum.longest),
            migrations: sum.migrations,
            cpus: sum.cpus,
            waited: Nanos::from_nanos(sum.waited),
            ended: sum.ended,
        })
        .collect();
    rows.sort_by_key(|r| (Reverse(r.time), r.thread.node, r.thread.pid));
    Ok(Processes {
        watched: Nanos::from_nanos(watched),
        cpu_time: Nanos::from_nanos(seen.cpu_time()),
        threads: rows,
        coarse: tasks(run, scope, threads)?,
    })
}
