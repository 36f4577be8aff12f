//! One stream of events on one CPU, in order.

use crate::draw::exponential;
use crate::lengths::{Drawn, LengthSet};
use crate::model::Scope;
use crate::noise::Noise;
use crate::philox::philox4x32_one;
use crate::stream::{Place, Process, Stream};

/// Bit in the stream number that selects further random numbers of the same event.
pub(crate) const FURTHER: u32 = 1 << 31;
/// Event number reserved for random numbers of the stream itself.
const OF_THE_STREAM: u64 = u64::MAX;

/// One interruption, in nanoseconds from the start of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Start, if no other event is being served.
    pub begin: u64,
    /// Its length.
    pub length: u64,
    /// Number of its source in the model.
    pub source: u32,
}

/// The events of one stream on one CPU, in order of their starts.
#[derive(Clone, Debug)]
pub struct Events {
    stream: u32,
    /// Part of the counter of the random numbers.
    place: u32,
    /// The CPU within its node, for streams that strike one CPU of a node.
    cpu: u32,
    /// Number of the next event.
    number: u64,
    /// For a trace, number of the block.
    block: u64,
    /// Start of the last event; for a periodic stream its phase; for a trace the position of the
    /// block in the recording.
    at: u64,
    /// For a trace, number of the next event in the recording, counted on past its last one.
    in_trace: usize,
}

impl Noise {
    /// The events that start on a CPU before `until_ns`, in order of start and source, without
    /// those of removed sources.
    pub fn events(&self, cpu: u32, until_ns: u64) -> Vec<Event> {
        let place = self.place(cpu);
        let mut all = Vec::new();
        for stream in (0..self.streams.len()).filter(|&s| self.streams[s].reaches(place)) {
            let mut events = Events::new(self, stream, place);
            loop {
                let event = events.next(self);
                if event.begin >= until_ns {
                    break;
                }
                if event.length > 0 {
                    all.push(event);
                }
            }
        }
        all.sort_by_key(|e| (e.begin, e.source, e.length));
        all
    }
}

impl Events {
    /// The events of the stream at this index in `noise.streams`.
    pub(crate) fn new(noise: &Noise, stream: usize, place: Place) -> Self {
        let s = &noise.streams[stream];
        let mut events = Events {
            stream: stream as u32,
            place: s.key_place(place),
            cpu: place.cpu,
            number: 0,
            block: 0,
            at: 0,
            in_trace: 0,
        };
        match &s.process {
            Process::Poisson { .. } => {}
            Process::Periodic {
                period_ns,
                phase_ns,
                ..
            } => {
                let [high, low, ..] = words(noise, s, events.place, OF_THE_STREAM, 0);
                events.at = phase_ns.unwrap_or_else(|| below(high, low, *period_ns));
            }
            Process::Trace { .. } => events.begin_block(noise, s),
        }
        events
    }

    /// Index of its stream in `noise.streams`.
    pub(crate) fn stream(&self) -> usize {
        self.stream as usize
    }

    /// The next event. There always is one; events beyond 64-bit nanoseconds start at the maximum.
    pub(crate) fn next(&mut self, noise: &Noise) -> Event {
        let stream = &noise.streams[self.stream as usize];
        loop {
            let number = self.number;
            let event = self.any(noise, stream);
            self.number += 1;
            if stream.scope == Scope::EachCpu {
                return event;
            }
            // One CPU of the node is struck; with `together: all`, the same one on every node.
            let [.., word, _] = words(noise, stream, self.place, number, FURTHER);
            let struck = (word * u64::from(noise.cpus_per_node)) >> 32;
            if struck == u64::from(self.cpu) || event.begin == u64::MAX {
                return event;
            }
        }
    }

    fn any(&mut self, noise: &Noise, stream: &Stream) -> Event {
        match &stream.process {
            Process::Poisson { gap_ns, lengths } => {
                let words = words(noise, stream, self.place, self.number, 0);
                let gap = gap_ns * exponential(words[0], words[1]);
                // The cast saturates.
                self.at = self.at.saturating_add((gap + 0.5) as u64);
                let (source, length) = self.length(noise, stream, lengths, words);
                Event {
                    begin: self.at,
                    length,
                    source,
                }
            }
            Process::Periodic {
                period_ns,
                jitter_ns,
                lengths,
                ..
            } => {
                let words = words(noise, stream, self.place, self.number, 0);
                let late = below(words[0], words[1], jitter_ns.saturating_add(1));
                let begin = self
                    .number
                    .saturating_mul(*period_ns)
                    .saturating_add(self.at);
                let (source, length) = self.length(noise, stream, lengths, words);
                Event {
                    begin: begin.saturating_add(late),
                    length,
                    source,
                }
            }
            Process::Trace {
                source,
                watched_ns,
                block_ns,
                events,
            } => {
                loop {
                    let number = self.in_trace;
                    let around = (number / events.len()) as u64;
                    let [begin, length] = events[number % events.len()];
                    // From the start of the block, perhaps after wrapping around the recording.
                    let within = around.saturating_mul(*watched_ns).saturating_add(begin) - self.at;
                    if within < *block_ns {
                        self.in_trace += 1;
                        let begin = self.block.saturating_mul(*block_ns).saturating_add(within);
                        return Event {
                            begin,
                            length,
                            source: *source,
                        };
                    }
                    self.block += 1;
                    if self.block.checked_mul(*block_ns).is_none() {
                        return Event {
                            begin: u64::MAX,
                            length: 0,
                            source: *source,
                        };
                    }
                    self.begin_block(noise, stream);
                }
            }
        }
    }

    /// Draws where the current block of a trace begins.
    fn begin_block(&mut self, noise: &Noise, stream: &Stream) {
        if let Process::Trace {
            watched_ns, events, ..
        } = &stream.process
        {
            let [high, low, ..] = words(noise, stream, self.place, self.block, 0);
            self.at = below(high, low, *watched_ns);
            self.in_trace = events.partition_point(|e| e[0] < self.at);
        }
    }

    fn length(
        &self,
        noise: &Noise,
        stream: &Stream,
        lengths: &LengthSet,
        drawn: [u64; 4],
    ) -> (u32, u64) {
        match lengths.draw(drawn[2], drawn[3]) {
            (source, Drawn::Length(ns)) => (source, ns),
            (source, Drawn::Law(law)) => {
                let [high, low, ..] = words(noise, stream, self.place, self.number, FURTHER);
                (source, lengths.law(law).length(exponential(high, low)))
            }
        }
    }
}

/// Four words of 32 random bits for one event.
#[inline]
fn words(noise: &Noise, stream: &Stream, place: u32, index: u64, further: u32) -> [u64; 4] {
    philox4x32_one(
        [
            index as u32,
            (index >> 32) as u32,
            stream.id | further,
            place,
        ],
        noise.key,
    )
}

/// A uniform number in `0..limit` (to 2^-64), from two words of 32 random bits.
#[inline]
fn below(high: u64, low: u64, limit: u64) -> u64 {
    ((u128::from((high << 32) | low) * u128::from(limit)) >> 64) as u64
}
