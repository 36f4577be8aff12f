//! Waits: which call waited for which rank, and when.
//!
//! Wait states are those of Scalasca (Geimer et al., Concurrency Comput. 22, 2010): late sender,
//! late receiver, wait at a collective. A call has one wait, the one that ended last: a call that
//! completes several requests is held up by the last of them, and its waits for the others lie
//! inside.

use super::find::CallFinder;
use super::lanes::{Call, Instance, Program};
use super::messages::Matched;
use crate::watch::{Charge, overlap};
use idlewave_run::tables::{OperationClass as Class, WaitKind};
use rayon::prelude::*;
use std::num::NonZeroU64;

/// A wait of a lane for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawWait {
    pub lane: u32,
    /// Index of the call in the lane.
    pub call: u32,
    /// Late sender, late receiver or collective.
    pub kind: WaitKind,
    pub begin: u64,
    /// When the culprit arrived; not after the end of the call.
    pub end: u64,
    /// Lane that it waited for.
    pub culprit: u32,
}

impl RawWait {
    pub fn length(&self) -> u64 {
        self.end - self.begin
    }
}

/// All waits, however short, in order of lanes and calls.
#[derive(Debug, Default)]
pub struct Waits {
    pub all: Vec<RawWait>,
    /// Where the waits of every lane start in `all`, and one more for the end.
    starts: Vec<usize>,
}

impl Waits {
    /// Indices of the waits of a lane.
    pub fn of_lane(&self, lane: u32) -> std::ops::Range<usize> {
        self.starts[lane as usize]..self.starts[lane as usize + 1]
    }
    /// Indices of the waits of a lane that end after `begin` and start before `end`.
    pub fn within(&self, lane: u32, begin: u64, end: u64) -> std::ops::Range<usize> {
        let own = self.of_lane(lane);
        let slice = &self.all[own.clone()];
        let first = own.start + slice.partition_point(|w| w.end <= begin);
        let after = own.start + slice.partition_point(|w| w.begin < end);
        first..after.max(first)
    }
    /// Time in waits of a lane in `begin..end`.
    pub fn time_within(&self, lane: u32, begin: u64, end: u64) -> u64 {
        self.all[self.within(lane, begin, end)]
            .iter()
            .map(|w| w.end.min(end).saturating_sub(w.begin.max(begin)))
            .sum()
    }
}

/// A buffered send takes microseconds: a send that ends after the receive was posted, and started
/// this much before it, waited for it.
const RENDEZVOUS_FROM_NS: u64 = 10_000;

/// Finds all waits. `charges` are what was taken from every lane, in order of time.
pub fn find(program: &Program, matched: &Matched, charges: &[Vec<Charge>]) -> Waits {
    let mut finder = Finder {
        program,
        calls: CallFinder::of(program),
        charges,
        found: Vec::new(),
    };
    for instance in &program.instances {
        finder.collective(instance);
    }
    for &(s, r) in &matched.pairs {
        finder.message(&matched.sends[s as usize], &matched.receives[r as usize]);
    }
    let mut all = finder.found;
    // Among the waits of one call, the one that ends last comes first; among equal ends, the first
    // culprit.
    all.par_sort_unstable_by_key(|w| {
        let last = std::cmp::Reverse(w.end);
        (w.lane, w.call, last, w.culprit, w.kind)
    });
    all.dedup_by_key(|w| (w.lane, w.call));
    let starts = (0..=program.lanes.len() as u32)
        .map(|lane| all.partition_point(|w| w.lane < lane))
        .collect();
    Waits { all, starts }
}

struct Finder<'a> {
    program: &'a Program,
    calls: CallFinder,
    charges: &'a [Vec<Charge>],
    found: Vec<RawWait>,
}

