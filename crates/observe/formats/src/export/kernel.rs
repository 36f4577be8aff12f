//! The kernel's view of a run as the kernel would have recorded it: CPU by CPU, in order of time.
//!
//! The tables of a recording are ordered by CPU and time and are read side by side, a batch of each
//! at a time. If a table is in another order (a simulated run, records of perf, migrations), CPUs
//! are processed in groups, so that no more than [`MOST_ROWS`] of such rows are in memory.
//! [`RunReader::in_order`] would not do: it gives the rows of all CPUs in one order of time.

use crate::export::ExportError;
use idlewave_run::tables::{
    Burst, Bursts, EndReason, Interrupt, Interrupts, Migration, Migrations, Syscall, Syscalls,
    Wakeup, Wakeups,
};
use idlewave_run::{Ledger, RunError, RunReader, Table, TableReader};
use idlewave_units::{Cpu, NodeId, Pid};
use std::collections::BTreeMap;

/// Maximum number of rows of unordered tables in memory, unless a single CPU has more.
const MOST_ROWS: u64 = 4 << 20;

/// Enters uncertain rows: viewers do not distinguish them from others.
pub(crate) fn enter_inferred(losses: &mut Ledger, what: &str, count: u64) {
    losses.enter(
        format!("{what} whose start or end was inferred"),
        count,
        "they are shown like recorded ones",
        "export to csv: column `certain`",
    );
}

/// A CPU of a node.
pub(crate) type Place = (NodeId, Cpu);

/// What happened on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The CPU passed from one thread to another. `None` if no record says which thread had it.
    Switch {
        /// Who left it and why.
        prev: Option<(Pid, EndReason)>,
        /// Who got it.
        next: Option<Pid>,
    },
    /// An interruption started. The source is a row of `sources`.
    Enter { source: u32, ends_ns: u64 },
    /// An interruption ended.
    Leave { source: u32, began_ns: u64 },
    /// A thread was woken.
    Wake { pid: Pid, target: Cpu },
    /// A thread was moved from this CPU.
    Migrate { pid: Pid, to: Cpu },
    /// The running thread entered the kernel by a system call, or returned from one. The number is
    /// `None` if a tracer had cancelled the call.
    Syscall { number: Option<u32>, returned: bool },
}

/// Something that happened on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Happened {
    pub(crate) place: Place,
    pub(crate) time_ns: u64,
    /// The running thread, if known.
    pub(crate) by: Option<Pid>,
    pub(crate) what: What,
}

/// Calls `visit` with all that happened, and returns the number of uncertain bursts and interrupts.
pub(crate) fn for_each(
    run: &RunReader,
    visit: &mut dyn FnMut(Happened) -> Result<(), ExportError>,
) -> Result<u64, ExportError> {
    let mut places = BTreeMap::new();
    let mut tables = Tables {
        uncertain: 0,
        bursts: Feed::of(run, &mut places)?,
        interrupts: Feed::of(run, &mut places)?,
        wakeups: Feed::of(run, &mut places)?,
        migrations: Feed::of(run, &mut places)?,
        syscalls: Feed::of(run, &mut places)?,
    };
    let mut places = places.into_iter().peekable();
    while let Some((first, mut rows)) = places.next() {
        let mut group = vec![first];
        while let Some((place, more)) = places.next_if(|(_, more)| rows + more <= MOST_ROWS) {
            rows += more;
            group.push(place);
        }
        let range = (first, group[group.len() - 1]);
        tables.bursts.load(run, range)?;
        tables.interrupts.load(run, range)?;
        tables.wakeups.load(run, range)?;
        tables.migrations.load(run, range)?;
        tables.syscalls.load(run, range)?;
        for place in group {
            tables.cpu(place, visit)?;
        }
    }
    Ok(tables.uncertain)
}

struct Tables {
    bursts: Feed<Bursts>,
    interrupts: Feed<Interrupts>,
    wakeups: Feed<Wakeups>,
    migrations: Feed<Migrations>,
    syscalls: Feed<Syscalls>,
    uncertain: u64,
}

/// What may come next, in the order in which it is taken at equal times.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Leave,
    WakeByRunning,
    SyscallOfRunning,
    Stop,
    Start,
    Syscall,
    Enter,
    Wake,
    Migrate,
}

