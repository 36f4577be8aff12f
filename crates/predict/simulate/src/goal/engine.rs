//! The LogGOPS engine: every operation and every message is an event, in the order of their times.
//!
//! The rules are in docs/simulate.md. Of operations that the same event frees, sends begin before
//! receives and receives before computations, each in the order in which they were freed. Of events
//! at the same time, the one created first comes first. So the result depends on the operations
//! alone.
//!
//! The least cost of an event: its 16 bytes are written to and read from the queue once. From
//! memory come the record of its operation (32 bytes), in a schedule the two words of its state (a
//! schedule is larger than any cache), those of each operation that it frees, and the three times
//! of its rank. A step of an exchange with two neighbours, 5 operations and 2 messages, thus moves
//! about 300 bytes: 30 ns at 10 GB/s, 4 ns per event. In practice latency is the limit: a handful
//! of cache lines and pages per step that no earlier access predicts, at about 100 ns each. So a
//! schedule is laid out in the order in which it is played, and what the next events need is
//! prefetched. Of a program only the operations in flight are in memory, mostly in the cache. No
//! event allocates memory: lists of waiting receives and messages are linked through the
//! operations' own state.

use super::clocks::Clocks;
use super::lists::Lists;
use super::parameters::Parameters;
use super::queue::{self, EventQueue};
use super::schedule::{Kind, Task};
use super::waiting::{Needs, Waiting};
use super::work::{Stop, When, Work};
use idlewave_noise::CpuTime;

/// How many events ahead records, and the data that they point at, are prefetched. The slowest come
/// from memory, in about the time of one or two events; a larger distance only has to fit the
/// cache.
const RECORDS_AHEAD: usize = 24;
const RANKS_AHEAD: usize = 12;
const LISTS_AHEAD: usize = 6;

/// In the payload of an event: the message of a send rather than the send itself.
const MESSAGE: u32 = 1 << 31;

/// Costs of a message in nanoseconds, and the length that they are for.
struct Costs {
    size: u64,
    /// (n - 1) G
    gap: u64,
    /// (n - 1) O
    overhead: u64,
}

/// Why there are no finish times.
pub(crate) enum Failure<E> {
    Stop(Stop<E>),
    /// Receives without a message and messages without a receive, by rank and in order; if there
    /// are none, operations that never started.
    Unfinished {
        posted: Vec<u32>,
        unexpected: Vec<u32>,
    },
}

pub(crate) struct Engine<'a, W, C, const MANY: bool> {
    work: &'a mut W,
    cpu_time: C,
    latency: u64,
    overhead: u64,
    gap: u64,
    parameters: Parameters,
    rendezvous: u64,
    queue: EventQueue,
    waiting: Waiting<MANY>,
    /// Time of the current event, in nanoseconds.
    now: u64,
    /// Stamp of the last event created.
    stamp: u32,
    /// The largest stamp allowed.
    last_stamp: u32,
    lists: Lists,
    clocks: Clocks<MANY>,
    costs: Costs,
    /// Operations freed by the current event on its own rank, and on the rank of a sender that
    /// waited.
    freed: Vec<u32>,
    freed_there: Vec<u32>,
}

impl<'a, W: Work<MANY>, C: CpuTime, const MANY: bool> Engine<'a, W, C, MANY> {
    pub fn new(
        work: &'a mut W,
        clocks: Clocks<MANY>,
        parameters: &Parameters,
        cpu_time: C,
    ) -> Self {
        let ranks = work.ranks();
        Engine {
            work,
            cpu_time,
            latency: parameters.latency.get(),
            overhead: parameters.overhead.get(),
            gap: parameters.gap.get(),
            parameters: *parameters,
            rendezvous: parameters.rendezvous.get(),
            queue: EventQueue::new(),
            waiting: Waiting::new(ranks),
            now: 0,
            stamp: 0,
            last_stamp: u32::MAX,
            lists: Lists::new(ranks),
            clocks,
            // Messages of no bytes cost nothing.
            costs: Costs {
                size: 0,
                gap: 0,
                overhead: 0,
            },
            freed: Vec::new(),
            freed_there: Vec::new(),
        }
    }

