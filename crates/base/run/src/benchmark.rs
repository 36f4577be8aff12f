//! What benchmarks reported, as phases of a run keep it: `measure npb`, `is`, `halo`, and series of
//! them over numbers of ranks.

use idlewave_stats::estimate::Estimate;
use idlewave_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// A benchmark that verifies its own result. A wrong one is an error, so it has no sheet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkSheet {
    /// Its name, with all parameters.
    pub benchmark: String,
    /// Whether its result was compared with the expected one, which it then met. Not if it was
    /// interrupted and has nothing to compare before its end.
    pub verified: bool,
    /// Timed iterations; fewer than all if it was interrupted.
    pub iterations: u64,
    /// All iterations of the benchmark.
    pub all_iterations: u64,
    /// What counts as an operation, in the plural.
    pub operation: String,
    /// Operations of all ranks.
    pub operations: u64,
    /// Millions of operations per second, by the slowest rank's time.
    pub rate: f64,
    /// Checksum of the result in hexadecimal, if it does not depend on the number of ranks.
    pub checksum: Option<String>,
    /// The most memory of a rank, determined before it is allocated.
    pub memory_per_rank: Bytes,
    /// Each rank.
    pub ranks: Vec<BenchmarkRank>,
}

impl BenchmarkSheet {
    /// Calls of all ranks together, by name in the order in which they first occur.
    pub fn calls(&self) -> Vec<BenchmarkCalls> {
        let mut all: Vec<BenchmarkCalls> = Vec::new();
        for calls in self.ranks.iter().flat_map(|rank| &rank.calls) {
            match all.iter_mut().find(|known| known.call == calls.call) {
                Some(known) => {
                    known.count += calls.count;
                    known.bytes = Bytes::new(known.bytes.get() + calls.bytes.get());
                    known.time += calls.time;
                }
                None => all.push(calls.clone()),
            }
        }
        all
    }

    /// Names of the regions, in the order in which they first occur.
    pub fn regions(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for region in self.ranks.iter().flat_map(|rank| &rank.regions) {
            if !names.contains(&region.name.as_str()) {
                names.push(&region.name);
            }
        }
        names
    }

    /// The longest time of a rank.
    pub fn total(&self) -> Nanos {
        let longest = self.ranks.iter().map(|rank| rank.total).max();
        longest.unwrap_or(Nanos::ZERO)
    }
}

/// Where the time of a rank went. Waiting counts for the call in which it occurs, so parts of
/// different ranks mean different things.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BenchmarkRank {
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
    /// Its iterations; `None` if it completed none.
    pub iterations: Option<IterationTimes>,
    /// Its calls, by kind.
    pub calls: Vec<BenchmarkCalls>,
    /// Its regions, in the order in which it first entered them.
    pub regions: Vec<BenchmarkRegion>,
}

/// How long the iterations of a rank took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IterationTimes {
    /// Iterations counted.
    pub count: u64,
    /// Median of an iteration.
    pub median: Nanos,
    /// The 10th percentile.
    pub tenth: Nanos,
    /// The 90th percentile.
    pub ninetieth: Nanos,
    /// Median of an iteration without its calls.
    pub computation: Nanos,
    /// Iterations in which this rank computed longest of all.
    pub slowest: u64,
}

/// Calls of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BenchmarkCalls {
    /// Which: `barrier`, `allreduce`, `reduce`, `broadcast`, `alltoall`, `alltoallv`, `allgather`,
    /// `send` or `receive`.
    pub call: String,
    /// Number of calls.
    pub count: u64,
    /// Bytes that the rank passed to them, or received from them.
    pub bytes: Bytes,
    /// Time in them, waiting included.
    pub time: Nanos,
}

/// A part of a program that names itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BenchmarkRegion {
    /// Its name.
    pub name: String,
    /// Time in it, calls included.
    pub time: Nanos,
}

/// How the work grows with the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scaling {
    /// The work is divided among the ranks.
    Strong,
    /// Every rank does all of the work.
    Weak,
}

/// A program at several numbers of ranks, which took turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScalingSheet {
    /// The program, at the first number of ranks.
    pub program: String,
    /// How the work grows.
    pub scaling: Scaling,
    /// What counts as an operation, in the plural.
    pub operation: String,
    /// One per number of ranks, ascending.
    pub points: Vec<ScalingPoint>,
    /// Why there is no prediction.
    pub not_predicted: Option<String>,
}

/// One number of ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScalingPoint {
    /// Number of ranks.
    pub ranks: u32,
    /// The program at this number, with all parameters.
    pub program: String,
    /// Operations of all ranks, per round.
    pub operations: Vec<f64>,
    /// Time of the slowest rank, per round.
    pub times: Vec<Nanos>,
    /// Operations per second and rank over those at the first number of ranks, in the same round:
    /// median of the rounds. `None` without a complete round.
    pub efficiency: Option<Estimate>,
    /// The efficiency that noise alone would leave: the mean step at the first number of ranks, over
    /// that step plus what the expected longest computation grows by from there to this number.
    /// Computations are drawn independently from those at the first number; communication takes as
    /// long as there. It has no interval.
    pub predicted: Option<f64>,
}

impl ScalingPoint {
    /// The 95 % interval of the efficiency; `None` with too few complete rounds for one.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.efficiency.as_ref()?.median_interval()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_stats::quantiles;

    #[test]
    fn an_efficiency_has_an_interval_from_six_rounds_on() {
        let point = |rounds: &[f64]| ScalingPoint {
            ranks: 2,
            program: "ep:S".to_owned(),
            operations: vec![1.0; rounds.len()],
            times: vec![Nanos::from_nanos(1); rounds.len()],
            efficiency: (!rounds.is_empty()).then(|| quantiles::median_of_floats(rounds)),
            predicted: None,
        };
        assert_eq!(point(&[]).interval(), None);
        assert_eq!(point(&[0.7, 0.8, 0.5, 0.6, 0.9]).interval(), None);
        let six = point(&[0.7, 0.8, 0.5, 0.6, 0.9, 0.4]);
        assert_eq!(six.interval(), Some((0.4, 0.9)));
    }

    #[test]
    fn calls_of_all_ranks_add_up_by_name_and_regions_count_once() {
        let calls = |call: &str, n: u64| BenchmarkCalls {
            call: call.to_owned(),
            count: n,
            bytes: Bytes::new(10 * n),
            time: Nanos::from_nanos(100 * n),
        };
        let region = |name: &str| BenchmarkRegion {
            name: name.to_owned(),
            time: Nanos::from_nanos(1),
        };
        let rank = |calls, regions| BenchmarkRank {
            calls,
            regions,
            ..BenchmarkRank::default()
        };
        let sheet = BenchmarkSheet {
            benchmark: "cg:S".to_owned(),
            verified: true,
            iterations: 1,
            all_iterations: 1,
            operation: "operations".to_owned(),
            operations: 1,
            rate: 1.0,
            checksum: None,
            memory_per_rank: Bytes::new(1),
            ranks: vec![
                rank(vec![calls("send", 1)], vec![region("solve"), region("sum")]),
                rank(
                    vec![calls("barrier", 5), calls("send", 2)],
                    vec![region("sum"), region("rest")],
                ),
            ],
        };
        assert_eq!(sheet.calls(), [calls("send", 3), calls("barrier", 5)]);
        assert_eq!(sheet.regions(), ["solve", "sum", "rest"]);
        assert_eq!(sheet.total(), Nanos::ZERO);
    }
}
