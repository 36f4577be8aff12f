//! Bundles: events of one CPU, some of them in columns.
//!
//! Recorders may put switches and wake-ups into columns (`compact_sched`): time differences,
//! threads, and indices into a list of names. Columns and events are each in order of time and are
//! read side by side.

use super::event::{self, Timed, comm, pid_of, state};
use super::record::{Record, Summary};
use crate::export::perfetto::ftrace;
use crate::wire::{Fields, Value, WireError, packed};
use idlewave_ftrace::event::{Comm, Event};
use idlewave_units::{Cpu, Pid};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Fields of `FtraceEventBundle` that the exporter does not write.
const LOST_EVENTS: u32 = 3;
const COMPACT: u32 = 4;
const CLOCK: u32 = 5;
/// Limit on the CPUs of all machines whose running threads are known; more are damage.
const MOST_CPUS: usize = 1 << 16;
/// Limit on the names of a bundle; more are damage.
const MOST_NAMES: usize = 1 << 16;

/// Stands for the thread of a CPU if none was recorded, as in our own exports. This number is
/// larger than any that Linux gives.
const NOT_RECORDED: Pid = Pid::new(ftrace::NOT_RECORDED);

/// The running thread of each CPU of each machine: columns do not name the thread that leaves.
#[derive(Debug, Default)]
struct Running(HashMap<(u32, Cpu), (Pid, Option<Comm>)>);

impl Running {
    fn switch(&mut self, cpu: (u32, Cpu), next: (Pid, Option<Comm>)) -> (Pid, Option<Comm>) {
        if self.0.len() >= MOST_CPUS && !self.0.contains_key(&cpu) {
            return (NOT_RECORDED, None);
        }
        self.0.insert(cpu, next).unwrap_or((NOT_RECORDED, None))
    }
}

/// Reads bundles one after the other.
pub(super) struct Bundles<'a> {
    visit: &'a mut dyn FnMut(Record<'_>) -> ControlFlow<()>,
    running: Running,
    pub(super) summary: Summary,
    /// Whether `visit` broke off.
    pub(super) stopped: bool,
}

impl<'a> Bundles<'a> {
    pub(super) fn new(visit: &'a mut dyn FnMut(Record<'_>) -> ControlFlow<()>) -> Self {
        Self {
            visit,
            running: Running::default(),
            summary: Summary::default(),
            stopped: false,
        }
    }

    /// Passes a record on, unless `visit` broke off.
    pub(super) fn give(&mut self, record: Record<'_>) {
        if self.stopped {
            return;
        }
        self.summary.events += u64::from(matches!(
            record,
            Record::Event { .. } | Record::Leaves { .. } | Record::Gets { .. }
        ));
        self.stopped = (self.visit)(record).is_break();
    }

    /// Reads the events of a bundle.
    pub(super) fn read(&mut self, machine: u32, bytes: &[u8]) -> Result<(), WireError> {
        let mut cpu = Cpu::new(0);
        let (mut lost, mut clock, mut compact) = (false, 0, None);
        for field in Fields::of(bytes) {
            match field? {
                (ftrace::CPU, Value::Uint(number)) => cpu = Cpu::new(number as u32),
                (LOST_EVENTS, Value::Uint(flag)) => lost = flag != 0,
                (CLOCK, Value::Uint(number)) => clock = number,
                (COMPACT, Value::Bytes(columns)) => compact = Some(columns),
                _ => {}
            }
        }
        self.summary.other_clocks += u64::from(clock != 0);
        if lost {
            self.summary.gaps += 1;
            self.running.0.remove(&(machine, cpu));
            self.give(Record::Lost { machine, cpu });
        }
        let columns = Columns::of(compact.unwrap_or_default())?;
        let mut switches = columns.switches().peekable();
        let mut wakings = columns.wakings().peekable();
        for field in Fields::of(bytes) {
            let (ftrace::EVENT, Value::Bytes(found)) = field? else {
                continue;
            };
            let Some(next) = event::read(found)? else {
                self.summary.other_events += 1;
                continue;
            };
            self.columns(
                machine,
                cpu,
                &mut switches,
                &mut wakings,
                Some(next.time_ns),
            );
            self.event(machine, cpu, next);
            if self.stopped {
                return Ok(());
            }
        }
        self.columns(machine, cpu, &mut switches, &mut wakings, None);
        Ok(())
    }

    /// Passes on what the columns hold up to this time.
    fn columns<'c>(
        &mut self,
        machine: u32,
        cpu: Cpu,
        switches: &mut std::iter::Peekable<impl Iterator<Item = Timed<'c>>>,
        wakings: &mut std::iter::Peekable<impl Iterator<Item = Timed<'c>>>,
        until_ns: Option<u64>,
    ) {
        let due = |next: &Timed<'_>| until_ns.is_none_or(|until| next.time_ns <= until);
        while !self.stopped {
            let switch = switches.peek().map(|next| next.time_ns);
            // A thread is woken before the CPU switches to it.
            let wake = wakings
                .next_if(|next| due(next) && switch.is_none_or(|switch| next.time_ns <= switch));
            match wake.or_else(|| switches.next_if(due)) {
                Some(next) => self.event(machine, cpu, next),
                None => return,
            }
        }
    }

    fn event(&mut self, machine: u32, cpu: Cpu, timed: Timed<'_>) {
        let Timed {
            time_ns,
            mut by,
            mut event,
        } = timed;
        if let Event::Switch {
            prev,
            prev_comm,
            next,
            next_comm,
            ..
        } = &mut event
        {
            let before = self.running.switch((machine, cpu), (*next, *next_comm));
            if by.is_none() && *prev == NOT_RECORDED {
                (*prev, *prev_comm) = before;
                by = Some(*prev).filter(|pid| *pid != NOT_RECORDED);
            }
        }
        self.give(match event {
            Event::Switch {
                prev,
                prev_state,
                next,
                ..
            } if next == NOT_RECORDED => Record::Leaves {
                machine,
                cpu,
                time_ns,
                prev,
                prev_state,
            },
            Event::Switch {
                prev,
                next,
                next_comm,
                ..
            } if prev == NOT_RECORDED => Record::Gets {
                machine,
                cpu,
                time_ns,
                next,
                next_comm,
            },
            event => Record::Event {
                machine,
                cpu,
                time_ns,
                by,
                event,
            },
        });
    }
}

