//! A run that is built from a trace, and its threads.

use crate::import::error::ImportError;
use crate::import::paraver::calls::Functions;
use crate::import::paraver::dropped::Dropped;
use crate::import::paraver::header::{Header, Task};
use crate::import::paraver::labels::{First, named, source};
use crate::import::paraver::lines::Record;
use crate::import::paraver::live::Live;
use crate::import::paraver::names::Names;
use crate::import::paraver::sheet::describe;
use crate::prv;
use idlewave_run::tables::{
    Bursts, Calls, Interrupts, Marks, Source, Sources, Table, TaskKind, Transfers,
};
use idlewave_run::{RunWriter, TableWriter};
use idlewave_units::{Cpu, NodeId, Pid, Rank};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Threads of a task are found by their number in the whole trace.
type Object = (u32, u32, u32);

/// A run that is being built.
pub(super) struct Build {
    pub(super) run: RunWriter,
    pub(super) header: Header,
    pub(super) names: Names,
    /// Bursts come from events, not from states.
    pub(super) by_events: bool,
    pub(super) end: u64,
    /// What the first application is.
    pub(super) application: First,
    /// Node and number of each CPU.
    pub(super) cpus: Vec<(NodeId, Cpu)>,
    /// Index of the first thread of each task.
    pub(super) first: Vec<Vec<u64>>,
    pub(super) threads: Vec<Live>,
    pub(super) objects: HashMap<Object, usize>,
    pub(super) pids: HashSet<(NodeId, Pid)>,
    pub(super) next_pid: u32,
    /// Rows of `sources`.
    pub(super) sources: Sources,
    pub(super) functions: Functions,
    pub(super) sequences: HashMap<(Rank, u32), u32>,
    pub(super) comms: BTreeMap<u32, u32>,
    pub(super) bursts: TableWriter<Bursts>,
    pub(super) interrupts: TableWriter<Interrupts>,
    pub(super) calls: TableWriter<Calls>,
    pub(super) transfers: TableWriter<Transfers>,
    pub(super) marks: TableWriter<Marks>,
    pub(super) ran: u64,
    pub(super) called: u64,
    pub(super) dropped: Dropped,
}

impl Build {
    pub(super) fn begin(
        header: Header,
        names: Names,
        by_events: bool,
        mut run: RunWriter,
    ) -> Result<Self, ImportError> {
        let mut cpus = Vec::new();
        for (node, &count) in header.cpus.iter().enumerate() {
            for cpu in 0..count {
                // idlewave's own labels have the kernel's numbers.
                let label = names.cpus.get(cpus.len()).filter(|_| by_events);
                let label = label.and_then(|l| l.strip_prefix("CPU "));
                let number = label.and_then(|l| l.split(' ').next()?.parse().ok());
                cpus.push((NodeId::new(node as u32), Cpu::new(number.unwrap_or(cpu))));
            }
        }
        let mut next = 0;
        let first = header.applications.iter().map(|tasks| {
            let of = |task: &Task| {
                let first = next;
                next += u64::from(task.threads);
                first
            };
            tasks.iter().map(of).collect()
        });
        let first = first.collect();
        describe(&mut run.manifest, &header, &names, &cpus);
        let mut sources = Sources::default();
        for (value, name) in names.values_of(prv::INTERRUPT) {
            let id = sources.len() as u32;
            // Rows are numbered from 0 without a hole.
            if value.checked_sub(1) == Some(id.into()) {
                let (kind, name) = source(name);
                sources.push(Source { id, kind, name });
            }
        }
        Ok(Self {
            bursts: run.table()?,
            interrupts: run.table()?,
            calls: run.table()?,
            transfers: run.table()?,
            marks: run.table()?,
            application: names.first().0,
            end: header.end_ns(),
            first,
            run,
            header,
            names,
            by_events,
            cpus,
            threads: Vec::new(),
            objects: HashMap::new(),
            pids: HashSet::new(),
            next_pid: 0,
            sources,
            functions: Functions::default(),
            sequences: HashMap::new(),
            comms: BTreeMap::new(),
            ran: 0,
            called: 0,
            dropped: Dropped::default(),
        })
    }

    /// A line that is no record.
    pub(super) fn dropped(&mut self, line: u64) {
        self.dropped.malformed += 1;
        self.dropped.first.get_or_insert(line);
    }

