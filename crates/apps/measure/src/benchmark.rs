//! Benchmarks that verify their own results: how long each rank took, in which calls and regions,
//! and how long its iterations were.

use crate::bundle::Bundle;
use crate::first::on_first;
use crate::iterations::{Iterations, times};
use crate::keeping::Keeping;
use crate::options::MOST_STEPS;
use crate::ranks::Ranks;
use crate::{MeasureError, MeasureOptions, What, gather};
use idlewave_capture::host::available_memory;
use idlewave_clock::Calibration;
use idlewave_fabric::Fabric;
use idlewave_run::{
    BenchmarkCalls, BenchmarkRank, BenchmarkRegion, BenchmarkSheet, Phase, PhaseKind,
};
use idlewave_session::{Progress, SessionError, Stop};
use idlewave_units::{Bytes, Nanos, NodeId, Rank, counted};
use idlewave_workloads::{Benchmark, Verified};
use serde::Serialize;
use std::path::Path;

/// One of several benchmarks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BenchmarkRow {
    /// Its name, with all parameters.
    pub benchmark: String,
    /// How it ended.
    #[serde(flatten)]
    pub ended: Ended,
}

/// How one of several benchmarks ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "ended", rename_all = "snake_case")]
pub enum Ended {
    /// With a result.
    Done {
        /// What it reported.
        sheet: Box<BenchmarkSheet>,
    },
    /// It has no result: it cannot run here, or was interrupted before its first iteration.
    Refused {
        /// Why, and with what it could.
        reason: String,
    },
    /// With a wrong result.
    Wrong {
        /// What is wrong.
        reason: String,
    },
}

/// A run of a benchmark, on rank 0.
pub(crate) struct BenchmarkRun {
    pub sheet: BenchmarkSheet,
    /// The iterations of each rank, on the clock of the first node.
    pub iterations: Vec<Iterations>,
}

/// What a rank reports, apart from its iterations.
fn rank_of(done: &Verified) -> BenchmarkRank {
    let parts = done.timed.parts;
    let calls = done.timed.calls.iter().map(|(call, calls)| BenchmarkCalls {
        call: call.name().to_owned(),
        count: calls.count,
        bytes: calls.bytes,
        time: calls.time,
    });
    let regions = done.timed.regions.iter().map(|region| BenchmarkRegion {
        name: region.name.to_owned(),
        time: region.time,
    });
    BenchmarkRank {
        total: parts.total,
        collective: parts.collective,
        point_to_point: parts.point_to_point,
        computation: parts.computation(),
        verification: done.verification.total,
        iterations: None,
        calls: calls.collect(),
        regions: regions.collect(),
    }
}

/// Why a benchmark cannot run.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Not on this number of ranks.
    Ranks {
        ranks: u32,
        reason: String,
        /// The numbers that are closest.
        near: Vec<u32>,
    },
    /// Not in the memory of a node.
    Memory(String),
}

impl Refusal {
    /// Of this number of ranks.
    pub fn of(benchmark: &Benchmark, ranks: u32) -> Option<Self> {
        Some(Self::Ranks {
            ranks,
            reason: benchmark.refusal(ranks)?,
            near: benchmark.nearest(ranks),
        })
    }

    fn near(near: &[u32]) -> String {
        let near: Vec<String> = near.iter().map(u32::to_string).collect();
        near.join(" or ")
    }

    /// In a table, beside the name.
    fn text(self) -> String {
        match self {
            Self::Ranks { reason, near, .. } => format!("{reason}; try {}", Self::near(&near)),
            Self::Memory(reason) => reason,
        }
    }

    /// As the end of the measurement.
    pub fn error(self, benchmark: &Benchmark) -> MeasureError {
        match self {
            Self::Ranks {
                ranks,
                reason,
                near,
            } => MeasureError::option(
                format!("{benchmark} on {}", counted(ranks, "rank")),
                reason,
                format!("give --ranks {}", Self::near(&near)),
            ),
            Self::Memory(reason) => SessionError::NotPossible {
                reason: format!("{benchmark} {reason}"),
                next: "use more nodes, or a smaller size".to_owned(),
            }
            .into(),
        }
    }
}

