//! Turns events into the tables of a run, whatever they were read from.
//!
//! [`decode_pages`](crate::decode_pages) finishes one CPU after the other. Readers of formats that
//! mix the CPUs feed [`Feed::event`] in any order of CPUs, as long as the events of each CPU are in
//! order of time. Rows are then in the order in which they became complete: no table promises any
//! other order.

use crate::event::{Comm, Event, comm};
use crate::ledger::{Account, Overall, enter_losses};
use crate::names::TaskBook;
use crate::tables::Tables;
use crate::timeline::{Sink, Timeline};
use crate::{DecodeSummary, FtraceError, RawTask, SeenTask};
use idlewave_run::{RunWriter, Table};
use idlewave_units::{Cpu, NodeId, Pid};

/// CPU numbers from here on are damage: Linux has at most 8192 CPUs.
pub const MOST_CPUS: u32 = 1 << 16;
/// Events between two checks of the collected rows.
const BATCH: u64 = 1 << 12;

/// One CPU while its events come in.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) timeline: Timeline,
    pub(crate) account: Account,
}

/// Turns events into the tables `tasks`, `sources`, `bursts`, `interrupts`, `wakeups`, `migrations`
/// and, if there are any, `syscalls` of a run, with the memory of a few thousand rows.
pub struct Feed {
    pub(crate) node: NodeId,
    pub(crate) sink: Sink,
    pub(crate) tables: Tables,
    pub(crate) summary: DecodeSummary,
    /// What went missing on the CPUs that are finished.
    pub(crate) accounts: Vec<Account>,
    /// By CPU number.
    lanes: Vec<Option<Box<Lane>>>,
    strays: u64,
}

impl Feed {
    /// Starts the tables; `listed` are threads known from elsewhere.
    ///
    /// # Errors
    /// A table cannot be written.
    pub fn new(out: &RunWriter, node: NodeId, listed: &[RawTask]) -> Result<Self, FtraceError> {
        Ok(Self {
            node,
            sink: Sink {
                tasks: TaskBook::new(listed),
                ..Sink::default()
            },
            tables: Tables::new(out)?,
            summary: DecodeSummary::default(),
            accounts: Vec::new(),
            lanes: Vec::new(),
            strays: 0,
        })
    }

    /// Takes the next event of a CPU; `by` is the thread that ran when it was recorded, if known.
    ///
    /// # Errors
    /// A table cannot be written.
    #[inline]
    pub fn event(
        &mut self,
        cpu: Cpu,
        time_ns: u64,
        by: Option<Pid>,
        event: Event<'_>,
    ) -> Result<(), FtraceError> {
        self.take(cpu, |timeline, sink| {
            timeline.event(time_ns, by, event, sink)
        })
    }

    /// A thread leaves a CPU, in a state as in [`Event::Switch`], and nothing tells which thread
    /// gets it. The time until it is known again who has the CPU belongs to nobody; no event was
    /// lost.
    ///
    /// # Errors
    /// A table cannot be written.
    pub fn leaves(
        &mut self,
        cpu: Cpu,
        time_ns: u64,
        prev: Pid,
        prev_state: Option<u64>,
    ) -> Result<(), FtraceError> {
        self.take(cpu, |timeline, sink| {
            timeline.leaves(time_ns, prev, prev_state, sink);
        })
    }

    /// A thread gets a CPU, and nothing tells which thread had it before.
    ///
    /// # Errors
    /// A table cannot be written.
    pub fn gets(
        &mut self,
        cpu: Cpu,
        time_ns: u64,
        next: Pid,
        next_comm: Option<Comm>,
    ) -> Result<(), FtraceError> {
        self.take(cpu, |timeline, sink| {
            timeline.gets(time_ns, next, next_comm, sink);
        })
    }

    #[inline]
    fn take(
        &mut self,
        cpu: Cpu,
        event: impl FnOnce(&mut Timeline, &mut Sink),
    ) -> Result<(), FtraceError> {
        let index = cpu.get() as usize;
        if !matches!(self.lanes.get(index), Some(Some(_))) && !self.begin(cpu) {
            return Ok(());
        }
        if let Some(Some(lane)) = self.lanes.get_mut(index) {
            event(&mut lane.timeline, &mut self.sink);
        }
        self.summary.events += 1;
        if self.summary.events % BATCH == 0 {
            self.tables.write_full(&mut self.sink, &mut self.summary)?;
        }
        Ok(())
    }