    /// Sets the largest stamp, to test the renumbering of stamps.
    #[cfg(test)]
    pub fn stamps_end_at(&mut self, last: u32) {
        self.last_stamp = last;
    }

    /// Plays all operations.
    pub fn run(&mut self) -> Result<(), Failure<W::Error>> {
        self.play().map_err(Failure::Stop)?;
        let posted = self.lists.all::<true, MANY>(self.work);
        let unexpected = self.lists.all::<false, MANY>(self.work);
        match posted.is_empty() && unexpected.is_empty() && self.work.all_done() {
            true => Ok(()),
            false => Err(Failure::Unfinished { posted, unexpected }),
        }
    }

    /// When the last CPU of each rank is free, in nanoseconds.
    pub fn finish(&self) -> Vec<u64> {
        self.clocks.finish()
    }

    fn play(&mut self) -> Result<(), Stop<W::Error>> {
        for rank in 0..self.work.ranks() {
            self.work.begin(rank, &mut self.freed)?;
            self.start_freed(rank, false);
        }
        while let Some(event) = self.queue.pop() {
            self.fetch_ahead();
            self.now = queue::time(event);
            let index = queue::payload(event) & !MESSAGE;
            let task = *self.work.task(index);
            match task.kind {
                Kind::Send if queue::payload(event) & MESSAGE != 0 => {
                    self.message(event, index, &task)?;
                }
                Kind::Send => self.send(event, index, &task)?,
                Kind::Recv => self.recv(event, index, &task)?,
                Kind::Calc => self.calc(event, index, &task)?,
            }
        }
        Ok(())
    }

    /// Prefetches what the next events in the queue need: first their records, then the state of
    /// their ranks, then what waits there.
    #[inline]
    fn fetch_ahead(&self) {
        if self.queue.is_fresh() {
            let first = (0..RECORDS_AHEAD).map_while(|distance| self.queue.ahead(distance));
            first.for_each(|event| self.work.fetch(queue::payload(event) & !MESSAGE));
        }
        if let Some(event) = self.queue.ahead(RECORDS_AHEAD) {
            self.work.fetch(queue::payload(event) & !MESSAGE);
        }
        if let Some(event) = self.queue.ahead(RANKS_AHEAD) {
            let payload = queue::payload(event);
            let index = payload & !MESSAGE;
            let task = self.work.task(index);
            let rank = match payload & MESSAGE {
                0 => {
                    self.work.fetch_next(index);
                    task.rank
                }
                _ => task.peer,
            };
            self.clocks.fetch(rank);
            self.lists.fetch(rank);
            self.waiting.fetch(rank);
        }
        if let Some(event) = self.queue.ahead(LISTS_AHEAD) {
            let payload = queue::payload(event);
            if payload & MESSAGE == 0 {
                return;
            }
            let rank = self.work.task(payload & !MESSAGE).peer;
            if let Some(first) = self.lists.first_posted(rank) {
                self.work.fetch(first);
                // It usually has a match, and its rank goes on.
                self.work.fetch_rank(rank);
            }
        }
    }

    /// Costs of a message of this length: (n - 1) G, (n - 1) O.
    #[inline]
    fn costs_of(&mut self, index: u32, size: u64) -> Result<(u64, u64), Stop<W::Error>> {
        if self.costs.size != size {
            // The overhead covers the first byte.
            let bytes = size.saturating_sub(1);
            let cost = |of: super::PerByte| of.cost(bytes).ok_or(Stop::TooLong(index));
            self.costs = Costs {
                size,
                gap: cost(self.parameters.gap_per_byte)?,
                overhead: cost(self.parameters.overhead_per_byte)?,
            };
        }
        Ok((self.costs.gap, self.costs.overhead))
    }

