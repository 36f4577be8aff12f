//! The lockstep run: every rank repeats a fixed computation and then waits for others.
//!
//! Each iteration of each rank has three times: start, end of computation (arrival) and end of the
//! wait. The computation is cut into chunks of about 250 ns with a counter reading after each, and
//! the wait reads the counter on every turn. So the start and length of every gap are known, as in
//! a detour loop, and not just that an iteration was late.

mod exchange;
mod meeting;
mod message;
mod pattern;
mod rank;
mod tree;
mod work;

use crate::crew::{self, Feed, Member, pass_all};
use crate::detour::{self, Gap};
use crate::quanta::{CHUNKS, chunk_items};
use crate::recorder::channel;
use crate::{Sink, WorkloadError};
use idlewave_clock::{Calibration, with_source};
use idlewave_fabric::{Waiting, world};
use idlewave_run::spill::RecordKind;
use idlewave_units::{Cpu, Nanos, Rank};
pub use message::HEADER;
pub use pattern::{MESSAGE_BYTES, Pattern};
pub use rank::{Done, Iteration, Plan, run as run_rank};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
pub use work::Work;

/// What to run, with ranks as threads.
#[derive(Clone, Debug)]
pub struct Params {
    /// CPU of each rank. Ranks may share one.
    pub cpus: Vec<Cpu>,
    /// How the ranks meet.
    pub pattern: Pattern,
    /// How long.
    pub duration: Duration,
    /// Work of one iteration in Fibonacci steps.
    pub work_steps: u64,
    /// Undisturbed time of these steps.
    pub work: Nanos,
    /// Records gaps that exceed an undisturbed chunk or turn by more than this.
    pub threshold: Nanos,
    /// Iteration limit.
    pub max_iterations: u64,
    /// Index of the phase, for the tables.
    pub phase: u32,
}

/// The result; iterations and gaps went to the sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Iterations that every rank completed.
    pub iterations: u64,
    /// Iterations whose records found no room.
    pub lost_iterations: u64,
    /// Gaps whose records found no room.
    pub lost_gaps: u64,
    /// From the time when all ranks were at work to the time when the first one ended, on
    /// CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// See `begin_ns`.
    pub end_ns: u64,
}

/// Runs the ranks until the time or the iteration limit is reached, or `halt` is set; all of them
/// end after the same iteration.
///
/// # Errors
/// A CPU is not allowed, a rank fails, or the sink cannot take the rows.
pub fn run(
    params: &Params,
    calibration: &mut Calibration,
    halt: &AtomicBool,
    sink: &mut dyn Sink,
) -> Result<Outcome, WorkloadError> {
    let counter = calibration.counter();
    let rate = calibration.counts_per_second();
    let to_counts = |seconds: f64| (seconds * rate) as u64;
    let work = Work::new(
        params.work_steps,
        params.work,
        to_counts(params.work.as_secs_f64()),
    );
    let (duration, threshold) = (
        to_counts(params.duration.as_secs_f64()),
        to_counts(params.threshold.as_secs_f64()),
    );
    let mut distinct = params.cpus.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let waiting = if distinct.len() < params.cpus.len() {
        Waiting::Yield
    } else {
        Waiting::Spin
    };
    let pattern = &params.pattern;
    let mut iteration_feeds = Vec::new();
    let mut gap_feeds = Vec::new();
    let mut bodies = Vec::new();
    let mut members = Vec::new();
    for (index, (mut fabric, &cpu)) in world(params.cpus.len() as u32, waiting)
        .into_iter()
        .zip(&params.cpus)
        .enumerate()
    {
        let (mut iterations, collected_iterations) =
            channel::<Iteration>(CHUNKS, chunk_items(params.work.to_duration()));
        let (mut gaps, collected_gaps) = channel::<Gap>(detour::CHUNKS, detour::CHUNK);
        let (phase, rank) = (params.phase, Rank::new(index as u32));
        iteration_feeds.push(Feed {
            collector: collected_iterations,
            kind: RecordKind::Iteration,
            phase,
            cpu,
            rank,
        });
        gap_feeds.push(Feed {
            collector: collected_gaps,
            kind: RecordKind::RankGap,
            phase,
            cpu,
            rank,
        });
        members.push(Member {
            name: format!("iw-rank-{index}"),
            cpu,
            realtime: None,
        });
        let max_iterations = params.max_iterations;
        bodies.push(move || {
            let done = with_source!(counter, s => rank::run(
                &mut fabric, s, &Plan { work, pattern, duration, threshold, max_iterations, halt },
                |iteration| iterations.push_next(iteration), |gap| gaps.push(gap),
            ));
            if done.is_err() {
                fabric.fail();
            }
            iterations.finish();
            gaps.finish();
            done.map(|done| (done, iterations.lost(), gaps.lost()))
        });
    }

    let results = crew::run(&members, bodies, halt, calibration, sink, |pair, sink| {
        pass_all(&iteration_feeds, pair, sink)?;
        pass_all(&gap_feeds, pair, sink)
    })?;
    together(results, calibration)
}

