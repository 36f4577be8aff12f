//! The timeline of one CPU: which threads had it, and what interrupted them.
//!
//! Traces have holes, and the ring buffer does not report all of them. Two things reveal one: a
//! switch away from a thread that was not running, and an event recorded in a thread other than the
//! one last switched to. What was open is then closed at the last event that proves it, marked as
//! not certain and counted; the time up to the next proof belongs to nobody. There is one
//! exception: an idle CPU on which a thread was just woken switches to it at once.

use crate::event::{Comm, Event, Handler};
use crate::markers::Markers;
use crate::names::{SourceBook, TaskBook};
use crate::wakes::{KnownBy, Wakes};
use idlewave_run::tables::{
    Burst, Bursts, EndReason, Interrupt, Interrupts, Migration, Migrations, Syscall, Syscalls,
    Wakeup, Wakeups,
};
use idlewave_run::{SourceKind, Table};
use idlewave_units::{Cpu, NodeId, Pid};

/// The most handlers open at once; more is damage (hardware nests interrupts, softirqs and NMIs
/// four deep at most).
const MAX_DEPTH: usize = 32;
/// The most rows of one nest of handlers, which are held back until it is complete. A nest that
/// never ends is damage.
const MAX_NEST: usize = 4096;

/// Rows not yet written.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) bursts: Bursts,
    pub(crate) interrupts: Interrupts,
    pub(crate) wakeups: Wakeups,
    pub(crate) migrations: Migrations,
    pub(crate) syscalls: Syscalls,
}

/// What did not fit together on one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Misfits {
    /// The running thread was not the one the trace said, without reported loss.
    pub(crate) holes: u64,
    /// Handlers entered but not left.
    pub(crate) unmatched_entries: u64,
    /// Handlers left but not entered, except at the start of the trace.
    pub(crate) unmatched_exits: u64,
    /// Events earlier than the one before them.
    pub(crate) backwards: u64,
}

/// Where a timeline puts what it finds.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    pub(crate) rows: Rows,
    pub(crate) wakes: Wakes,
    pub(crate) sources: SourceBook,
    pub(crate) tasks: TaskBook,
    pub(crate) markers: Markers,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    pid: Pid,
    comm: Option<Comm>,
    begin_ns: u64,
    certain: bool,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    handler: Handler,
    /// Its row in the nest.
    row: usize,
}

/// State machine of one CPU.
#[derive(Debug)]
pub(crate) struct Timeline {
    node: NodeId,
    cpu: Cpu,
    /// Start of the burst that the first event finds running; `None` after a loss.
    begin_ns: Option<u64>,
    first_ns: Option<u64>,
    last_ns: u64,
    running: Option<Running>,
    open: Vec<Open>,
    nest: Vec<Interrupt>,
    wake: Option<(Wakeup, KnownBy)>,
    /// The last thread woken on this CPU and for this CPU, since the last switch.
    woken: Option<Pid>,
    /// Whether an exit may belong to an entry before the trace, or before a hole.
    cut_entries: bool,
    pub(crate) misfits: Misfits,
}

impl Timeline {
    /// A CPU whose recording began at `begin_ns`; without it, at the first event.
    pub(crate) fn new(node: NodeId, cpu: Cpu, begin_ns: Option<u64>) -> Self {
        Self {
            node,
            cpu,
            begin_ns,
            first_ns: None,
            last_ns: 0,
            running: None,
            open: Vec::new(),
            nest: Vec::new(),
            wake: None,
            woken: None,
            cut_entries: true,
            misfits: Misfits::default(),
        }
    }

