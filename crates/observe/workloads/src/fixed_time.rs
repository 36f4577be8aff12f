//! The fixed time quantum (FTQ): how many units of the same work fit into equal intervals.
//!
//! The intervals lie on a grid of the clock that all CPUs share, so that nothing accumulates: a
//! quantum ends with the first unit that ends at a point of the grid or after it. It is recorded with
//! the readings at which it really began and ended. A unit that was interrupted for longer than an
//! interval makes its quantum so much longer; no quantum is left out, and none is made up.

use crate::quanta::Quanta;
use crate::{Sink, WorkloadError};
use bytemuck::{Pod, Zeroable};
use idlewave_clock::{Calibration, Source, with_source};
use idlewave_run::spill::RecordKind;
use idlewave_units::Nanos;
use std::sync::atomic::{AtomicBool, Ordering};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Params {
    /// What is repeated, in units of its steps.
    pub quanta: Quanta,
    /// Distance of the points of the grid.
    pub interval: Nanos,
}

/// A quantum: start and end in counts, and the units that ended in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Counted {
    pub begin: u64,
    pub end: u64,
    pub units: u64,
}

/// Points of the clock, in counts.
#[derive(Clone, Copy, Debug)]
struct Grid {
    origin: u64,
    /// Not a whole number of counts: rounding would accumulate.
    interval: f64,
}

impl Grid {
    /// The first point after a reading. Exact to a count for 2^53 counts, which are weeks.
    fn after(self, reading: u64) -> u64 {
        let passed = reading.saturating_sub(self.origin) as f64 / self.interval;
        let point = |k: f64| {
            self.origin
                .saturating_add((k * self.interval).round() as u64)
        };
        let next = point(passed.floor() + 1.0);
        // Rounding may have put the point on the reading.
        match next > reading {
            true => next,
            false => point(passed.floor() + 2.0),
        }
    }
}

/// The loop itself: from the first point of the grid until `duration` counts later.
fn count(
    source: impl Source,
    grid: Grid,
    duration: u64,
    halt: &AtomicBool,
    mut unit: impl FnMut(),
    mut record: impl FnMut(Counted),
) {
    let mut end = grid.after(source.now());
    let mut begin = source.now();
    while begin < end {
        begin = source.now();
    }
    let deadline = begin.saturating_add(duration);
    while begin < deadline && !halt.load(Ordering::Relaxed) {
        end = grid.after(begin);
        let mut units = 0;
        let mut now = begin;
        while now < end {
            unit();
            units += 1;
            now = source.now();
        }
        record(Counted {
            begin,
            end: now,
            units,
        });
        begin = now;
    }
}

/// Counts on all CPUs at once; returns the number of quanta whose records found no room.
///
/// # Errors
/// A CPU is not allowed, or the sink cannot take the rows.
pub fn run(
    params: &Params,
    calibration: &mut Calibration,
    halt: &AtomicBool,
    sink: &mut dyn Sink,
) -> Result<u64, WorkloadError> {
    let counter = calibration.counter();
    let rate = calibration.counts_per_second();
    let Quanta {
        duration,
        work_steps,
        ..
    } = params.quanta;
    let duration = (duration.as_secs_f64() * rate) as u64;
    let grid = Grid {
        origin: calibration.update().counts,
        interval: params.interval.as_secs_f64() * rate,
    };
    let expected = params.interval.to_duration();
    params.quanta.run(
        ("iw-time", RecordKind::TimedQuantum, expected),
        |work, recorder| {
            with_source!(counter, s => {
                count(s, grid, duration, halt, || work.advance(work_steps), |q| recorder.push(q));
            });
        },
        calibration,
        halt,
        sink,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// A clock that only work moves.
    #[derive(Clone, Copy)]
    struct Worked(&'static AtomicU64);

    impl Source for Worked {
        fn now(self) -> u64 {
            // Waiting for the grid takes time as well.
            self.0.fetch_add(1, Ordering::Relaxed)
        }
    }

    /// Quanta of intervals of 100.5 counts, in which unit `i` takes `length(i)` counts and a reading
    /// one.
    fn counted(duration: u64, length: impl Fn(u64) -> u64) -> Vec<Counted> {
        let clock: &AtomicU64 = Box::leak(Box::new(AtomicU64::new(1_017)));
        let (halt, mut units) = (AtomicBool::new(false), 0);
        let mut seen = Vec::new();
        let grid = Grid {
            origin: 1_000,
            interval: 100.5,
        };
        let unit = || {
            clock.fetch_add(length(units), Ordering::Relaxed);
            units += 1;
        };
        count(Worked(clock), grid, duration, &halt, unit, |q| {
            seen.push(q);
        });
        seen
    }

    #[test]
    fn quanta_keep_to_the_grid_and_follow_each_other() {
        let quanta = counted(100_500, |_| 9);
        assert_eq!(quanta.len(), 1_000);
        assert!(quanta.windows(2).all(|w| w[0].end == w[1].begin));
        for (k, q) in (1..).zip(&quanta) {
            let point = 1_000 + (k as f64 * 100.5_f64).round() as u64;
            assert!((point..point + 10).contains(&q.begin), "{k}: {q:?}");
            assert!((10..=11).contains(&q.units), "{k}: {q:?}");
        }
    }

    #[test]
    fn a_unit_that_is_interrupted_for_long_is_counted_once_in_a_longer_quantum() {
        let quanta = counted(2_000, |unit| if unit == 55 { 9 + 700 } else { 9 });
        let long: Vec<_> = quanta.iter().filter(|q| q.end - q.begin > 200).collect();
        let [long] = long.as_slice() else {
            panic!("one quantum is overrun: {quanta:?}");
        };
        assert_eq!(long.end - long.begin, long.units * 10 + 700);
        let units: u64 = quanta.iter().map(|q| q.units).sum();
        let time = quanta.last().expect("quanta").end - quanta[0].begin;
        assert_eq!(time, units * 10 + 700, "no time and no work is left out");
        let after = quanta.iter().find(|q| q.begin == long.end);
        let after = after.expect("a quantum after it");
        assert!(
            after.end - after.begin <= 110,
            "the grid has not moved: {after:?}"
        );
    }
}
