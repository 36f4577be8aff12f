//! Benchmarks that verify their own results: how long each rank took, and in which operations.

use crate::error::is_agreed;
use crate::ranks::Ranks;
use crate::{MeasureError, MeasureOptions, What, gather};
use idlewave_capture::host::available_memory;
use idlewave_fabric::Fabric;
use idlewave_session::{Progress, SessionError, Stop};
use idlewave_units::{Bytes, Nanos, NodeId, counted};
use idlewave_workloads::{Benchmark, Parts, Verified};
use serde::Serialize;
use std::path::Path;

/// Where the time of a rank went. Waiting counts for the operation in which it occurs, so parts of
/// different ranks mean different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RankTimes {
    /// The timed part.
    pub total: Nanos,
    /// Its part in collectives.
    pub collective: Nanos,
    /// Its part in sends, receives and waits for them.
    pub point_to_point: Nanos,
    /// The rest.
    pub computation: Nanos,
    /// The time to verify the result, afterwards.
    pub verification: Nanos,
}

/// The outcome of a benchmark whose result was correct.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BenchmarkOutcome {
    /// Its name, with all parameters.
    pub benchmark: String,
    /// Whether its result was compared with the expected one, which it then met: a wrong result is an
    /// error. Not if it was interrupted and has nothing to compare before its end.
    pub verified: bool,
    /// Timed iterations; fewer than all if it was interrupted.
    pub iterations: u64,
    /// All iterations of the benchmark.
    pub all_iterations: u64,
    /// What counts as an operation.
    pub operation: String,
    /// The number of operations of all ranks.
    pub operations: u64,
    /// Millions of operations per second, by the slowest rank's time.
    pub rate: f64,
    /// Checksum of the result in hexadecimal, if it does not depend on the number of ranks.
    pub checksum: Option<String>,
    /// The most memory of a rank, determined before it is allocated.
    pub memory_per_rank: Bytes,
    /// The times of each rank.
    pub ranks: Vec<RankTimes>,
}

const WORDS: usize = 4;

fn words(done: &Verified) -> [u64; WORDS] {
    let Parts {
        total,
        collective,
        point_to_point,
    } = done.timed.parts;
    [total, collective, point_to_point, done.verification.total].map(Nanos::get)
}

fn times(words: &[u64]) -> RankTimes {
    let word = |i: usize| Nanos::from_nanos(words.get(i).copied().unwrap_or(0));
    let parts = Parts {
        total: word(0),
        collective: word(1),
        point_to_point: word(2),
    };
    RankTimes {
        total: parts.total,
        collective: parts.collective,
        point_to_point: parts.point_to_point,
        computation: parts.computation(),
        verification: word(3),
    }
}

