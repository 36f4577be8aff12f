//! Who had a CPU when: bursts and nested interrupts flattened into one sequence without overlaps.
//!
//! Nested time belongs to the innermost (NMI over interrupt over softirq over thread), as in the
//! kernel's osnoise tracer and in LTTng-noise (Morari et al., IPDPS 2011).

use crate::spans::{Cursor, Span, Spans};
use idlewave_units::Pid;
use std::collections::BTreeMap;

/// Who had the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// A thread; 0 is the idle task.
    Thread(Pid),
    /// The kernel, handling an interrupt: row of the run's `sources`.
    Interrupt(u32),
    /// Inferred: an interrupt stayed open far beyond its usual time while nothing else was
    /// recorded.
    Hypervisor,
    /// Nothing was recorded.
    Unknown,
}

/// A stretch of time with one actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Start, nanoseconds.
    pub begin: u64,
    /// End, nanoseconds; above `begin`.
    pub end: u64,
    /// Who had the CPU.
    pub actor: Actor,
    /// The thread whose burst this is: for an interrupt, the thread it interrupted.
    pub owner: Option<Pid>,
}

/// A burst as this module needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstSpan {
    /// Switched in at.
    pub begin: u64,
    /// Switched out at.
    pub end: u64,
    /// The thread.
    pub pid: Pid,
}

/// An interrupt as this module needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterruptSpan {
    /// Entered at.
    pub begin: u64,
    /// Left at.
    pub end: u64,
    /// Row of the run's `sources`.
    pub source: u32,
    /// 0 is outermost.
    pub depth: u8,
}

/// An interrupt that stays open this many times longer than the median of its source, with nothing
/// else recorded on its CPU, was not running (reference: tracing notes, timer interrupt of 10.4 ms
/// against a median of 10.8 us in a virtual machine).
const OPEN_TOO_LONG: u64 = 50;

/// Below this, a long interrupt counts as real work: handlers vary by some microseconds.
const OPEN_AT_LEAST: u64 = 20_000;

/// Stands for [`Actor::Hypervisor`] among the sources of interrupts.
const HYPERVISOR: u32 = u32::MAX;

/// Makes the timeline of one CPU of its records.
#[derive(Debug, Default)]
pub struct Builder {
    bursts: Spans,
    interrupts: Net,
}

impl Builder {
    /// Adds a burst. They come in order of their begin; what overlaps the burst before it is cut.
    pub fn burst(&mut self, burst: BurstSpan) {
        self.bursts.push(burst.begin, burst.end, burst.pid.get());
    }

    /// Adds an interrupt. They come in order of their begin. `median` is the median duration of its
    /// source; `None` if too few are known.
    pub fn interrupt(&mut self, interrupt: InterruptSpan, median: Option<u64>) {
        self.interrupts.add(interrupt, median);
    }

    /// The timeline, after the last record.
    pub fn finish(self) -> CpuTimeline {
        CpuTimeline {
            bursts: self.bursts,
            interrupts: self.interrupts.finish(),
            filled: BTreeMap::new(),
        }
    }
}

/// The timeline of one CPU: bursts with the interrupts laid over them, and holes between them, as
/// they are asked for. Unrecorded stretches between first and last are [`Actor::Unknown`].
#[derive(Clone, Debug, Default)]
pub struct CpuTimeline {
    bursts: Spans,
    /// Without nested ones.
    interrupts: Spans,
    /// Holes given to a thread: end and thread, by begin.
    filled: BTreeMap<u64, (u64, Pid)>,
}

impl CpuTimeline {
    /// The unrecorded stretch that ends at `end`, if there is one.
    pub fn hole_before(&self, end: u64) -> Option<(u64, u64)> {
        let last = self.between(end.checked_sub(1)?, end).next()?;
        if last.actor != Actor::Unknown {
            return None;
        }
        let filled = self.filled.range(..end).next_back();
        let before = [self.bursts.before(end), self.interrupts.before(end)];
        let ends = before.iter().flatten().map(|span| span.end);
        let begin = ends.chain(filled.map(|(_, (end, _))| *end)).max()?;
        Some((begin, end))
    }

    /// The thread that had the CPU right before `time`, or was interrupted there.
    pub fn owner_before(&self, time: u64) -> Option<Pid> {
        self.between(time.checked_sub(1)?, time).next()?.owner
    }

    /// Assigns the rest of the unrecorded stretch that ends at `end` to the thread that had the CPU
    /// from `from` on, as known from elsewhere.
    pub fn give_hole(&mut self, from: u64, end: u64, pid: Pid) {
        match self.hole_before(end) {
            Some((begin, _)) if from < end => {
                self.filled.insert(from.max(begin), (end, pid));
            }
            _ => {}
        }
    }

