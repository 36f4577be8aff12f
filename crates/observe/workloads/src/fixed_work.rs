//! The fixed work quantum (FWQ): the same work over and over, keeping every duration.
//!
//! It sees what the detour loop sees, and also a CPU that runs slower.

use crate::quanta::Quanta;
use crate::{Sink, WorkloadError};
use bytemuck::{Pod, Zeroable};
use idlewave_clock::{Calibration, Source, with_source};
use idlewave_run::spill::RecordKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Params {
    /// What is repeated.
    pub quanta: Quanta,
    /// Expected time of one quantum, to size the buffers.
    pub expected: Duration,
    /// Quanta per CPU, if they are not as many as fit into the duration.
    pub runs: Option<u64>,
}

/// Start and end of one quantum in counts.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Span {
    pub begin: u64,
    pub end: u64,
}

/// Repeats the quantum on all CPUs at once; returns the number of quanta whose records found no
/// room.
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
    let Quanta {
        duration,
        work_steps,
        ..
    } = params.quanta;
    let duration = (duration.as_secs_f64() * calibration.counts_per_second()) as u64;
    let runs = params.runs.unwrap_or(u64::MAX);
    params.quanta.run(
        ("iw-work", RecordKind::Quantum, params.expected),
        |work, recorder| {
            with_source!(counter, s => {
                let mut begin = s.now_ordered();
                let deadline = begin.saturating_add(duration);
                let mut left = runs;
                while left > 0 && begin < deadline && !halt.load(Ordering::Relaxed) {
                    left -= 1;
                    work.advance(work_steps);
                    let end = s.now_ordered();
                    recorder.push(Span { begin, end });
                    begin = s.now_ordered();
                }
            });
        },
        calibration,
        halt,
        sink,
    )
}
