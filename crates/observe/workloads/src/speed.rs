//! How fast a CPU does a kind of work at its best, which turns times into steps.

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
}
