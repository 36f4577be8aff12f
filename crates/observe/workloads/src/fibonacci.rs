//! The unit of work: iterative Fibonacci numbers.
//!
//! One step is one addition that needs the previous result. The work stays in registers, touches no
//! memory and cannot be vectorized, so its time shows only the speed of the CPU. Work is given in
//! steps, never in time: the same steps are the same work on every rank and in every run.

use crate::kernel::Kernel;
use idlewave_clock::{Calibration, Source, with_source};
use idlewave_run::WorkKernel;
use idlewave_units::Nanos;
use std::time::Duration;

/// Rounds that measure the speed of a CPU, and the pause between them: a CPU stays at a slow level
/// for up to half a second.
const ROUNDS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(60);

/// Number of windows, of which the quietest counts.
const WINDOWS: u32 = 400;

/// The running pair of Fibonacci numbers, modulo 2^64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fibonacci {
    a: u64,
    b: u64,
}

impl Default for Fibonacci {
    fn default() -> Self {
        Self { a: 0, b: 1 }
    }
}

impl Fibonacci {
    /// Advances by `steps` numbers.
    // Not inlined, so that a step takes the same time in calibration and in use, and the compiler,
    // which does not see the count, cannot compute a result at compile time.
    #[inline(never)]
    pub fn advance(&mut self, steps: u64) {
        let Self { mut a, mut b } = *self;
        // No iterator: without optimization, each of its calls would be part of the step.
        let mut left = steps;
        while left > 0 {
            (a, b) = (b, a.wrapping_add(b));
            left -= 1;
        }
        *self = Self { a, b };
    }
    /// The current number, modulo 2^64.
    pub fn value(&self) -> u64 {
        self.a
    }
}

/// Counts that 1,000 steps take at the CPU's best.
pub fn counts_per_thousand_steps(source: impl Source) -> f64 {
    at_best(&mut Kernel::new(WorkKernel::Fibonacci, None), source)
}

/// Counts that 1,000 steps take in the quietest of 400 windows of some tens of microseconds.
fn at_best(work: &mut Kernel, source: impl Source) -> f64 {
    let steps = work.short();
    let quietest = (0..WINDOWS)
        .map(|_| {
            let begin = source.now_ordered();
            work.advance(steps);
            source.now_ordered().wrapping_sub(begin)
        })
        .min();
    std::hint::black_box(work);
    quietest.map_or(1.0, |q| q as f64 * 1_000.0 / steps as f64)
}

/// How fast a CPU does a kind of work at its best.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Time of 1,000 steps in nanoseconds.
    pub per_thousand: f64,
}

impl Speed {
    /// Measures Fibonacci steps on the CPU of the calling thread, in half a second.
    pub fn measure(calibration: &Calibration) -> Self {
        Self::of(&mut Kernel::new(WorkKernel::Fibonacci, None), calibration)
    }

    /// The same for any work.
    pub fn of(work: &mut Kernel, calibration: &Calibration) -> Self {
        let counter = calibration.counter();
        let counts = (0..ROUNDS)
            .map(|round| {
                if round > 0 {
                    std::thread::sleep(PAUSE);
                }
                with_source!(counter, s => at_best(work, s))
            })
            .fold(f64::INFINITY, f64::min);
        Self {
            per_thousand: counts * 1e9 / calibration.counts_per_second(),
        }
    }

    /// Steps that take this time, at least one.
    pub fn steps(&self, time: Nanos) -> u64 {
        ((time.as_f64() * 1_000.0 / self.per_thousand).round() as u64).max(1)
    }

    /// The time of this many steps.
    pub fn time(&self, steps: u64) -> Nanos {
        Nanos::from_nanos((steps as f64 / 1_000.0 * self.per_thousand).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_their_time_are_converted_to_and_fro() {
        let speed = Speed {
            per_thousand: 250.0,
        };
        assert_eq!(speed.steps(Nanos::from_micros(20)), 80_000);
        assert_eq!(speed.time(80_000), Nanos::from_micros(20));
        assert_eq!(speed.steps(Nanos::ZERO), 1);
    }

    #[test]
    fn the_numbers_are_fibonacci_numbers() {
        let mut work = Fibonacci::default();
        let first: Vec<u64> = (0..10)
            .map(|_| {
                let v = work.value();
                work.advance(1);
                v
            })
            .collect();
        assert_eq!(first, [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]);
        let mut at_once = Fibonacci::default();
        at_once.advance(90);
        assert_eq!(at_once.value(), 2_880_067_194_370_816_120);
    }

    #[test]
    fn work_in_pieces_is_the_same_work() {
        let (mut whole, mut pieces) = (Fibonacci::default(), Fibonacci::default());
        whole.advance(1_000);
        for steps in [1, 99, 400, 500] {
            pieces.advance(steps);
        }
        assert_eq!(whole, pieces);
    }
}