    /// Takes the next event; `by` is the thread that ran when it was recorded.
    #[inline]
    pub(crate) fn event(
        &mut self,
        time_ns: u64,
        by: Option<Pid>,
        event: Event<'_>,
        sink: &mut Sink,
    ) {
        let now = if time_ns < self.last_ns {
            self.misfits.backwards += 1;
            self.last_ns
        } else {
            time_ns
        };
        let witness = match (by, event) {
            (_, Event::Switch { prev, .. }) => Some(prev),
            (by, _) => by,
        };
        if let Some(pid) = witness {
            match self.running {
                Some(running) if running.pid == pid => {}
                _ => self.find_running(pid, now, sink),
            }
        }
        let before = self.last_ns;
        self.last_ns = now;
        let pid = witness.or(self.running.map(|r| r.pid));
        if self.wake.is_some() {
            self.settle_wake(event, sink);
        }
        match event {
            Event::Switch {
                prev,
                prev_comm,
                prev_state,
                next,
                next_comm,
            } => {
                self.misfits.unmatched_entries += self.open.len() as u64;
                self.abandon_open(now, sink);
                self.cut_entries = false;
                self.woken = None;
                let comm = prev_comm.or(self.running.and_then(|r| r.comm));
                let begin = self.running.map_or(now, |r| r.begin_ns);
                sink.tasks.ran(prev, comm, now, now - begin);
                self.close_burst(now, reason(prev_state), true, sink);
                self.running = Some(Running {
                    pid: next,
                    comm: next_comm,
                    begin_ns: now,
                    certain: true,
                });
            }
            Event::Enter { handler, name } => {
                let source = sink.sources.number(handler, name);
                self.enter(handler, source, pid, now, sink);
            }
            Event::Leave { handler } => self.leave(handler, now, sink),
            Event::Wake {
                pid: woken,
                comm,
                cpu,
            } => {
                sink.tasks.see(woken, comm, now);
                self.wake = self.wakeup(now, pid, woken, cpu, KnownBy::Waking);
            }
            Event::Woken {
                pid: woken,
                comm,
                cpu,
                new,
            } => {
                sink.tasks.see(woken, comm, now);
                let by = if new { KnownBy::New } else { KnownBy::Wakeup };
                self.wake = self.wakeup(now, pid, woken, cpu, by);
            }
            Event::Migrate { pid, from, to } => sink.rows.migrations.push(Migration {
                node: self.node,
                time_ns: now,
                pid,
                from,
                to,
            }),
            Event::Fork {
                parent,
                child,
                comm,
            } => sink.tasks.born(child, parent, comm, now),
            Event::Nmi { duration } => {
                let source = sink.sources.enter(SourceKind::Nmi, "NMI".to_owned());
                // Nothing else can have been recorded on this CPU since the NMI began.
                let begin = duration.map(|d| now.saturating_sub(d).max(before));
                self.point(source, pid, begin.unwrap_or(now), begin.is_some(), sink);
            }
            Event::Fault => {
                let source = sink
                    .sources
                    .enter(SourceKind::PageFault, "page fault".to_owned());
                self.point(source, pid, now, false, sink);
            }
            Event::Syscall { number, returned } => {
                // Without a known thread, there is no caller.
                if let Some(pid) = pid {
                    sink.rows.syscalls.push(Syscall {
                        node: self.node,
                        time_ns: now,
                        cpu: self.cpu,
                        pid,
                        number,
                        returned,
                    });
                }
            }
        }
    }

    /// A thread leaves the CPU, and nothing tells which thread gets it.
    pub(crate) fn leaves(
        &mut self,
        time_ns: u64,
        prev: Pid,
        prev_state: Option<u64>,
        sink: &mut Sink,
    ) {
        let to_nobody = Event::Switch {
            prev,
            prev_comm: None,
            prev_state,
            next: Pid::IDLE,
            next_comm: None,
        };
        self.event(time_ns, None, to_nobody, sink);
        self.running = None;
    }

    /// A thread gets the CPU, and nothing tells which thread had it before.
    pub(crate) fn gets(
        &mut self,
        time_ns: u64,
        next: Pid,
        next_comm: Option<Comm>,
        sink: &mut Sink,
    ) {
        if self.running.is_some() {
            self.misfits.holes += 1;
            self.break_off(sink);
        }
        let now = time_ns.max(self.last_ns);
        self.first_ns.get_or_insert(now);
        self.last_ns = now;
        self.begin_ns = None;
        self.running = Some(Running {
            pid: next,
            comm: next_comm,
            begin_ns: now,
            certain: true,
        });
    }

