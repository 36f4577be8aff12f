//! Composition of a program's time: its critical path, followed back from the last finish.
//!
//! At every moment the path is in a computation, in the overhead of a message, in its latency or in
//! a transfer; it never waits, since it continues with what was waited for. So its parts add up to
//! the finish time to the nanosecond.

use crate::maxmin::Limit;
use crate::play::{Cause, Played};
use crate::program::{Does, Program};
use crate::stage::Stage;
use std::collections::BTreeMap;

/// Parts of a finish time, nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Computation.
    pub compute_ns: u64,
    /// Overhead of messages on CPUs.
    pub overhead_ns: u64,
    /// Latency, including handshakes, by the path of the message.
    pub latency_ns: BTreeMap<u32, u64>,
    /// Transfer, by the path of the message and by what limited its rate at its end.
    pub transfer_ns: BTreeMap<(u32, Held), u64>,
    /// The rank that finished last; the lowest one if several did.
    pub last_rank: u32,
}

/// What limited a transfer; an ordered form of [`Limit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    /// The message itself: the bandwidth of a single message.
    Alone,
    /// Other messages on this resource.
    Shared(u32),
}

impl From<Limit> for Held {
    fn from(limit: Limit) -> Self {
        match limit {
            Limit::Own => Held::Alone,
            Limit::Resource(resource) => Held::Shared(resource),
        }
    }
}

impl Parts {
    /// All of them together: the finish time.
    pub fn total_ns(&self) -> u64 {
        let latency: u64 = self.latency_ns.values().sum();
        let transfer: u64 = self.transfer_ns.values().sum();
        self.compute_ns + self.overhead_ns + latency + transfer
    }
}

impl Played {
    /// Follows the last finish back to the start.
    pub fn critical_path(&self, program: &Program, stage: &Stage) -> Parts {
        let mut parts = Parts::default();
        let last = self.makespan_ns();
        let rank = self.finish_ns.iter().position(|&ns| ns == last);
        parts.last_rank = rank.unwrap_or(0) as u32;
        let at = parts.last_rank as usize;
        let (Some(&begin), Some(&end)) = (program.ranks.get(at), program.ranks.get(at + 1)) else {
            return parts;
        };
        let mut ends = (begin..end).map(|step| self.last_of(program, stage, step));
        let mut cause = ends
            .find(|&(_, ns)| ns == last)
            .map_or(Cause::Begin, |(cause, _)| cause);
        loop {
            cause = match cause {
                Cause::Begin => return parts,
                Cause::Step(step) => {
                    let at = step as usize;
                    let ns = self.end_ns[at] - self.begin_ns[at];
                    match program.steps[at].does {
                        Does::Compute(_) => parts.compute_ns += ns,
                        _ => parts.overhead_ns += ns,
                    }
                    self.causes[at]
                }
                Cause::Start(step) => match program.steps[step as usize].does {
                    Does::Receive(message) => {
                        self.posted[message as usize].map_or(Cause::Begin, |(_, cause)| cause)
                    }
                    _ => self.causes[step as usize],
                },
                Cause::Arrival(message) => {
                    let way = stage.way_of_message[message as usize];
                    let latency = stage.ways[way as usize].latency_ns;
                    *parts.latency_ns.entry(way).or_default() += latency;
                    Cause::Flowed(message)
                }
                Cause::Flowed(message) => {
                    let way = stage.way_of_message[message as usize];
                    let journey = &self.journeys[message as usize];
                    let held = Held::from(journey.limit);
                    let transfer = journey.end_ns - journey.begin_ns;
                    if transfer > 0 {
                        *parts.transfer_ns.entry((way, held)).or_default() += transfer;
                    }
                    let handshake = journey.begin_ns - journey.ready_ns;
                    if handshake > 0 {
                        *parts.latency_ns.entry(way).or_default() += handshake;
                    }
                    journey.cause
                }
            };
        }
    }
}