    /// Takes a record.
    pub(super) fn take(&mut self, record: &Record) -> Result<(), ImportError> {
        let &[cpu, appl, task, thread, time, ref rest @ ..] = record.fields.as_slice() else {
            return Ok(());
        };
        let Some(at) = self.object(cpu, appl, task, thread) else {
            self.dropped.undeclared += 1;
            return Ok(());
        };
        let Some(time) = self.time(time) else {
            self.dropped.outside += 1;
            return Ok(());
        };
        match (record.kind, rest) {
            (1, &[end, state]) => self.state(at, cpu as u32, time, end, state),
            (2, pairs) => {
                for pair in pairs.chunks_exact(2) {
                    if let (Ok(kind), Ok(value)) = (u32::try_from(pair[0]), u64::try_from(pair[1]))
                    {
                        self.event(at, cpu as u32, time, kind, value)?;
                    }
                }
                Ok(())
            }
            (3, rest) => self.message(at, time, rest),
            _ => Ok(()),
        }
    }

    /// A time in nanoseconds, if it lies in the trace.
    pub(super) fn time(&self, time: i64) -> Option<u64> {
        let ns = u64::try_from(time).ok()?.checked_mul(self.header.unit)?;
        (ns <= self.end).then_some(ns)
    }

    /// The thread with these numbers; `None` if the header has no such thread or CPU, or the task
    /// is not on the node of the CPU.
    pub(super) fn object(&mut self, cpu: i64, appl: i64, task: i64, thread: i64) -> Option<usize> {
        let small = |n: i64| u32::try_from(n).ok();
        let (cpu, appl, task, thread) = (small(cpu)?, small(appl)?, small(task)?, small(thread)?);
        let object = (appl, task, thread);
        let at = match self.objects.get(&object) {
            Some(&at) => at,
            None => self.new_thread(object)?,
        };
        let node = match cpu {
            0 => return Some(at),
            cpu => self.cpus.get(cpu as usize - 1)?.0,
        };
        (self.threads[at].node == node).then_some(at)
    }

    fn new_thread(&mut self, object: Object) -> Option<usize> {
        let (appl, task, thread) = object;
        let tasks = self
            .header
            .applications
            .get((appl as usize).checked_sub(1)?)?;
        let sheet = *tasks.get((task as usize).checked_sub(1)?)?;
        if thread == 0 || thread > sheet.threads {
            return None;
        }
        let node = NodeId::new(sheet.node.saturating_sub(1));
        let index = self.first[appl as usize - 1][task as usize - 1] + u64::from(thread) - 1;
        let index = usize::try_from(index).ok()?;
        let label = self.names.threads.get(index).cloned();
        let label = label.unwrap_or_else(|| format!("{appl}.{task}.{thread}"));
        let is_idle = self.by_events && label.starts_with("idle CPU ");
        let (name, pid) = named(&label);
        let pid = match (is_idle, pid) {
            (true, _) => Pid::IDLE,
            (false, Some(pid)) if self.pids.insert((node, pid)) => pid,
            _ => self.free_pid(node),
        };
        let process = match thread {
            _ if is_idle => Pid::IDLE,
            1 => pid,
            _ => {
                let first = match self.objects.get(&(appl, task, 1)) {
                    Some(&first) => first,
                    None => self.new_thread((appl, task, 1))?,
                };
                self.threads[first].process
            }
        };
        let application = match appl {
            1 => self.application,
            _ => First::Others,
        };
        let ranked = matches!(application, First::Ranks | First::Tasks);
        let rank = ranked.then(|| Rank::new(task - 1));
        self.threads.push(Live {
            node,
            pid,
            process,
            name,
            rank,
            kind: match application {
                _ if is_idle => TaskKind::Idle,
                First::Ranks | First::Tasks => TaskKind::Rank,
                First::Processes => TaskKind::Program,
                First::Others => TaskKind::Unknown,
            },
            is_idle,
            running: None,
            state: None,
            interrupts: Vec::new(),
            call: None,
            region: None,
            marks: Vec::new(),
        });
        self.objects.insert(object, self.threads.len() - 1);
        Some(self.threads.len() - 1)
    }

    /// A thread number that no label has.
    fn free_pid(&mut self, node: NodeId) -> Pid {
        // Above the largest that Linux gives (PID_MAX_LIMIT, 2^22).
        const FIRST: u32 = 1 << 22;
        loop {
            self.next_pid += 1;
            let pid = Pid::new(FIRST + self.next_pid);
            if self.pids.insert((node, pid)) {
                return pid;
            }
        }
    }
}
