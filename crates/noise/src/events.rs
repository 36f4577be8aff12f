//! One stream of events on one CPU, one event after the other.

use crate::draw::exponential;
use crate::lengths::{Drawn, LengthSet};
use crate::model::Scope;
use crate::noise::{Noise, Place, Stream};
use crate::philox::philox4x32_one;

/// Number of the stream of all Poisson sources that strike every CPU for itself; source `i` of the model has stream `i + 1`.
pub(crate) const MIX_STREAM: u32 = 0;

/// In the number of a stream: further random numbers of the same event.
pub(crate) const FURTHER: u32 = 1 << 31;
/// Number of an event that is none: random numbers of the stream itself.
const OF_THE_STREAM: u64 = u64::MAX;

/// When the events of a stream begin, and their lengths.
#[derive(Clone, Debug)]
pub(crate) enum Process {
    Poisson {
        gap_ns: f64,
        lengths: LengthSet,
    },
    Periodic {
        period_ns: u64,
        jitter_ns: u64,
        phase_ns: Option<u64>,
        lengths: LengthSet,
    },
    Trace {
        source: u32,
        watched_ns: u64,
        block_ns: u64,
        events: Vec<[u64; 2]>,
    },
}

/// One interruption, in nanoseconds from the start of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it begins, if nothing else is under way.
    pub begin: u64,
    /// How long it lasts.
    pub length: u64,
    /// Number of its source in the model.
    pub source: u32,
}

/// The events of one stream on one CPU, in order of their begins.
#[derive(Clone, Debug)]
pub struct Events {
    stream: u32,
    /// In the counter of the random numbers.
    place: u32,
    /// The CPU of the node, for streams that strike one of them.
    cpu: u32,
    /// Number of the next event.
    number: u64,
    /// Of a trace, number of the block.
    block: u64,
    /// Begin of the last event; of a periodic stream its phase; of a trace where the block begins in what was watched.
    at: u64,
    /// Events of the block that were taken, for a trace.
    taken: usize,
}

impl Events {
    /// The events of the stream with this place in `noise.streams`.
    pub(crate) fn new(noise: &Noise, stream: usize, place: Place) -> Self {
        let s = &noise.streams[stream];
        let mut events = Events {
            stream: stream as u32,
            place: s.key_place(place),
            cpu: place.cpu,
            number: 0,
            block: 0,
            at: 0,
            taken: 0,
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
            Process::Trace { watched_ns, .. } => {
                let [high, low, ..] = words(noise, s, events.place, 0, 0);
                events.at = below(high, low, *watched_ns);
            }
        }
        events
    }

    /// Place of its stream in `noise.streams`.
    pub(crate) fn stream(&self) -> usize {
        self.stream as usize
    }

    /// The next one. There always is one; one beyond 64-bit nanoseconds begins at their end.
    pub(crate) fn next(&mut self, noise: &Noise) -> Event {
        let stream = &noise.streams[self.stream as usize];
        loop {
            let number = self.number;
            let event = self.any(noise, stream);
            self.number += 1;
            if stream.scope == Scope::EachCpu {
                return event;
            }
            // One CPU of the node is struck; with `together: all` the same one of every node.
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
                    let first = events.partition_point(|e| e[0] < self.at);
                    let number = first + self.taken;
                    let around = (number / events.len()) as u64;
                    let [begin, length] = events[number % events.len()];
                    // From the begin of the block, once or several times around.
                    let within = around.saturating_mul(*watched_ns).saturating_add(begin) - self.at;
                    if within < *block_ns {
                        self.taken += 1;
                        let begin = self.block.saturating_mul(*block_ns).saturating_add(within);
                        return Event {
                            begin,
                            length,
                            source: *source,
                        };
                    }
                    self.block += 1;
                    self.taken = 0;
                    if self.block.checked_mul(*block_ns).is_none() {
                        return Event {
                            begin: u64::MAX,
                            length: 0,
                            source: *source,
                        };
                    }
                    let [high, low, ..] = words(noise, stream, self.place, self.block, 0);
                    self.at = below(high, low, *watched_ns);
                }
            }
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

/// A number from 0 to below `limit`, all alike (to 2^-64), from two words of 32 random bits.
#[inline]
fn below(high: u64, low: u64, limit: u64) -> u64 {
    ((u128::from((high << 32) | low) * u128::from(limit)) >> 64) as u64
}
