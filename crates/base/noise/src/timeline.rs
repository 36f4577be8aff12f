//! The time that a CPU has for its rank, between the events on it.
//!
//! Events are served one after the other in the order of their starts, whether the rank computes or
//! waits; an event that starts while another is served follows it. Events during a wait of the rank
//! cost it nothing. Events that only slow the rank down overlap the others and each other. So the
//! CPU time available to the rank is the same function of the wall clock, whatever the rank does.
//! By exposure ([`Clock::Work`]) it is the same function of the time that the rank has computed.

use crate::cputime::CpuTime;
use crate::events::{Event, Events};
use crate::model::Clock;
use crate::noise::Noise;
use crate::stream::{FULL, Place};

/// Time that a source took from a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Number of the source in the model.
    pub source: u32,
    /// The time, in nanoseconds.
    pub ns: u64,
}

/// A stream on a CPU, with its next event but for the begin.
#[derive(Clone, Debug)]
struct Pending {
    events: Events,
    /// Length of the next event.
    length: u64,
    /// Index among those of the noise.
    stream: u32,
    /// Source of the next event.
    source: u32,
}

/// The coming events of one CPU; by default none. A simulation holds one of these for every rank, of
/// which there may be a million: 120 bytes, and 48 for each stream of events.
#[derive(Clone, Debug)]
pub struct Timeline {
    place: Place,
    /// Streams that stop the rank, then the others.
    pending: Box<[Pending]>,
    /// When the next event of each stream begins, side by side for a quick search.
    begins: Box<[u64]>,
    /// Of the streams that leave some speed: end of the events served so far.
    until: Box<[u64]>,
    /// Among the streams that stop the rank: when the next event begins, and the first stream that
    /// has it.
    soonest: (u64, usize),
    /// When the CPU has served all events taken so far.
    free: u64,
    /// Until then the speed is constant and nothing strikes. Answers most queries without a look at
    /// the streams.
    quiet: u64,
    /// The speed until then.
    speed: Speed,
    /// Time that the rank has computed, if that is the time base of the events.
    computed: Option<u64>,
}

/// The speed of a rank and the reason for it.
#[derive(Clone, Copy, Debug)]
struct Speed {
    /// In units of 1/[`FULL`], at least 1.
    parts: u32,
    /// Source of the slowest level; `None` at full speed.
    source: Option<u32>,
}

impl Default for Speed {
    fn default() -> Self {
        Speed {
            parts: FULL,
            source: None,
        }
    }
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline::of(Place::default(), Vec::new(), Vec::new(), 0)
    }
}

impl Timeline {
    /// The events of a CPU from the start.
    pub fn new(noise: &Noise, place: Place) -> Self {
        let streams = || (0..).zip(&noise.streams);
        let reaching = |still: bool| {
            streams().filter(move |(_, s)| (s.keeps == 0) == still && s.reaches(place))
        };
        let still = reaching(true).count();
        let count = still + reaching(false).count();
        // Not larger than needed: a million of them are made smaller one by one otherwise.
        let (mut pending, mut begins) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for (index, stream) in reaching(true).chain(reaching(false)) {
            let mut events = Events::new(noise, stream, place);
            let next = events.next(noise, stream, place);
            pending.push(Pending {
                events,
                length: next.length,
                stream: index,
                source: next.source,
            });
            begins.push(next.begin);
        }
        let mut timeline = Timeline::of(place, pending, begins, still);
        timeline.computed = (noise.clock == Clock::Work).then_some(0);
        timeline.look_ahead(noise, 0);
        timeline
    }

    /// At the start, before a look ahead; the first `still` streams stop the rank.
    fn of(place: Place, pending: Vec<Pending>, begins: Vec<u64>, still: usize) -> Self {
        Timeline {
            place,
            soonest: soonest(&begins[..still]),
            until: vec![0; pending.len() - still].into(),
            pending: pending.into(),
            begins: begins.into(),
            free: 0,
            quiet: 0,
            speed: Speed::default(),
            computed: None,
        }
    }

    /// Number of streams that stop the rank; they come first.
    fn still(&self) -> usize {
        self.pending.len() - self.until.len()
    }

    /// Takes the next event of a stream.
    #[inline]
    fn take(&mut self, noise: &Noise, at: usize) -> Event {
        let pending = &mut self.pending[at];
        let event = Event {
            begin: self.begins[at],
            length: pending.length,
            source: pending.source,
        };
        let stream = &noise.streams[pending.stream as usize];
        let next = pending.events.next(noise, stream, self.place);
        (pending.length, pending.source) = (next.length, next.source);
        self.begins[at] = next.begin;
        event
    }