/// Checks everything before any memory is taken. All ranks reach the same verdict.
pub(crate) fn check<F: Fabric>(
    fabric: &mut F,
    ranks: &Ranks,
    benchmark: &Benchmark,
    number: u32,
) -> Result<Option<Refusal>, MeasureError> {
    match Refusal::of(benchmark, number) {
        Some(refusal) => Ok(Some(refusal)),
        None => check_memory(fabric, ranks, benchmark, number),
    }
}

/// Runs a benchmark on the first ranks; the run is on rank 0. `kept` is whether stretches in calls
/// are wanted.
pub(crate) fn run<F: Fabric>(
    fabric: &mut F,
    (benchmark, number): (&Benchmark, u32),
    ranks: &Ranks,
    kept: bool,
    keeping: &mut Keeping,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Option<BenchmarkRun>, MeasureError> {
    let name = benchmark.to_string();
    let done = on_first(fabric, (&name, number), progress, |fabric| {
        Ok(benchmark.run(fabric, &stop.flag, &mut |share| progress.at(share))?)
    })?;
    keeping.compare(fabric)?;
    let most = (MOST_STEPS / u64::from(number)) as usize;
    let own = done
        .as_ref()
        .map(|done| Iterations::of(&done.timed, most, number, kept));
    let words = own.map_or_else(Vec::new, |own| own.to_words());
    let all = gather::to_root(fabric, &words, number)?;
    let rank = done.as_ref().map(rank_of);
    let of_ranks = gather::values_to_root(fabric, rank.as_ref())?;
    let Some((all, done)) = all.zip(done) else {
        return Ok(None);
    };
    let mut iterations: Vec<Iterations> = all
        .iter()
        .map(|words| Iterations::of_words(words))
        .collect();
    for (iterations, by) in iterations
        .iter_mut()
        .zip(keeping.clocks().of_ranks(&ranks.nodes))
    {
        iterations.correct(by);
    }
    let mut of_ranks: Vec<BenchmarkRank> = of_ranks.into_iter().flatten().collect();
    for (rank, times) in of_ranks.iter_mut().zip(times(&iterations)) {
        rank.iterations = times;
    }
    Ok(Some(BenchmarkRun {
        sheet: sheet(benchmark, &done, of_ranks),
        iterations,
    }))
}

/// Adds the run as a phase.
fn add(bundle: &mut Bundle, run: &BenchmarkRun) -> Result<(), MeasureError> {
    let all = &run.iterations;
    let whole = all.iter().map(Iterations::whole).min().unwrap_or(0);
    bundle.lost_iterations(run.sheet.iterations.saturating_sub(whole as u64));
    let begin_ns = all.iter().map(Iterations::begin).max().unwrap_or(0);
    let end_ns = all.iter().map(Iterations::end).min().unwrap_or(0);
    let phase = Phase {
        kind: PhaseKind::Benchmark(run.sheet.clone()),
        begin_ns,
        end_ns: end_ns.max(begin_ns),
    };
    bundle.add_regions(phase, |phase, table| {
        for (rank, iterations) in all.iter().enumerate() {
            for region in iterations.regions(Rank::new(rank as u32), phase, whole) {
                table.push(region)?;
            }
        }
        Ok(())
    })
}

/// The number of ranks of a measurement with a single one.
pub(crate) fn number_of<F: Fabric>(
    fabric: &F,
    options: &MeasureOptions,
) -> Result<u32, MeasureError> {
    let numbers = options.numbers(fabric.size())?;
    Ok(numbers.first().copied().unwrap_or(fabric.size()))
}

/// Measures; the sheet is on rank 0.
pub fn measure<F: Fabric>(
    fabric: &mut F,
    options: &MeasureOptions,
    ranks: &Ranks,
    mut calibration: Calibration,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Option<BenchmarkSheet>, MeasureError> {
    let What::Benchmark(benchmark) = &options.what else {
        return Ok(None);
    };
    let number = number_of(fabric, options)?;
    if let Some(refusal) = check(fabric, ranks, benchmark, number)? {
        return Err(refusal.error(benchmark));
    }
    let Some(mut keeping) = Keeping::begin(fabric, options, ranks, &calibration)? else {
        return Ok(None);
    };
    let kept = options.output.is_some();
    progress.part(&on_ranks(benchmark, number));
    let done = run(
        fabric,
        (benchmark, number),
        ranks,
        kept,
        &mut keeping,
        stop,
        progress,
    );
    match &done {
        Ok(Some(run)) if run.sheet.iterations > 0 => keeping.add(|bundle| add(bundle, run)),
        Ok(_) => {}
        // The run is kept, and says why it has no result.
        Err(MeasureError::Benchmark(error)) => keeping.note(&error.to_string()),
        Err(_) => return done.map(|_| None),
    }
    let finished = keeping.finish(fabric, options, ranks, &mut calibration, stop);
    let done = done?;
    finished?;
    match done {
        Some(run) if run.sheet.iterations == 0 => Err(SessionError::Interrupted {
            kept: "nothing was measured".to_owned(),
        }
        .into()),
        done => Ok(done.map(|run| run.sheet)),
    }
}

/// A benchmark and its number of ranks, as progress names them.
fn on_ranks(benchmark: &Benchmark, number: u32) -> String {
    format!("{benchmark} on {}", counted(number, "rank"))
}

/// How one of several benchmarks ended, which is kept too; `None` on ranks without its result.
fn ended(
    done: Result<Option<BenchmarkRun>, MeasureError>,
    keeping: &mut Keeping,
) -> Result<Option<Ended>, MeasureError> {
    let ended = match done {
        Ok(None) => return Ok(None),
        Ok(Some(run)) if run.sheet.iterations == 0 => Ended::Refused {
            reason: "interrupted before its first iteration".to_owned(),
        },
        Ok(Some(run)) => {
            keeping.add(|bundle| add(bundle, &run));
            Ended::Done {
                sheet: Box::new(run.sheet),
            }
        }
        Err(MeasureError::Benchmark(error)) => {
            let reason = error.to_string();
            keeping.note(&reason);
            Ended::Wrong { reason }
        }
        Err(error) => return Err(error),
    };
    Ok(Some(ended))
}

/// Measures several benchmarks, one after the other; the rows are on rank 0.
pub fn measure_all<F: Fabric>(
    fabric: &mut F,
    options: &MeasureOptions,
    ranks: &Ranks,
    mut calibration: Calibration,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Option<Vec<BenchmarkRow>>, MeasureError> {
    let What::Benchmarks(benchmarks) = &options.what else {
        return Ok(None);
    };
    let number = number_of(fabric, options)?;
    let Some(mut keeping) = Keeping::begin(fabric, options, ranks, &calibration)? else {
        return Ok(None);
    };
    let kept = options.output.is_some();
    let leads = fabric.rank().get() == 0;
    let mut rows = Vec::new();
    for benchmark in benchmarks {
        let name = match benchmark {
            Ok(benchmark) => benchmark.to_string(),
            Err(unknown) => unknown.text.clone(),
        };
        let refused = match benchmark {
            _ if !gather::agree(fabric, !stop.is_requested())? => {
                Some("not started: interrupted".to_owned())
            }
            Ok(benchmark) => check(fabric, ranks, benchmark, number)?.map(Refusal::text),
            Err(unknown) => Some(unknown.reason.clone()),
        };
        let ended = match (refused, benchmark) {
            (None, Ok(benchmark)) => {
                let target = (benchmark, number);
                progress.part(&on_ranks(benchmark, number));
                let done = run(fabric, target, ranks, kept, &mut keeping, stop, progress);
                match ended(done, &mut keeping)? {
                    Some(ended) => ended,
                    None => continue,
                }
            }
            (reason, _) => Ended::Refused {
                reason: reason.unwrap_or_default(),
            },
        };
        rows.push(BenchmarkRow {
            benchmark: name,
            ended,
        });
    }
    keeping.finish(fabric, options, ranks, &mut calibration, stop)?;
    Ok(leads.then_some(rows))
}

fn sheet(benchmark: &Benchmark, done: &Verified, ranks: Vec<BenchmarkRank>) -> BenchmarkSheet {
    let longest = ranks.iter().map(|r| r.total).max();
    let longest = longest.unwrap_or(Nanos::ZERO).as_f64().max(1.0);
    BenchmarkSheet {
        benchmark: benchmark.to_string(),
        verified: done.verified,
        iterations: done.iterations,
        all_iterations: benchmark.iterations(),
        operation: benchmark.operation().to_owned(),
        operations: done.operations,
        rate: done.operations as f64 * 1e3 / longest,
        checksum: done.checksum.map(|sum| format!("{sum:016x}")),
        memory_per_rank: benchmark.memory_per_rank(ranks.len() as u32),
        ranks,
    }
}

/// Refuses a size that does not fit into the memory of a node. All ranks reach the same verdict.
fn check_memory<F: Fabric>(
    fabric: &mut F,
    ranks: &Ranks,
    benchmark: &Benchmark,
    number: u32,
) -> Result<Option<Refusal>, MeasureError> {
    let available = available_memory(Path::new("/")).map_or(u64::MAX, Bytes::get);
    let available = gather::of_all(fabric, [available])?;
    let each = benchmark.memory_per_rank(number);
    for (node, name) in ranks.nodes.names().iter().enumerate() {
        let here = ranks.nodes.ranks_of(NodeId::new(node as u32));
        let here: Vec<usize> = here
            .map(|rank| rank.index())
            .filter(|&rank| rank < number as usize)
            .collect();
        let left = here.iter().filter_map(|&rank| available.get(rank)?.first());
        let left = left.copied().min().unwrap_or(u64::MAX);
        if let Some(reason) = too_much(each, here.len() as u64, name, left) {
            return Ok(Some(Refusal::Memory(reason)));
        }
    }
    Ok(None)
}

/// Why so many ranks, each with so much memory, do not fit into what is left on a node.
fn too_much(each: Bytes, ranks: u64, node: &str, left: u64) -> Option<String> {
    let needed = each.get().saturating_mul(ranks);
    let (needed, left) = (Bytes::new(needed), Bytes::new(left));
    (needed > left).then(|| {
        let ranks = counted(ranks, "rank");
        format!("takes {each} for each of {ranks} on {node}, {needed} in all, and {left} of memory is available")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FabricChoice;
    use idlewave_clock::Counter;
    use idlewave_fabric::{Waiting, world};
    use idlewave_run::{Incomplete, RunReader};
    use idlewave_workloads::is::Class;
    use idlewave_workloads::{Parts, Record, WorkloadError};

    fn done(total: u64) -> Verified {
        let parts = Parts {
            total: Nanos::from_nanos(total),
            collective: Nanos::from_nanos(300),
            point_to_point: Nanos::from_nanos(50),
        };
        Verified {
            timed: Record {
                parts,
                ..Record::default()
            },
            verification: parts,
            verified: true,
            iterations: 10,
            operations: 655_360,
            checksum: Some(255),
        }
    }

    #[test]
    fn what_is_neither_collective_nor_point_to_point_is_computation() {
        let rank = rank_of(&done(1_000));
        assert_eq!(rank.computation, Nanos::from_nanos(650));
        assert_eq!(rank.verification, Nanos::from_nanos(1_000));
        assert_eq!(
            rank.collective + rank.point_to_point + rank.computation,
            rank.total
        );
    }

    #[test]
    fn the_rate_is_that_of_the_rank_that_took_longest() {
        let benchmark = Benchmark::Is(Class::S);
        let ranks = [1_000_000, 2_000_000].map(|total| rank_of(&done(total)));
        let found = sheet(&benchmark, &done(1_000_000), ranks.to_vec());
        // 655,360 keys in 2 ms.
        assert_eq!(found.rate, 327.68);
        assert_eq!(found.checksum.as_deref(), Some("00000000000000ff"));
        assert_eq!((found.iterations, found.all_iterations), (10, 10));
    }

    fn all_of_is() -> MeasureOptions {
        let mut options = MeasureOptions::new(What::Benchmarks(vec!["is:S".parse()]));
        options.ranks = vec![1];
        options.fabric = Some(FabricChoice::Threads);
        options.trace = false;
        options
    }

    #[test]
    fn a_wrong_result_among_several_is_kept_as_the_reason_why_the_run_is_incomplete() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("run");
        let mut options = all_of_is();
        options.output = Some(path.clone());
        let mut fabric = world(1, Waiting::Yield).remove(0);
        let allowed = idlewave_sys::affinity::allowed().expect("CPUs");
        let cpu = allowed.iter().next().expect("a CPU");
        let ranks = Ranks::gather(&mut fabric, cpu, "threads").expect("one rank");
        let mut calibration = Calibration::begin(Counter::choose(Path::new("/")));
        let begun = Keeping::begin(&mut fabric, &options, &ranks, &calibration);
        let mut keeping = begun.expect("a bundle").expect("rank 0");
        let wrong = WorkloadError::NotVerified {
            benchmark: "is:S".to_owned(),
            what: "a key is out of place".to_owned(),
        };
        let reason = "verify is:S: a key is out of place".to_owned();
        assert_eq!(
            ended(Err(MeasureError::Benchmark(wrong)), &mut keeping).expect("a row"),
            Some(Ended::Wrong {
                reason: reason.clone()
            })
        );
        let stop = Stop::default();
        keeping
            .finish(&mut fabric, &options, &ranks, &mut calibration, &stop)
            .expect("a bundle");
        let run = RunReader::open(&path).expect("a bundle");
        let incomplete = run.manifest().incomplete.as_ref();
        assert_eq!(incomplete, Some(&Incomplete::Error(reason)));
    }

    /// Interrupts the measurement when a benchmark begins.
    struct AtTheStart(Stop);

    impl Progress for AtTheStart {
        fn part(&self, what: &str) {
            if what.starts_with("is:S on 1 rank") {
                self.0
                    .flag
                    .store(true, std::sync::atomic::Ordering::Relaxed);
            }
        }
        fn at(&self, _: f64) {}
        fn note(&self, _: &str) {}
    }

    #[test]
    fn a_benchmark_that_was_halted_before_its_first_iteration_has_no_rate() {
        let stop = Stop::default();
        let progress = AtTheStart(stop.clone());
        let found = crate::measure(&all_of_is(), &stop, &progress);
        let found = found.expect("rows").expect("rank 0");
        let crate::Results::Benchmarks { rows } = found.results else {
            panic!("{found:?}");
        };
        let reason = "interrupted before its first iteration".to_owned();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].ended, Ended::Refused { reason });
    }

    #[test]
    fn what_does_not_fit_is_refused_with_all_numbers() {
        let gib = |n: u64| Bytes::new(n << 30);
        assert_eq!(too_much(gib(2), 4, "n1", 8 << 30), None);
        let reason = too_much(gib(2), 4, "n1", (8 << 30) - 1).expect("a byte too much");
        let error = Refusal::Memory(reason).error(&Benchmark::Is(Class::C));
        let error = error.to_string();
        for part in [
            "is:C takes",
            "2 GiB for each of 4 ranks on n1",
            "8 GiB in all",
            "available",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_wrong_number_of_ranks_is_refused_with_the_nearest() {
        let benchmark = Benchmark::Is(Class::S);
        assert!(Refusal::of(&benchmark, 512).is_none());
        let refusal = || Refusal::of(&benchmark, 600).expect("more than buckets");
        assert!(refusal().text().ends_with("; try 512"));
        let error = refusal().error(&benchmark);
        assert!(error.to_string().contains("is:S on 600 ranks"), "{error}");
        assert_eq!(error.next_step().as_deref(), Some("give --ranks 512"));
    }
}
