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

/// A stream on a CPU: its coming events, and the end of those served.
#[derive(Clone, Debug)]
struct Pending {
    events: Events,
    next: Event,
    /// End of the events served so far; only for streams that leave some speed.
    until: u64,
}

/// The coming events of one CPU; by default none.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// Streams that stop the rank, then the others.
    pending: Vec<Pending>,
    still: usize,
    /// Among the streams that stop the rank: when the next event begins, and the first stream that
    /// has it.
    soonest: (u64, usize),
    /// When the next event of each of these streams begins, side by side for a quick search.
    begins: Vec<u64>,
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
        Timeline {
            pending: Vec::new(),
            still: 0,
            soonest: soonest(&[]),
            begins: Vec::new(),
            free: 0,
            quiet: 0,
            speed: Speed::default(),
            computed: None,
        }
    }
}

impl Timeline {
    /// The events of a CPU from the start.
    pub fn new(noise: &Noise, place: Place) -> Self {
        let reaching = |still: bool| {
            noise
                .streams
                .iter()
                .enumerate()
                .filter(move |(_, s)| (s.keeps == 0) == still && s.reaches(place))
                .map(|(index, _)| {
                    let mut events = Events::new(noise, index, place);
                    let next = events.next(noise);
                    Pending {
                        events,
                        next,
                        until: 0,
                    }
                })
        };
        let mut pending: Vec<Pending> = reaching(true).collect();
        let still = pending.len();
        let begins: Vec<u64> = pending.iter().map(|p| p.next.begin).collect();
        pending.extend(reaching(false));
        let mut timeline = Timeline {
            pending,
            still,
            soonest: soonest(&begins),
            begins,
            free: 0,
            quiet: 0,
            speed: Speed::default(),
            computed: (noise.clock == Clock::Work).then_some(0),
        };
        timeline.look_ahead(noise, 0);
        timeline
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
        let end = match self.pending.len() == self.still {
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
            let p = self.soonest.1;
            let event = self.pending[p].next;
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
            let pending = &mut self.pending[p];
            pending.next = pending.events.next(noise);
            self.begins[p] = pending.next.begin;
            self.soonest = soonest(&self.begins);
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
        for pending in &mut self.pending[self.still..] {
            // Such a stream has events of one source only.
            let keeps = noise.streams[pending.events.stream()].keeps;
            while pending.next.begin <= at && pending.next.begin < u64::MAX {
                let begin = pending.until.max(pending.next.begin);
                pending.until = begin.saturating_add(pending.next.length);
                pending.next = pending.events.next(noise);
            }
            if pending.until > at {
                level.speed.parts = (level.speed.parts * keeps / FULL).max(1);
                level.until = level.until.min(pending.until);
                if keeps < slowest {
                    (slowest, level.speed.source) = (keeps, Some(pending.next.source));
                }
            } else {
                pending.until = 0;
                level.until = level.until.min(pending.next.begin);
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
