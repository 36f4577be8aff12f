//! Counters of the whole system at one time, and the difference of two readings.

use super::interrupts::{self, Row, increase};
use super::stat::{cpu_ticks, of_ticks};
use super::tasks::{TaskReading, differences, readings};
use crate::host::root::Root;
use idlewave_run::tables::{Counter, Counters, Source, Sources, TaskTime, TaskTimes};
use idlewave_run::{SourceKind, Table};
use idlewave_units::{Cpu, CpuSet, Nanos, NodeId, Pid};
use std::collections::BTreeMap;
use std::path::Path;

/// Counters of interrupts, softirqs and steal per CPU, and of CPU time per thread.
///
/// Unreadable counters are left out; at most 200,000 threads are read. A reading takes about 20 us
/// per thread. An unprivileged recording takes one at the start and one at the end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcSnapshot {
    interrupts: BTreeMap<String, Row>,
    softirqs: BTreeMap<String, Row>,
    steal: BTreeMap<Cpu, u64>,
    tasks: BTreeMap<u32, TaskReading>,
}

impl ProcSnapshot {
    /// Reads the counters of `cpus` and of all threads, below `root` (`/` for this machine).
    pub fn take(root: &Path, cpus: &CpuSet) -> ProcSnapshot {
        let root = Root::new(root);
        let text = |path: &str| root.text(path).ok().flatten().unwrap_or_default();
        // Read the threads first: reading the rest of /proc takes CPU time of this thread.
        let tasks = readings(&root);
        ProcSnapshot {
            interrupts: interrupts::parse(&text("proc/interrupts"), cpus, false),
            softirqs: interrupts::parse(&text("proc/softirqs"), cpus, true),
            steal: cpu_ticks(&text("proc/stat"))
                .into_iter()
                .filter(|(cpu, _)| cpus.contains(*cpu))
                .map(|(cpu, ticks)| (cpu, ticks.steal))
                .collect(),
            tasks,
        }
    }

    /// What increased from this reading to a later one: CPU time per thread and counters per CPU.
    ///
    /// A counter's source is its row in `sources`; a missing name is added with the next number, so
    /// the table must be dense from 0. Counters without an increase have no row. A new thread
    /// counts from its start; one that ended in between has no row. The time of a running thread
    /// lags by up to one timer tick. Steal is in nanoseconds, in steps of one clock tick (10 ms on
    /// most machines); everything else counts events.
    pub fn difference(
        &self,
        later: &ProcSnapshot,
        node: NodeId,
        begin_ns: u64,
        end_ns: u64,
        sources: &mut Sources,
    ) -> (TaskTimes, Counters) {
        let mut times = TaskTimes::default();
        for (task, used) in differences(&self.tasks, &later.tasks) {
            times.push(TaskTime {
                node,
                pid: Pid::new(task.stat.pid),
                name: task.stat.name.clone(),
                begin_ns,
                end_ns,
                ran: Nanos::from_nanos(used.ran_ns),
                waited: Nanos::from_nanos(used.waited_ns),
                slices: used.slices,
            });
        }
        let mut numbers = Numbers::new(sources);
        let mut counters = Counters::default();
        for (kind, name, cpu, increase) in self.rises(later) {
            let source = numbers.of(kind, &name);
            counters.push(Counter {
                node,
                cpu,
                source,
                begin_ns,
                end_ns,
                increase,
            });
        }
        (times, counters)
    }

    /// Kind, name, CPU and increase of every counter that increased.
    fn rises(&self, later: &ProcSnapshot) -> Vec<(SourceKind, String, Cpu, u64)> {
        let mut rises = Vec::new();
        for (before, after) in [
            (&self.interrupts, &later.interrupts),
            (&self.softirqs, &later.softirqs),
        ] {
            for (label, row) in after {
                for (cpu, count) in &row.counts {
                    // A row that was not listed before had neither a handler nor a count; a CPU
                    // that was offline keeps its old count.
                    let earlier = match before.get(label) {
                        None => 0,
                        Some(row) => match row.counts.get(cpu) {
                            None => continue,
                            Some(earlier) => *earlier,
                        },
                    };
                    rises.push((row.kind, row.name.clone(), *cpu, increase(earlier, *count)));
                }
            }
        }
        for (cpu, ticks) in &later.steal {
            if let Some(earlier) = self.steal.get(cpu) {
                let stolen = of_ticks(ticks.saturating_sub(*earlier));
                rises.push((
                    SourceKind::Hypervisor,
                    "steal".to_owned(),
                    *cpu,
                    stolen.get(),
                ));
            }
        }
        rises.retain(|(_, _, _, increase)| *increase > 0);
        rises
    }
}

/// Numbers of sources by kind and name.
struct Numbers<'a> {
    table: &'a mut Sources,
    known: BTreeMap<(SourceKind, String), u32>,
}

impl<'a> Numbers<'a> {
    fn new(table: &'a mut Sources) -> Self {
        let known = table.rows().map(|s| ((s.kind, s.name), s.id)).collect();
        Numbers { table, known }
    }

    fn of(&mut self, kind: SourceKind, name: &str) -> u32 {
        let table = &mut *self.table;
        *self
            .known
            .entry((kind, name.to_owned()))
            .or_insert_with(|| {
                let id = u32::try_from(table.len()).unwrap_or(u32::MAX);
                table.push(Source {
                    id,
                    kind,
                    name: name.to_owned(),
                });
                id
            })
    }
}