/// The common result, from what each rank did and how many of its iteration and gap records found
/// no room.
fn together(
    results: Vec<Result<(Done, u64, u64), WorkloadError>>,
    calibration: &Calibration,
) -> Result<Outcome, WorkloadError> {
    let mut outcome = Outcome {
        iterations: u64::MAX,
        lost_iterations: 0,
        lost_gaps: 0,
        begin_ns: 0,
        end_ns: u64::MAX,
    };
    for (done, lost_iterations, lost_gaps) in crew::all_of(results)? {
        outcome.iterations = outcome.iterations.min(done.iterations);
        // The next record ends an iteration, so every record lost at the end costs one iteration.
        outcome.lost_iterations += lost_iterations;
        outcome.lost_gaps += lost_gaps;
        outcome.begin_ns = outcome.begin_ns.max(calibration.to_ns(done.begin));
        outcome.end_ns = outcome.end_ns.min(calibration.to_ns(done.end));
    }
    outcome.end_ns = outcome.end_ns.max(outcome.begin_ns);
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rows;
    use idlewave_clock::Counter;
    use idlewave_run::spill::Block;
    use idlewave_run::tables::Table;
    use idlewave_run::testing::empty_manifest;
    use idlewave_run::{Coupling, ExchangeVariant, Phase, PhaseKind};

    const ITERATIONS: u64 = 100;

    /// Pushes records of 100 iterations into `chunks` chunks of 10; returns the number of
    /// iterations with rows, and the result.
    fn recorded(chunks: usize) -> (usize, Outcome) {
        let calibration = Calibration::begin(Counter::Monotonic);
        let (mut recorder, collector) = channel::<Iteration>(chunks, 10);
        for i in 0..=ITERATIONS {
            let (begin, arrival) = (10 * i, 10 * i + 5);
            recorder.push_next(Iteration { begin, arrival });
        }
        recorder.finish();
        let mut manifest = empty_manifest();
        manifest.phases.push(Phase {
            kind: PhaseKind::Lockstep {
                coupling: Coupling::Barrier,
                work_steps: 1,
                work_target: Nanos::from_micros(1),
                message_bytes: 0,
                sides: Vec::new(),
                neighbourhood: Default::default(),
                variant: ExchangeVariant::NonBlocking,
                ranks: None,
                iterations: ITERATIONS,
                threshold: Nanos::from_micros(1),
                turn: None,
            },
            begin_ns: 0,
            end_ns: u64::MAX,
        });
        let block = Block {
            kind: RecordKind::Iteration,
            phase: 0,
            cpu: Cpu::new(0),
            rank: Rank::new(0),
            counts: 0,
            ns: 0,
        };
        let mut rows = Rows::default();
        collector.drain(|chunk| {
            let words = bytemuck::cast_slice(chunk);
            assert_eq!(rows.add(&block, words, &manifest, &calibration), 0);
        });
        let done = Done {
            iterations: ITERATIONS,
            begin: 0,
            end: 1,
        };
        let results = vec![Ok((done, recorder.lost(), 0))];
        let outcome = together(results, &calibration).expect("no rank failed");
        (rows.regions.len() / 2, outcome)
    }

    #[test]
    fn every_iteration_without_rows_is_counted_as_lost() {
        for chunks in [2, 10, 11] {
            let (kept, outcome) = recorded(chunks);
            assert_eq!(kept as u64 + outcome.lost_iterations, ITERATIONS);
            assert_eq!(kept, (chunks * 10 - 1).min(ITERATIONS as usize));
        }
    }
}
