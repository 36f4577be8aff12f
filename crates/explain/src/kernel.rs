//! The kernel's records of a run in the form the analysis needs: timelines per CPU, and what
//! happened to single threads.

use crate::ExplainError;
use crate::timeline::{BurstSpan, CpuTimeline, InterruptSpan};
use idlewave_run::tables::{Bursts, Interrupts, Migrations, Table, Wakeups};
use idlewave_run::{RunReader, TraceMode};
use idlewave_units::{Cpu, Pid};
use std::collections::BTreeMap;

/// A burst of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnBurst {
    pub begin: u64,
    pub end: u64,
    pub cpu: Cpu,
    /// One of `tables::end_reason`.
    pub end_reason: u8,
}

/// What the kernel recorded.
#[derive(Debug)]
pub struct Kernel {
    pub mode: TraceMode,
    pub cpus: BTreeMap<Cpu, CpuTimeline>,
    bursts: BTreeMap<Pid, Vec<OwnBurst>>,
    wakeups: BTreeMap<Pid, Vec<(u64, Cpu)>>,
    migrations: BTreeMap<Pid, Vec<(u64, Cpu)>>,
}

impl Kernel {
    /// Reads the tables of the kernel's view; all empty where there was none.
    pub fn read(run: &RunReader) -> Result<Self, ExplainError> {
        let mode = run
            .manifest()
            .nodes
            .first()
            .map_or(TraceMode::Off, |n| n.trace.mode);
        let mut spans: BTreeMap<Cpu, (Vec<BurstSpan>, Vec<InterruptSpan>)> = BTreeMap::new();
        let mut bursts: BTreeMap<Pid, Vec<OwnBurst>> = BTreeMap::new();
        for_each::<Bursts>(run, |b| {
            let span = BurstSpan {
                begin: b.begin_ns,
                end: b.end_ns,
                pid: b.pid,
            };
            spans.entry(b.cpu).or_default().0.push(span);
            if b.pid != Pid::IDLE {
                bursts.entry(b.pid).or_default().push(OwnBurst {
                    begin: b.begin_ns,
                    end: b.end_ns,
                    cpu: b.cpu,
                    end_reason: b.end_reason,
                });
            }
        })?;
        let mut durations: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for_each::<Interrupts>(run, |i| {
            durations
                .entry(i.source)
                .or_default()
                .push(i.end_ns.saturating_sub(i.begin_ns));
            let span = InterruptSpan {
                begin: i.begin_ns,
                end: i.end_ns,
                source: i.source,
                depth: i.depth,
            };
            spans.entry(i.cpu).or_default().1.push(span);
        })?;
        let medians: BTreeMap<u32, u64> = durations
            .into_iter()
            .filter(|(_, d)| d.len() >= MEDIAN_NEEDS)
            .map(|(source, mut d)| {
                let middle = d.len() / 2;
                (source, *d.select_nth_unstable(middle).1)
            })
            .collect();
        let cpus = spans
            .into_iter()
            .map(|(cpu, (b, i))| (cpu, CpuTimeline::build(b, i, &|s| medians.get(&s).copied())))
            .collect();
        for own in bursts.values_mut() {
            own.sort_by_key(|b| (b.begin, b.end));
        }
        let mut kernel = Kernel {
            mode,
            cpus,
            bursts,
            wakeups: BTreeMap::new(),
            migrations: BTreeMap::new(),
        };
        for_each::<Wakeups>(run, |w| {
            kernel
                .wakeups
                .entry(w.pid)
                .or_default()
                .push((w.time_ns, w.target_cpu));
        })?;
        for_each::<Migrations>(run, |m| {
            kernel
                .migrations
                .entry(m.pid)
                .or_default()
                .push((m.time_ns, m.to));
        })?;
        for list in kernel
            .wakeups
            .values_mut()
            .chain(kernel.migrations.values_mut())
        {
            list.sort_unstable();
        }
        Ok(kernel)
    }

    /// Whether every switch and interrupt of the traced CPUs was recorded (but for counted losses).
    pub fn sees_everything(&self) -> bool {
        self.mode == TraceMode::Tracefs
    }
    /// The bursts of a thread, in order.
    pub fn bursts_of(&self, pid: Pid) -> &[OwnBurst] {
        self.bursts.get(&pid).map_or(&[], Vec::as_slice)
    }
    /// When a thread was first made runnable in `begin..=end`, and where.
    pub fn woken(&self, pid: Pid, begin: u64, end: u64) -> Option<(u64, Cpu)> {
        first_within(self.wakeups.get(&pid)?, begin, end)
    }
    /// When a thread was first moved in `begin..=end`, and where to.
    pub fn moved(&self, pid: Pid, begin: u64, end: u64) -> Option<(u64, Cpu)> {
        first_within(self.migrations.get(&pid)?, begin, end)
    }
    /// How often a thread was moved in `begin..end`.
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

/// Fewer interrupts than this have no median worth comparing with.
const MEDIAN_NEEDS: usize = 20;

fn first_within(list: &[(u64, Cpu)], begin: u64, end: u64) -> Option<(u64, Cpu)> {
    let first = list.partition_point(|e| e.0 < begin);
    list.get(first).copied().filter(|e| e.0 <= end)
}

/// Calls `f` for every row, holding one batch in memory.
pub fn for_each<T: Table>(run: &RunReader, mut f: impl FnMut(T::Row)) -> Result<(), ExplainError> {
    let Some(mut reader) = run.table_if_present::<T>()? else {
        return Ok(());
    };
    let mut batch = T::default();
    loop {
        batch.clear();
        if !reader.next_into(&mut batch)? {
            return Ok(());
        }
        batch.rows().for_each(&mut f);
    }
}