/// Measures; the outcome is that of rank 0.
pub fn measure<F: Fabric>(
    fabric: &mut F,
    options: &MeasureOptions,
    ranks: &Ranks,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Option<BenchmarkOutcome>, MeasureError> {
    let What::Benchmark(benchmark) = &options.what else {
        return Ok(None);
    };
    let number = options.numbers(fabric.size())?.first().copied();
    let number = number.unwrap_or(fabric.size());
    if number > benchmark.most_ranks() {
        let most = benchmark.most_ranks();
        return Err(MeasureError::option(
            counted(number, "rank"),
            format!("{benchmark} has work for {most}"),
            format!("give --ranks {most} or fewer, or a larger class"),
        ));
    }
    let memory = benchmark.memory_per_rank(number);
    check_memory(fabric, ranks, benchmark, number)?;
    progress.part(&format!(
        "{benchmark} on {number}",
        number = counted(number, "rank")
    ));
    let done = fabric.with_first(number, |fabric| {
        let done = benchmark.run(fabric, &stop.flag, &mut |share| progress.at(share));
        if let Err(error) = &done {
            // Errors that all ranks agree on end the job cleanly.
            if !is_agreed(error) {
                progress.note(&error.to_string());
                fabric.fail();
            }
        }
        done
    })?;
    let done = done.transpose()?;
    let own = done.as_ref().map(words);
    let own = own.as_ref().map_or(&[][..], |words| &words[..]);
    let all = gather::to_root(fabric, own, number)?;
    match all.zip(done) {
        Some((_, done)) if done.iterations == 0 => Err(SessionError::Interrupted {
            kept: "nothing was measured".to_owned(),
        }
        .into()),
        Some((all, done)) => {
            let ranks = all.iter().map(|words| times(words)).collect();
            Ok(Some(outcome(benchmark, memory, &done, ranks)))
        }
        None => Ok(None),
    }
}

fn outcome(
    benchmark: &Benchmark,
    memory: Bytes,
    done: &Verified,
    ranks: Vec<RankTimes>,
) -> BenchmarkOutcome {
    let longest = ranks.iter().map(|r| r.total).max();
    let longest = longest.unwrap_or(Nanos::ZERO).as_f64().max(1.0);
    BenchmarkOutcome {
        benchmark: benchmark.to_string(),
        verified: done.verified,
        iterations: done.iterations,
        all_iterations: benchmark.iterations(),
        operation: benchmark.operation().to_owned(),
        operations: done.operations,
        rate: done.operations as f64 * 1e3 / longest,
        checksum: done.checksum.map(|sum| format!("{sum:016x}")),
        memory_per_rank: memory,
        ranks,
    }
}

/// Refuses a size that does not fit into the memory of a node. All ranks reach the same verdict.
fn check_memory<F: Fabric>(
    fabric: &mut F,
    ranks: &Ranks,
    benchmark: &Benchmark,
    number: u32,
) -> Result<(), MeasureError> {
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
        too_much(benchmark, each, here.len() as u64, name, left)?;
    }
    Ok(())
}

fn too_much(
    benchmark: &Benchmark,
    each: Bytes,
    ranks: u64,
    node: &str,
    left: u64,
) -> Result<(), MeasureError> {
    let needed = each.get().saturating_mul(ranks);
    if needed <= left {
        return Ok(());
    }
    let (needed, left) = (Bytes::new(needed), Bytes::new(left));
    Err(SessionError::NotPossible {
        reason: format!(
            "{benchmark} takes {each} for each of {ranks} on {node}, {needed} in all, and {left} of memory is available", ranks = counted(ranks, "rank")),
        next: "use more nodes, or a smaller size".to_owned(),
    }
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_workloads::Record;
    use idlewave_workloads::is::Class;

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
    fn times_survive_being_sent_and_the_rest_is_computation() {
        let sent = times(&words(&done(1_000)));
        assert_eq!(sent.computation, Nanos::from_nanos(650));
        assert_eq!(sent.verification, Nanos::from_nanos(1_000));
        assert_eq!(
            sent.collective + sent.point_to_point + sent.computation,
            sent.total
        );
    }

    #[test]
    fn the_rate_is_that_of_the_rank_that_took_longest() {
        let benchmark = Benchmark::Is(Class::S);
        let ranks = [1_000_000, 2_000_000].map(|total| times(&words(&done(total))));
        let found = outcome(&benchmark, Bytes::new(1), &done(1_000_000), ranks.to_vec());
        // 655,360 keys in 2 ms.
        assert_eq!(found.rate, 327.68);
        assert_eq!(found.checksum.as_deref(), Some("00000000000000ff"));
        assert_eq!((found.iterations, found.all_iterations), (10, 10));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_all_numbers() {
        let benchmark = Benchmark::Is(Class::C);
        let gib = |n: u64| Bytes::new(n << 30);
        assert!(too_much(&benchmark, gib(2), 4, "n1", 8 << 30).is_ok());
        let error = too_much(&benchmark, gib(2), 4, "n1", (8 << 30) - 1);
        let error = error.expect_err("a byte too much").to_string();
        for part in [
            "is:C",
            "2 GiB for each of 4 ranks on n1",
            "8 GiB in all",
            "available",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }
}
