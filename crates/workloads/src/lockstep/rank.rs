//! What one rank does, over any fabric and any counter.

use super::MESSAGE_BYTES;
use crate::detour::Gap;
use crate::fibonacci::Fibonacci;
use bytemuck::{Pod, Zeroable};
use idlewave_clock::Source;
use idlewave_fabric::{Fabric, FabricError, Tag};
use idlewave_run::Coupling;
use idlewave_units::{Nanos, Rank};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Time of one chunk of computation.
const CHUNK: Nanos = Nanos::from_nanos(250);
/// To the left and to the right: with two ranks both neighbours are the same.
const LEFT: Tag = Tag(1);
const RIGHT: Tag = Tag(2);

/// One iteration in counts; it ends where the next one begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Iteration {
    pub begin: u64,
    pub arrival: u64,
}

/// What a rank did, in counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    pub iterations: u64,
    /// Of the first iteration.
    pub begin: u64,
    /// Of the last one.
    pub end: u64,
}

/// The computation of one iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    chunks: u64,
    chunk_steps: u64,
    /// Steps beyond whole chunks.
    rest_steps: u64,
    /// Undisturbed time of a chunk, in counts.
    chunk_counts: u64,
}

impl Work {
    /// Cuts `steps`, which take `time` or `counts` at the fastest, in chunks.
    pub fn new(steps: u64, time: Nanos, counts: u64) -> Self {
        let chunks = (time.get() / CHUNK.get()).max(1);
        let chunk_steps = steps / chunks;
        Self {
            chunks,
            chunk_steps,
            rest_steps: steps % chunks,
            chunk_counts: counts / chunks,
        }
    }
}

/// What a rank shall do.
pub struct Plan<'a> {
    pub work: Work,
    pub coupling: Coupling,
    /// In counts.
    pub duration: u64,
    /// In counts.
    pub threshold: u64,
    /// The last iteration, which rank 0 lowers when the time is over.
    pub last: &'a AtomicU64,
    pub halt: &'a AtomicBool,
}

/// Watches the counter from reading to reading.
struct Watch<S, G> {
    source: S,
    previous: u64,
    record: G,
}

impl<S: Source, G: FnMut(Gap)> Watch<S, G> {
    /// Reads the counter; a difference above `limit` is a gap of what exceeds `usual`.
    #[inline(always)]
    fn look(&mut self, limit: u64, usual: u64) -> u64 {
        let now = self.source.now();
        let difference = now.wrapping_sub(self.previous);
        if difference > limit && difference <= u64::MAX / 2 {
            (self.record)(Gap {
                begin: self.previous,
                length: difference - usual,
            });
        }
        self.previous = now;
        now
    }
}

/// Buffers that go round between rank and fabric.
struct Exchange {
    to_send: [Vec<u8>; 2],
    to_fill: [Vec<u8>; 2],
}

impl Exchange {
    fn new() -> Self {
        let buffer = || vec![0x5a; MESSAGE_BYTES];
        Self {
            to_send: [buffer(), buffer()],
            to_fill: [buffer(), buffer()],
        }
    }

    /// Sends to both neighbours and receives from both, without blocking until all are under way.
    fn run<F: Fabric>(
        &mut self,
        fabric: &mut F,
        hook: &mut impl FnMut(),
    ) -> Result<(), FabricError> {
        let (rank, size) = (fabric.rank().get(), fabric.size());
        if size == 1 {
            return Ok(());
        }
        let (left, right) = (
            Rank::new((rank + size - 1) % size),
            Rank::new((rank + 1) % size),
        );
        let [fill_left, fill_right] = &mut self.to_fill;
        let [send_left, send_right] = &mut self.to_send;
        // What comes from the left was sent to the right.
        let from_left =
            fabric.start_receive(Some(left), RIGHT, MESSAGE_BYTES, std::mem::take(fill_left))?;
        let from_right =
            fabric.start_receive(Some(right), LEFT, MESSAGE_BYTES, std::mem::take(fill_right))?;
        let to_left = fabric.start_send(left, LEFT, std::mem::take(send_left))?;
        let to_right = fabric.start_send(right, RIGHT, std::mem::take(send_right))?;
        *fill_left = fabric.finish_receive(from_left, hook)?.data;
        *fill_right = fabric.finish_receive(from_right, hook)?.data;
        *send_left = fabric.finish_send(to_left, hook)?;
        *send_right = fabric.finish_send(to_right, hook)?;
        Ok(())
    }
}

