//! The LogGOPS engine: every operation and every message is an event, in the order of their times.
//!
//! The rules are in docs/simulate.md; of operations that are freed by the same event sends begin before receives and those
//! before computations, each in the order in which they were freed, and of events of the same time the one that was
//! made first comes first. So the result depends on the schedule alone.
//!
//! What an event must cost at least: its 16 bytes written and read once each in the queue; the record of its operation (32
//! bytes) and the two words of its state, which come from memory, because a schedule is larger than any cache; those of each
//! operation that it frees; the three times of its rank. A step of an exchange with two neighbours, 5 operations and
//! 2 messages, so moves about 300 bytes of memory: at 10 GB/s 30 ns, 4 ns per event. Latency is what limits it in fact: a
//! handful of cache lines and pages per step that no earlier access has announced, at about 100 ns each. So the schedule is
//! laid out in the order in which it is played, and what the next events need is fetched ahead. No event allocates
//! memory: lists of waiting receives and messages are linked through the operations' own state.

use super::clocks::Clocks;
use super::layout::Layout;
use super::lists::{List, Lists, NONE, State, matches};
use super::parameters::Parameters;
use super::prefetch::prefetch;
use super::queue::{self, EventQueue};
use super::schedule::{AT_START, Kind, Record, Schedule, dependents_of};
use super::unfinished::{self, Unfinished};

/// Why a schedule has no finish times.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GoalError {
    /// A time beyond 64-bit nanoseconds.
    #[error("rank {rank}, {place}: a time exceeds 2^64 ns, which are 584 years")]
    TooLong {
        /// The rank.
        rank: u32,
        /// Line of the text, or number of the operation.
        place: String,
    },
    /// Operations are left that cannot happen any more.
    #[error(transparent)]
    Unfinished(#[from] Unfinished),
}

/// How a schedule has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// When the last CPU of each rank was free, in nanoseconds from the start of all.
    pub finish_ns: Vec<u64>,
    /// Operations.
    pub operations: u64,
    /// Messages, which is the number of sends.
    pub messages: u64,
    /// Their lengths together; `None` beyond 64 bits.
    pub bytes: Option<u64>,
}

impl Outcome {
    /// When the last rank has finished, in nanoseconds.
    pub fn makespan_ns(&self) -> u64 {
        self.finish_ns.iter().copied().max().unwrap_or(0)
    }

    /// The ranks that finish last, with their times in nanoseconds, the last one first, of equal times the lower rank.
    pub fn slowest(&self, most: usize) -> Vec<(u32, u64)> {
        let times = self.finish_ns.iter().copied();
        let mut all: Vec<(u32, u64)> = (0..).zip(times).collect();
        let key = |&(rank, time): &(u32, u64)| (std::cmp::Reverse(time), rank);
        if most < all.len() {
            all.select_nth_unstable_by_key(most, key);
            all.truncate(most);
        }
        all.sort_unstable_by_key(key);
        all
    }
}

/// Plays a schedule. The same schedule and parameters give the same times everywhere.
pub fn simulate(schedule: &Schedule, parameters: &Parameters) -> Result<Outcome, GoalError> {
    let many = schedule.records.iter().any(|r| r.cpu > 0 || r.nic > 0);
    let layout = Layout::of(schedule);
    let finish_ns = match many {
        true => Engine::<true>::new(schedule, &layout, parameters).run()?,
        false => Engine::<false>::new(schedule, &layout, parameters).run()?,
    };
    let sends = schedule.records.iter().filter(|r| r.kind == Kind::Send);
    Ok(Outcome {
        finish_ns,
        operations: schedule.operations(),
        messages: sends.clone().count() as u64,
        bytes: sends.map(|r| r.size).try_fold(0_u64, u64::checked_add),
    })
}

/// Events by which records, and what they point at, are fetched ahead: what takes longest comes from memory, in about the
/// time of one event or two; more only has to stay in the cache.
const RECORDS_AHEAD: usize = 40;
const LISTS_AHEAD: usize = 20;
/// Dependents mostly are among the next operations: states of one cache line.
const AROUND: usize = 8;

/// In the payload of an event: the message of the send, and not the send.
const MESSAGE: u32 = 1 << 31;
/// Whose dependents are freed.
#[derive(Clone, Copy, PartialEq)]
enum When {
    Start,
    End,
    Both,
}

