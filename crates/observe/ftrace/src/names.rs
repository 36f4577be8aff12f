//! The names in a trace: sources of interruptions, and threads.

use crate::RawTask;
use crate::event::{Comm, Handler, VECTORS};
use idlewave_run::tables::{Source, Sources, Task, TaskKind, Tasks};
use idlewave_run::{SourceKind, Table};
use idlewave_units::{NodeId, Pid};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Interrupt handlers that are the timer tick where it has no vector of its own: aarch64, RISC-V,
/// 32-bit ARM, x86 without a local APIC.
const TICK_HANDLERS: &[&str] = &["arch_timer", "riscv-timer", "twd", "timer"];
/// The handler through which aarch64 receives IPIs; `ipi_entry` is nested in it.
const IPI_HANDLER: &str = "IPI";

/// Softirqs by vector (`include/linux/interrupt.h`).
const SOFTIRQS: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

/// Numbers sources in order of appearance.
#[derive(Debug, Default)]
pub(crate) struct SourceBook {
    table: Sources,
    numbers: HashMap<(SourceKind, String), u32>,
    softirqs: [Option<u32>; SOFTIRQS.len()],
    vectors: [Option<u32>; VECTORS.len()],
    /// Names under which an interrupt number was seen: devices that share a number differ in name.
    irqs: HashMap<u32, Vec<(Vec<u8>, u32)>, NumberHash>,
}

impl SourceBook {
    /// The number of a handler; `name` is the recorded one.
    #[inline]
    pub(crate) fn number(&mut self, handler: Handler, name: &[u8]) -> u32 {
        let known = match handler {
            Handler::Vector(v) => self.vectors.get(usize::from(v)).copied().flatten(),
            Handler::Softirq(v) => self.softirqs.get(v as usize).copied().flatten(),
            Handler::Irq(irq) => self
                .irqs
                .get(&irq)
                .and_then(|names| names.iter().find(|(n, _)| n == name).map(|(_, id)| *id)),
            Handler::Trap => None,
        };
        match known {
            Some(number) => number,
            None => self.learn(handler, name),
        }
    }

    #[cold]
    fn learn(&mut self, handler: Handler, name: &[u8]) -> u32 {
        match handler {
            Handler::Vector(v) => {
                let (_, kind, label) = VECTORS[usize::from(v)];
                let number = self.enter(kind, label.to_owned());
                self.vectors[usize::from(v)] = Some(number);
                number
            }
            Handler::Trap => self.enter(SourceKind::PageFault, "page fault".to_owned()),
            Handler::Softirq(v) => match SOFTIRQS.get(v as usize) {
                Some(label) => {
                    let number = self.enter(SourceKind::Softirq, (*label).to_owned());
                    self.softirqs[v as usize] = Some(number);
                    number
                }
                None => self.enter(SourceKind::Softirq, format!("softirq {v}")),
            },
            Handler::Irq(irq) => {
                let label = text(name);
                let (kind, label) = match label.as_str() {
                    "" => (SourceKind::Irq, format!("irq {irq}")),
                    tick if TICK_HANDLERS.contains(&tick) => {
                        (SourceKind::TimerTick, "timer tick".to_owned())
                    }
                    IPI_HANDLER => (SourceKind::Ipi, "ipi".to_owned()),
                    _ => (SourceKind::Irq, label),
                };
                let number = self.enter(kind, label);
                self.irqs
                    .entry(irq)
                    .or_default()
                    .push((name.to_vec(), number));
                number
            }
        }
    }

    /// The number of the source of this kind and name, which is added if new.
    pub(crate) fn enter(&mut self, kind: SourceKind, name: String) -> u32 {
        let next = self.table.len() as u32;
        let number = *self.numbers.entry((kind, name.clone())).or_insert(next);
        if number == next {
            self.table.push(Source {
                id: number,
                kind,
                name,
            });
        }
        number
    }

    /// Number of sources.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// The table `sources`.
    pub(crate) fn table(&self) -> &Sources {
        &self.table
    }
}

/// What is known about a thread.
#[derive(Debug, Default)]
struct Known {
    listed: Option<RawTask>,
    parent: Option<Pid>,
    ran_ns: u64,
    /// The name seen last, with its time.
    comm: Option<(u64, Comm)>,
}

