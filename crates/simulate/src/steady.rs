//! Steady state: a beginning is thrown away, the rest is averaged with an interval.
//!
//! Ranks that start in step need time until their disturbances are as dense as they will be. So a ladder is climbed:
//! each number of ranks begins with copies of the state in which the smaller number ended, and has only the
//! differences between copies left to grow.

use crate::SimulateError;
use crate::barrier::Barrier;
use crate::blocks::block_mean;
use crate::grid::{Grid, Overflow};
use crate::kernel::Time;
use crate::noise::{BLOCK_STEPS, NoiseField};
use crate::shape::Shape;
use idlewave_run::NoiseSource;
use idlewave_run::findings::Topology;
use idlewave_units::Nanos;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Steps are a multiple of this many, so that every stride gives a transient and at least three parts to average.
pub(crate) const STEP_UNIT: u64 = 64;
/// The first part of a run that is discarded.
const TRANSIENT: u64 = 4;

/// A number of ranks and the steps to take with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rung {
    pub ranks: u64,
    /// A multiple of [`STEP_UNIT`], at least one of it.
    pub steps: u64,
    /// What it costs, in rank-steps.
    pub cost: u64,
}

impl Rung {
    /// The same with fewer steps.
    pub(crate) fn shortened(self, steps: u64) -> Self {
        Rung {
            steps,
            cost: (self.cost as f64 * steps as f64 / self.steps as f64) as u64,
            ..self
        }
    }
}

/// What noise adds to a step on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delay {
    /// Mean in nanoseconds.
    pub mean_ns: f64,
    /// Half-width of its 95 % interval, in nanoseconds.
    pub half_width_ns: f64,
    /// Steps averaged.
    pub steps: u64,
}

/// Mean delay of a step of `ranks` ranks that compute for `work` and wait for each other as the topology says.
///
/// `steps` is rounded up to a multiple of 64, of which the first quarter is discarded (none with a barrier, which has no
/// transient). No budget: the cost is ranks x steps and the events that fall on them.
///
/// # Errors
/// No ranks or work, a rate below 0 or not finite, more than 292 years of delay.
pub fn mean_delay(
    topology: Topology,
    ranks: u32,
    sources: &[NoiseSource],
    work: Nanos,
    steps: u64,
    seed: u64,
) -> Result<Delay, SimulateError> {
    check_rates(sources)?;
    if ranks == 0 || work == Nanos::ZERO {
        return Err(SimulateError::NoWork);
    }
    let field = NoiseField::new(sources, work, seed, |_| true);
    let stop = AtomicBool::new(false);
    let meter = Meter {
        stop: &stop,
        done: AtomicU64::new(0),
    };
    let steps = steps.max(1).div_ceil(STEP_UNIT) * STEP_UNIT;
    let rung = Rung {
        ranks: u64::from(ranks),
        steps,
        cost: 0,
    };
    let delays = climb(topology, &[rung], &field, &meter)?;
    Ok(delays[0])
}

/// Rates must be numbers that a Poisson process can have.
pub(crate) fn check_rates(sources: &[NoiseSource]) -> Result<(), SimulateError> {
    match sources
        .iter()
        .find(|s| !(s.rate_per_s >= 0.0 && s.rate_per_s.is_finite()))
    {
        Some(s) => Err(SimulateError::BadRate {
            name: s.name.clone(),
            rate: s.rate_per_s,
        }),
        None => Ok(()),
    }
}

/// Watches over a computation: counts what was done, tells when to stop.
pub(crate) struct Meter<'a> {
    pub stop: &'a AtomicBool,
    pub done: AtomicU64,
}

impl Meter<'_> {
    /// Adds work done; an error once the user wants to stop.
    fn spend(&self, cost: u64) -> Result<(), SimulateError> {
        // Relaxed: a counter that nothing is ordered by, and a flag that only has to be seen some time.
        self.done.fetch_add(cost, Ordering::Relaxed);
        if self.stop.load(Ordering::Relaxed) {
            Err(SimulateError::Stopped)
        } else {
            Ok(())
        }
    }
}

/// Mean delay of a step on every rung, in their order.
pub(crate) fn climb(
    topology: Topology,
    rungs: &[Rung],
    field: &NoiseField,
    meter: &Meter<'_>,
) -> Result<Vec<Delay>, SimulateError> {
    if topology == Topology::Barrier {
        return rungs
            .iter()
            .map(|rung| at_barrier(rung, field, meter))
            .collect();
    }
    if let Ok(delays) = climb_with::<i32>(topology, rungs, field, meter)? {
        return Ok(delays);
    }
    // Deviations of more than two seconds: once more with wider numbers.
    match climb_with::<i64>(topology, rungs, field, meter)? {
        Ok(delays) => Ok(delays),
        Err(Overflow) => Err(SimulateError::TooLong),
    }
}

fn climb_with<T: Time>(
    topology: Topology,
    rungs: &[Rung],
    field: &NoiseField,
    meter: &Meter<'_>,
) -> Result<Result<Vec<Delay>, Overflow>, SimulateError> {
    let mut delays = Vec::new();
    let mut grid: Option<Grid<T>> = None;
    for rung in rungs {
        let shape = Shape::of(topology, rung.ranks as usize);
        let mut g = match grid.take() {
            Some(smaller) => smaller.enlarged(shape),
            None => Grid::new(shape),
        };
        g.prepare(rung.steps);
        let stride = g.stride();
        let strides = rung.steps / stride;
        let transient = strides / TRANSIENT;
        let mut parts = Vec::with_capacity((strides - transient) as usize);
        let mut last = 0i128;
        for i in 0..strides {
            let sum = match g.advance(field) {
                Ok(sum) => sum,
                Err(overflow) => return Ok(Err(overflow)),
            };
            // The first stride of an enlarged grid has no sum to start from: it is transient, or else it is left out.
            if i >= transient.max(1) {
                parts.push((sum - last) as f64 / (rung.ranks * stride) as f64);
            }
            last = sum;
            meter.spend(rung.cost / strides)?;
        }
        delays.push(delay(&parts, stride));
        grid = Some(g);
    }
    Ok(Ok(delays))
}

fn at_barrier(rung: &Rung, field: &NoiseField, meter: &Meter<'_>) -> Result<Delay, SimulateError> {
    let mut barrier = Barrier::new(rung.ranks as usize);
    let strides = rung.steps / BLOCK_STEPS;
    let mut parts = Vec::with_capacity(strides as usize);
    for _ in 0..strides {
        let sum: u128 = barrier.advance(field).iter().map(|&l| u128::from(l)).sum();
        parts.push(sum as f64 / BLOCK_STEPS as f64);
        meter.spend(rung.cost / strides)?;
    }
    Ok(delay(&parts, BLOCK_STEPS))
}

fn delay(parts: &[f64], stride: u64) -> Delay {
    let m = block_mean(parts).expect("a multiple of STEP_UNIT steps has at least three parts");
    Delay {
        mean_ns: m.mean,
        half_width_ns: m.half_width,
        steps: parts.len() as u64 * stride,
    }
}
