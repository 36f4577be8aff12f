//! Records into rows.

use crate::import::paraver::PrvError;
use crate::import::paraver::calls::{Functions, is_collective};
use crate::import::paraver::header::Header;
use crate::import::paraver::lines::Record;
use crate::import::paraver::live::{DEEPEST, Live, OpenCall};
use crate::import::paraver::names::Names;
use crate::prv;
use idlewave_run::tables::*;
use idlewave_run::{
    ClockSheet, Contamination, HostSheet, Ledger, Manifest, NodeSheet, Phase, PhaseKind, RankSheet,
    RunState, RunWriter, SchemaVersion, SourceKind, TableWriter, TraceCost, TraceMode, TraceSheet,
    Unavailable,
};
use idlewave_units::{Bytes, Cpu, Nanos, NodeId, Pid, Rank};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

/// Threads of a task are found by their number in the whole trace.
type Object = (u32, u32, u32);

/// A run that is being built.
pub(super) struct Build {
    run: RunWriter,
    header: Header,
    names: Names,
    /// Bursts come from events, not from states.
    by_events: bool,
    end: u64,
    program: bool,
    /// Node and number of each CPU.
    cpus: Vec<(NodeId, Cpu)>,
    /// Index of the first thread of each task.
    first: Vec<Vec<u64>>,
    threads: Vec<Live>,
    objects: HashMap<Object, usize>,
    pids: HashSet<(NodeId, Pid)>,
    next_pid: u32,
    functions: Functions,
    sequences: HashMap<(Rank, u32), u32>,
    comms: BTreeMap<u32, u32>,
    bursts: TableWriter<Bursts>,
    interrupts: TableWriter<Interrupts>,
    calls: TableWriter<Calls>,
    transfers: TableWriter<Transfers>,
    marks: TableWriter<Marks>,
    ran: u64,
    called: u64,
    dropped: Dropped,
}

/// Records that have no place in the run.
#[derive(Default)]
struct Dropped {
    malformed: u64,
    first: Option<u64>,
    undeclared: u64,
    outside: u64,
    others: BTreeMap<u32, u64>,
    unfinished: u64,
    messages: u64,
    foreign: u64,
}