/// A thread of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenTask {
    /// The thread.
    pub pid: Pid,
    /// Its process, if known.
    pub process: Option<Pid>,
    /// The thread that started it, if that was seen.
    pub parent: Option<Pid>,
    /// Its name; empty if not known.
    pub name: String,
    /// What it is, as far as it or its ancestors were listed.
    pub kind: TaskKind,
    /// Time for which it had a CPU, interrupts included, in nanoseconds.
    pub ran_ns: u64,
}

/// The table `tasks`.
pub(crate) fn table(node: NodeId, seen: &[SeenTask]) -> Tasks {
    let mut table = Tasks::default();
    for task in seen {
        table.push(Task {
            node,
            pid: task.pid,
            process: task.process,
            name: task.name.clone(),
            kind: task.kind,
        });
    }
    table
}

/// Collects threads: those listed by the recorder and those seen in the trace.
#[derive(Debug, Default)]
pub(crate) struct TaskBook {
    known: HashMap<u32, Known, NumberHash>,
}

impl TaskBook {
    pub(crate) fn new(listed: &[RawTask]) -> Self {
        let mut book = Self::default();
        for task in listed {
            book.known.entry(task.pid.get()).or_default().listed = Some(task.clone());
        }
        book
    }

    /// Notes a thread, and its name if known.
    #[inline]
    pub(crate) fn see(&mut self, pid: Pid, comm: Option<Comm>, time_ns: u64) {
        self.ran(pid, comm, time_ns, 0);
    }

    /// Names a thread that has no name yet; any name from an event takes precedence.
    pub(crate) fn name(&mut self, pid: Pid, comm: Comm) {
        let known = self.known.entry(pid.get()).or_default();
        known.comm.get_or_insert((0, comm));
    }

    /// Notes a thread that had a CPU for `ran_ns`.
    #[inline]
    pub(crate) fn ran(&mut self, pid: Pid, comm: Option<Comm>, time_ns: u64, ran_ns: u64) {
        let known = self.known.entry(pid.get()).or_default();
        known.ran_ns = known.ran_ns.saturating_add(ran_ns);
        if let Some(comm) = comm {
            if known.comm.is_none_or(|(then, _)| then <= time_ns) {
                known.comm = Some((time_ns, comm));
            }
        }
    }

    /// Notes a new thread.
    pub(crate) fn born(&mut self, child: Pid, parent: Pid, comm: Option<Comm>, time_ns: u64) {
        self.see(child, comm, time_ns);
        self.known.entry(child.get()).or_default().parent = Some(parent);
    }

    /// All threads, by number.
    pub(crate) fn seen(&self) -> Vec<SeenTask> {
        let mut pids: Vec<u32> = self.known.keys().copied().collect();
        pids.sort_unstable();
        let seen = |pid: u32| {
            let known = &self.known[&pid];
            let listed = known.listed.as_ref();
            let comm = known.comm.map(|(_, comm)| text(&comm));
            let name = match (pid, comm, listed) {
                (0, ..) => "idle".to_owned(),
                (_, Some(name), _) => name,
                (_, None, Some(task)) => task.name.clone(),
                (_, None, None) => String::new(),
            };
            SeenTask {
                pid: Pid::new(pid),
                process: listed.and_then(|t| t.process),
                parent: known.parent,
                name,
                kind: self.kind(pid),
                ran_ns: known.ran_ns,
            }
        };
        pids.into_iter().map(seen).collect()
    }

    /// Kind of a thread: as listed, else that of the nearest listed ancestor, except that what a
    /// rank starts is not a rank.
    fn kind(&self, pid: u32) -> TaskKind {
        let mut at = pid;
        // A chain of parents longer than this, or a cycle, is damage.
        for generation in 0..64 {
            if at == Pid::IDLE.get() && generation == 0 {
                return TaskKind::Idle;
            }
            let Some(known) = self.known.get(&at) else {
                break;
            };
            match (&known.listed, known.parent) {
                (Some(task), _) if task.kernel => return TaskKind::Kernel,
                (Some(task), _) if task.rank && generation == 0 => return TaskKind::Rank,
                (Some(task), _) if task.program => return TaskKind::Program,
                (Some(task), _) if task.own || task.rank => return TaskKind::Own,
                (Some(_), _) => return TaskKind::User,
                (None, Some(parent)) => at = parent.get(),
                (None, None) => break,
            }
        }
        TaskKind::Unknown
    }
}

/// The text up to the first zero.
fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|b| *b == 0).next().unwrap_or(bytes);
    String::from_utf8_lossy(text).into_owned()
}

