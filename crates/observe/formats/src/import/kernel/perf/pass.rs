//! What each record of a perf.data means.

use super::attrs::Attributes;
use super::facts::Facts;
use super::head::Tracing;
use super::rounds::{Entry, Rounds, What};
use super::stream::Record;
use crate::import::error::ImportError;
use crate::import::kernel::people::People;
use idlewave_ftrace::event::{Decoded, Decoder};
use idlewave_ftrace::page::{read_u32, read_u64};
use idlewave_ftrace::{Feed, MOST_CPUS};
use idlewave_units::{Cpu, Pid};
use std::collections::{BTreeMap, HashMap};

/// Kinds of records (`PERF_RECORD_*`): those of the kernel, then those of perf.
const LOST: u32 = 2;
const COMM: u32 = 3;
const THROTTLE: u32 = 5;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const LOST_SAMPLES: u32 = 13;
const HEADER_ATTR: u32 = 64;
pub(crate) const TRACING_DATA: u32 = 66;
pub(crate) const FINISHED_ROUND: u32 = 68;
const ID_INDEX: u32 = 69;
pub(crate) const AUXTRACE: u32 = 71;
const HEADER_FEATURE: u32 = 80;
pub(crate) const COMPRESSED: u32 = 81;
pub(crate) const COMPRESSED2: u32 = 83;

/// Bit of `misc`: a BPF program did not want these samples.
const UNWANTED: u16 = 1 << 15;
/// Size of `struct id_index_entry`.
const INDEX_ENTRY: usize = 32;
/// Limit on the events whose CPU is kept.
const MOST_INDEXED: usize = 1 << 22;

/// What was counted on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Samples of events that the file does not describe.
    pub(crate) strays: u64,
    /// Records whose fields do not fit.
    pub(crate) garbled: u64,
    /// Events lost on unknown CPUs.
    pub(crate) unplaced: u64,
    /// Times at which the kernel paused an event.
    pub(crate) paused: u64,
    /// Whether only the threads of one program were watched.
    pub(crate) one_program: bool,
}

/// Where events go once they are in order.
pub(crate) struct Sink {
    pub(crate) feed: Feed,
    decoder: Option<Decoder>,
    pub(crate) people: People,
    pub(crate) undescribed: u64,
}

impl Sink {
    pub(crate) fn new(feed: Feed) -> Self {
        Self {
            feed,
            decoder: None,
            people: People::default(),
            undescribed: 0,
        }
    }

    fn take<const LE: bool>(&mut self, entry: &Entry, payload: &[u8]) -> Result<(), ImportError> {
        let Entry { time_ns, cpu, what } = *entry;
        let thread = match what {
            What::Event { thread, .. } => thread,
            What::Lost(count) => {
                self.feed.lose(cpu, Some(count));
                return Ok(());
            }
        };
        let Some(decoder) = &self.decoder else {
            self.undescribed += 1;
            return Ok(());
        };
        match decoder.decode::<LE>(payload) {
            Decoded::Event(by, event) => {
                if let (Some(by), Some((process, thread))) = (by, thread) {
                    // In a PID namespace, perf and the tracepoints number threads differently.
                    if by.get() == thread {
                        self.people.member(by, Pid::new(process));
                    }
                }
                self.feed.event(cpu, time_ns, by, event)?;
            }
            Decoded::Unknown => self.feed.unknown(cpu),
            Decoded::Short => self.feed.short(cpu),
        }
        Ok(())
    }
}

/// One pass over the records.
pub(crate) struct Pass {
    pub(crate) attributes: Attributes,
    pub(crate) facts: Facts,
    pub(crate) sink: Sink,
    pub(crate) counts: Counts,
    /// Events that lack a field that the timeline needs.
    pub(crate) unusable: Vec<String>,
    rounds: Rounds,
    /// By CPU: losses that no event has followed yet.
    open: BTreeMap<u32, u64>,
    /// By CPU: losses that were reported, and losses as counted at the end.
    lost: BTreeMap<u32, (u64, u64)>,
    /// The CPU of each event ID.
    cpus: HashMap<u64, u32>,
}