impl Tables {
    fn cpu(
        &mut self,
        place: Place,
        visit: &mut dyn FnMut(Happened) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        let mut running: Option<Burst> = None;
        let mut open: Vec<Interrupt> = Vec::new();
        loop {
            let burst = self.bursts.head_at(place);
            let ends = open.iter().map(|o| o.end_ns).min();
            let stops = running.as_ref().map(|r| r.end_ns);
            // A switch from one thread to the next is one event.
            let stops = stops.filter(|end| burst.is_none_or(|next| next.begin_ns > *end));
            let before = running.as_ref().map(|r| r.pid);
            let wake = self.wakeups.head_at(place).map(|wake| {
                let by = before == Some(wake.waker);
                let next = if by { Next::WakeByRunning } else { Next::Wake };
                (wake.time_ns, next)
            });
            let syscall = self.syscalls.head_at(place).map(|call| {
                let of = before == Some(call.pid);
                let next = if of {
                    Next::SyscallOfRunning
                } else {
                    Next::Syscall
                };
                (call.time_ns, next)
            });
            let candidates = [
                ends.map(|time| (time, Next::Leave)),
                wake,
                syscall,
                stops.map(|time| (time, Next::Stop)),
                burst.map(|b| (b.begin_ns, Next::Start)),
                (self.interrupts.head_at(place)).map(|i| (i.begin_ns, Next::Enter)),
                (self.migrations.head_at(place)).map(|m| (m.time_ns, Next::Migrate)),
            ];
            let Some((time_ns, next)) = candidates.into_iter().flatten().min() else {
                return Ok(());
            };
            let (by, what) = match next {
                Next::Leave => {
                    let Some(at) = open.iter().rposition(|o| o.end_ns == time_ns) else {
                        continue;
                    };
                    let left = open.remove(at);
                    let (source, began_ns) = (left.source, left.begin_ns);
                    (Some(left.pid), What::Leave { source, began_ns })
                }
                Next::Stop | Next::Start => {
                    let prev = running.take().map(|r| (r.pid, r.end_reason));
                    if next == Next::Start {
                        running = self.bursts.take()?;
                    }
                    let begins = running.as_ref().filter(|_| next == Next::Start);
                    self.uncertain += u64::from(begins.is_some_and(|r| !r.certain));
                    let next = running.as_ref().map(|r| r.pid);
                    (before, What::Switch { prev, next })
                }
                Next::Enter => {
                    let Some(entered) = self.interrupts.take()? else {
                        continue;
                    };
                    let (source, ends_ns) = (entered.source, entered.end_ns.max(time_ns));
                    let by = Some(entered.pid);
                    self.uncertain += u64::from(!entered.certain);
                    open.push(Interrupt {
                        end_ns: ends_ns,
                        ..entered
                    });
                    (by, What::Enter { source, ends_ns })
                }
                Next::WakeByRunning | Next::Wake => {
                    let Some(wake) = self.wakeups.take()? else {
                        continue;
                    };
                    let (pid, target) = (wake.pid, wake.target_cpu);
                    (Some(wake.waker), What::Wake { pid, target })
                }
                Next::SyscallOfRunning | Next::Syscall => {
                    let Some(call) = self.syscalls.take()? else {
                        continue;
                    };
                    let (number, returned) = (call.number, call.returned);
                    (Some(call.pid), What::Syscall { number, returned })
                }
                Next::Migrate => {
                    let Some(moved) = self.migrations.take()? else {
                        continue;
                    };
                    let (pid, to) = (moved.pid, moved.to);
                    (None, What::Migrate { pid, to })
                }
            };
            visit(Happened {
                place,
                time_ns,
                by,
                what,
            })?;
        }
    }
}

/// A table with rows that belong to a CPU and a moment.
trait OnCpu: Table {
    fn key(row: &Self::Row) -> (Place, u64);
}