    /// The pieces of `begin..end`, cut to it; time outside the recording is [`Actor::Unknown`].
    pub fn between(&self, begin: u64, end: u64) -> impl Iterator<Item = Piece> + '_ {
        Pieces {
            of: self,
            burst: self.bursts.ending_after(begin),
            interrupt: self.interrupts.ending_after(begin),
            now: begin,
            end,
        }
    }
}

/// The pieces of a stretch of a timeline.
struct Pieces<'a> {
    of: &'a CpuTimeline,
    burst: Cursor<'a>,
    interrupt: Cursor<'a>,
    now: u64,
    end: u64,
}

impl Pieces<'_> {
    /// What is known of the hole from `now` on, and how long that is so, `until` at most.
    fn hole(&self, until: u64) -> (u64, Actor, Option<Pid>) {
        let filled = self.of.filled.range(..=self.now).next_back();
        if let Some((_, &(end, pid))) = filled.filter(|(_, (end, _))| *end > self.now) {
            return (end.min(until), Actor::Thread(pid), Some(pid));
        }
        let next = self.of.filled.range(self.now..).next();
        let until = next.map_or(until, |(&begin, _)| begin.min(until));
        (until, Actor::Unknown, None)
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if self.now >= self.end {
            return None;
        }
        let begin = self.now;
        self.burst.skip_to(begin);
        self.interrupt.skip_to(begin);
        let (burst, interrupt) = (self.burst.span(), self.interrupt.span());
        let (end, actor, owner) = match (interrupt, burst) {
            (Some(i), burst) if i.begin <= begin => {
                // That of its begin: a burst that begins during it was not interrupted by it.
                let covers = |burst: &Span| burst.begin <= i.begin;
                let owner = burst.filter(covers);
                let owner = owner.or_else(|| self.of.bursts.around(i.begin));
                let actor = match i.value {
                    HYPERVISOR => Actor::Hypervisor,
                    source => Actor::Interrupt(source),
                };
                (i.end, actor, owner.map(|b| Pid::new(b.value)))
            }
            (interrupt, burst) => {
                let until = interrupt.map_or(self.end, |i| i.begin);
                match burst {
                    Some(b) if b.begin <= begin => {
                        let pid = Pid::new(b.value);
                        (b.end.min(until), Actor::Thread(pid), Some(pid))
                    }
                    _ => self.hole(burst.map_or(until, |b| b.begin.min(until)).min(self.end)),
                }
            }
        };
        let end = end.min(self.end);
        self.now = end;
        Some(Piece {
            begin,
            end,
            actor,
            owner,
        })
    }
}

/// Net stretches of interrupts, without nested ones.
#[derive(Debug, Default)]
struct Net {
    out: Spans,
    /// Interrupts that are open at `now`, outermost first.
    open: Vec<Open>,
    now: u64,
    /// The last ones, if they begin at the same time: the outermost comes first then.
    tied: Vec<(InterruptSpan, Option<u64>)>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    end: u64,
    source: u32,
    median: Option<u64>,
}

impl Net {
    fn add(&mut self, next: InterruptSpan, median: Option<u64>) {
        if self
            .tied
            .first()
            .is_some_and(|(t, _)| t.begin != next.begin)
        {
            self.enter_tied();
        }
        self.tied.push((next, median));
    }

    fn enter_tied(&mut self) {
        let mut tied = std::mem::take(&mut self.tied);
        tied.sort_by_key(|(i, _)| (i.depth, std::cmp::Reverse(i.end), i.source));
        for (next, median) in tied.drain(..) {
            self.leave_until(next.begin);
            if let Some(&parent) = self.open.last() {
                self.emit(next.begin, parent);
            }
            self.now = self.now.max(next.begin);
            // A nested one cannot outlast its parent; if a hole makes it seem so, the parent wins.
            let end = self.open.last().map_or(next.end, |p| next.end.min(p.end));
            // No run has that many sources.
            let source = next.source.min(HYPERVISOR - 1);
            self.open.push(Open {
                end,
                source,
                median,
            });
        }
        self.tied = tied;
    }

    /// Leaves those that end up to `time`, innermost first.
    fn leave_until(&mut self, time: u64) {
        while let Some(&last) = self.open.last().filter(|last| last.end <= time) {
            self.emit(last.end, last);
            self.open.pop();
        }
    }

    /// `of` ran from `now` until `to`.
    fn emit(&mut self, to: u64, of: Open) {
        let from = self.now;
        if from >= to {
            return;
        }
        self.now = to;
        match of.median {
            Some(m) if to - from > OPEN_AT_LEAST && to - from > m.saturating_mul(OPEN_TOO_LONG) => {
                let real = from + m.max(1);
                self.out.push(from, real, of.source);
                self.out.push(real, to, HYPERVISOR);
            }
            _ => self.out.push(from, to, of.source),
        }
    }