/// Runs one rank; `record` gets every iteration, and after the last one an empty one that ends it.
///
/// The end is agreed without a message of its own: when its time is over in iteration k, rank 0 sets the
/// last iteration to k + size. No rank can be that far ahead of rank 0 (on a ring size / 2 at most), and
/// whoever passes k + size / 2 has, through the messages in between, seen the store.
pub fn run<F: Fabric, S: Source>(
    fabric: &mut F,
    source: S,
    plan: &Plan<'_>,
    mut record: impl FnMut(Iteration),
    gap: impl FnMut(Gap),
) -> Result<Done, FabricError> {
    let Plan {
        work,
        coupling,
        threshold,
        ..
    } = *plan;
    let leads = fabric.rank().get() == 0;
    let ahead = u64::from(fabric.size());
    let mut numbers = Fibonacci::default();
    let mut exchange = Exchange::new();
    // The first exchange makes the mailboxes; it belongs to the preparation.
    exchange.run(fabric, &mut || ())?;
    fabric.barrier(&mut || ())?;

    let mut iteration = 0_u64;
    let mut begin = source.now_ordered();
    let first = begin;
    let deadline = begin.saturating_add(plan.duration);
    let mut watch = Watch {
        source,
        previous: begin,
        record: gap,
    };
    let (chunk_limit, chunk_usual) = (work.chunk_counts + threshold, work.chunk_counts);
    let mut decided = false;
    let end = loop {
        for _ in 0..work.chunks {
            numbers.advance(work.chunk_steps);
            watch.look(chunk_limit, chunk_usual);
        }
        numbers.advance(work.rest_steps);
        let arrival = watch.look(chunk_limit, 0);
        match coupling {
            Coupling::Neighbours => exchange.run(fabric, &mut || {
                watch.look(threshold, 0);
            })?,
            Coupling::Barrier => fabric.barrier(&mut || {
                watch.look(threshold, 0);
            })?,
        }
        let end = watch.look(threshold, 0);
        record(Iteration { begin, arrival });
        if leads && !decided && (end >= deadline || plan.halt.load(Ordering::Relaxed)) {
            decided = true;
            plan.last.fetch_min(iteration + ahead, Ordering::AcqRel);
        }
        if iteration >= plan.last.load(Ordering::Acquire) {
            break end;
        }
        iteration += 1;
        begin = end;
    };
    record(Iteration {
        begin: end,
        arrival: end,
    });
    std::hint::black_box(numbers.value());
    Ok(Done {
        iterations: iteration + 1,
        begin: first,
        end,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_and_rest_are_all_of_the_work() {
        for (steps, ns) in [(1, 1), (1_000, 400), (33_333, 20_000), (7, 100_000)] {
            let work = Work::new(steps, Nanos::from_nanos(ns), ns);
            assert_eq!(work.chunks * work.chunk_steps + work.rest_steps, steps);
        }
    }

    #[test]
    fn a_gap_is_what_exceeds_the_usual_time() {
        #[derive(Clone, Copy)]
        struct At(u64);
        impl Source for At {
            fn now(self) -> u64 {
                self.0
            }
        }
        let mut gaps = Vec::new();
        let mut watch = Watch {
            source: At(1_250),
            previous: 1_000,
            record: |g| gaps.push(g),
        };
        watch.look(500, 250);
        watch.source = At(9_250);
        watch.look(500, 250);
        assert_eq!(
            gaps,
            [Gap {
                begin: 1_250,
                length: 7_750
            }]
        );
    }
}
