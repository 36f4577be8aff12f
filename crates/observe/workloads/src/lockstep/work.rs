//! The computation of one iteration, and the watch over the counter.

use crate::detour::Gap;
use crate::fibonacci::Fibonacci;
use idlewave_clock::Source;
use idlewave_units::Nanos;

/// Target time of one chunk of computation.
const CHUNK: Nanos = Nanos::from_nanos(250);

/// The computation of one iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    chunks: u64,
    chunk_steps: u64,
    /// Steps left over after whole chunks.
    rest_steps: u64,
    /// Undisturbed time of a chunk, in counts.
    chunk_counts: u64,
    /// Undisturbed time of the whole computation.
    time: Nanos,
}

impl Work {
    /// Cuts `steps`, which take `time` or `counts` undisturbed, into chunks.
    pub fn new(steps: u64, time: Nanos, counts: u64) -> Self {
        let chunks = (time.get() / CHUNK.get()).max(1);
        Self {
            chunks,
            chunk_steps: steps / chunks,
            rest_steps: steps % chunks,
            chunk_counts: counts / chunks,
            time,
        }
    }

    /// Undisturbed time of an iteration.
    pub fn time(&self) -> Nanos {
        self.time
    }

    /// Longest time between readings that is not a gap, in counts.
    pub(super) fn chunk_limit(&self, threshold: u64) -> u64 {
        self.chunk_counts + threshold
    }

    /// Computes the chunks of one half of the iteration, 0 or 1; the second half includes the rest.
    #[inline(always)]
    pub(super) fn half<S: Source, G: FnMut(Gap)>(
        &self,
        half: u64,
        numbers: &mut Fibonacci,
        watch: &mut Watch<S, G>,
    ) {
        let middle = self.chunks / 2;
        let chunks = if half == 0 {
            middle
        } else {
            self.chunks - middle
        };
        let limit = self.chunk_limit(watch.threshold);
        for _ in 0..chunks {
            numbers.advance(self.chunk_steps);
            watch.look(limit, self.chunk_counts);
        }
        if half == 1 {
            numbers.advance(self.rest_steps);
        }
    }
}

/// Watches the counter from reading to reading.
pub(super) struct Watch<S, G> {
    pub source: S,
    pub previous: u64,
    /// Longest difference between two readings in a wait that is not a gap, in counts.
    pub threshold: u64,
    pub record: G,
}

impl<S: Source, G: FnMut(Gap)> Watch<S, G> {
    /// Reads the counter. A difference above `limit` is a gap; its length is what exceeds `usual`.
    #[inline(always)]
    pub fn look(&mut self, limit: u64, usual: u64) -> u64 {
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

    /// One turn of a wait.
    #[inline(always)]
    pub fn turn(&mut self) -> u64 {
        self.look(self.threshold, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    struct At(u64);
    impl Source for At {
        fn now(self) -> u64 {
            self.0
        }
    }

    #[test]
    fn chunks_and_rest_are_all_of_the_work() {
        for (steps, ns) in [(1, 1), (1_000, 400), (33_333, 20_000), (7, 100_000)] {
            let work = Work::new(steps, Nanos::from_nanos(ns), ns);
            assert_eq!(work.chunks * work.chunk_steps + work.rest_steps, steps);
        }
    }

    #[test]
    fn two_halves_are_the_whole() {
        let work = Work::new(33_333, Nanos::from_micros(20), 40_000);
        let (mut halves, mut whole) = (Fibonacci::default(), Fibonacci::default());
        let mut watch = Watch {
            source: At(0),
            previous: 0,
            threshold: 1,
            record: |_| (),
        };
        work.half(0, &mut halves, &mut watch);
        work.half(1, &mut halves, &mut watch);
        whole.advance(33_333);
        assert_eq!(halves.value(), whole.value());
    }

    #[test]
    fn a_gap_is_what_exceeds_the_usual_time() {
        let mut gaps = Vec::new();
        let mut watch = Watch {
            source: At(1_250),
            previous: 1_000,
            threshold: 500,
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