/// Costs of a message in nanoseconds, and the length for which they hold.
struct Costs {
    size: u64,
    /// (n - 1) G
    gap: u64,
    /// (n - 1) O
    overhead: u64,
}

struct Engine<'a, const MANY: bool> {
    schedule: &'a Schedule,
    layout: &'a Layout,
    records: &'a [Record],
    dependents: &'a [u32],
    latency: u64,
    overhead: u64,
    gap: u64,
    parameters: Parameters,
    rendezvous: u64,
    queue: EventQueue,
    /// Of the last event that was made.
    stamp: u32,
    states: Vec<State>,
    lists: Vec<Lists>,
    clocks: Clocks<MANY>,
    costs: Costs,
    /// Freed by the event at hand on its own rank, and on the rank of a sender that waited.
    freed: Vec<u32>,
    freed_there: Vec<u32>,
    /// With one CPU its clock says when an operation may start. With several: the latest moment of what the operation
    /// waits for; of a send that has started the end of its own overhead. In nanoseconds.
    ready: Vec<u64>,
    /// With several CPUs: when the message of a send has been taken from the network, in nanoseconds.
    arrived: Vec<u64>,
}

impl<'a, const MANY: bool> Engine<'a, MANY> {
    fn new(schedule: &'a Schedule, layout: &'a Layout, parameters: &Parameters) -> Self {
        let records = layout.records.as_slice();
        let mut states = vec![
            State {
                missing: 0,
                next: NONE
            };
            records.len()
        ];
        for &later in &layout.dependents {
            states[(later & !AT_START) as usize].missing += 1;
        }
        let lists = Lists {
            posted: List::EMPTY,
            unexpected: List::EMPTY,
        };
        let several = if MANY { records.len() } else { 0 };
        Engine {
            schedule,
            layout,
            records,
            dependents: &layout.dependents,
            latency: parameters.latency.get(),
            overhead: parameters.overhead.get(),
            gap: parameters.gap.get(),
            parameters: *parameters,
            rendezvous: parameters.rendezvous.get(),
            queue: EventQueue::new(),
            stamp: 0,
            states,
            lists: vec![lists; schedule.ranks() as usize],
            clocks: Clocks::new(schedule.ranks(), records),
            // Nothing costs nothing.
            costs: Costs {
                size: 0,
                gap: 0,
                overhead: 0,
            },
            freed: Vec::new(),
            freed_there: Vec::new(),
            ready: vec![0; several],
            arrived: vec![0; several],
        }
    }

    /// Finish time of each rank in nanoseconds.
    fn run(mut self) -> Result<Vec<u64>, GoalError> {
        for rank in 0..self.schedule.ranks() {
            let own = &self.layout.places[self.schedule.span(rank)];
            let free = own.iter().copied();
            self.freed.clear();
            self.freed
                .extend(free.filter(|&index| self.states[index as usize].missing == 0));
            self.start_freed(rank, false);
        }
        while let Some(event) = self.queue.pop() {
            self.fetch_ahead();
            let index = (queue::payload(event) & !MESSAGE) as usize;
            let record = &self.records[index];
            let done = match record.kind {
                Kind::Send if queue::payload(event) & MESSAGE != 0 => {
                    self.message(event, index, record)
                }
                Kind::Send => self.send(event, index, record),
                Kind::Recv => {
                    self.recv(event, index, record);
                    Some(())
                }
                Kind::Calc => self.calc(event, index, record),
            };
            if done.is_none() {
                return Err(GoalError::TooLong {
                    rank: record.rank,
                    place: unfinished::place(self.schedule, self.layout.originals[index] as usize),
                });
            }
        }
        self.unfinished()?;
        Ok(self.clocks.finish())
    }

    /// The queue knows which events come next, and the schedule lies in memory: what they need is fetched meanwhile, first
    /// their records, then what the records point at.
    #[inline]
    fn fetch_ahead(&self) {
        if let Some(event) = self.queue.ahead(RECORDS_AHEAD) {
            let index = (queue::payload(event) & !MESSAGE) as usize;
            prefetch(self.records, index);
            prefetch(&self.states, index);
        }
        let Some(event) = self.queue.ahead(LISTS_AHEAD) else {
            return;
        };
        let payload = queue::payload(event);
        let index = (payload & !MESSAGE) as usize;
        let record = &self.records[index];
        if payload & MESSAGE == 0 {
            prefetch(self.dependents, record.dependents as usize);
            prefetch(&self.states, index + AROUND);
            prefetch(self.records, index + 2);
        } else {
            let first = self.lists[record.peer as usize].posted.first as usize;
            prefetch(self.records, first);
            prefetch(&self.states, first);
        }
    }

