//! Where the time of every wait came from.
//!
//! A waits for B. Both were in step when B last heard from A or A from B: at the last message from
//! B that A had received, the last wait of B for A, or the last collective that bound them. From
//! then until B arrived, the *window*, B was delayed by what the kernel took from it, by its own
//! waits, by calls that took longer than usual, and by its own work. The wait is split over these.
//! First come what was taken, what was inherited from B's own waits and what the network took,
//! scaled down if they exceed the wait; then a slow speed level; then the undisturbed work that B
//! had beyond that of A in the same window; the rest is unexplained. A part inherited from a wait
//! of B keeps its origin there: the delay has travelled one more hop. B's own waits count only
//! while A was not waiting as well: what delayed both made neither late.

use super::lanes::Program;
use super::messages::Matched;
use super::timing::{Repeated, Segment, Timing};
use super::waits::{RawWait, Waits};
use crate::attribute::apportion;
use crate::catalog::SourceId;
use crate::watch::{Charge, between, overlap};
use idlewave_run::tables::OperationClass as Class;
use idlewave_units::{Cpu, Rank};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::ops::Range;

/// A part of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The rank whose time was taken.
    pub origin: Rank,
    pub source: SourceId,
    pub ns: u64,
    /// Whether it was lost on the culprit itself, not inherited.
    pub own: bool,
}

/// A wait with its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// Index into `Waits::all`.
    pub wait: u32,
    /// Index of the culprit's wait that caused most of this one.
    pub parent: Option<u32>,
    pub hops: u32,
    /// The event that started the delay: lane, and start of its longest interruption.
    pub anchor: (u32, u64),
    /// The same for what was lost on the culprit itself.
    pub own_anchor: u64,
    /// CPU on which the delay began.
    pub cpu: Option<Cpu>,
    /// Range of `Origins::shares`, largest first.
    pub shares: Range<u32>,
}

/// All waits worth explaining, in order of their ends.
#[derive(Debug, Default)]
pub struct Origins {
    pub explained: Vec<Explained>,
    pub shares: Vec<Share>,
    /// Waits too short to distinguish from scatter: number and total time.
    pub short: (u64, u64),
    /// Waits shorter than the clock error: likewise.
    pub untrusted: (u64, u64),
}

impl Origins {
    pub fn shares_of(&self, explained: &Explained) -> &[Share] {
        &self.shares[explained.shares.start as usize..explained.shares.end as usize]
    }
}

/// Numbers of the classes that do not come from records.
#[derive(Clone, Copy, Debug)]
pub struct Classes {
    pub network: SourceId,
    pub slow_level: SourceId,
    pub imbalance: SourceId,
    pub unexplained: SourceId,
}

/// Nothing shorter can be distinguished from the scatter of clock and caches,
const SHORTEST_NS: f64 = 1_000.0;
/// nor anything below this share of the work between two synchronisations,
const WORK_SHARE: f64 = 0.05;
/// nor this many robust standard deviations of it.
const DEVIATIONS: f64 = 5.0;

/// Collectives searched per communicator for one that bound two ranks.
const LOOK_BACK: usize = 64;

/// Splits all waits. `charges` and `timings` are those of the lanes, in order.
pub fn explain_waits(
    program: &Program,
    matched: &Matched,
    waits: &Waits,
    charges: &[Vec<Charge>],
    timings: &[Timing],
    classes: Classes,
) -> Origins {
    let mut order: Vec<u32> = (0..waits.all.len() as u32).collect();
    // A wait of B within a window ended before B arrived, so it comes before the wait that the
    // window belongs to: inherited waits are already split, and none can inherit from itself. Clock
    // errors can reverse the order; such a wait is not followed, and its share is unexplained.
    order.sort_by_key(|&i| (waits.all[i as usize].end, waits.all[i as usize].begin, i));
    let mut splitter = Splitter {
        program,
        matched,
        waits,
        charges,
        timings,
        classes,
        done: vec![None; waits.all.len()],
        shared: BTreeMap::new(),
        out: Origins::default(),
        window: Window::default(),
    };
    for i in order {
        splitter.explain(i);
    }
    splitter.out
}