    #[inline]
    fn make_event(&mut self, time: u64, payload: u32) {
        if self.stamp >= self.last_stamp {
            self.waiting.all_to(&mut self.queue, self.now);
            self.stamp = self.queue.stamp_again();
        }
        self.stamp += 1;
        self.queue.push(queue::event(time, self.stamp, payload));
    }

    /// When the CPU has done this work.
    #[inline]
    fn done(
        &mut self,
        index: u32,
        rank: u32,
        cpu: u8,
        start: u64,
        work: u64,
    ) -> Result<u64, Stop<W::Error>> {
        let undisturbed = add(index, start, work)?;
        let end = self.cpu_time.end(rank, cpu, start, work);
        match end == u64::MAX && undisturbed < end {
            true => Err(Stop::TooLong(index)),
            false => Ok(end),
        }
    }

    fn calc(&mut self, event: u128, index: u32, task: &Task) -> Result<(), Stop<W::Error>> {
        let time = queue::time(event);
        let cpu = self.clocks.cpu(task.rank, task.cpu);
        let free = self.clocks.get(cpu);
        if free > time {
            self.waiting
                .wait(&mut self.queue, task.rank, Needs::Cpu, event, free);
            return Ok(());
        }
        let end = self.done(index, task.rank, task.cpu, time, task.size)?;
        self.clocks.set(cpu, end);
        self.waiting
            .begun(&mut self.queue, task.rank, Needs::Cpu, event, end);
        self.work
            .fulfil(index, When::Both, time, end, &mut self.freed)?;
        self.work.forget(index);
        self.start_freed(task.rank, false);
        Ok(())
    }

    fn send(&mut self, event: u128, index: u32, task: &Task) -> Result<(), Stop<W::Error>> {
        let time = queue::time(event);
        let cpu = self.clocks.cpu(task.rank, task.cpu);
        let nic = self.clocks.sending(task.rank, task.nic);
        let free = self.clocks.get(cpu).max(self.clocks.get(nic));
        if free > time {
            self.waiting
                .wait(&mut self.queue, task.rank, Needs::Sending, event, free);
            return Ok(());
        }
        let (gap, overhead) = self.costs_of(index, task.size)?;
        let sent = self.done(index, task.rank, task.cpu, time, self.overhead)?;
        let end = self.done(index, task.rank, task.cpu, sent, overhead)?;
        self.clocks.set(cpu, end);
        let next = add(index, add(index, time, self.gap)?, gap)?;
        self.clocks.set(nic, next);
        self.waiting.begun(
            &mut self.queue,
            task.rank,
            Needs::Sending,
            event,
            end.max(next),
        );
        self.make_event(add(index, sent, self.latency)?, index | MESSAGE);
        let when = match task.size > self.rendezvous {
            true => When::Start,
            false => When::Both,
        };
        if MANY {
            self.work.set_sent(index, end);
        }
        self.work.fulfil(index, when, time, end, &mut self.freed)?;
        self.start_freed(task.rank, false);
        Ok(())
    }