    /// What is left when nothing can happen any more.
    fn unfinished(&self) -> Result<(), Unfinished> {
        let waiting = self.states.iter().filter(|s| s.missing > 0).count() as u64;
        let list = |list: List| {
            let next = |&here: &u32| Some(self.states[here as usize].next).filter(|&n| n != NONE);
            std::iter::successors(Some(list.first).filter(|&first| first != NONE), next)
        };
        let original = |place: u32| self.layout.originals[place as usize];
        let posted = self.lists.iter().flat_map(|l| list(l.posted));
        let unexpected = self.lists.iter().flat_map(|l| list(l.unexpected));
        let (posted, unexpected) = (posted.map(original), unexpected.map(original));
        Unfinished::of(self.schedule, posted, unexpected, waiting)
    }

    /// Costs of a message of this length; `None` beyond 64 bits.
    #[inline]
    fn costs_of(&mut self, size: u64) -> Option<(u64, u64)> {
        if self.costs.size != size {
            // The first byte is paid for by the overhead.
            let bytes = size.saturating_sub(1);
            self.costs = Costs {
                size,
                gap: self.parameters.gap_per_byte.cost(bytes)?,
                overhead: self.parameters.overhead_per_byte.cost(bytes)?,
            };
        }
        Some((self.costs.gap, self.costs.overhead))
    }

    #[inline]
    fn make_event(&mut self, time: u64, payload: u32) {
        // Every operation is one event and every send one more: fewer than 2^32.
        self.stamp += 1;
        self.queue.push(queue::event(time, self.stamp, payload));
    }

    fn calc(&mut self, event: u128, index: usize, record: &Record) -> Option<()> {
        let time = queue::time(event);
        let cpu = self.clocks.cpu(record.rank, record.cpu);
        let free = self.clocks.get(cpu);
        if free > time {
            self.queue.push(queue::at(event, free));
            return Some(());
        }
        let end = time.checked_add(record.size)?;
        self.clocks.set(cpu, end);
        self.fulfil(index, When::Both, time, end, false);
        self.start_freed(record.rank, false);
        Some(())
    }

    fn send(&mut self, event: u128, index: usize, record: &Record) -> Option<()> {
        let time = queue::time(event);
        let cpu = self.clocks.cpu(record.rank, record.cpu);
        let nic = self.clocks.sending(record.rank, record.nic);
        let free = self.clocks.get(cpu).max(self.clocks.get(nic));
        if free > time {
            self.queue.push(queue::at(event, free));
            return Some(());
        }
        let (gap, overhead) = self.costs_of(record.size)?;
        let sent = time.checked_add(self.overhead)?;
        let end = sent.checked_add(overhead)?;
        self.clocks.set(cpu, end);
        self.clocks
            .set(nic, time.checked_add(self.gap)?.checked_add(gap)?);
        self.make_event(sent.checked_add(self.latency)?, index as u32 | MESSAGE);
        let when = match record.size > self.rendezvous {
            true => When::Start,
            false => When::Both,
        };
        if MANY {
            self.ready[index] = end;
        }
        self.fulfil(index, when, time, end, false);
        self.start_freed(record.rank, false);
        Some(())
    }

    /// A message is there. It takes the CPU and the NIC of the receiver that have the numbers of the sender's.
    fn message(&mut self, event: u128, index: usize, send: &Record) -> Option<()> {
        let time = queue::time(event);
        let rank = send.peer;
        let cpu = self.clocks.cpu(rank, send.cpu);
        let nic = self.clocks.receiving(rank, send.nic);
        let free = self.clocks.get(cpu).max(self.clocks.get(nic));
        if free > time {
            self.queue.push(queue::at(event, free));
            return Some(());
        }
        let (gap, overhead) = self.costs_of(send.size)?;
        let end = time
            .checked_add(self.overhead)?
            .checked_add(gap.max(overhead))?;
        self.clocks.set(cpu, end);
        self.clocks
            .set(nic, time.checked_add(self.gap)?.checked_add(gap)?);
        let records = self.records;
        let lists = &mut self.lists[rank as usize];
        let fits = |recv: usize| matches(&records[recv], send);
        match lists.posted.take(&mut self.states, fits) {
            Some(recv) => {
                let there = self.release_sender(index, send, rank, time);
                self.fulfil(recv as usize, When::End, time, end, false);
                self.start_both(rank, there);
            }
            None => {
                lists.unexpected.append(&mut self.states, index as u32);
                if MANY {
                    self.arrived[index] = end;
                }
            }
        }
        Some(())
    }

