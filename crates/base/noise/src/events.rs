//! One stream of events on one CPU, in order.

use crate::draw::exponential;
use crate::lengths::{Drawn, LengthSet};
use crate::model::Scope;
use crate::noise::Noise;
use crate::philox::philox4x32_one;
use crate::stream::{Place, Played, Process, Stream};

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

/// Where a stream is on one CPU. There is one of these for every stream and CPU of a simulation, so
/// what the stream and the CPU determine is not in it.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    /// Number of the next event.
    number: u64,
    at: At,
}

#[derive(Clone, Debug)]
enum At {
    /// Start of the last event; for a periodic stream its phase.
    Time(u64),
    Trace(Box<InTrace>),
}

#[derive(Clone, Debug)]
struct InTrace {
    /// Number of the block.
    block: u64,
    /// Position of the block in the recording.
    at: u64,
    /// Number of the next event in the recording, counted on past its last one.
    next: usize,
}

impl Noise {
    /// The events that start on a CPU before `until_ns`, in order of start and source, without
    /// those of removed sources.
    pub fn events(&self, cpu: u32, until_ns: u64) -> Vec<Event> {
        let place = self.place(cpu);
        let mut all = Vec::new();
        for stream in self.streams.iter().filter(|s| s.reaches(place)) {
            let mut events = Events::new(self, stream, place);
            loop {
                let event = events.next(self, stream, place);
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
    /// The events of a stream from the start.
    pub(crate) fn new(noise: &Noise, stream: &Stream, place: Place) -> Self {
        let key = stream.key_place(place);
        let at = match &stream.process {
            Process::Poisson { .. } => At::Time(0),
            Process::Periodic {
                period_ns,
                phase_ns,
                ..
            } => {
                let [high, low, ..] = words(noise, stream, key, OF_THE_STREAM, 0);
                At::Time(phase_ns.unwrap_or_else(|| below(high, low, *period_ns)))
            }
            Process::Trace { played, .. } => {
                At::Trace(Box::new(InTrace::of_block(0, noise, stream, key, played)))
            }
        };
        Events { number: 0, at }
    }

    /// The next event of the stream that this was made for, on the same CPU. There always is one;
    /// events beyond 64-bit nanoseconds start at the maximum.
    pub(crate) fn next(&mut self, noise: &Noise, stream: &Stream, place: Place) -> Event {
        let key = stream.key_place(place);
        loop {
            let number = self.number;
            let event = self.any(noise, stream, key);
            self.number += 1;
            if stream.scope == Scope::EachCpu {
                return event;
            }
            // One CPU of the node is struck; with `together: all`, the same one on every node.
            let [.., word, _] = words(noise, stream, key, number, FURTHER);
            let struck = (word * u64::from(noise.cpus_per_node)) >> 32;
            if struck == u64::from(place.cpu) || event.begin == u64::MAX {
                return event;
            }
        }
    }

    fn any(&mut self, noise: &Noise, stream: &Stream, key: u32) -> Event {
        let number = self.number;
        match (&stream.process, &mut self.at) {
            (Process::Poisson { gap_ns, lengths }, At::Time(at)) => {
                let random = words(noise, stream, key, number, 0);
                let gap = gap_ns * exponential(random[0], random[1]);
                // The cast saturates.
                *at = at.saturating_add((gap + 0.5) as u64);
                let further = || words(noise, stream, key, number, FURTHER);
                let (source, length) = drawn(lengths, random, further);
                Event {
                    begin: *at,
                    length,
                    source,
                }
            }
            (
                Process::Periodic {
                    period_ns,
                    jitter_ns,
                    lengths,
                    ..
                },
                At::Time(phase),
            ) => {
                let random = words(noise, stream, key, number, 0);
                let late = below(random[0], random[1], jitter_ns.saturating_add(1));
                let begin = number.saturating_mul(*period_ns).saturating_add(*phase);
                let further = || words(noise, stream, key, number, FURTHER);
                let (source, length) = drawn(lengths, random, further);
                Event {
                    begin: begin.saturating_add(late),
                    length,
                    source,
                }
            }
            (Process::Trace { source, played }, At::Trace(at)) => {
                let found = loop {
                    if let Some(found) = at.next(played) {
                        break found;
                    }
                    // Beyond the last block there is nothing.
                    if (at.block + 1).checked_mul(played.block_ns).is_none() {
                        break [u64::MAX, 0];
                    }
                    **at = InTrace::of_block(at.block + 1, noise, stream, key, played);
                };
                let [begin, length] = found;
                Event {
                    begin,
                    length,
                    source: *source,
                }
            }
            _ => unreachable!("a place in another stream"),
        }
    }
}

impl InTrace {
    /// The begin of a block, whose position is drawn.
    fn of_block(block: u64, noise: &Noise, stream: &Stream, key: u32, played: &Played) -> Self {
        let [high, low, ..] = words(noise, stream, key, block, 0);
        let at = below(high, low, played.watched_ns);
        InTrace {
            block,
            at,
            next: played.events.partition_point(|e| e[0] < at),
        }
    }

    /// Begin and length of the next event of the block.
    fn next(&mut self, played: &Played) -> Option<[u64; 2]> {
        let count = played.events.len();
        let around = (self.next / count) as u64;
        let [begin, length] = played.events[self.next % count];
        // From the start of the block, perhaps after wrapping around the recording.
        let within = around
            .saturating_mul(played.watched_ns)
            .saturating_add(begin)
            - self.at;
        (within < played.block_ns).then(|| {
            self.next += 1;
            let begin = self.block.saturating_mul(played.block_ns);
            [begin.saturating_add(within), length]
        })
    }
}

/// Source and length of an event, from the random words of the event and further ones.
fn drawn(lengths: &LengthSet, random: [u64; 4], further: impl FnOnce() -> [u64; 4]) -> (u32, u64) {
    match lengths.draw(random[2], random[3]) {
        (source, Drawn::Length(ns)) => (source, ns),
        (source, Drawn::Law(law)) => {
            let [high, low, ..] = further();
            (source, lengths.law(law).length(exponential(high, low)))
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