    fn finish(mut self) -> Spans {
        self.enter_tied();
        self.leave_until(u64::MAX);
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn burst(begin: u64, end: u64, pid: u32) -> BurstSpan {
        BurstSpan {
            begin,
            end,
            pid: Pid::new(pid),
        }
    }
    fn irq(begin: u64, end: u64, source: u32, depth: u8) -> InterruptSpan {
        InterruptSpan {
            begin,
            end,
            source,
            depth,
        }
    }
    fn build(
        bursts: &[BurstSpan],
        interrupts: &[InterruptSpan],
        median: Option<u64>,
    ) -> CpuTimeline {
        let (mut bursts, mut interrupts) = (bursts.to_vec(), interrupts.to_vec());
        bursts.sort_by_key(|b| b.begin);
        interrupts.sort_by_key(|i| i.begin);
        let mut out = Builder::default();
        bursts.into_iter().for_each(|b| out.burst(b));
        interrupts
            .into_iter()
            .for_each(|i| out.interrupt(i, median));
        out.finish()
    }
    fn text(pieces: impl Iterator<Item = Piece>) -> Vec<String> {
        pieces
            .map(|p| {
                let actor = match p.actor {
                    Actor::Thread(pid) => format!("t{pid}"),
                    Actor::Interrupt(s) => format!("i{s}"),
                    Actor::Hypervisor => "hv".into(),
                    Actor::Unknown => "?".into(),
                };
                format!("{}-{} {actor}", p.begin, p.end)
            })
            .collect()
    }

    #[test]
    fn nested_time_belongs_to_the_innermost() {
        let timeline = build(
            &[burst(0, 100, 7)],
            &[
                irq(10, 50, 1, 0),
                irq(20, 40, 2, 1),
                irq(25, 30, 3, 2),
                irq(60, 70, 1, 0),
            ],
            None,
        );
        assert_eq!(
            text(timeline.between(0, 100)),
            [
                "0-10 t7",
                "10-20 i1",
                "20-25 i2",
                "25-30 i3",
                "30-40 i2",
                "40-50 i1",
                "50-60 t7",
                "60-70 i1",
                "70-100 t7"
            ]
        );
    }

    #[test]
    fn a_hole_between_bursts_is_unknown_but_its_interrupts_are_known() {
        let bursts = [burst(10, 20, 1), burst(40, 50, 2)];
        let timeline = build(&bursts, &[irq(25, 30, 9, 0)], None);
        assert_eq!(
            text(timeline.between(10, 50)),
            ["10-20 t1", "20-25 ?", "25-30 i9", "30-40 ?", "40-50 t2"]
        );
    }

    #[test]
    fn an_interrupt_open_fifty_times_too_long_is_a_hypervisor_gap() {
        let timeline = build(
            &[burst(0, 2_000_000, 1)],
            &[irq(1_000, 1_001_000, 4, 0)],
            Some(5_000),
        );
        assert_eq!(
            text(timeline.between(0, 2_000_000)),
            [
                "0-1000 t1",
                "1000-6000 i4",
                "6000-1001000 hv",
                "1001000-2000000 t1"
            ]
        );
    }

    #[test]
    fn a_short_handler_that_took_long_for_once_is_work_up_to_twenty_microseconds() {
        for (end, gap) in [(21_000, false), (21_001, true)] {
            let timeline = build(&[burst(0, 30_000, 1)], &[irq(1_000, end, 4, 0)], Some(100));
            let found = timeline
                .between(0, 30_000)
                .any(|p| p.actor == Actor::Hypervisor);
            assert_eq!(found, gap, "{end}");
        }
    }

    #[test]
    fn the_end_of_a_hole_can_be_given_to_a_thread() {
        let mut timeline = build(&[burst(10, 20, 1), burst(40, 50, 2)], &[], None);
        let text = |timeline: &CpuTimeline| text(timeline.between(10, 50));
        assert_eq!(timeline.hole_before(40), Some((20, 40)));
        assert_eq!(timeline.hole_before(20), None);
        timeline.give_hole(25, 40, Pid::new(2));
        assert_eq!(
            text(&timeline),
            ["10-20 t1", "20-25 ?", "25-40 t2", "40-50 t2"]
        );
        timeline.give_hole(0, 25, Pid::new(1));
        assert_eq!(
            text(&timeline),
            ["10-20 t1", "20-25 t1", "25-40 t2", "40-50 t2"]
        );
    }

    #[test]
    fn what_lies_outside_the_recording_is_unknown() {
        let timeline = build(&[burst(100, 200, 1)], &[], None);
        let cut: Vec<_> = timeline
            .between(50, 250)
            .map(|p| (p.begin, p.end, p.actor))
            .collect();
        assert_eq!(
            cut,
            [
                (50, 100, Actor::Unknown),
                (100, 200, Actor::Thread(Pid::new(1))),
                (200, 250, Actor::Unknown)
            ]
        );
        assert_eq!(build(&[], &[], None).between(5, 9).count(), 1);
    }

    /// What a nanosecond is, by looking through all records.
    fn plainly(
        bursts: &[BurstSpan],
        interrupts: &[InterruptSpan],
        time: u64,
    ) -> (Actor, Option<Pid>) {
        let around = |begin: u64, end: u64, time: u64| begin <= time && time < end;
        let burst = |time| {
            bursts
                .iter()
                .find(|b| around(b.begin, b.end, time))
                .map(|b| b.pid)
        };
        let open = interrupts.iter().filter(|i| around(i.begin, i.end, time));
        match open.max_by_key(|i| i.depth) {
            Some(i) => (Actor::Interrupt(i.source), burst(time)),
            None => match burst(time) {
                Some(pid) => (Actor::Thread(pid), Some(pid)),
                None => (Actor::Unknown, None),
            },
        }
    }

    proptest! {
        // Interrupts nest and lie within one burst or hole, as on a CPU.
        #[test]
        fn every_nanosecond_has_the_innermost_actor_and_its_owner(
            parts in prop::collection::vec(
                (10_u64..60, any::<bool>(), prop::collection::vec((0_u64..60, 1_u64..60, 0_u32..4), 0..4)),
                1..12,
            ),
            window in (0_u64..700, 1_u64..300),
        ) {
            let (mut bursts, mut interrupts, mut now) = (Vec::new(), Vec::new(), 20);
            for (i, (length, hole, inside)) in parts.into_iter().enumerate() {
                if !hole {
                    bursts.push(burst(now, now + length, 1 + i as u32 % 3));
                }
                // Each within the one before it.
                let (mut from, mut to) = (now, now + length);
                for (depth, (begin, length, source)) in inside.into_iter().enumerate() {
                    from = (from + begin).min(to);
                    to = (from + length).min(to);
                    interrupts.push(irq(from, to, source, depth as u8));
                }
                now += length;
            }
            let timeline = build(&bursts, &interrupts, None);
            let (begin, length) = window;
            let mut now = begin;
            for piece in timeline.between(begin, begin + length) {
                prop_assert_eq!(piece.begin, now);
                prop_assert!(piece.end > piece.begin);
                for time in piece.begin..piece.end {
                    let expected = plainly(&bursts, &interrupts, time);
                    prop_assert_eq!((piece.actor, piece.owner), expected, "at {}", time);
                }
                now = piece.end;
            }
            prop_assert_eq!(now, begin + length);
        }

        #[test]
        fn pieces_tile_any_window_exactly_whatever_was_recorded(
            bursts in prop::collection::vec((0_u64..600, 0_u64..50, 1_u32..4), 0..20),
            interrupts in prop::collection::vec((0_u64..600, 0_u64..80, 0_u32..4, 0_u8..3), 0..20),
            holes in prop::collection::vec((0_u64..700, 1_u64..700), 0..3),
            window in (0_u64..700, 1_u64..300),
        ) {
            let bursts: Vec<_> = bursts.iter().map(|&(b, l, pid)| burst(b, b + l, pid)).collect();
            let spans: Vec<_> = interrupts.iter().map(|&(b, l, s, d)| irq(b, b + l, s, d)).collect();
            let mut timeline = build(&bursts, &spans, Some(1));
            for (from, end) in holes {
                let before = timeline.hole_before(end);
                timeline.give_hole(from, end, Pid::new(9));
                if let Some((begin, _)) = before.filter(|_| from < end) {
                    let given = timeline.between(from.max(begin), end).all(|p| p.actor == Actor::Thread(Pid::new(9)));
                    prop_assert!(given);
                    prop_assert_eq!(timeline.hole_before(end), None);
                }
            }
            // What a window shows does not depend on where it begins.
            let each = |p: Piece| (p.begin..p.end).map(move |_| (p.actor, p.owner));
            let whole: Vec<_> = timeline.between(0, 1_000).flat_map(each).collect();
            let (begin, length) = window;
            let mut now = begin;
            for piece in timeline.between(begin, begin + length) {
                prop_assert_eq!(piece.begin, now);
                prop_assert!(piece.end > piece.begin);
                for (at, shown) in each(piece).enumerate() {
                    prop_assert_eq!(shown, whole[now as usize + at], "at {}", now as usize + at);
                }
                now = piece.end;
            }
            prop_assert_eq!(now, begin + length);
        }
    }
}
