//! Who had a CPU when: bursts and nested interrupts flattened into one sequence without overlaps.
//!
//! Nested time belongs to the innermost (NMI over interrupt over softirq over thread), as in the
//! kernel's osnoise tracer and in LTTng-noise (Morari et al., IPDPS 2011).

use idlewave_units::Pid;

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

/// The flattened timeline of one CPU, in order of time, without overlaps; unrecorded stretches
/// between first and last are [`Actor::Unknown`].
#[derive(Clone, Debug, Default)]
pub struct CpuTimeline {
    pieces: Vec<Piece>,
}

impl CpuTimeline {
    /// Flattens the records. `median` gives the median net duration of a source of interrupts;
    /// `None` if too few are known.
    pub fn build(
        mut bursts: Vec<BurstSpan>,
        mut interrupts: Vec<InterruptSpan>,
        median: &dyn Fn(u32) -> Option<u64>,
    ) -> Self {
        bursts.sort_by_key(|b| (b.begin, b.end, b.pid));
        interrupts.sort_by_key(|i| (i.begin, i.depth, std::cmp::Reverse(i.end), i.source));
        let nested = net_interrupts(&interrupts, median);
        Self {
            pieces: lay_over(&bursts, &nested),
        }
    }

    /// All pieces.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The unrecorded stretch that ends at `end`, if there is one.
    pub fn hole_before(&self, end: u64) -> Option<(u64, u64)> {
        let place = self.pieces.binary_search_by_key(&end, |p| p.end).ok()?;
        let piece = self.pieces[place];
        (piece.actor == Actor::Unknown).then_some((piece.begin, piece.end))
    }

    /// The thread that had the CPU right before `time`, or was interrupted there.
    pub fn owner_before(&self, time: u64) -> Option<Pid> {
        let place = self.pieces.binary_search_by_key(&time, |p| p.end).ok()?;
        self.pieces[place].owner
    }

    /// Assigns the rest of the unrecorded stretch that ends at `end` to the thread that had the CPU
    /// from `from` on, as known from elsewhere.
    pub fn give_hole(&mut self, from: u64, end: u64, pid: Pid) {
        let Ok(place) = self.pieces.binary_search_by_key(&end, |p| p.end) else {
            return;
        };
        let hole = self.pieces[place];
        if hole.actor != Actor::Unknown || from >= end {
            return;
        }
        let from = from.max(hole.begin);
        self.pieces[place] = Piece {
            begin: from,
            actor: Actor::Thread(pid),
            owner: Some(pid),
            ..hole
        };
        if hole.begin < from {
            self.pieces.insert(place, Piece { end: from, ..hole });
        }
    }

    /// The pieces of `begin..end`, cut to it; time outside the recording is [`Actor::Unknown`].
    pub fn between(&self, begin: u64, end: u64) -> impl Iterator<Item = Piece> + '_ {
        let first = self.pieces.partition_point(|p| p.end <= begin);
        let inside = self.pieces[first..]
            .iter()
            .take_while(move |p| p.begin < end);
        let covered_from = inside.clone().next().map_or(end, |p| p.begin.max(begin));
        let covered_to = inside.clone().last().map_or(end, |p| p.end.min(end));
        let unknown = |begin: u64, end: u64| {
            (begin < end).then_some(Piece {
                begin,
                end,
                actor: Actor::Unknown,
                owner: None,
            })
        };
        unknown(begin, covered_from)
            .into_iter()
            .chain(inside.map(move |p| Piece {
                begin: p.begin.max(begin),
                end: p.end.min(end),
                ..*p
            }))
            .chain(unknown(covered_to, end))
    }
}

/// Net stretches of interrupts, without nested ones.
fn net_interrupts(sorted: &[InterruptSpan], median: &dyn Fn(u32) -> Option<u64>) -> Vec<Piece> {
    let mut out = Vec::with_capacity(sorted.len());
    let mut open: Vec<(u64, u32)> = Vec::new();
    let mut now = 0;
    let mut emit = |from: u64, to: u64, source: u32| {
        if from >= to {
            return;
        }
        let piece = |begin, end, actor| Piece {
            begin,
            end,
            actor,
            owner: None,
        };
        match median(source) {
            Some(m) if to - from > OPEN_AT_LEAST && to - from > m.saturating_mul(OPEN_TOO_LONG) => {
                let real = from + m.max(1);
                out.push(piece(from, real, Actor::Interrupt(source)));
                out.push(piece(real, to, Actor::Hypervisor));
            }
            _ => out.push(piece(from, to, Actor::Interrupt(source))),
        }
    };
    for next in sorted {
        while let Some(&(end, source)) = open.last() {
            if end > next.begin {
                break;
            }
            emit(now, end, source);
            now = now.max(end);
            open.pop();
        }
        if let Some(&(_, source)) = open.last() {
            emit(now, next.begin, source);
        }
        now = now.max(next.begin);
        // A nested one cannot outlast its parent; if a hole makes it seem so, the parent wins.
        let end = open
            .last()
            .map_or(next.end, |&(parent, _)| next.end.min(parent));
        open.push((end, next.source));
    }
    while let Some((end, source)) = open.pop() {
        emit(now, end, source);
        now = now.max(end);
    }
    out
}