    /// A message has arrived. It takes the receiver's CPU and NIC with the sender's numbers.
    fn message(&mut self, event: u128, index: u32, send: &Task) -> Result<(), Stop<W::Error>> {
        let time = queue::time(event);
        let rank = send.peer;
        let cpu = self.clocks.cpu(rank, send.cpu);
        let nic = self.clocks.receiving(rank, send.nic);
        let free = self.clocks.get(cpu).max(self.clocks.get(nic));
        if free > time {
            self.waiting
                .wait(&mut self.queue, rank, Needs::Receiving, event, free);
            return Ok(());
        }
        let (gap, overhead) = self.costs_of(index, send.size)?;
        let work = add(index, self.overhead, gap.max(overhead))?;
        let end = self.done(index, rank, send.cpu, time, work)?;
        self.clocks.set(cpu, end);
        let next = add(index, add(index, time, self.gap)?, gap)?;
        self.clocks.set(nic, next);
        self.waiting.begun(
            &mut self.queue,
            rank,
            Needs::Receiving,
            event,
            end.max(next),
        );
        match self.lists.take::<true, MANY>(self.work, rank, send) {
            Some(recv) => {
                let there = self.release_sender(index, send, rank, time)?;
                self.work
                    .fulfil(recv, When::End, time, end, &mut self.freed)?;
                self.work.forget(index);
                self.work.forget(recv);
                self.start_both(rank, there);
            }
            None => {
                self.lists.append::<false, MANY>(self.work, rank, index);
                if MANY {
                    self.work.set_arrived(index, end);
                }
            }
        }
        Ok(())
    }

    /// Posting a receive takes no time.
    fn recv(&mut self, event: u128, index: u32, task: &Task) -> Result<(), Stop<W::Error>> {
        let time = queue::time(event);
        let rank = task.rank;
        self.work
            .fulfil(index, When::Start, time, time, &mut self.freed)?;
        match self.lists.take::<false, MANY>(self.work, rank, task) {
            Some(send) => {
                let sender = *self.work.task(send);
                let there = self.release_sender(send, &sender, rank, time)?;
                let end = match MANY {
                    true => time.max(self.work.arrived(send)),
                    false => time,
                };
                self.work
                    .fulfil(index, When::End, time, end, &mut self.freed)?;
                self.work.forget(send);
                self.work.forget(index);
                self.start_both(rank, there);
            }
            None => {
                self.lists.append::<true, MANY>(self.work, rank, index);
                self.start_freed(rank, false);
            }
        }
        Ok(())
    }

    /// The sender of a rendezvous message goes on once the message has met its receive. Returns the
    /// sender's rank if it differs from the receiver's.
    #[inline]
    fn release_sender(
        &mut self,
        index: u32,
        send: &Task,
        here: u32,
        time: u64,
    ) -> Result<Option<u32>, Stop<W::Error>> {
        if send.size <= self.rendezvous {
            return Ok(None);
        }
        let cpu = self.clocks.cpu(send.rank, send.cpu);
        // The NIC needs no such update: no later event is earlier than this one.
        self.clocks.raise(cpu, time);
        let end = match MANY {
            true => time.max(self.work.sent(index)),
            false => time,
        };
        let there = (send.rank != here).then_some(send.rank);
        let freed = match there {
            Some(_) => &mut self.freed_there,
            None => &mut self.freed,
        };
        self.work.fulfil(index, When::End, time, end, freed)?;
        Ok(there)
    }

    /// Starts what was freed on this rank and on the sender's, the lower rank first.
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

    /// Creates events for the operations freed: sends, then receives, then computations.
    #[inline]
    fn start_freed(&mut self, rank: u32, there: bool) {
        let mut freed = std::mem::take(match there {
            true => &mut self.freed_there,
            false => &mut self.freed,
        });
        match freed.as_slice() {
            [] => {}
            &[one] => self.start(rank, one, self.work.task(one).kind),
            several => {
                for kind in [Kind::Send, Kind::Recv, Kind::Calc] {
                    for &index in several {
                        if self.work.task(index).kind == kind {
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
        let task = self.work.task(index);
        let mut time = self.clocks.get(self.clocks.cpu(rank, task.cpu));
        if kind == Kind::Send {
            let nic = self.clocks.sending(rank, task.nic);
            time = time.max(self.clocks.get(nic));
        }
        if MANY {
            time = time.max(self.work.ready(index));
        }
        self.make_event(time, index);
    }
}

/// Sum of two times; an overflow is reported at this operation.
#[inline]
fn add<E>(index: u32, time: u64, more: u64) -> Result<u64, Stop<E>> {
    time.checked_add(more).ok_or(Stop::TooLong(index))
}