impl Pass {
    pub(crate) fn new(attributes: Attributes, facts: Facts, sink: Sink) -> Self {
        Self {
            attributes,
            facts,
            sink,
            counts: Counts::default(),
            unusable: Vec::new(),
            rounds: Rounds::default(),
            open: BTreeMap::new(),
            lost: BTreeMap::new(),
            cpus: HashMap::new(),
        }
    }

    /// Takes the descriptions of the tracepoints.
    pub(crate) fn describe(&mut self, tracing: &Tracing) {
        let (decoder, unusable) = Decoder::new(&tracing.formats);
        (self.sink.decoder, self.unusable) = (Some(decoder), unusable);
        for (pid, name) in &tracing.names {
            self.sink.people.named(*pid, name.as_bytes());
        }
    }

    /// Takes a record. Malformed ones are counted.
    #[inline]
    pub(crate) fn record<const LE: bool>(&mut self, record: Record<'_>) -> Result<(), ImportError> {
        let body = record.body;
        let taken = match record.kind {
            SAMPLE => return self.sample::<LE>(body),
            COMM => self.comm::<LE>(body),
            FORK => self.fork::<LE>(body),
            LOST => self.lost::<LE>(body),
            LOST_SAMPLES if record.misc & UNWANTED == 0 => self.lost_samples::<LE>(body),
            THROTTLE => self.throttle::<LE>(body),
            HEADER_ATTR => self.attribute::<LE>(body),
            HEADER_FEATURE => read_u64::<LE>(body, 0)
                .map(|feature| self.facts.take(feature as u32, &body[8..], LE)),
            ID_INDEX => self.index::<LE>(body),
            _ => Some(()),
        };
        self.counts.garbled += u64::from(taken.is_none());
        Ok(())
    }

    #[inline]
    fn sample<const LE: bool>(&mut self, body: &[u8]) -> Result<(), ImportError> {
        let Some(layout) = self.attributes.of_sample::<LE>(body) else {
            self.counts.strays += 1;
            return Ok(());
        };
        let Some((time_ns, cpu)) = layout.place::<LE>(body) else {
            self.counts.garbled += 1;
            return Ok(());
        };
        if !layout.tracepoint {
            self.sink.feed.unknown(Cpu::new(cpu));
            return Ok(());
        }
        let Some(payload) = layout.payload::<LE>(body) else {
            self.counts.garbled += 1;
            return Ok(());
        };
        if !self.open.is_empty() {
            if let Some(count) = self.open.remove(&cpu) {
                self.rounds.lost(time_ns, Cpu::new(cpu), count);
            }
        }
        let thread = layout.thread::<LE>(body);
        self.rounds.event((time_ns, Cpu::new(cpu)), thread, payload);
        if self.rounds.full() {
            let sink = &mut self.sink;
            self.rounds
                .halve(|entry, payload| sink.take::<LE>(entry, payload))?;
        }
        Ok(())
    }

    /// Ends a round.
    pub(crate) fn round<const LE: bool>(&mut self) -> Result<(), ImportError> {
        let sink = &mut self.sink;
        self.rounds
            .finish(|entry, payload| sink.take::<LE>(entry, payload))
    }

    /// Ends the records: passes on what is held back, and the losses that nothing followed.
    pub(crate) fn end<const LE: bool>(&mut self) -> Result<(), ImportError> {
        let sink = &mut self.sink;
        self.rounds
            .end(|entry, payload| sink.take::<LE>(entry, payload))?;
        for (cpu, count) in std::mem::take(&mut self.open) {
            self.sink.feed.lose(Cpu::new(cpu), Some(count));
        }
        // The count at the end includes losses for which no record could be written.
        for (&cpu, &(reported, counted)) in &self.lost {
            if counted > reported {
                let more = counted - reported;
                self.sink.feed.lose(Cpu::new(cpu), Some(more));
            }
        }
        Ok(())
    }