    /// When `work` nanoseconds of work started at `start` finish. `start` is not before the
    /// previous result. Work of length 0 finishes immediately. A time beyond 64-bit nanoseconds is
    /// `u64::MAX`.
    ///
    /// `charge` gets every part of the lost time: the charges add up to the end minus `start` minus
    /// `work`.
    #[inline]
    pub fn end(&mut self, noise: &Noise, start: u64, work: u64, charge: impl FnMut(Charge)) -> u64 {
        let Some(computed) = self.computed else {
            return self.end_on_clock(noise, start, work, charge);
        };
        let end = self.end_on_clock(noise, computed, work, charge);
        self.computed = Some(end);
        start.saturating_add(end - computed)
    }

    /// [`Timeline::end`] in the time base of the events.
    #[inline]
    fn end_on_clock(
        &mut self,
        noise: &Noise,
        start: u64,
        work: u64,
        mut charge: impl FnMut(Charge),
    ) -> u64 {
        if work == 0 {
            return start;
        }
        if let Some(end) = self.end_in_quiet(start, work) {
            if let Some(source) = self.speed.source {
                let ns = end - start - work;
                charge(Charge { source, ns });
            }
            return end;
        }
        let end = match self.until.is_empty() {
            true => self.end_at_full_speed(noise, start, work, &mut charge),
            false => self.end_with_levels(noise, start, work, &mut charge),
        };
        self.look_ahead(noise, end);
        end
    }

    /// The end of work during which the speed is constant and nothing strikes.
    #[inline]
    fn end_in_quiet(&self, start: u64, work: u64) -> Option<u64> {
        let length = match self.speed.parts {
            FULL => work,
            parts => work
                .checked_mul(u64::from(FULL))?
                .div_ceil(u64::from(parts)),
        };
        start.checked_add(length).filter(|&end| end <= self.quiet)
    }

    /// Work that starts at or after the last end and finishes by this time is undisturbed. By
    /// exposure no time of the wall clock is known.
    #[inline]
    pub fn quiet_until(&self) -> u64 {
        match (self.speed.parts, self.computed) {
            (FULL, None) => self.quiet,
            _ => 0,
        }
    }

    /// Finds out until when the present state lasts.
    fn look_ahead(&mut self, noise: &Noise, at: u64) {
        // Nothing lies ahead of the maximum.
        if at < u64::MAX {
            let level = self.level(noise, at);
            self.speed = level.speed;
            self.quiet = level.until.min(self.next_stop());
        }
    }

    fn end_at_full_speed(
        &mut self,
        noise: &Noise,
        start: u64,
        work: u64,
        charge: &mut impl FnMut(Charge),
    ) -> u64 {
        let (mut at, mut left) = (start, work);
        loop {
            at = self.serve(noise, start, at, charge);
            let next = self.next_stop();
            match at.checked_add(left) {
                Some(end) if end <= next => return end,
                None if next == u64::MAX => return u64::MAX,
                _ => {}
            }
            left -= next - at;
            at = next;
        }
    }

    /// Serves the events that have started by `at`, or that start while those are served; returns
    /// when the CPU is free.
    #[inline]
    fn serve(
        &mut self,
        noise: &Noise,
        start: u64,
        mut at: u64,
        charge: &mut impl FnMut(Charge),
    ) -> u64 {
        while self.soonest.0 <= at && self.soonest.0 < u64::MAX {
            let event = self.take(noise, self.soonest.1);
            self.soonest = soonest(&self.begins[..self.still()]);
            let begin = self.free.max(event.begin);
            self.free = begin.saturating_add(event.length);
            let ns = self.free.saturating_sub(begin.max(start));
            if ns > 0 {
                charge(Charge {
                    source: event.source,
                    ns,
                });
            }
            at = at.max(self.free);
        }
        at
    }

    #[inline]
    fn next_stop(&self) -> u64 {
        self.soonest.0
    }

