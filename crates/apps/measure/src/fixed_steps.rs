//! A program with a known amount of work: a number of steps of computation, each with an allreduce,
//! or a benchmark. It waits at a gate before it starts, and notes when it was interrupted, so that
//! what happens to it is visible from inside.

use crate::place::cpu_of;
use crate::threads::{OfEveryRank, on_every_rank};
use crate::{FabricChoice, MeasureError, gather};
use idlewave_capture::host::allowed_cpus;
use idlewave_capture::perf::CacheMisses;
use idlewave_clock::monotonic_ns;
use idlewave_fabric::{Fabric, Reduction};
use idlewave_mpi::Search;
use idlewave_session::{Progress, SessionError, Stop};
use idlewave_sys::clock::thread_time;
use idlewave_sys::files;
use idlewave_units::{Cpu, Nanos};
use idlewave_workloads::fibonacci::Fibonacci;
use idlewave_workloads::{Benchmark, pin};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// The time between two checks of the gate; it sleeps in between, so that a waiting program
/// disturbs nothing.
const LOOK: Duration = Duration::from_millis(1);
/// The most gaps that a rank keeps; further ones are only counted.
const MOST_GAPS: usize = 1 << 16;

/// What a program does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FixedWork {
    /// Steps of computation.
    Steps {
        /// Number of steps.
        steps: u64,
        /// Computation per step, in dependent additions.
        work: u64,
        /// Number of values in the allreduce of each step; 0: no allreduce.
        values: usize,
    },
    /// A benchmark, which must verify its result.
    Benchmark(Benchmark),
}

/// The options of a program.
#[derive(Clone, Debug)]
pub struct FixedStepsOptions {
    /// The fabric; `None`: MPI under a launcher, threads otherwise.
    pub fabric: Option<FabricChoice>,
    /// The MPI library.
    pub mpi: Search,
    /// Number of ranks, if they are threads.
    pub ranks: Option<u32>,
    /// What the ranks do.
    pub work: FixedWork,
    /// The program starts when this file exists.
    pub gate: Option<PathBuf>,
    /// A file created once all ranks have started and wait for the gate.
    pub here: Option<PathBuf>,
    /// A step that takes longer than this has a gap.
    pub gap: Nanos,
}

/// A number of events, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// The number of events.
    Events(u64),
    /// They were not counted, for this reason.
    NotMeasured(String),
}

impl Default for Counted {
    fn default() -> Self {
        Self::NotMeasured("not counted".to_owned())
    }
}

/// The measurements of one rank. Times are those of `CLOCK_MONOTONIC`, in ns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankSteps {
    /// When it began its first step.
    pub begin: u64,
    /// When it ended its last step.
    pub end: u64,
    /// CPU time that its thread used in between.
    pub cpu: u64,
    /// Steps that took longer than the gap: the end of the previous step and their own end.
    pub gaps: Vec<(u64, u64)>,
    /// Gaps that were not kept.
    pub lost_gaps: u64,
    /// Last-level cache misses of its thread in between, without the kernel's.
    pub cache_misses: Counted,
}

/// The measurements of all ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FixedSteps {
    /// By rank.
    pub ranks: Vec<RankSteps>,
    /// The fabric, as text.
    pub carrier: String,
    /// The sum of all allreduce results: it depends only on steps, values and ranks. `None` for a
    /// benchmark, which verifies its own result.
    pub sum: Option<f64>,
}

impl FixedSteps {
    /// From the first rank's first step to the last rank's last one.
    pub fn elapsed(&self) -> Nanos {
        let begin = self.ranks.iter().map(|r| r.begin).min().unwrap_or(0);
        let end = self.ranks.iter().map(|r| r.end).max().unwrap_or(0);
        Nanos::from_nanos(end.saturating_sub(begin))
    }
}