/// Bursts without the interrupts in them, with holes marked.
fn lay_over(bursts: &[BurstSpan], interrupts: &[Piece]) -> Vec<Piece> {
    let mut out: Vec<Piece> = Vec::with_capacity(bursts.len() + 2 * interrupts.len());
    let mut next = interrupts.iter().copied().peekable();
    let mut now: Option<u64> = None;
    let push = |out: &mut Vec<Piece>, begin: u64, end: u64, actor, owner| {
        if begin < end {
            out.push(Piece {
                begin,
                end,
                actor,
                owner,
            });
        }
    };
    // A stretch outside all bursts: interrupts are known there, the thread is not.
    let hole = |out: &mut Vec<Piece>,
                next: &mut std::iter::Peekable<std::iter::Copied<std::slice::Iter<'_, Piece>>>,
                from: u64,
                to: u64|
     -> u64 {
        let mut at = from;
        while let Some(i) = next.next_if(|i: &Piece| i.begin < to) {
            push(out, at, i.begin, Actor::Unknown, None);
            push(out, i.begin.max(at), i.end, i.actor, None);
            at = at.max(i.end);
        }
        push(out, at, to, Actor::Unknown, None);
        at.max(to)
    };
    for burst in bursts {
        let start = match now {
            // Before the first burst: start with the first interrupt, if it is earlier.
            None => next
                .peek()
                .map_or(burst.begin, |i| i.begin.min(burst.begin)),
            Some(at) => at,
        };
        let mut at = if start < burst.begin {
            hole(&mut out, &mut next, start, burst.begin)
        } else {
            start
        };
        while let Some(i) = next.next_if(|i| i.begin < burst.end) {
            push(
                &mut out,
                at.max(burst.begin),
                i.begin,
                Actor::Thread(burst.pid),
                Some(burst.pid),
            );
            push(&mut out, i.begin.max(at), i.end, i.actor, Some(burst.pid));
            at = at.max(i.end);
        }
        push(
            &mut out,
            at,
            burst.end,
            Actor::Thread(burst.pid),
            Some(burst.pid),
        );
        now = Some(at.max(burst.end));
    }
    for i in next {
        let at = now.unwrap_or(i.begin);
        push(&mut out, at, i.begin, Actor::Unknown, None);
        push(&mut out, i.begin.max(at), i.end, i.actor, None);
        now = Some(at.max(i.end));
    }
    out
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
    fn build(bursts: &[BurstSpan], interrupts: &[InterruptSpan]) -> CpuTimeline {
        CpuTimeline::build(bursts.to_vec(), interrupts.to_vec(), &|_| None)
    }
    fn text(timeline: &CpuTimeline) -> Vec<String> {
        timeline
            .pieces()
            .iter()
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
        );
        assert_eq!(
            text(&timeline),
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
        let timeline = build(&[burst(10, 20, 1), burst(40, 50, 2)], &[irq(25, 30, 9, 0)]);
        assert_eq!(
            text(&timeline),
            ["10-20 t1", "20-25 ?", "25-30 i9", "30-40 ?", "40-50 t2"]
        );
    }

    #[test]
    fn an_interrupt_open_fifty_times_too_long_is_a_hypervisor_gap() {
        let timeline = CpuTimeline::build(
            vec![burst(0, 2_000_000, 1)],
            vec![irq(1_000, 1_001_000, 4, 0)],
            &|_| Some(5_000),
        );
        assert_eq!(
            text(&timeline),
            [
                "0-1000 t1",
                "1000-6000 i4",
                "6000-1001000 hv",
                "1001000-2000000 t1"
            ]
        );
    }

    #[test]
    fn the_end_of_a_hole_can_be_given_to_a_thread() {
        let mut timeline = build(&[burst(10, 20, 1), burst(40, 50, 2)], &[]);
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
        let timeline = build(&[burst(100, 200, 1)], &[]);
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
        assert_eq!(build(&[], &[]).between(5, 9).count(), 1);
    }

    proptest! {
        #[test]
        fn pieces_tile_any_window_exactly(
            cuts in proptest::collection::vec(1u64..50, 1..20),
            interrupts in proptest::collection::vec((0u64..600, 1u64..80, 0u32..4), 0..20),
            window in (0u64..700, 1u64..300),
        ) {
            let mut at = 20;
            let bursts: Vec<_> = cuts.iter().enumerate().map(|(i, len)| {
                let b = burst(at, at + len, 1 + (i % 3) as u32);
                // Every fourth burst is followed by a hole.
                at += len + if i % 4 == 3 { 7 } else { 0 };
                b
            }).collect();
            let spans: Vec<_> = interrupts.iter().map(|&(b, l, s)| irq(b, b + l, s, 0)).collect();
            let timeline = build(&bursts, &spans);
            for pair in timeline.pieces().windows(2) {
                prop_assert_eq!(pair[0].end, pair[1].begin);
            }
            let (begin, length) = window;
            let mut now = begin;
            for p in timeline.between(begin, begin + length) {
                prop_assert_eq!(p.begin, now);
                prop_assert!(p.end > p.begin);
                now = p.end;
            }
            prop_assert_eq!(now, begin + length);
        }
    }
}
