//! When a CPU has time: its events laid on the wall clock.
//!
//! Events are served one after the other in the order of their begins, whether the rank computes or waits: one that begins while
//! another is under way follows it. What falls into a wait of the rank costs it nothing. Events that leave a rank part of its speed lie
//! beside the others and beside each other. So the time that a CPU has for its rank is the same function of the wall clock, whatever the rank does.
//! By exposure ([`Clock::Work`]) it is the same function of the time that the rank has computed.

use crate::cputime::CpuTime;
use crate::events::{Event, Events};
use crate::model::Clock;
use crate::noise::{FULL, Noise, Place};

/// Time that a source took from a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Number of the source in the model.
    pub source: u32,
    /// The time, in nanoseconds.
    pub ns: u64,
}

/// A stream on a CPU: its events to come, and until when those taken last.
#[derive(Clone, Debug)]
struct Pending {
    events: Events,
    next: Event,
    /// Where the events that were taken end; only of streams that leave some speed.
    until: u64,
}

/// What lies before one CPU; by default nothing at all.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Streams under which the rank stands still, then the others.
    pending: Vec<Pending>,
    still: usize,
    /// When the CPU is free of the events that were taken.
    free: u64,
    /// Until when the speed stays and nothing strikes: what most questions need, without a look at the streams.
    quiet: u64,
    /// The speed until then.
    speed: Speed,
    /// How long the rank has computed, if that is the time that events are laid on.
    computed: Option<u64>,
}

/// How fast a rank is, and why.
#[derive(Clone, Copy, Debug)]
struct Speed {
    /// Of [`FULL`], from 1 on.
    parts: u32,
    /// Source of the slowest level; of none at full speed.
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

impl Timeline {
    /// The events of a CPU from the beginning.
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
        pending.extend(reaching(false));
        let mut timeline = Timeline {
            pending,
            still,
            free: 0,
            quiet: 0,
            speed: Speed::default(),
            computed: (noise.clock == Clock::Work).then_some(0),
        };
        timeline.look_ahead(noise, 0);
        timeline
    }

    /// The moment at which `work` nanoseconds of work begun at `start` are done. `start` is not before the last such moment.
    /// Work of no length is done at once. A moment beyond 64-bit nanoseconds is `u64::MAX`.
    ///
    /// `charge` is told of every part of the time between: the charges add up to the end less `start` and `work`.
    #[inline]
    pub fn end(&mut self, noise: &Noise, start: u64, work: u64, charge: impl FnMut(Charge)) -> u64 {
        let Some(computed) = self.computed else {
            return self.end_on_clock(noise, start, work, charge);
        };
        let end = self.end_on_clock(noise, computed, work, charge);
        self.computed = Some(end);
        start.saturating_add(end - computed)
    }

    /// [`Timeline::end`] in the time that events are laid on.
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

    /// The end of work over which the speed stays and nothing strikes.
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

    /// Until when work that starts at or after the last end is not disturbed: work that is done by then needs its own time only. By exposure
    /// no moment of the wall clock is known.
    #[inline]
    pub fn quiet_until(&self) -> u64 {
        match (self.speed.parts, self.computed) {
            (FULL, None) => self.quiet,
            _ => 0,
        }
    }

    /// Finds out until when what holds at a moment will.
    fn look_ahead(&mut self, noise: &Noise, at: u64) {
        // At the end of all time there is nothing ahead.
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

    /// Takes the events that have begun by `at`, or begin while those are served; returns when the CPU is free.
    #[inline]
    fn serve(
        &mut self,
        noise: &Noise,
        start: u64,
        mut at: u64,
        charge: &mut impl FnMut(Charge),
    ) -> u64 {
        while let Some(p) = self.earliest() {
            let event = self.pending[p].next;
            if event.begin > at || event.begin == u64::MAX {
                break;
            }
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
        }
        at
    }

    /// The stream whose next event comes first, of those under which the rank stands still; of equal ones the first.
    #[inline]
    fn earliest(&self) -> Option<usize> {
        (0..self.still).min_by_key(|&p| self.pending[p].next.begin)
    }

    #[inline]
    fn next_stop(&self) -> u64 {
        let stops = self.pending[..self.still].iter();
        stops.map(|p| p.next.begin).min().unwrap_or(u64::MAX)
    }

    /// As [`Timeline::end_at_full_speed`], in steps over which the speed is the same.
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

    /// Speed at a moment and until when it holds.
    fn level(&mut self, noise: &Noise, at: u64) -> Level {
        let mut level = Level {
            speed: Speed::default(),
            until: u64::MAX,
        };
        let mut slowest = FULL;
        for pending in &mut self.pending[self.still..] {
            // Such a stream has the events of one source.
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

struct Level {
    speed: Speed,
    until: u64,
}

/// Whole nanoseconds of each source; what rounding leaves is the first one's, so that nothing is lost.
fn charge_levels(lost: &[(u32, u128)], charge: &mut impl FnMut(Charge)) {
    let full = u128::from(FULL);
    let total: u128 = lost.iter().map(|l| l.1).sum::<u128>().div_ceil(full);
    let whole: u128 = lost.iter().map(|l| l.1 / full).sum();
    let mut rest = total - whole;
    for &(source, parts) in lost {
        // Both fit: they are parts of a time that does.
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
    /// Ranks 0 to `ranks - 1`, each on so many CPUs of its own, from the beginning. Ranks fill one node after the other.
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