impl OnCpu for Bursts {
    fn key(row: &Burst) -> (Place, u64) {
        ((row.node, row.cpu), row.begin_ns)
    }
}
impl OnCpu for Interrupts {
    fn key(row: &Interrupt) -> (Place, u64) {
        ((row.node, row.cpu), row.begin_ns)
    }
}
impl OnCpu for Wakeups {
    fn key(row: &Wakeup) -> (Place, u64) {
        ((row.node, row.cpu), row.time_ns)
    }
}
impl OnCpu for Syscalls {
    fn key(row: &Syscall) -> (Place, u64) {
        ((row.node, row.cpu), row.time_ns)
    }
}
impl OnCpu for Migrations {
    /// By the CPU that the thread left: the CPU on which the row was recorded is not in the table.
    fn key(row: &Migration) -> (Place, u64) {
        ((row.node, row.from), row.time_ns)
    }
}

/// The rows of a table by CPU and time.
struct Feed<T: Table> {
    rows: Rows<T>,
    head: Option<T::Row>,
}

enum Rows<T: Table> {
    /// The table is in this order.
    Ordered(Stream<T>),
    /// Rows of some CPUs, the last row first.
    Loaded(Vec<T::Row>),
}

impl<T: OnCpu> Feed<T> {
    /// Opens a table and adds its CPUs to `places`, each with the number of rows that must be in
    /// memory for it.
    fn of(run: &RunReader, places: &mut BTreeMap<Place, u64>) -> Result<Self, RunError> {
        let mut ordered = true;
        let mut before = None;
        let mut counts = BTreeMap::<Place, u64>::new();
        for row in Stream::<T>::of(run)? {
            let key = T::key(&row?);
            ordered &= before.is_none_or(|before| before <= key);
            before = Some(key);
            *counts.entry(key.0).or_default() += 1;
        }
        for (place, count) in counts {
            *places.entry(place).or_default() += if ordered { 0 } else { count };
        }
        let mut feed = Self {
            rows: match ordered {
                true => Rows::Ordered(Stream::of(run)?),
                false => Rows::Loaded(Vec::new()),
            },
            head: None,
        };
        feed.take()?;
        Ok(feed)
    }

    /// Makes the rows of these CPUs available.
    fn load(&mut self, run: &RunReader, (first, last): (Place, Place)) -> Result<(), RunError> {
        let Rows::Loaded(rows) = &mut self.rows else {
            return Ok(());
        };
        rows.clear();
        for row in Stream::<T>::of(run)? {
            let row = row?;
            if (first..=last).contains(&T::key(&row).0) {
                rows.push(row);
            }
        }
        // Rows of equal time keep their order.
        rows.reverse();
        rows.sort_by_key(|row| std::cmp::Reverse(T::key(row)));
        self.head = None;
        self.take()?;
        Ok(())
    }

    /// The next row if it belongs to this CPU.
    fn head_at(&self, place: Place) -> Option<&T::Row> {
        self.head.as_ref().filter(|row| T::key(row).0 == place)
    }

    /// Takes the next row.
    fn take(&mut self) -> Result<Option<T::Row>, RunError> {
        let next = match &mut self.rows {
            Rows::Ordered(stream) => stream.next().transpose()?,
            Rows::Loaded(rows) => rows.pop(),
        };
        Ok(std::mem::replace(&mut self.head, next))
    }
}

/// The rows of a table in its own order, a batch in memory at a time.
pub(crate) struct Stream<T: Table> {
    reader: Option<TableReader<T>>,
    batch: T,
    at: usize,
}

impl<T: Table> Stream<T> {
    /// A run without the table has no rows.
    pub(crate) fn of(run: &RunReader) -> Result<Self, RunError> {
        Ok(Self {
            reader: run.table_if_present()?,
            batch: T::default(),
            at: 0,
        })
    }
}

impl<T: Table> Iterator for Stream<T> {
    type Item = Result<T::Row, RunError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.at >= self.batch.len() {
            self.at = 0;
            self.batch.clear();
            match self.reader.as_mut()?.next_into(&mut self.batch) {
                Ok(true) => {}
                Ok(false) => self.reader = None,
                Err(error) => {
                    self.reader = None;
                    return Some(Err(error));
                }
            }
        }
        self.at += 1;
        Some(Ok(self.batch.row(self.at - 1)))
    }
}

#[cfg(test)]
#[path = "kernel_tests.rs"]
mod tests;