/// Runs the steps; every process of an MPI job calls it. The outcome is on rank 0, `None`
/// elsewhere.
///
/// # Errors
/// See [`MeasureError`]. All ranks fail if one does.
pub fn fixed_steps(
    options: &FixedStepsOptions,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Option<FixedSteps>, MeasureError> {
    let work = Steps { options, stop };
    let threads = ("--ranks", options.ranks);
    on_every_rank(&work, options.fabric, &options.mpi, threads, progress)
}

struct Steps<'a> {
    options: &'a FixedStepsOptions,
    stop: &'a Stop,
}

impl OfEveryRank for Steps<'_> {
    type Outcome = FixedSteps;

    fn run<F: Fabric>(
        &self,
        fabric: &mut F,
        carrier: &str,
        _: &dyn Progress,
    ) -> Result<Option<FixedSteps>, MeasureError> {
        let options = self.options;
        // One CPU per rank, so that several programs compete for the same ones.
        let nodes = fabric.nodes()?;
        let allowed = allowed_cpus().map_err(SessionError::from)?;
        let cpus: Vec<Cpu> = allowed.iter().collect();
        if let Some(cpu) = cpu_of(&cpus, nodes.local_rank(fabric.rank()).unwrap_or(0)) {
            pin(cpu)?;
        }
        fabric.barrier(&mut || ())?;
        if let (0, Some(here)) = (fabric.rank().get(), &options.here) {
            let made = files::replace(here, b"");
            made.map_err(SessionError::io("write", here))?;
        }
        while options.gate.as_ref().is_some_and(|gate| !gate.exists()) && !self.stop.is_requested()
        {
            std::thread::sleep(LOOK);
        }
        fabric.barrier(&mut || ())?;
        let mut own = RankSteps::default();
        let mut misses = CacheMisses::of_this_thread();
        let cpu = thread_time().get();
        own.begin = monotonic_ns();
        let sum = match &options.work {
            &FixedWork::Steps {
                steps,
                work,
                values,
            } => Some(self.steps(fabric, (steps, work, values), &mut own)?),
            FixedWork::Benchmark(benchmark) => {
                let done = benchmark.run(fabric, &self.stop.flag, &mut |_| ())?;
                if !done.verified || done.iterations < benchmark.iterations() {
                    return Err(interrupted());
                }
                own.end = monotonic_ns();
                None
            }
        };
        own.cpu = thread_time().get().saturating_sub(cpu);
        let counted = misses.as_mut().map_err(|e| e.to_string());
        let counted = counted.and_then(|misses| misses.count().map_err(|e| e.to_string()));
        own.cache_misses = counted.map_or_else(Counted::NotMeasured, Counted::Events);
        let ranks = gather::values_to_root(fabric, Some(&own))?;
        let ranks: Vec<RankSteps> = ranks.into_iter().flatten().collect();
        Ok((!ranks.is_empty()).then(|| FixedSteps {
            ranks,
            carrier: carrier.to_owned(),
            sum,
        }))
    }
}

impl Steps<'_> {
    /// All steps of a rank, with so much work and so many values in each; returns the sum of the
    /// results.
    fn steps<F: Fabric>(
        &self,
        fabric: &mut F,
        (steps, work, values): (u64, u64, usize),
        own: &mut RankSteps,
    ) -> Result<f64, MeasureError> {
        let mut computation = Fibonacci::default();
        let (mut sum, mut values) = (0.0, vec![0.0; values]);
        let mut last = own.begin;
        for step in 0..steps {
            computation.advance(work);
            if !values.is_empty() {
                values.fill(f64::from((step % 1_000) as u32 + fabric.rank().get()));
                fabric.allreduce(&mut values, Reduction::Sum, &mut || ())?;
                sum += values.iter().sum::<f64>();
            }
            let end = monotonic_ns();
            if end - last > self.options.gap.get() {
                match own.gaps.len() < MOST_GAPS {
                    true => own.gaps.push((last, end)),
                    false => own.lost_gaps += 1,
                }
            }
            last = end;
            if step % 64 == 0 && self.stop.is_requested() {
                // The others are elsewhere, or wait for this rank: no rank has a result.
                fabric.fail();
                return Err(interrupted());
            }
        }
        own.end = last;
        std::hint::black_box(computation.value());
        Ok(sum)
    }
}