/// Hashes one number by a multiplication (Fibonacci hashing). Thread and interrupt numbers are
/// looked up once per switch, where the default hash would dominate the cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NumberHasher(u64);
type NumberHash = BuildHasherDefault<NumberHasher>;

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }
    fn write_u32(&mut self, number: u32) {
        // The table takes its index from the low bits and its tag from the high ones.
        let product = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::task;

    #[test]
    fn handlers_are_numbered_once_and_named_by_what_they_are() {
        let mut book = SourceBook::default();
        let met = [
            (Handler::Irq(24), &b"eth0\0"[..]),
            (Handler::Vector(0), b""),
            (Handler::Irq(24), b"usb1\0"),
            (Handler::Irq(27), b"arch_timer\0"),
            (Handler::Softirq(3), b""),
            (Handler::Irq(24), b"eth0\0"),
            (Handler::Softirq(77), b""),
            (Handler::Irq(9), b""),
            (Handler::Irq(2), b"IPI\0"),
            (Handler::Vector(11), b""),
            (Handler::Softirq(77), b""),
        ];
        let numbers = met.map(|(handler, name)| book.number(handler, name));
        assert_eq!(numbers, [0, 1, 2, 1, 3, 0, 4, 5, 6, 6, 4]);
        let rows: Vec<_> = book
            .table()
            .rows()
            .map(|s| (s.id, s.kind, s.name))
            .collect();
        let row = |id, kind: SourceKind, name: &str| (id, kind, name.to_owned());
        assert_eq!(
            rows,
            [
                row(0, SourceKind::Irq, "eth0"),
                row(1, SourceKind::TimerTick, "timer tick"),
                row(2, SourceKind::Irq, "usb1"),
                row(3, SourceKind::Softirq, "NET_RX"),
                row(4, SourceKind::Softirq, "softirq 77"),
                row(5, SourceKind::Irq, "irq 9"),
                row(6, SourceKind::Ipi, "ipi"),
            ]
        );
    }

    #[test]
    fn kinds_come_from_the_list_or_from_the_nearest_listed_ancestor() {
        let kernel = |mut t: RawTask| {
            t.kernel = true;
            t
        };
        let mut rank = task(20, "idlewave");
        rank.rank = true;
        let mut own = task(21, "idlewave");
        own.own = true;
        let program = |mut t: RawTask, rank| {
            (t.program, t.rank) = (true, rank);
            t
        };
        let listed = [
            kernel(task(2, "kthreadd")),
            task(10, "sshd"),
            rank,
            own,
            program(task(22, "mpirun"), false),
            program(task(23, "app"), true),
        ];
        let mut book = TaskBook::new(&listed);
        let pid = Pid::new;
        let comm = |name: &str| {
            let mut comm = [0; 16];
            comm[..name.len()].copy_from_slice(name.as_bytes());
            Some(comm)
        };
        book.born(pid(31), pid(30), comm("grandchild"), 5);
        book.born(pid(30), pid(10), comm("child"), 4);
        book.born(pid(32), pid(2), comm("kworker"), 4);
        book.born(pid(33), pid(20), None, 4);
        book.born(pid(34), pid(22), None, 4);
        book.born(pid(35), pid(23), None, 4);
        book.born(pid(40), pid(41), None, 4);
        book.born(pid(41), pid(40), None, 4);
        book.see(pid(0), comm("swapper/3"), 1);
        book.see(pid(50), comm("stranger"), 1);
        // The later name wins, whichever CPU is decoded first.
        book.see(pid(10), comm("new"), 9);
        book.see(pid(10), comm("old"), 8);
        let rows = book.seen();
        let rows: Vec<_> = rows
            .iter()
            .map(|t| (t.pid.get(), t.name.as_str(), t.kind))
            .collect();
        assert_eq!(
            rows,
            [
                (0, "idle", TaskKind::Idle),
                (2, "kthreadd", TaskKind::Kernel),
                (10, "new", TaskKind::User),
                (20, "idlewave", TaskKind::Rank),
                (21, "idlewave", TaskKind::Own),
                (22, "mpirun", TaskKind::Program),
                (23, "app", TaskKind::Rank),
                (30, "child", TaskKind::User),
                (31, "grandchild", TaskKind::User),
                (32, "kworker", TaskKind::Kernel),
                (33, "", TaskKind::Own),
                (34, "", TaskKind::Program),
                (35, "", TaskKind::Program),
                (40, "", TaskKind::Unknown),
                (41, "", TaskKind::Unknown),
                (50, "stranger", TaskKind::Unknown),
            ]
        );
    }
}