    /// Events were lost before the next one of the same buffer. The time of this record may be
    /// later than that of the event after it, whose time was taken before there was room for it.
    fn lost<const LE: bool>(&mut self, body: &[u8]) -> Option<()> {
        let (id, count) = (read_u64::<LE>(body, 0)?, read_u64::<LE>(body, 8)?);
        let layout = self.attributes.of_id(id);
        let cpu = layout.and_then(|layout| layout.other_cpu::<LE>(body));
        match cpu
            .or(self.cpus.get(&id).copied())
            .filter(|cpu| *cpu < MOST_CPUS)
        {
            Some(cpu) => {
                let open = self.open.entry(cpu).or_default();
                *open = open.saturating_add(count);
                let (reported, _) = self.lost.entry(cpu).or_default();
                *reported = reported.saturating_add(count);
            }
            None => self.counts.unplaced = self.counts.unplaced.saturating_add(count),
        }
        Some(())
    }

    /// How many events were lost in all, by the kernel's own count when perf ended.
    fn lost_samples<const LE: bool>(&mut self, body: &[u8]) -> Option<()> {
        let count = read_u64::<LE>(body, 0)?;
        let id = self.attributes.other_id::<LE>(body);
        match id.and_then(|id| self.cpus.get(&id)) {
            Some(cpu) => {
                let (_, counted) = self.lost.entry(*cpu).or_default();
                *counted = counted.saturating_add(count);
            }
            None => self.counts.unplaced = self.counts.unplaced.saturating_add(count),
        }
        Some(())
    }

    fn throttle<const LE: bool>(&mut self, body: &[u8]) -> Option<()> {
        let layout = self.attributes.of_id(read_u64::<LE>(body, 8)?);
        self.counts.paused += u64::from(layout.is_some_and(|layout| layout.tracepoint));
        Some(())
    }

    /// Process and thread, then the thread's name.
    fn comm<const LE: bool>(&mut self, body: &[u8]) -> Option<()> {
        let process = Pid::new(read_u32::<LE>(body, 0)?);
        let thread = Pid::new(read_u32::<LE>(body, 4)?);
        let name = body.get(8..)?.split(|b| *b == 0).next()?;
        self.sink.people.named(thread, name);
        self.sink.people.member(thread, process);
        Some(())
    }

    /// Process, its parent, thread, its parent.
    fn fork<const LE: bool>(&mut self, body: &[u8]) -> Option<()> {
        let pid = |at| read_u32::<LE>(body, at).map(Pid::new);
        let (process, thread, parent) = (pid(0)?, pid(8)?, pid(12)?);
        self.sink.people.born(thread, parent);
        self.sink.people.member(thread, process);
        Some(())
    }

    /// An attribute, as long as it says, and the IDs of its events.
    fn attribute<const LE: bool>(&mut self, body: &[u8]) -> Option<()> {
        let size = match read_u32::<LE>(body, 4)? {
            0 => super::attrs::SHORTEST as usize,
            size => size as usize,
        };
        let (attr, ids) = body.split_at_checked(size)?;
        self.attributes.read::<LE>(attr, ids).then_some(())
    }

    /// A count, then ID, index, CPU and thread of each event.
    fn index<const LE: bool>(&mut self, body: &[u8]) -> Option<()> {
        let count = usize::try_from(read_u64::<LE>(body, 0)?).ok()?;
        for entry in body[8..].chunks_exact(INDEX_ENTRY).take(count) {
            let id = read_u64::<LE>(entry, 0)?;
            let (cpu, thread) = (read_u64::<LE>(entry, 16)?, read_u64::<LE>(entry, 24)?);
            // The thread is -1 if all were watched.
            self.counts.one_program |= thread as i64 >= 0;
            let cpu = u32::try_from(cpu).ok().filter(|cpu| *cpu < MOST_CPUS);
            if let (Some(cpu), true) = (cpu, self.cpus.len() < MOST_INDEXED) {
                self.cpus.insert(id, cpu);
            }
        }
        Some(())
    }
}