    /// Posting a receive takes no time.
    fn recv(&mut self, event: u128, index: usize, record: &Record) {
        let time = queue::time(event);
        let rank = record.rank;
        self.fulfil(index, When::Start, time, time, false);
        let records = self.records;
        let lists = &mut self.lists[rank as usize];
        let fits = |send: usize| matches(record, &records[send]);
        match lists.unexpected.take(&mut self.states, fits) {
            Some(send) => {
                let send = send as usize;
                let there = self.release_sender(send, &records[send], rank, time);
                let end = match MANY {
                    true => time.max(self.arrived[send]),
                    false => time,
                };
                self.fulfil(index, When::End, time, end, false);
                self.start_both(rank, there);
            }
            None => {
                lists.posted.append(&mut self.states, index as u32);
                self.start_freed(rank, false);
            }
        }
    }

    /// The sender of a long message goes on when the message has met its receive. The rank of that sender, if it is another
    /// one than the receiver.
    #[inline]
    fn release_sender(&mut self, index: usize, send: &Record, here: u32, time: u64) -> Option<u32> {
        if send.size <= self.rendezvous {
            return None;
        }
        let cpu = self.clocks.cpu(send.rank, send.cpu);
        // The NIC needs no such thing: no later event is earlier than this one.
        self.clocks.raise(cpu, time);
        let end = match MANY {
            true => time.max(self.ready[index]),
            false => time,
        };
        let there = (send.rank != here).then_some(send.rank);
        self.fulfil(index, When::End, time, end, there.is_some());
        there
    }

    /// An operation has started, or will have ended at `end`: those that waited for nothing else are freed.
    #[inline]
    fn fulfil(&mut self, index: usize, when: When, start: u64, end: u64, there: bool) {
        for &later in dependents_of(self.records, self.dependents, index) {
            let at_start = later & AT_START != 0;
            if when != When::Both && at_start != (when == When::Start) {
                continue;
            }
            let later = later & !AT_START;
            if MANY {
                let ready = &mut self.ready[later as usize];
                *ready = (*ready).max(if at_start { start } else { end });
            }
            let state = &mut self.states[later as usize];
            state.missing -= 1;
            if state.missing == 0 {
                match there {
                    true => self.freed_there.push(later),
                    false => self.freed.push(later),
                }
            }
        }
    }

    /// Starts what was freed on this rank and on that of the sender, the lower rank first.
    #[inline]
    fn start_both(&mut self, here: u32, there: Option<u32>) {
        match there {
            None => self.start_freed(here, false),
            Some(there) if there < here => {
                self.start_freed(there, true);
                self.start_freed(here, false);
            }
            Some(there) => {
                self.start_freed(here, false);
                self.start_freed(there, true);
            }
        }
    }

    /// Makes events of the operations that were freed: sends, then receives, then computations.
    #[inline]
    fn start_freed(&mut self, rank: u32, there: bool) {
        let mut freed = std::mem::take(match there {
            true => &mut self.freed_there,
            false => &mut self.freed,
        });
        match freed.as_slice() {
            [] => {}
            &[one] => self.start(rank, one, self.records[one as usize].kind),
            several => {
                for kind in [Kind::Send, Kind::Recv, Kind::Calc] {
                    for &index in several {
                        if self.records[index as usize].kind == kind {
                            self.start(rank, index, kind);
                        }
                    }
                }
            }
        }
        freed.clear();
        match there {
            true => self.freed_there = freed,
            false => self.freed = freed,
        }
    }

    #[inline]
    fn start(&mut self, rank: u32, index: u32, kind: Kind) {
        let record = &self.records[index as usize];
        let mut time = self.clocks.get(self.clocks.cpu(rank, record.cpu));
        if kind == Kind::Send {
            let nic = self.clocks.sending(rank, record.nic);
            time = time.max(self.clocks.get(nic));
        }
        if MANY {
            time = time.max(self.ready[index as usize]);
        }
        self.make_event(time, index);
    }
}