    /// Like [`Timeline::end_at_full_speed`], in steps of constant speed.
    fn end_with_levels(
        &mut self,
        noise: &Noise,
        start: u64,
        work: u64,
        charge: &mut impl FnMut(Charge),
    ) -> u64 {
        let full = u128::from(FULL);
        let mut at = start;
        let mut left = u128::from(work) * full;
        // Time lost to slow levels, in parts of a nanosecond, by source.
        let mut lost: Vec<(u32, u128)> = Vec::new();
        let end = loop {
            at = self.serve(noise, start, at, charge);
            let level = self.level(noise, at);
            let until = self.next_stop().min(level.until);
            let speed = u128::from(level.speed.parts);
            let span = u128::from(until - at);
            let end = u128::from(at) + left.div_ceil(speed);
            let done = span * speed >= left || until == u64::MAX;
            let spent = if done { left.div_ceil(speed) } else { span };
            if let Some(source) = level.speed.source {
                let part = spent * full - if done { left } else { spent * speed };
                match lost.iter_mut().find(|(s, _)| *s == source) {
                    Some((_, sum)) => *sum += part,
                    None => lost.push((source, part)),
                }
            }
            if done {
                break u64::try_from(end).unwrap_or(u64::MAX);
            }
            left -= span * speed;
            at = until;
        };
        charge_levels(&lost, charge);
        end
    }

    /// Speed at a time, and until when it holds.
    fn level(&mut self, noise: &Noise, at: u64) -> Level {
        let mut level = Level {
            speed: Speed::default(),
            until: u64::MAX,
        };
        let mut slowest = FULL;
        let still = self.still();
        for i in 0..self.until.len() {
            let of = still + i;
            // Such a stream has events of one source only.
            let keeps = noise.streams[self.pending[of].stream as usize].keeps;
            while self.begins[of] <= at && self.begins[of] < u64::MAX {
                let event = self.take(noise, of);
                let begin = self.until[i].max(event.begin);
                self.until[i] = begin.saturating_add(event.length);
            }
            if self.until[i] > at {
                level.speed.parts = (level.speed.parts * keeps / FULL).max(1);
                level.until = level.until.min(self.until[i]);
                if keeps < slowest {
                    (slowest, level.speed.source) = (keeps, Some(self.pending[of].source));
                }
            } else {
                self.until[i] = 0;
                level.until = level.until.min(self.begins[of]);
            }
        }
        level
    }
}

/// The least of them and the first place that has it; the end of all time without any.
#[inline]
fn soonest(begins: &[u64]) -> (u64, usize) {
    let least = begins.iter().copied().min().unwrap_or(u64::MAX);
    let first = begins.iter().position(|&begin| begin == least);
    (least, first.unwrap_or(0))
}

struct Level {
    speed: Speed,
    until: u64,
}

/// Whole nanoseconds for each source; the first one also gets the rounding remainders, so nothing
/// is lost.
fn charge_levels(lost: &[(u32, u128)], charge: &mut impl FnMut(Charge)) {
    let full = u128::from(FULL);
    let total: u128 = lost.iter().map(|l| l.1).sum::<u128>().div_ceil(full);
    let whole: u128 = lost.iter().map(|l| l.1 / full).sum();
    let mut rest = total - whole;
    for &(source, parts) in lost {
        // Both fit: they are parts of a 64-bit time.
        let ns = (parts / full + std::mem::take(&mut rest)) as u64;
        if ns > 0 {
            charge(Charge { source, ns });
        }
    }
}

/// The CPUs of many ranks.
#[derive(Clone, Debug)]
pub struct Timelines<'a> {
    noise: &'a Noise,
    cpus_per_rank: u32,
    cpus: Vec<Timeline>,
}

impl<'a> Timelines<'a> {
    /// Ranks 0 to `ranks - 1`, each on `cpus_per_rank` CPUs of its own, from the start. Ranks fill
    /// one node after the other.
    pub fn new(noise: &'a Noise, ranks: u32, cpus_per_rank: u16) -> Self {
        let cpus_per_rank = u32::from(cpus_per_rank.max(1));
        Timelines {
            noise,
            cpus_per_rank,
            cpus: (0..ranks * cpus_per_rank)
                .map(|cpu| Timeline::new(noise, noise.place(cpu)))
                .collect(),
        }
    }

    /// [`Timeline::end`] of a CPU of a rank.
    pub fn end_charged(
        &mut self,
        rank: u32,
        cpu: u8,
        start: u64,
        work: u64,
        charge: impl FnMut(Charge),
    ) -> u64 {
        let cpu = rank * self.cpus_per_rank + u32::from(cpu);
        self.cpus[cpu as usize].end(self.noise, start, work, charge)
    }
}

impl CpuTime for Timelines<'_> {
    fn end(&mut self, rank: u32, cpu: u8, start_ns: u64, work_ns: u64) -> u64 {
        self.end_charged(rank, cpu, start_ns, work_ns, |_| {})
    }
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
