//! A run that is built from a trace, and its threads.

use crate::import::app::{App, Thread};
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
use idlewave_run::tables::{Bursts, Interrupts, Source, Sources, Table, TaskKind};
use idlewave_run::{RunWriter, TableWriter};
use idlewave_units::{Cpu, NodeId, Pid, Rank};
use std::collections::HashMap;

/// The number of MPI_COMM_WORLD if none is listed.
pub(super) const WORLD: u32 = 1;

/// A thread: the numbers of its application, of its task in that, and of itself in the task.
type Object = (u32, u32, u32);

/// A run that is being built.
pub(super) struct Build {
    pub(super) app: App,
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
    /// Rows of `sources`.
    pub(super) sources: Sources,
    pub(super) functions: Functions,
    pub(super) bursts: TableWriter<Bursts>,
    pub(super) interrupts: TableWriter<Interrupts>,
    pub(super) ran: u64,
    pub(super) dropped: Dropped,
}

impl Build {
    pub(super) fn begin(
        mut header: Header,
        names: Names,
        by_events: bool,
        mut run: RunWriter,
    ) -> Result<Self, ImportError> {
        let mut cpus = Vec::new();
        for (node, &count) in header.cpus.iter().enumerate() {
            for cpu in 0..count {
                // idlewave's own labels have the kernel's numbers of CPUs.
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
            // Rows are numbered from 0 without gaps.
            if value.checked_sub(1) == Some(id.into()) {
                let (kind, name) = source(name);
                sources.push(Source { id, kind, name });
            }
        }
        let mut app = App::begin(run)?;
        for (number, tasks) in std::mem::take(&mut header.communicators) {
            let ranks = tasks.iter().filter_map(|task| task.checked_sub(1));
            app.comms.declare(number.into(), ranks.map(Rank::new));
        }
        app.comms.declare_world(WORLD.into());
        Ok(Self {
            bursts: app.run.table()?,
            interrupts: app.run.table()?,
            application: names.first().0,
            end: header.end_ns(),
            first,
            app,
            header,
            names,
            by_events,
            cpus,
            threads: Vec::new(),
            objects: HashMap::new(),
            sources,
            functions: Functions::default(),
            ran: 0,
            dropped: Dropped::default(),
        })
    }

    /// Counts a line that is no record.
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

    /// The thread with these numbers; `None` if the header has no such thread or CPU, or if the
    /// task is not on the node of the CPU.
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
        let pid = match is_idle {
            true => Pid::IDLE,
            false => self.app.pid(node, pid),
        };
        let process = match thread {
            _ if is_idle => Pid::IDLE,
            1 => pid,
            _ => {
                let first = match self.objects.get(&(appl, task, 1)) {
                    Some(&first) => first,
                    None => self.new_thread((appl, task, 1))?,
                };
                self.app.thread(self.threads[first].id).process
            }
        };
        let application = match appl {
            1 => self.application,
            _ => First::Others,
        };
        let ranked = matches!(application, First::Ranks | First::Tasks);
        let rank = ranked.then(|| Rank::new(task - 1));
        let id = self.app.add(Thread {
            place: [appl, task, thread],
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
        });
        self.threads.push(Live {
            id,
            node,
            pid,
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
}