impl Build {
    pub(super) fn begin(
        path: &Path,
        to: &Path,
        header: Header,
        names: Names,
        by_events: bool,
    ) -> Result<Self, PrvError> {
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
            let of = |task: &super::header::Task| {
                let first = next;
                next += u64::from(task.threads);
                first
            };
            tasks.iter().map(of).collect()
        });
        let first = first.collect();
        let run = RunWriter::create(to, manifest(path, &header, &names, &cpus))?;
        let label = names.applications.first().map_or("", String::as_str);
        Ok(Self {
            bursts: run.table()?,
            interrupts: run.table()?,
            calls: run.table()?,
            transfers: run.table()?,
            marks: run.table()?,
            program: !label.starts_with("everything else on "),
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
    pub(super) fn take(&mut self, record: &Record) -> Result<(), PrvError> {
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
    fn time(&self, time: i64) -> Option<u64> {
        let ns = u64::try_from(time).ok()?.checked_mul(self.header.unit)?;
        (ns <= self.end).then_some(ns)
    }

    /// The thread with these numbers; `None` if the header has no such thread or CPU, or the task
    /// is not on the node of the CPU.
    fn object(&mut self, cpu: i64, appl: i64, task: i64, thread: i64) -> Option<usize> {
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
        let rank = (self.program && appl == 1).then(|| Rank::new(task - 1));
        self.threads.push(Live {
            node,
            pid,
            process,
            name,
            rank,
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

    fn state(
        &mut self,
        at: usize,
        cpu: u32,
        begin: u64,
        end: i64,
        state: i64,
    ) -> Result<(), PrvError> {
        let end = match end {
            // Open.
            -1 => Some(self.end),
            end => self.time(end),
        };
        let (Some(end), Ok(state)) = (end.filter(|end| *end >= begin), u64::try_from(state)) else {
            self.dropped.outside += 1;
            return Ok(());
        };
        self.threads[at].state = Some((begin, state));
        if self.by_events || state != prv::RUNNING || cpu == 0 {
            return Ok(());
        }
        self.burst(at, cpu, begin, end, EndReason::Unknown)
    }

    fn burst(
        &mut self,
        at: usize,
        cpu: u32,
        begin: u64,
        end: u64,
        end_reason: EndReason,
    ) -> Result<(), PrvError> {
        let Some(&(node, number)) = self.cpus.get((cpu as usize).wrapping_sub(1)) else {
            self.dropped.undeclared += 1;
            return Ok(());
        };
        self.ran += 1;
        self.bursts.push(Burst {
            node,
            cpu: number,
            pid: self.threads[at].pid,
            begin_ns: begin,
            end_ns: end,
            end_reason,
            certain: true,
        })?;
        Ok(())
    }

    fn event(
        &mut self,
        at: usize,
        cpu: u32,
        time: u64,
        kind: u32,
        value: u64,
    ) -> Result<(), PrvError> {
        match kind {
            prv::CPU if self.by_events => {
                let before = self.threads[at].running.take();
                if let Ok(cpu) = u32::try_from(value) {
                    self.threads[at].running = (cpu > 0).then_some((cpu, time));
                }
                match before {
                    Some((cpu, since)) => {
                        let reason = self.reason(at, time);
                        self.burst(at, cpu, since, time, reason)
                    }
                    None => Ok(()),
                }
            }
            prv::POINT_TO_POINT | prv::COLLECTIVE | prv::OTHER => self.call(at, time, kind, value),
            prv::BYTES_SENT | prv::BYTES_RECEIVED | prv::ROOT | prv::COMMUNICATOR => {
                if let Some(call) = &mut self.threads[at].call {
                    match kind {
                        prv::BYTES_SENT => call.sent = Some(value),
                        prv::BYTES_RECEIVED => call.received = Some(value),
                        prv::ROOT => call.is_root = value != 0,
                        _ => call.comm = u32::try_from(value).ok(),
                    }
                }
                Ok(())
            }
            prv::REGION => {
                let before = self.threads[at].region.take();
                if value > 0 {
                    self.threads[at].region = Some((value, time));
                }
                before.map_or(Ok(()), |(value, begin)| {
                    self.mark(at, prv::REGION, value, begin, Some(time))
                })
            }
            prv::MARK if value == 0 => match self.threads[at].marks.pop() {
                Some((value, begin)) => self.mark(at, prv::MARK, value, begin, Some(time)),
                None => Ok(()),
            },
            prv::MARK => {
                if self.threads[at].marks.len() < DEEPEST {
                    self.threads[at].marks.push((value, time));
                } else {
                    self.dropped.unfinished += 1;
                }
                Ok(())
            }
            prv::POINT => self.mark(at, prv::POINT, value, time, Some(time)),
            // Found again by the analysis, or told by what is read.
            prv::ITERATION | prv::LATE..=prv::WHILE_LATE | prv::WAIT | prv::WAIT_KIND => Ok(()),
            prv::INTERRUPT..=DEEPEST_INTERRUPT if self.by_events => {
                self.interrupt(at, cpu, time, (kind - prv::INTERRUPT) as u8, value)
            }
            other => {
                // Types come from the trace: they are not to fill the memory.
                if self.dropped.others.len() < 4_096 || self.dropped.others.contains_key(&other) {
                    *self.dropped.others.entry(other).or_insert(0) += 1;
                }
                Ok(())
            }
        }
    }

    /// Why a thread left its CPU: by the state that begins then.
    fn reason(&self, at: usize, time: u64) -> EndReason {
        let thread = &self.threads[at];
        match thread.state.filter(|(begin, _)| *begin == time) {
            _ if thread.is_idle => EndReason::Preempted,
            Some((_, prv::READY)) => EndReason::Preempted,
            Some((_, prv::BLOCKED)) => EndReason::Sleeping,
            Some((_, prv::UNINTERRUPTIBLE)) => EndReason::Uninterruptible,
            Some((_, prv::STOPPED)) => EndReason::Stopped,
            None if time < self.end => EndReason::Exited,
            _ => EndReason::Unknown,
        }
    }

    fn interrupt(
        &mut self,
        at: usize,
        cpu: u32,
        time: u64,
        depth: u8,
        value: u64,
    ) -> Result<(), PrvError> {
        let thread = &mut self.threads[at];
        let depth_index = usize::from(depth);
        if thread.interrupts.len() <= depth_index {
            thread.interrupts.resize(depth_index + 1, None);
        }
        let before = thread.interrupts[depth_index].take();
        if let Some(source) = u32::try_from(value).ok().and_then(|v| v.checked_sub(1)) {
            thread.interrupts[depth_index] = Some((source, cpu, time));
        }
        let Some((source, cpu, begin)) = before else {
            return Ok(());
        };
        let Some(&(node, number)) = self.cpus.get((cpu as usize).wrapping_sub(1)) else {
            self.dropped.undeclared += 1;
            return Ok(());
        };
        self.interrupts.push(Interrupt {
            node,
            cpu: number,
            source,
            pid: thread.pid,
            begin_ns: begin,
            end_ns: time,
            depth,
            certain: true,
        })?;
        Ok(())
    }

    fn call(&mut self, at: usize, time: u64, kind: u32, value: u64) -> Result<(), PrvError> {
        let Some(rank) = self.threads[at].rank else {
            self.dropped.foreign += 1;
            return Ok(());
        };
        let open = self.threads[at].call.take();
        if value > 0 {
            let (operation, class) = self.functions.id(kind, value, &self.names);
            self.threads[at].call = Some(OpenCall {
                kind,
                operation,
                class,
                begin: time,
                comm: None,
                sent: None,
                received: None,
                is_root: false,
            });
        }
        let Some(call) = open else {
            return Ok(());
        };
        if value == 0 && call.kind != kind {
            // The end of another kind of call.
            self.threads[at].call = Some(call);
            return Ok(());
        }
        let number = call.comm.unwrap_or(1);
        let collective = is_collective(call.class);
        let comm = collective.then(|| self.comm(number));
        let sequence = comm.map(|comm| {
            let next = self.sequences.entry((rank, comm)).or_insert(0);
            *next += 1;
            *next - 1
        });
        let bytes = |bytes: Option<u64>| bytes.filter(|_| collective).map(Bytes::new);
        self.called += 1;
        self.calls.push(Call {
            rank,
            thread: self.threads[at].pid,
            operation: call.operation,
            begin_ns: call.begin,
            end_ns: time,
            comm,
            sequence,
            root: call.is_root.then_some(rank),
            sent: bytes(call.sent),
            received: bytes(call.received),
            request: None,
        })?;
        Ok(())
    }

    /// A communicator's number in the run: they are dense there.
    fn comm(&mut self, number: u32) -> u32 {
        let place = self
            .header
            .communicators
            .iter()
            .position(|(n, _)| *n == number);
        let next = (self.header.communicators.len() + self.comms.len()) as u32;
        match place {
            Some(place) => place as u32,
            None => *self.comms.entry(number).or_insert(next),
        }
    }

    fn mark(
        &mut self,
        at: usize,
        kind: u32,
        value: u64,
        begin: u64,
        end: Option<u64>,
    ) -> Result<(), PrvError> {
        let thread = &self.threads[at];
        let name = self.names.value(kind, value);
        self.marks.push(Mark {
            rank: thread.rank,
            node: thread.node,
            thread: thread.pid,
            name: name.map_or_else(|| format!("region {value}"), str::to_owned),
            begin_ns: begin,
            end_ns: end,
        })?;
        Ok(())
    }

    fn message(&mut self, from: usize, sent: u64, rest: &[i64]) -> Result<(), PrvError> {
        let &[left, cpu, appl, task, thread, posted, received, bytes, tag] = rest else {
            return Ok(());
        };
        let Some(to) = self.object(cpu, appl, task, thread) else {
            self.dropped.undeclared += 1;
            return Ok(());
        };
        let times = (self.time(left), self.time(posted), self.time(received));
        let (Some(left), Some(posted), Some(received)) = times else {
            self.dropped.outside += 1;
            return Ok(());
        };
        let ranks = (self.threads[from].rank, self.threads[to].rank);
        let ((Some(sender), Some(receiver)), Ok(bytes), Ok(tag)) =
            (ranks, u64::try_from(bytes), i32::try_from(tag))
        else {
            self.dropped.foreign += 1;
            return Ok(());
        };
        self.dropped.messages += 1;
        let end = |rank, thread, direction, peer, begin, end| Transfer {
            rank,
            thread,
            direction,
            comm: 0,
            peer: Some(peer),
            tag,
            bytes: Some(Bytes::new(bytes)),
            posted_ns: begin,
            wait_ns: Some(begin),
            completed_ns: Some(std::cmp::max(begin, end)),
        };
        let (from, to) = (self.threads[from].pid, self.threads[to].pid);
        self.transfers
            .push(end(sender, from, Direction::Send, receiver, sent, left))?;
        self.transfers.push(end(
            receiver,
            to,
            Direction::Receive,
            sender,
            posted,
            received,
        ))?;
        Ok(())
    }

    /// Ends the tables and the run.
    pub(super) fn finish(mut self) -> Result<Ledger, PrvError> {
        self.close_open()?;
        let losses = self.losses();
        let mut run = self.run;
        let mut ranks: BTreeMap<Rank, RankSheet> = BTreeMap::new();
        let mut tasks = Tasks::default();
        let mut idle = HashSet::new();
        let mut threads: Vec<(Object, usize)> = self.objects.into_iter().collect();
        threads.sort_unstable();
        for (_, at) in threads {
            let thread = &self.threads[at];
            if thread.is_idle && !idle.insert(thread.node) {
                continue;
            }
            tasks.push(Task {
                node: thread.node,
                pid: thread.pid,
                process: Some(thread.process),
                name: thread.name.clone(),
                kind: match thread.rank {
                    Some(_) => TaskKind::Rank,
                    None if thread.is_idle => TaskKind::Idle,
                    None => TaskKind::Unknown,
                },
            });
            if let Some(rank) = thread.rank {
                let sheet = ranks.entry(rank).or_insert(RankSheet {
                    rank,
                    node: thread.node,
                    cpu: None,
                    threads: Vec::new(),
                    process: Some(thread.process),
                    priority: None,
                });
                sheet.threads.push(thread.pid);
            }
        }
        let mut sources = Sources::default();
        for (value, name) in self.names.values_of(prv::INTERRUPT) {
            let id = sources.len() as u32;
            // Numbers of sources are dense from 0; those without a name get one.
            if value.checked_sub(1) == Some(id.into()) {
                let (kind, name) = source(name);
                sources.push(Source { id, kind, name });
            }
        }
        let mut communicators = Communicators::default();
        let all: Vec<u32> = ranks.keys().map(|r| r.get() + 1).collect();
        let mut listed = self.header.communicators;
        if listed.is_empty() {
            listed.push((1, all));
        }
        for (comm, (number, members)) in listed.into_iter().enumerate() {
            for (member, task) in members.into_iter().enumerate() {
                let Some(rank) = task.checked_sub(1).map(Rank::new) else {
                    continue;
                };
                communicators.push(Communicator {
                    comm: comm as u32,
                    member: member as u32,
                    rank,
                    key: number.into(),
                });
            }
        }
        run.manifest.ranks = ranks.into_values().collect();
        run.manifest.losses = losses.clone();
        let library = (self.called > 0).then(|| "unknown, from a Paraver trace".to_owned());
        if let Some(phase) = run.manifest.phases.first_mut() {
            phase.kind = PhaseKind::Recorded {
                library,
                exit_code: None,
            };
        }
        if self.ran == 0 {
            for node in &mut run.manifest.nodes {
                node.trace.mode = TraceMode::Off;
                node.trace.unavailable.push(Unavailable {
                    what: "which thread had which CPU".to_owned(),
                    why: "the trace has no CPUs of threads".to_owned(),
                    allow: None,
                });
            }
        }
        run.finish_table(self.bursts)?;
        run.finish_table(self.interrupts)?;
        run.finish_table(self.marks)?;
        run.finish_table(self.calls)?;
        run.finish_table(self.transfers)?;
        run.write_table(&self.functions.rows)?;
        run.write_table(&communicators)?;
        run.write_table(&tasks)?;
        run.write_table(&sources)?;
        run.close(None)?;
        Ok(losses)
    }

    /// Ends with the trace what the trace leaves open.
    fn close_open(&mut self) -> Result<(), PrvError> {
        for at in 0..self.threads.len() {
            if let Some((cpu, since)) = self.threads[at].running.take() {
                self.burst(at, cpu, since, self.end, EndReason::Unknown)?;
            }
            let open = self.threads[at].interrupts.iter().flatten().count();
            self.dropped.unfinished += open as u64;
            if self.threads[at].call.take().is_some() {
                self.dropped.unfinished += 1;
            }
            if let Some((value, begin)) = self.threads[at].region.take() {
                self.mark(at, prv::REGION, value, begin, None)?;
            }
            while let Some((value, begin)) = self.threads[at].marks.pop() {
                self.mark(at, prv::MARK, value, begin, None)?;
            }
        }
        Ok(())
    }

    fn losses(&self) -> Ledger {
        let mut losses = Ledger::default();
        let dropped = &self.dropped;
        let first = dropped
            .first
            .map_or(String::new(), |line| format!(", the first in line {line}"));
        let lacks = "the run lacks them";
        let check = "see whether the trace was copied whole";
        losses.enter(
            format!("lines that are no records{first}"),
            dropped.malformed,
            lacks,
            check,
        );
        let undeclared = "records of threads or CPUs that the first line does not declare";
        losses.enter(undeclared, dropped.undeclared, lacks, check);
        losses.enter(
            "records outside of the time of the trace",
            dropped.outside,
            lacks,
            check,
        );
        losses.enter(
            "calls, interrupts and marks that do not end, or end too deep in others",
            dropped.unfinished,
            lacks,
            "trace the whole program",
        );
        losses.enter(
            "calls and messages of applications other than the first",
            dropped.foreign,
            lacks,
            "export the applications as traces of their own",
        );
        losses.enter(
            "events of types that a run has no table for",
            dropped.others.values().sum::<u64>(),
            lacks,
            "look at them in Paraver",
        );
        losses.enter(
            "communicators of messages, and calls that completed their receives",
            dropped.messages,
            "all messages count as of MPI_COMM_WORLD, and receives as blocking",
            "record with `idlewave record`",
        );
        losses.enter(
            "communicators without a list of members",
            self.comms.len() as u64,
            "waits at their collectives are not explained",
            "record with `idlewave record`",
        );
        let coarse = u64::from(self.header.unit > 1);
        losses.enter(
            "times below a microsecond: the trace has none",
            coarse,
            "shorter interrupts and calls have no length",
            "trace in nanoseconds",
        );
        let always = [
            (
                "wake-ups and their wakers",
                "run-queue waits are not told from sleep",
            ),
            (
                "kinds of threads",
                "kernel threads are not told from other threads",
            ),
        ];
        for (what, consequence) in always {
            losses.enter(
                what,
                u64::from(self.ran > 0),
                consequence,
                "record with `idlewave record`",
            );
        }
        losses
    }
}

/// The deepest nesting of interrupts that a run can hold.
const DEEPEST_INTERRUPT: u32 = prv::INTERRUPT + u8::MAX as u32;

/// A label like `kworker/0:1 (17)` as name and number.
fn named(label: &str) -> (String, Option<Pid>) {
    let parts = label.strip_suffix(')').and_then(|l| l.rsplit_once(" ("));
    let found = parts.and_then(|(name, pid)| Some((name, pid.parse::<u32>().ok()?)));
    match found {
        Some((name, pid)) if pid > 0 => (name.to_owned(), Some(Pid::new(pid))),
        _ => (label.to_owned(), None),
    }
}

/// A label like `timer tick local_timer` as class and name.
fn source(label: &str) -> (SourceKind, String) {
    let kinds = SourceKind::ALL.iter().filter_map(|kind| {
        let name = label.strip_prefix(kind.label())?;
        let name = if name.is_empty() {
            name
        } else {
            name.strip_prefix(' ')?
        };
        Some((name.len(), *kind, name))
    });
    match kinds.min() {
        Some((_, kind, name)) => (kind, name.to_owned()),
        None => (SourceKind::Unexplained, label.to_owned()),
    }
}

fn manifest(path: &Path, header: &Header, names: &Names, cpus: &[(NodeId, Cpu)]) -> Manifest {
    let node = |at: usize| NodeSheet {
        node: NodeId::new(at as u32),
        host: HostSheet {
            name: names
                .nodes
                .get(at)
                .cloned()
                .unwrap_or_else(|| format!("node {at}")),
            online: cpus
                .iter()
                .filter(|(node, _)| node.index() == at)
                .map(|(_, cpu)| *cpu)
                .collect(),
            ..HostSheet::default()
        },
        clock: ClockSheet {
            counter: "Paraver trace".to_owned(),
            counts_per_second: 1e9 / header.unit as f64,
            quantum_counts: 1,
            quantum_ns: header.unit as f64,
            read_ns: 0.0,
            error: Nanos::from_nanos(header.unit),
            rate_change: 0.0,
            invariant: None,
            method: "times of the trace, from its start".to_owned(),
        },
        trace: TraceSheet {
            mode: TraceMode::Tracefs,
            unavailable: Vec::new(),
            cost: TraceCost::default(),
        },
        contamination: Contamination::default(),
        alignment: None,
    };
    Manifest {
        schema: SchemaVersion::CURRENT,
        idlewave: env!("CARGO_PKG_VERSION").to_owned(),
        state: RunState::Recording,
        incomplete: None,
        command: vec![
            "idlewave".to_owned(),
            "import".to_owned(),
            path.display().to_string(),
        ],
        started: started(&header.date),
        seed: 1,
        simulated: None,
        nodes: (0..header.cpus.len().max(1)).map(node).collect(),
        phases: vec![Phase {
            kind: PhaseKind::Recorded {
                library: None,
                exit_code: None,
            },
            begin_ns: 0,
            end_ns: header.end_ns(),
        }],
        ranks: Vec::new(),
        losses: Ledger::default(),
        tables: Vec::new(),
    }
}

/// `31/01/2026 at 12:00` as `2026-01-31T12:00:00Z`; anything else as it is.
fn started(date: &str) -> String {
    let numbers: Vec<&str> = date
        .split(|c: char| !c.is_ascii_digit())
        .filter(|n| !n.is_empty())
        .collect();
    match numbers.as_slice() {
        [day, month, year, hour, minute] if year.len() == 4 => {
            format!("{year}-{month:0>2}-{day:0>2}T{hour:0>2}:{minute:0>2}:00Z")
        }
        _ => date.to_owned(),
    }
}
