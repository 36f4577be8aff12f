//! Who ran, for how long and where: one pass over a run's bursts that holds none of them.
//!
//! It tells which threads are watched and which CPUs matter to them, before anything is kept.

use crate::ExplainError;
use idlewave_run::tables::{Bursts, Quanta};
use idlewave_run::{PhaseKind, RunReader};
use idlewave_units::{Cpu, CpuSet, NodeId, Pid};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// All threads that ran, other than idle.
#[derive(Debug, Default)]
pub struct Ran {
    threads: BTreeMap<(NodeId, Pid), Thread>,
    loops: BTreeMap<(NodeId, Cpu), Vec<Loop>>,
    /// Per phase and CPU, from the first fixed work quantum to the last; only if nothing but CPUs was
    /// measured.
    worked: BTreeMap<(u32, Cpu), Range<u64>>,
}

/// What a thread did in all.
#[derive(Debug)]
pub struct Thread {
    /// Time on CPUs, nanoseconds.
    pub time: u64,
    /// Where it ran.
    pub cpus: CpuSet,
    /// When and where it ran first.
    first: (u64, Cpu),
}

/// A stretch in which a loop measured on a CPU, and who had that CPU for how long.
#[derive(Debug)]
struct Loop {
    time: Range<u64>,
    had: BTreeMap<Pid, u64>,
}

impl Ran {
    /// Reads the bursts of a run; nobody ran if they were not recorded.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn read(run: &RunReader) -> Result<Self, ExplainError> {
        let manifest = run.manifest();
        let mut ran = Self::default();
        for phase in &manifest.phases {
            if let PhaseKind::Detour { node, loops, .. } = &phase.kind {
                for l in loops {
                    ran.add_loop((*node, l.cpu), l.begin_ns..l.end_ns);
                }
            }
        }
        if manifest.is_of_cpus() {
            run.for_each::<Quanta>(|q| {
                let end = q.begin_ns.saturating_add(q.duration.get());
                let time = ran.worked.entry((q.phase, q.cpu));
                time.or_insert(q.begin_ns..end).end = end;
            })?;
        }
        for ((phase, cpu), time) in ran.worked.clone() {
            if let Some(node) = manifest.measured_node(phase) {
                ran.add_loop((node, cpu), time);
            }
        }
        run.for_each::<Bursts>(|b| {
            if b.pid == Pid::IDLE {
                return;
            }
            ran.add(b.node, b.pid, b.cpu, b.begin_ns..b.end_ns);
            ran.add_to_loops(b.pid, (b.node, b.cpu), b.begin_ns..b.end_ns);
        })?;
        Ok(ran)
    }

    fn add_loop(&mut self, place: (NodeId, Cpu), time: Range<u64>) {
        self.loops.entry(place).or_default().push(Loop {
            time,
            had: BTreeMap::new(),
        });
    }

    fn add(&mut self, node: NodeId, pid: Pid, cpu: Cpu, time: Range<u64>) {
        let first = (time.start, cpu);
        let thread = self.threads.entry((node, pid)).or_insert_with(|| Thread {
            time: 0,
            cpus: CpuSet::new(),
            first,
        });
        thread.time += time.end.saturating_sub(time.start);
        thread.first = thread.first.min(first);
        thread.cpus.insert(cpu);
    }

    fn add_to_loops(&mut self, pid: Pid, place: (NodeId, Cpu), time: Range<u64>) {
        for l in self.loops.get_mut(&place).into_iter().flatten() {
            let (begin, end) = (time.start.max(l.time.start), time.end.min(l.time.end));
            if begin < end {
                *l.had.entry(pid).or_default() += end - begin;
            }
        }
    }

    /// The thread that had the CPU of a measuring loop longest while that ran; one of `own`, if any
    /// of them had it: on a busy machine, another program may have had it longer.
    pub fn measured(
        &self,
        place: (NodeId, Cpu),
        time: Range<u64>,
        own: &BTreeSet<(NodeId, Pid)>,
    ) -> Option<Pid> {
        let found = self.loops.get(&place)?.iter().find(|l| l.time == time)?;
        let longest = found
            .had
            .iter()
            .max_by_key(|&(&pid, &ns)| (own.contains(&(place.0, pid)), ns, std::cmp::Reverse(pid)));
        longest.map(|(pid, _)| *pid)
    }

    /// Where and when fixed work quanta were measured in a phase; none unless nothing but CPUs was
    /// measured.
    pub fn worked(&self, phase: u32) -> impl Iterator<Item = (Cpu, Range<u64>)> {
        let all = (phase, Cpu::new(0))..=(phase, Cpu::new(u32::MAX));
        self.worked
            .range(all)
            .map(|((_, cpu), time)| (*cpu, time.clone()))
    }

    /// A thread that ran.
    pub fn thread(&self, node: NodeId, pid: Pid) -> Option<&Thread> {
        self.threads.get(&(node, pid))
    }

    /// The threads of a node, in order.
    pub fn on(&self, node: NodeId) -> impl Iterator<Item = (Pid, &Thread)> {
        let all = (node, Pid::new(0))..=(node, Pid::new(u32::MAX));
        self.threads
            .range(all)
            .map(|((_, pid), thread)| (*pid, thread))
    }
}

impl Thread {
    /// The CPU on which it ran first.
    pub fn first_cpu(&self) -> Cpu {
        self.first.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_of_a_loop_had_its_cpu_longest_while_it_ran() {
        let node = NodeId::new(2);
        let place = (node, Cpu::new(1));
        let mut ran = Ran::default();
        ran.add_loop(place, 1_000..2_000);
        for (pid, cpu, time) in [
            // Longer, but before the loop began.
            (7, 1, 0..1_100),
            (8, 1, 1_100..1_600),
            (9, 1, 1_600..2_500),
            // On another CPU.
            (9, 2, 1_000..2_000),
        ] {
            ran.add_to_loops(Pid::new(pid), (node, Cpu::new(cpu)), time);
        }
        // A CPU with the same number on another node is not that CPU.
        ran.add_to_loops(Pid::new(7), (NodeId::new(1), Cpu::new(1)), 1_000..2_000);
        let measured = |time, own: &[u32]| {
            let own = own.iter().map(|pid| (node, Pid::new(*pid))).collect();
            ran.measured(place, time, &own).map(Pid::get)
        };
        assert_eq!(measured(1_000..2_000, &[]), Some(8));
        assert_eq!(measured(1_000..1_500, &[]), None);
        // 8 is another program; 9 is of idlewave, and 10 never ran.
        assert_eq!(measured(1_000..2_000, &[9, 10]), Some(9));
    }

    #[test]
    fn the_first_cpu_is_that_of_the_earliest_burst_whatever_their_order() {
        let (node, pid) = (NodeId::new(0), Pid::new(7));
        let mut ran = Ran::default();
        for (cpu, time) in [(3, 500..600), (1, 20..50), (2, 700..800)] {
            ran.add(node, pid, Cpu::new(cpu), time);
        }
        let thread = ran.thread(node, pid).expect("it ran");
        assert_eq!((thread.first_cpu(), thread.time), (Cpu::new(1), 230));
    }
}
