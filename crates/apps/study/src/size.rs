//! How much a measurement writes: announced before the measurement, and limited.

use crate::plan::{Part, Plan};
use idlewave_session::{ITERATION_BYTES, QUANTUM_BYTES};
use idlewave_units::{Bytes, Nanos};
use idlewave_workloads::speed::Speed;

/// Bytes in the table for one fixed time quantum.
const TIMED_QUANTUM: u64 = 11;
/// Bytes of kernel trace and its tables for one second of a busy CPU: some 1,000 to 2,000 events.
const TRACED_SECOND: u64 = 128 << 10;

/// Bytes of findings, page and late steps.
const FINDINGS: u64 = 2 << 20;

/// The expected size of a run on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The total, if every step takes no longer than its computation.
    pub all: Bytes,
    /// The size that one CPU adds per minute.
    pub cpu_minute: Bytes,
}

impl Size {
    /// The size for this plan on CPUs of this speed.
    pub fn of(plan: &Plan, speed: Speed, traced: bool) -> Self {
        let rows = plan.parts.iter().map(|piece| {
            let fit = |one: Nanos| piece.takes(speed).as_nanos() as u64 / one.get().max(1);
            match piece.part {
                // Detours are few.
                Part::Detours | Part::Rest => 0,
                Part::FixedWork { quantum, .. } => {
                    fit(quantum.work.time(speed)) * piece.cpus.len() as u64 * QUANTUM_BYTES
                }
                Part::FixedTime { every, .. } => {
                    fit(every) * piece.cpus.len() as u64 * TIMED_QUANTUM
                }
                Part::Lockstep {
                    work,
                    max_iterations,
                    ..
                } => {
                    let steps = fit(work).min(max_iterations);
                    steps * plan.rank_cpus.len() as u64 * ITERATION_BYTES
                }
            }
        });
        let cpus = plan.cpus.len() as u64;
        let time = plan.takes(speed);
        let trace = match traced {
            true => (time.as_secs_f64() * TRACED_SECOND as f64) as u64 * cpus,
            false => 0,
        };
        let recorded = rows.sum::<u64>() + trace;
        let minutes = time.as_secs_f64() / 60.0 * cpus.max(1) as f64;
        Self {
            all: Bytes::new(recorded + FINDINGS),
            cpu_minute: Bytes::new((recorded as f64 / minutes.max(1e-9)) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StudyOptions;

    fn size(cpus: &str, change: impl FnOnce(&mut StudyOptions)) -> Size {
        let mut options = StudyOptions::default();
        change(&mut options);
        let allowed = cpus.parse().expect("a CPU list");
        let plan = Plan::of(&options, &allowed).expect("a plan");
        let speed = Speed {
            per_thousand: 250.0,
        };
        Size::of(&plan, speed, options.trace)
    }

    #[test]
    fn a_study_of_one_cpu_and_minute_takes_what_its_steps_take() {
        let one = size("0", |o| o.duration = Nanos::from_secs(60));
        // 33.6 s of steps of 20 us, 10.8 s of quanta of 20 us, 60 s of trace.
        let expected = 1_680_000 * 26 + 540_000 * 9 + 60 * (128 << 10);
        assert_eq!(one.cpu_minute.get(), expected);
        assert_eq!(one.all.get(), expected + (2 << 20));
    }

    #[test]
    fn longer_steps_and_no_trace_take_less() {
        let all = size("0-1", |_| ()).all;
        assert!(size("0-1", |o| o.work = Nanos::from_millis(1)).all < all);
        assert!(size("0-1", |o| o.trace = false).all < all);
        assert!(size("0-3", |_| ()).all > all);
    }
}