    /// Breaks the timeline: events were lost after the last one.
    pub(crate) fn lose(&mut self, sink: &mut Sink) {
        self.break_off(sink);
        self.begin_ns = None;
        self.woken = None;
    }

    /// Ends the timeline of this CPU, at `end_ns` if that is known.
    pub(crate) fn end(&mut self, end_ns: Option<u64>, sink: &mut Sink) {
        self.abandon_open(self.last_ns, sink);
        self.push_wake(sink);
        let end = end_ns.unwrap_or(self.last_ns).max(self.last_ns);
        self.see_running(end, sink);
        self.close_burst(end, EndReason::Unknown, false, sink);
    }

    /// Times of the first event that tells which thread ran and of the last event; `None` if no
    /// event tells.
    pub(crate) fn span(&self) -> Option<(u64, u64)> {
        self.first_ns.map(|first| (first, self.last_ns))
    }

    /// Closes everything open, at the last event.
    fn break_off(&mut self, sink: &mut Sink) {
        self.abandon_open(self.last_ns, sink);
        self.push_wake(sink);
        self.see_running(self.last_ns, sink);
        self.close_burst(self.last_ns, EndReason::Unknown, false, sink);
        self.cut_entries = true;
    }

    /// The event at `now` finds `pid` running, contrary to what the trace said.
    #[cold]
    fn find_running(&mut self, pid: Pid, now: u64, sink: &mut Sink) {
        // The first event comes here too: no thread is known to have run before it.
        self.first_ns.get_or_insert(now);
        if let Some(before) = self.running {
            self.misfits.holes += 1;
            self.misfits.unmatched_entries += self.open.len() as u64;
            self.break_off(sink);
            // The idle task runs only while no other thread can.
            if before.pid == Pid::IDLE && self.woken == Some(pid) {
                self.begin_ns = Some(self.last_ns);
            }
            self.woken = None;
        }
        self.running = Some(Running {
            pid,
            comm: None,
            begin_ns: self.begin_ns.take().map_or(now, |begin| begin.min(now)),
            certain: false,
        });
    }

    /// Notes the thread whose switch-out is missing.
    fn see_running(&mut self, end_ns: u64, sink: &mut Sink) {
        if let Some(running) = self.running {
            let ran = end_ns.saturating_sub(running.begin_ns);
            let begin = running.begin_ns;
            sink.tasks.ran(running.pid, running.comm, begin, ran);
        }
    }

    fn close_burst(&mut self, end_ns: u64, end_reason: EndReason, certain: bool, sink: &mut Sink) {
        let Some(running) = self.running.take() else {
            return;
        };
        let certain = certain && running.certain;
        // An empty burst whose start is missing carries no information.
        if certain || end_ns > running.begin_ns {
            sink.rows.bursts.push(Burst {
                node: self.node,
                cpu: self.cpu,
                pid: running.pid,
                begin_ns: running.begin_ns,
                end_ns,
                end_reason,
                certain,
            });
        }
    }

    fn enter(
        &mut self,
        handler: Handler,
        source: u32,
        pid: Option<Pid>,
        now: u64,
        sink: &mut Sink,
    ) {
        // Without a known thread, there is nothing to charge.
        let Some(pid) = pid else {
            return;
        };
        if self.open.len() >= MAX_DEPTH || self.nest.len() >= MAX_NEST {
            self.misfits.unmatched_entries += self.open.len() as u64;
            self.abandon_open(now, sink);
        }
        self.open.push(Open {
            handler,
            row: self.nest.len(),
        });
        self.nest.push(Interrupt {
            node: self.node,
            cpu: self.cpu,
            source,
            pid,
            begin_ns: now,
            end_ns: now,
            depth: (self.open.len() - 1) as u8,
            certain: false,
        });
    }