fn interrupted() -> MeasureError {
    let kept = "nothing was measured".to_owned();
    SessionError::Interrupted { kept }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_session::Quiet;

    fn steps(steps: u64) -> FixedWork {
        FixedWork::Steps {
            steps,
            work: 1_000,
            values: 2,
        }
    }

    fn options() -> FixedStepsOptions {
        FixedStepsOptions {
            fabric: Some(FabricChoice::Threads),
            mpi: Search::default(),
            ranks: Some(3),
            work: steps(200),
            gate: None,
            here: None,
            gap: Nanos::from_secs(100),
        }
    }

    #[test]
    fn the_sum_of_all_allreduces_is_that_of_its_closed_form() {
        let found = fixed_steps(&options(), &Stop::default(), &Quiet)
            .unwrap()
            .unwrap();
        assert_eq!(found.ranks.len(), 3);
        // Each of two values is 3 * step + (0 + 1 + 2).
        let wanted: f64 = (0..200).map(|step| f64::from(2 * (3 * step + 3))).sum();
        assert_eq!(found.sum, Some(wanted));
        assert!(
            found
                .ranks
                .iter()
                .all(|r| r.gaps.is_empty() && r.begin < r.end && r.cpu > 0)
        );
        // Either counted, or not possible on this machine.
        let nobody = Counted::default();
        assert!(found.ranks.iter().all(|r| r.cache_misses != nobody));
        let longest = found.ranks.iter().map(|r| r.end - r.begin).max().unwrap();
        assert!(found.elapsed().get() >= longest);
    }

    #[test]
    fn a_program_that_is_ended_early_has_no_result_and_leaves_nobody_waiting() {
        let stop = Stop::default();
        stop.flag.store(true, std::sync::atomic::Ordering::Relaxed);
        let mut options = options();
        options.work = steps(u64::MAX);
        let ended = fixed_steps(&options, &stop, &Quiet);
        assert!(ended.is_err(), "{ended:?}");
    }

    #[test]
    fn a_benchmark_runs_to_its_verified_end() {
        let mut options = options();
        options.work = FixedWork::Benchmark("is:S".parse().unwrap());
        let found = fixed_steps(&options, &Stop::default(), &Quiet);
        let found = found.unwrap().unwrap();
        assert_eq!((found.ranks.len(), found.sum), (3, None));
        assert!(found.ranks.iter().all(|r| r.begin < r.end && r.cpu > 0));
    }

    #[test]
    fn it_starts_when_the_gate_is_there_and_every_step_longer_than_the_gap_is_one() {
        let directory = tempfile::tempdir().unwrap();
        let gate = directory.path().join("gate");
        let mut options = options();
        options.gate = Some(gate.clone());
        let here = directory.path().join("here");
        options.here = Some(here.clone());
        options.gap = Nanos::from_nanos(1);
        let opened = std::thread::spawn(move || {
            while !here.exists() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let before = monotonic_ns();
            std::fs::write(gate, "").unwrap();
            before
        });
        let found = fixed_steps(&options, &Stop::default(), &Quiet)
            .unwrap()
            .unwrap();
        let opened = opened.join().unwrap();
        for rank in &found.ranks {
            assert!(rank.begin >= opened);
            assert_eq!(rank.gaps.len() as u64 + rank.lost_gaps, 200);
            // One after the other, from start to end.
            assert_eq!((rank.gaps[0].0, rank.gaps[199].1), (rank.begin, rank.end));
            assert!(rank.gaps.windows(2).all(|two| two[0].1 == two[1].0));
        }
    }
}