/// Origin, source, and whether the time was lost on the culprit itself.
type Key = (Rank, SourceId, bool);

/// What delayed a culprit in its window; reused.
#[derive(Debug, Default)]
struct Window {
    taken: Vec<(Key, u64)>,
    /// Inherited sums per wait of the culprit, by index into `explained`.
    inherited: Vec<(u32, u64)>,
    own: u64,
    work: u64,
    repeated: Repeated,
    slow: u64,
    variance: f64,
    /// Longest interruption, its start and CPU; and the longest computation.
    longest: (u64, u64, Option<Cpu>),
    longest_segment: (u64, u64),
}

struct Splitter<'a> {
    program: &'a Program,
    matched: &'a Matched,
    waits: &'a Waits,
    charges: &'a [Vec<Charge>],
    timings: &'a [Timing],
    classes: Classes,
    /// Per wait, its index in `out.explained`, plus 1.
    done: Vec<Option<NonZeroU32>>,
    /// Communicators on which both of two lanes called collectives.
    shared: BTreeMap<(u32, u32), Vec<u32>>,
    out: Origins,
    window: Window,
}

impl Splitter<'_> {
    fn explain(&mut self, index: u32) {
        let wait = self.waits.all[index as usize];
        let length = wait.length();
        if length < self.program.clock_error(wait.lane, wait.culprit) {
            self.out.untrusted.0 += 1;
            self.out.untrusted.1 += length;
            return;
        }
        if (length as f64) < SHORTEST_NS {
            self.out.short.0 += 1;
            self.out.short.1 += length;
            return;
        }
        let from = self.in_step(&wait).min(wait.end);
        self.look_at(&wait, from);
        let window = &self.window;
        let limit = SHORTEST_NS
            .max(WORK_SHARE * window.work as f64)
            .max(DEVIATIONS * window.variance.sqrt());
        if (length as f64) < limit {
            self.out.short.0 += 1;
            self.out.short.1 += length;
            return;
        }
        self.split(index, &wait, from);
    }

    /// The time from which delays of the culprit made it late for the waiting rank.
    fn in_step(&mut self, wait: &RawWait) -> u64 {
        let program = self.program;
        let (waiting, culprit) = (
            &program.lanes[wait.lane as usize],
            &program.lanes[wait.culprit as usize],
        );
        let mut from = culprit.calls.first().map_or(0, |c| c.end.min(wait.begin));
        if let Some(sent) = self
            .matched
            .last_sent(culprit.rank, waiting.rank, wait.begin)
        {
            from = from.max(sent);
        }
        let shared = self
            .shared
            .entry((wait.lane, wait.culprit))
            .or_insert_with(|| {
                let comms = waiting.collectives.keys().copied();
                comms
                    .filter(|c| culprit.collectives.contains_key(c))
                    .collect()
            });
        for comm in shared.iter() {
            let calls = &waiting.collectives[comm];
            let after = calls.partition_point(|&i| waiting.calls[i as usize].end <= wait.begin);
            let bound = calls[..after]
                .iter()
                .rev()
                .take(LOOK_BACK)
                .filter_map(|&i| program.instance_of(&waiting.calls[i as usize]))
                .find_map(|instance| bound_at(program, instance, wait, from));
            from = from.max(bound.unwrap_or(0));
        }
        // Until the culprit's last wait for the waiting rank ended, that rank delayed it.
        let own = self.waits.within(wait.culprit, from, wait.end);
        let held = self.waits.all[own]
            .iter()
            .rfind(|w| program.lanes[w.culprit as usize].rank == waiting.rank);
        from.max(held.map_or(0, |w| w.end))
    }

    /// Fills `window` with what delayed the culprit from `from` on.
    fn look_at(&mut self, wait: &RawWait, from: u64) {
        let window = &mut self.window;
        window.taken.clear();
        window.inherited.clear();
        (window.own, window.work, window.slow, window.variance) = (0, 0, 0, 0.0);
        window.repeated = Repeated::default();
        (window.longest, window.longest_segment) = ((0, from, None), (0, from));
        let b = wait.culprit;
        let (lane, to) = (&self.program.lanes[b as usize], wait.end);
        let (charges, timing) = (&self.charges[b as usize], &self.timings[b as usize]);
        let mut own = |source, ns: u64, begin, cpu| {
            if ns > 0 {
                window.taken.push(((lane.rank, source, true), ns));
                window.own += ns;
                if ns > window.longest.0 {
                    window.longest = (ns, begin, cpu);
                }
            }
        };
        for charge in between(charges, from, to) {
            let (begin, end) = (charge.begin.max(from), charge.end.min(to));
            let ns = end - begin - self.waits.time_within(b, begin, end).min(end - begin);
            own(charge.source, ns, charge.begin, Some(charge.cpu));
        }
        let calls = lane.calls_within(from, to);
        for i in calls.clone() {
            let call = &lane.calls[i];
            if call.end > to {
                continue;
            }
            let wait_in = &self.waits.all[self.waits.within(b, call.begin, call.end)];
            let wait_end = wait_in.last().map_or(call.begin, |w| w.end);
            let beyond = (call.end - wait_end).saturating_sub(overlap(charges, wait_end, call.end));
            let excess = timing
                .excess(i, beyond)
                .min(call.end - call.begin.max(from));
            own(self.classes.network, excess, call.begin, None);
        }
        for i in calls.start..=calls.end.min(lane.calls.len().saturating_sub(1)) {
            let Some(Segment {
                begin,
                net,
                work,
                slow,
                spread,
                repeated,
                ..
            }) = timing.segment(lane, i, charges, from, to)
            else {
                continue;
            };
            window.work += work;
            // Work that is not known to be repeated may be a disturbance.
            let repeated = repeated.unwrap_or_default();
            window.repeated.usual += repeated.usual;
            window.repeated.low += repeated.low;
            window.slow += slow;
            window.variance += spread * spread;
            if net > window.longest_segment.0 {
                window.longest_segment = (net, begin);
            }
        }
        for i in self.waits.within(b, from, to) {
            let held = &self.waits.all[i];
            let Some(explained) = self.done[i] else {
                continue;
            };
            let (begin, end) = (held.begin.max(from), held.end.min(to));
            let shared = self
                .waits
                .time_within(wait.lane, begin, end.min(wait.begin));
            let ns = (end - begin).saturating_sub(shared);
            window.inherited.push((explained.get() - 1, ns));
        }
    }

    /// What the waiting rank computes in every repetition from `from` until it started to wait:
    /// usually, and at most.
    fn work_of_waiting(&self, wait: &RawWait, from: u64) -> (u64, u64) {
        let lane = &self.program.lanes[wait.lane as usize];
        let charges = &self.charges[wait.lane as usize];
        let calls = lane.calls_within(from, wait.begin);
        let last = calls.end.min(lane.calls.len().saturating_sub(1));
        let (mut usual, mut high) = (0, 0);
        for i in calls.start..=last {
            let timing = &self.timings[wait.lane as usize];
            let Some(segment) = timing.segment(lane, i, charges, from, wait.begin) else {
                continue;
            };
            // Work that is not known to be repeated may still be work.
            usual += segment.repeated.map_or(segment.net, |r| r.usual);
            high += segment.repeated.map_or(segment.net, |r| r.high);
        }
        (usual, high)
    }

    /// How much more the culprit computes than the waiting rank in every repetition: 0 unless the
    /// intervals of their repeated work are disjoint, by more than the same work differs between
    /// two CPUs.
    fn imbalance(&self, wait: &RawWait, from: u64) -> u64 {
        let own = self.window.repeated;
        let (usual, high) = self.work_of_waiting(wait, from);
        let more = own.usual.saturating_sub(usual);
        match own.low > high && more as f64 >= WORK_SHARE * usual as f64 {
            true => more,
            false => 0,
        }
    }

    fn split(&mut self, index: u32, wait: &RawWait, from: u64) {
        let length = wait.length();
        let culprit = &self.program.lanes[wait.culprit as usize];
        let imbalance = self.imbalance(wait, from);
        let window = &mut self.window;
        let own = window.own;
        let (mut inherited, mut most) = (0, None::<(u64, u32)>);
        for &(explained, ns) in &window.inherited {
            let held = &self.out.explained[explained as usize];
            let whole = self.waits.all[held.wait as usize].length();
            let shares = self.out.shares_of(held);
            // If a wait lies partly outside, its parts count in proportion.
            let mut keys: Vec<(Key, u64)> = shares
                .iter()
                .map(|s| ((s.origin, s.source, false), s.ns))
                .collect();
            if ns < whole {
                let rest = (culprit.rank, self.classes.unexplained, false);
                keys = apportion(ns, &keys, &[], rest);
            }
            window.taken.extend(keys);
            inherited += ns;
            if ns > 0 && most.is_none_or(|(m, _)| ns > m) {
                most = Some((ns, explained));
            }
        }
        let key = |source| (culprit.rank, source, true);
        let (slow, longest, longest_segment) =
            (window.slow, window.longest, window.longest_segment);
        let taken = std::mem::take(&mut window.taken);
        let rest = [
            (key(self.classes.slow_level), slow),
            (key(self.classes.imbalance), imbalance),
        ];
        let parts = apportion(length, &taken, &rest, key(self.classes.unexplained));
        let begin = self.out.shares.len() as u32;
        let share = |&((origin, source, own), ns): &(Key, u64)| Share {
            origin,
            source,
            ns,
            own,
        };
        self.out.shares.extend(parts.iter().map(share));
        self.window.taken = taken;
        // The part of the length inherited from waits of the culprit.
        let all = (own + inherited).max(length).max(1);
        let through = u128::from(inherited) * u128::from(length) / u128::from(all);
        let parent = most
            .filter(|_| 2 * through >= u128::from(length))
            .map(|(_, explained)| explained);
        let from_records = 2 * own >= length.saturating_sub(through as u64);
        let (own_anchor, cpu) = match from_records && longest.0 > 0 {
            true => (longest.1, longest.2.or(culprit.cpu)),
            false => (longest_segment.1, culprit.cpu),
        };
        let (hops, anchor, cpu) = match parent {
            Some(p) => {
                let p = &self.out.explained[p as usize];
                (p.hops + 1, p.anchor, p.cpu)
            }
            None => (0, (wait.culprit, own_anchor), cpu),
        };
        self.out.explained.push(Explained {
            wait: index,
            parent,
            hops,
            anchor,
            own_anchor,
            cpu,
            shares: begin..self.out.shares.len() as u32,
        });
        self.done[index as usize] = NonZeroU32::new(self.out.explained.len() as u32);
    }
}

/// When this collective last brought the culprit of `wait` in step with the waiting rank, in the
/// culprit's time.
fn bound_at(
    program: &Program,
    instance: &super::lanes::Instance,
    wait: &RawWait,
    at_least: u64,
) -> Option<u64> {
    let (waiting, culprit) = (
        program.lanes[wait.lane as usize].rank,
        program.lanes[wait.culprit as usize].rank,
    );
    let entered = || {
        let members = program.members_of(instance).iter();
        let mut of_culprit = members.filter(|m| program.lanes[m.0 as usize].rank == culprit);
        of_culprit.next().map(|m| program.call(m.0, m.1).begin)
    };
    if instance.last_enter <= at_least {
        // Nothing here is later than what is known: the search can end.
        return Some(at_least);
    }
    match instance.class {
        Class::AllToAll => Some(instance.last_enter),
        Class::FromRoot if instance.root == Some(culprit) => entered(),
        Class::ToRoot if instance.root == Some(waiting) => entered(),
        Class::Prefix => {
            let ranks = program.communicators.get(&instance.comm)?;
            let lower = ranks.get(&culprit)? < ranks.get(&waiting)?;
            lower.then(entered).flatten()
        }
        _ => None,
    }
}