    fn leave(&mut self, handler: Handler, now: u64, sink: &mut Sink) {
        let Some(place) = self.open.iter().rposition(|o| o.handler == handler) else {
            if !self.cut_entries {
                self.misfits.unmatched_exits += 1;
            }
            return;
        };
        // Handlers entered later ended before this one; when is unknown.
        self.misfits.unmatched_entries += (self.open.len() - place - 1) as u64;
        for open in &self.open[place..] {
            self.nest[open.row].end_ns = now;
        }
        self.nest[self.open[place].row].certain = true;
        self.open.truncate(place);
        if self.open.is_empty() {
            self.flush_nest(sink);
        }
    }

    /// An interruption known from one event only.
    fn point(
        &mut self,
        source: u32,
        pid: Option<Pid>,
        begin_ns: u64,
        certain: bool,
        sink: &mut Sink,
    ) {
        let Some(pid) = pid else {
            return;
        };
        self.nest.push(Interrupt {
            node: self.node,
            cpu: self.cpu,
            source,
            pid,
            begin_ns,
            end_ns: self.last_ns,
            depth: self.open.len() as u8,
            certain,
        });
        if self.open.is_empty() {
            self.flush_nest(sink);
        } else if self.nest.len() >= MAX_NEST {
            self.misfits.unmatched_entries += self.open.len() as u64;
            self.abandon_open(self.last_ns, sink);
        }
    }

    /// Closes open handlers, which cannot be open any more.
    fn abandon_open(&mut self, end_ns: u64, sink: &mut Sink) {
        if self.open.is_empty() {
            return;
        }
        for open in &self.open {
            self.nest[open.row].end_ns = end_ns;
        }
        self.open.clear();
        self.flush_nest(sink);
    }

    fn flush_nest(&mut self, sink: &mut Sink) {
        for row in self.nest.drain(..) {
            sink.rows.interrupts.push(row);
        }
    }

    /// A wake-up of a thread; `None` if the waker is unknown.
    fn wakeup(
        &self,
        time_ns: u64,
        waker: Option<Pid>,
        woken: Pid,
        target_cpu: Cpu,
        by: KnownBy,
    ) -> Option<(Wakeup, KnownBy)> {
        let wakeup = Wakeup {
            node: self.node,
            time_ns,
            cpu: self.cpu,
            waker: waker?,
            pid: woken,
            target_cpu,
        };
        Some((wakeup, by))
    }

    /// If a wake-up moves the thread to another CPU, its migration follows at once.
    fn settle_wake(&mut self, next: Event<'_>, sink: &mut Sink) {
        if let (Some((wake, _)), Event::Migrate { pid, to, .. }) = (&mut self.wake, next) {
            if wake.pid == pid {
                wake.target_cpu = to;
            }
        }
        self.push_wake(sink);
    }

    fn push_wake(&mut self, sink: &mut Sink) {
        if let Some((wake, by)) = self.wake.take() {
            if wake.target_cpu == self.cpu {
                self.woken = Some(wake.pid);
            }
            sink.wakes.push(wake, by, &mut sink.rows.wakeups);
        }
    }
}

/// Why a thread left its CPU, from `prev_state` (`include/linux/sched.h`, since Linux 4.14).
fn reason(state: Option<u64>) -> EndReason {
    const PREEMPTED: u64 = 0x100;
    let Some(state) = state else {
        return EndReason::Unknown;
    };
    if state & PREEMPTED != 0 {
        return EndReason::Preempted;
    }
    match state & 0xff {
        0 => EndReason::Preempted,
        0x01 => EndReason::Sleeping,
        // TASK_IDLE: a kernel thread without work; only the load average tells it from a sleep.
        0x80 => EndReason::Sleeping,
        0x02 => EndReason::Uninterruptible,
        0x04 | 0x08 | 0x40 => EndReason::Stopped,
        0x10 | 0x20 => EndReason::Exited,
        _ => EndReason::Unknown,
    }
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