/// The columns of a bundle.
#[derive(Debug, Default)]
struct Columns<'a> {
    names: Vec<&'a [u8]>,
    /// By field number.
    columns: [&'a [u8]; 12],
}

impl<'a> Columns<'a> {
    fn of(bytes: &'a [u8]) -> Result<Self, WireError> {
        const NAMES: u32 = 5;
        let mut found = Self::default();
        for field in Fields::of(bytes) {
            match field? {
                (NAMES, Value::Bytes(name)) if found.names.len() < MOST_NAMES => {
                    found.names.push(name);
                }
                (number, Value::Bytes(column)) if number != NAMES => {
                    if let Some(place) = found.columns.get_mut(number as usize) {
                        *place = column;
                    }
                }
                _ => {}
            }
        }
        Ok(found)
    }

    fn name(&self, index: u64) -> Option<Comm> {
        let index = usize::try_from(index).ok()?;
        self.names.get(index).and_then(|name| comm(name))
    }

    fn column(&self, field: usize) -> impl Iterator<Item = u64> + 'a {
        packed(self.columns[field])
    }

    /// The switches, as many as the shortest column has.
    fn switches(&self) -> impl Iterator<Item = Timed<'a>> + '_ {
        let times = self.column(1).scan(0_u64, advance);
        let threads = self.column(2).zip(self.column(3)).zip(self.column(6));
        times
            .zip(threads)
            .map(|(time_ns, ((bits, next), name))| Timed {
                time_ns,
                by: None,
                event: Event::Switch {
                    prev: NOT_RECORDED,
                    prev_comm: None,
                    prev_state: state(bits),
                    next: pid_of(next),
                    next_comm: self.name(name),
                },
            })
    }

    /// The wake-ups, as many as the shortest column has.
    fn wakings(&self) -> impl Iterator<Item = Timed<'a>> + '_ {
        let times = self.column(7).scan(0_u64, advance);
        let threads = self.column(8).zip(self.column(9)).zip(self.column(11));
        times
            .zip(threads)
            .map(|(time_ns, ((pid, cpu), name))| Timed {
                time_ns,
                by: None,
                event: Event::Wake {
                    pid: pid_of(pid),
                    comm: self.name(name),
                    cpu: Cpu::new(cpu as u32),
                },
            })
    }
}

/// Times are differences, the first one from 0.
fn advance(time_ns: &mut u64, difference: u64) -> Option<u64> {
    *time_ns = time_ns.saturating_add(difference);
    Some(*time_ns)
}
