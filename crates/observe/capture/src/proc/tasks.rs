//! All threads of the system, kernel threads included, and the CPU time of each.

use super::stat::{TaskStat, task_stat};
use crate::host::root::Root;
use idlewave_units::Pid;
use std::collections::BTreeMap;
use std::path::Path;

/// Most threads read; nodes have a few thousand. Further ones are left out.
const MAX_THREADS: usize = 200_000;
/// A line of /proc/PID/stat has about 300 bytes.
const LINE_CAP: usize = 4 << 10;

/// A thread of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcTask {
    /// Thread number.
    pub pid: Pid,
    /// Its process (thread group).
    pub process: Pid,
    /// Name as in a kernel trace: at most 15 bytes, workers without their current work.
    pub name: String,
    /// Whether it is a thread of the kernel.
    pub kernel: bool,
}

/// All visible threads, by thread number, at most 200,000. In a container, those of the container
/// only. Threads that end in the meantime are left out.
pub fn tasks(root: &Path) -> Vec<ProcTask> {
    let mut tasks: Vec<ProcTask> = threads(&Root::new(root))
        .map(|(process, _, stat)| ProcTask {
            pid: Pid::new(stat.pid),
            process: Pid::new(process),
            name: stat.name,
            kernel: stat.kernel,
        })
        .collect();
    tasks.sort_by_key(|task| task.pid);
    tasks
}

/// Process, directory and `stat` of every thread.
fn threads(root: &Root) -> impl Iterator<Item = (u32, String, TaskStat)> + '_ {
    root.numbers("proc")
        .into_iter()
        .flat_map(move |process| {
            let dir = format!("proc/{process}/task");
            root.numbers(&dir)
                .into_iter()
                .map(move |thread| (process, format!("{dir}/{thread}")))
        })
        .take(MAX_THREADS)
        .filter_map(move |(process, dir)| {
            let line = root.bytes(&format!("{dir}/stat"), LINE_CAP).ok()??;
            Some((process, dir, task_stat(&String::from_utf8_lossy(&line))?))
        })
}

/// What a thread has used since its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaskReading {
    pub(crate) process: u32,
    pub(crate) stat: TaskStat,
    pub(crate) used: SchedStat,
}

/// The three numbers of /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SchedStat {
    /// Nanoseconds on a CPU. For a running thread the time since the last tick is missing.
    pub(crate) ran_ns: u64,
    /// Nanoseconds runnable and waiting for a CPU.
    pub(crate) waited_ns: u64,
    /// Times it was put on a CPU.
    pub(crate) slices: u64,
}

impl SchedStat {
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut numbers = line.split_ascii_whitespace().map(|word| word.parse().ok());
        let mut next = || numbers.next().flatten();
        Some(SchedStat {
            ran_ns: next()?,
            waited_ns: next()?,
            slices: next()?,
        })
    }

    /// Increase since `earlier`; a decrease counts as unchanged.
    pub(crate) fn since(self, earlier: SchedStat) -> SchedStat {
        SchedStat {
            ran_ns: self.ran_ns.saturating_sub(earlier.ran_ns),
            waited_ns: self.waited_ns.saturating_sub(earlier.waited_ns),
            slices: self.slices.saturating_sub(earlier.slices),
        }
    }
}

/// Every thread with a readable schedstat; empty on kernels without scheduler statistics.
pub(crate) fn readings(root: &Root) -> BTreeMap<u32, TaskReading> {
    threads(root)
        .filter_map(|(process, dir, stat)| {
            let line = root.bytes(&format!("{dir}/schedstat"), LINE_CAP).ok()??;
            let used = SchedStat::parse(&String::from_utf8_lossy(&line))?;
            Some((
                stat.pid,
                TaskReading {
                    process,
                    stat,
                    used,
                },
            ))
        })
        .collect()
}

/// Threads that used something between two readings, with how much, by thread number. A thread that
/// is new, or reuses a number, counts from its start. One that ended in between has no second
/// reading and is not listed.
pub(crate) fn differences<'a>(
    earlier: &BTreeMap<u32, TaskReading>,
    later: &'a BTreeMap<u32, TaskReading>,
) -> Vec<(&'a TaskReading, SchedStat)> {
    later
        .iter()
        .filter_map(|(pid, task)| {
            let before = earlier
                .get(pid)
                .filter(|b| b.stat.started == task.stat.started);
            let used = before.map_or(task.used, |b| task.used.since(b.used));
            (used != SchedStat::default()).then_some((task, used))
        })
        .collect()
}