    /// Events of a CPU were lost after the last one: `missed` of them, or an unknown number.
    pub fn lose(&mut self, cpu: Cpu, missed: Option<u64>) {
        if !self.begin(cpu) {
            return;
        }
        if let Some(Some(lane)) = self.lanes.get_mut(cpu.get() as usize) {
            match missed {
                Some(count) => {
                    lane.account.counted = lane.account.counted.saturating_add(count);
                }
                None => lane.account.uncounted += 1,
            }
            lane.timeline.lose(&mut self.sink);
        }
    }

    /// An event of a CPU that the timeline has no use for.
    pub fn unknown(&mut self, cpu: Cpu) {
        self.unused(cpu, |account| account.unknown += 1);
    }

    /// An event of a CPU that is shorter than its format.
    pub fn short(&mut self, cpu: Cpu) {
        self.unused(cpu, |account| account.short += 1);
    }

    fn unused(&mut self, cpu: Cpu, count: impl FnOnce(&mut Account)) {
        if self.begin(cpu) {
            self.summary.events += 1;
            if let Some(Some(lane)) = self.lanes.get_mut(cpu.get() as usize) {
                count(&mut lane.account);
            }
        }
    }

    /// Names a thread whose name no event has given yet.
    pub fn name(&mut self, pid: Pid, name: &[u8]) {
        if !name.is_empty() {
            self.sink.tasks.name(pid, comm(name));
        }
    }

    /// Events taken so far.
    pub fn events(&self) -> u64 {
        self.summary.events
    }

    /// Makes sure that a CPU has a lane; `false` if there is no such CPU.
    #[cold]
    fn begin(&mut self, cpu: Cpu) -> bool {
        if cpu.get() >= MOST_CPUS {
            self.strays += 1;
            return false;
        }
        let index = cpu.get() as usize;
        if self.lanes.len() <= index {
            self.lanes.resize_with(index + 1, || None);
        }
        self.lanes[index].get_or_insert_with(|| {
            Box::new(Lane {
                timeline: Timeline::new(self.node, cpu, None),
                account: Account::new(cpu, None),
            })
        });
        true
    }

    /// Ends the timelines of all CPUs and the tables. `settle` may correct the kinds and processes
    /// of the threads, which are sorted by number.
    ///
    /// # Errors
    /// A table cannot be written.
    pub fn finish(
        mut self,
        out: &mut RunWriter,
        stopped: bool,
        settle: impl FnOnce(&mut [SeenTask]),
    ) -> Result<DecodeSummary, FtraceError> {
        for lane in std::mem::take(&mut self.lanes).into_iter().flatten() {
            self.end_lane(*lane, None);
        }
        self.summary.stopped |= stopped;
        let switches = self.summary.bursts > 0 || !self.sink.rows.bursts.is_empty();
        self.summary.losses.enter(
            "kernel trace events of CPUs with impossible numbers",
            self.strays,
            "they are not used",
            "the file is damaged: record again",
        );
        let overall = Overall {
            cpus: self.accounts.len(),
            end_known: false,
            foreign: true,
            switches,
            unusable: &[],
        };
        self.close(out, &overall, settle)
    }

    /// Ends one CPU, at `end_ns` if that is known.
    pub(crate) fn end_lane(&mut self, lane: Lane, end_ns: Option<u64>) {
        let Lane {
            mut timeline,
            mut account,
        } = lane;
        timeline.end(end_ns, &mut self.sink);
        account.misfits = timeline.misfits;
        if let Some((first, last)) = timeline.span() {
            let (begin, end) = self.summary.span.unwrap_or((first, last));
            self.summary.span = Some((begin.min(first), end.max(last)));
            self.summary.seen.insert(account.cpu);
        }
        self.summary.cpus += 1;
        self.accounts.push(account);
    }

    /// Writes what is left, the names, and the losses.
    pub(crate) fn close(
        self,
        out: &mut RunWriter,
        overall: &Overall<'_>,
        settle: impl FnOnce(&mut [SeenTask]),
    ) -> Result<DecodeSummary, FtraceError> {
        let Self {
            node,
            mut sink,
            mut tables,
            mut summary,
            accounts,
            ..
        } = self;
        sink.wakes.end(&mut sink.rows.wakeups);
        sink.wakes.enter(&mut summary.losses);
        tables.write(sink.rows, &mut summary)?;
        tables.finish(out, &summary)?;
        let mut seen = sink.tasks.seen();
        settle(&mut seen);
        let tasks = crate::names::table(node, &seen);
        summary.tasks = seen.len() as u64;
        summary.sources = sink.sources.len() as u64;
        out.write_table(&tasks)?;
        out.write_table(sink.sources.table())?;
        summary.missed = accounts.iter().map(Account::missed).sum();
        enter_losses(&mut summary.losses, overall, &accounts, summary.stopped);
        Ok(summary)
    }
}