impl Finder<'_> {
    /// A wait in a call for a culprit that arrived at `arrival`. If the arrival is after the end of
    /// the call, the wait is cut to the call within the clock error, and dropped beyond that.
    fn push(&mut self, kind: WaitKind, (lane, call): (u32, u32), culprit: u32, arrival: u64) {
        let waiting = self.program.call(lane, call);
        let error = self.program.clock_error(lane, culprit);
        let end = arrival.min(waiting.end);
        let same_rank =
            self.program.lanes[lane as usize].rank == self.program.lanes[culprit as usize].rank;
        if same_rank || end <= waiting.begin || arrival > waiting.end.saturating_add(error) {
            return;
        }
        self.found.push(RawWait {
            lane,
            call,
            kind,
            begin: waiting.begin,
            end,
            culprit,
        });
    }

    fn collective(&mut self, instance: &Instance) {
        let program = self.program;
        let members = program.members_of(instance);
        let root = members
            .iter()
            .find(|m| Some(program.lanes[m.0 as usize].rank) == instance.root);
        match (instance.class, root) {
            (Class::AllToAll, _) => {
                for &member in members {
                    let (culprit, arrival) = (instance.last, instance.last_enter);
                    self.push(WaitKind::Collective, member, culprit, arrival);
                }
            }
            (Class::FromRoot, Some(&(root, call))) => {
                let arrival = program.call(root, call).begin;
                for &member in members {
                    self.push(WaitKind::Collective, member, root, arrival);
                }
            }
            (Class::ToRoot, Some(&root)) => {
                let (culprit, arrival) = (instance.last, instance.last_enter);
                self.push(WaitKind::Collective, root, culprit, arrival);
            }
            (Class::Prefix, _) => {
                let Some(ranks) = program.communicators.get(&instance.comm) else {
                    return;
                };
                let mut ordered = members.to_vec();
                ordered.sort_by_key(|m| ranks.get(&program.lanes[m.0 as usize].rank));
                let mut last: Option<(u64, u32)> = None;
                for member in ordered {
                    if let Some((arrival, culprit)) = last {
                        self.push(WaitKind::Collective, member, culprit, arrival);
                    }
                    let begin = program.call(member.0, member.1).begin;
                    if last.is_none_or(|(latest, _)| begin > latest) {
                        last = Some((begin, member.0));
                    }
                }
            }
            _ => {}
        }
    }

    fn message(&mut self, send: &super::messages::End, receive: &super::messages::End) {
        if let Some((lane, i)) = self.completing(receive.lane, receive.wait) {
            self.push(WaitKind::LateSender, (lane, i), send.lane, send.posted);
            // A probe before it already waited for the message.
            if let Some(before) = i.checked_sub(1) {
                let probe = self.program.call(lane, before);
                if matches!(self.program.name(probe), "MPI_Probe" | "MPI_Mprobe")
                    && send.posted <= probe.end
                {
                    let place = (lane, before);
                    self.push(WaitKind::LateSender, place, send.lane, send.posted);
                }
            }
        }
        if let Some(place) = self.completing(send.lane, send.wait) {
            let call = *self.program.call(place.0, place.1);
            if call.begin < receive.posted
                && receive.posted <= call.end
                && (self.is_synchronous(send)
                    || self.waited_evidently(place.0, &call, receive.posted))
            {
                self.push(WaitKind::LateReceiver, place, receive.lane, receive.posted);
            }
        }
    }

    /// The call that started at `wait` and completed what a thread had started, usually by the same
    /// thread.
    fn completing(&mut self, lane: u32, wait: Option<NonZeroU64>) -> Option<(u32, u32)> {
        let wait = wait?.get();
        let program = self.program;
        let mut at = |l: u32| self.calls.find(program, l, wait).map(|i| (l, i));
        at(lane).or_else(|| {
            let rank = program.lanes[lane as usize].rank;
            program.of_rank[&rank].iter().find_map(|&l| at(l))
        })
    }

    fn is_synchronous(&mut self, send: &super::messages::End) -> bool {
        let program = self.program;
        let start = self.calls.find(program, send.lane, send.posted);
        start.is_some_and(|i| {
            let name = program.name(program.call(send.lane, i));
            name.starts_with("MPI_Ssend") || name.starts_with("MPI_Issend")
        })
    }

    /// Whether the sender waited until the receive was posted, as opposed to being interrupted.
    fn waited_evidently(&self, lane: u32, call: &Call, posted: u64) -> bool {
        let length = posted - call.begin;
        let charges = &self.charges[lane as usize];
        let taken = overlap(charges, call.begin, posted);
        length > RENDEZVOUS_FROM_NS && taken < length / 2
    }
}
