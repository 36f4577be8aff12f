//! Runs a benchmark on every number of nodes and of ranks per node of an allocation: the measured
//! side of placement.
//!
//! One job has all ranks. Each run uses some of them, as a world of their own, while the others
//! sleep. Repetitions cycle through all layouts, so that drift affects them alike. Rank 0 predicts
//! the same layouts for comparison.

use crate::first::on_ranks;
use crate::load::{LoadMeter, NodeLoad};
use crate::place::cpus_of_nodes;
use crate::threads::{OfEveryRank, on_every_rank};
use crate::{FabricChoice, MeasureError, gather};
use idlewave_capture::host::available_memory;
use idlewave_fabric::{Fabric, Nodes};
use idlewave_mpi::Search;
use idlewave_run::findings::Estimate;
use idlewave_session::{Progress, SessionError, Stop};
use idlewave_stats::quantiles::median_of;
use idlewave_units::{Bytes, NodeId, Rank, counted};
use idlewave_workloads::Benchmark;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The fraction (one over this) of a node's free memory that ranks may need together.
const MEMORY_SHARE: u64 = 2;
/// The most repetitions.
const MOST_REPEATS: u32 = 100;

/// What to measure.
#[derive(Clone, Debug)]
pub struct PlacementOptions {
    /// The benchmark.
    pub benchmark: Benchmark,
    /// Rank counts; empty for the powers of two from 2.
    pub ranks: Vec<u32>,
    /// Runs of each layout, from 1.
    pub repeats: u32,
    /// Number of ranks as threads; `None` for one per CPU.
    pub threads: Option<u32>,
    /// As in [`crate::MeasureOptions`].
    pub fabric: Option<FabricChoice>,
    /// As in [`crate::MeasureOptions`].
    pub mpi: Search,
}

/// Where the time of a run went, seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlacedRun {
    /// The total of the slowest rank.
    pub total: f64,
    /// In collectives, mean over the ranks; includes waiting.
    pub collective: f64,
    /// In point-to-point operations, likewise.
    pub point_to_point: f64,
    /// The rest, likewise.
    pub computation: f64,
}

/// The runs of one layout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlacedRuns {
    /// Number of ranks.
    pub ranks: u32,
    /// Number of nodes.
    pub nodes: u32,
    /// Ranks per node.
    pub ranks_per_node: u32,
    /// The runs, in the order in which they took place.
    pub runs: Vec<PlacedRun>,
}

impl PlacedRuns {
    /// Median, minimum and maximum of one part of all runs, in seconds; `None` without runs.
    pub fn estimate(&self, of: impl Fn(&PlacedRun) -> f64) -> Option<Estimate> {
        let values: Vec<f64> = self.runs.iter().map(of).collect();
        Some(Estimate {
            value: median_of(&values)?,
            low: values.iter().copied().reduce(f64::min)?,
            high: values.iter().copied().reduce(f64::max)?,
            n: values.len() as u64,
            method: "median, least and most".to_owned(),
        })
    }
}

/// The complete outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlacementOutcome {
    /// The benchmark.
    pub benchmark: String,
    /// What carried the messages.
    pub fabric: String,
    /// Host names of all nodes.
    pub nodes: Vec<String>,
    /// The number of CPUs that the ranks of a node may use together, on the node with the fewest.
    pub cpus_per_node: u32,
    /// By ranks, then ranks per node.
    pub layouts: Vec<PlacedRuns>,
    /// Iterations of each run.
    pub iterations: u64,
    /// Whether it was ended on request.
    pub interrupted: bool,
    /// What was omitted, one per line.
    pub notes: Vec<String>,
    /// How busy other processes kept each node meanwhile.
    pub machine: Vec<NodeLoad>,
}

/// A layout, with the ranks of the job that take part in its runs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Layout {
    ranks: u32,
    per_node: u32,
    members: Vec<Rank>,
}

impl PlacementOptions {
    fn check(&self) -> Result<(), MeasureError> {
        let refused = |option: String, reason: &str, next: String| {
            Err(MeasureError::option(option, reason, next))
        };
        if !(1..=MOST_REPEATS).contains(&self.repeats) {
            let option = format!("--repeats {}", self.repeats);
            return refused(option, "not possible", format!("give 1 to {MOST_REPEATS}"));
        }
        let most = self.benchmark.most_ranks();
        match self.ranks.iter().find(|r| !(1..=most).contains(*r)) {
            Some(ranks) => refused(
                format!("--ranks {ranks}"),
                "not a number of ranks for it",
                format!("give numbers from 1 to {most}"),
            ),
            None => Ok(()),
        }
    }
}

/// Every even layout of these rank counts: k ranks on each of ranks / k nodes, the first suitable
/// ones of the job.
fn layouts(nodes: &Nodes, numbers: &[u32]) -> Vec<Layout> {
    let of_node: Vec<Vec<Rank>> = (0..nodes.count())
        .map(|node| nodes.ranks_of(NodeId::new(node)).collect())
        .collect();
    let most = of_node.iter().map(Vec::len).max().unwrap_or(0) as u32;
    let mut all = Vec::new();
    for &ranks in numbers {
        for per_node in (1..=most.min(ranks)).filter(|k| ranks % k == 0) {
            let wanted = (ranks / per_node) as usize;
            let large = of_node.iter().filter(|on| on.len() >= per_node as usize);
            let chosen: Vec<&Vec<Rank>> = large.take(wanted).collect();
            if chosen.len() == wanted {
                let members = chosen
                    .iter()
                    .flat_map(|on| &on[..per_node as usize])
                    .copied();
                let members = members.collect();
                all.push(Layout {
                    ranks,
                    per_node,
                    members,
                });
            }
        }
    }
    all
}

/// Measures; every process of an MPI job calls it. The outcome is on rank 0, `None` elsewhere.
///
/// # Errors
/// See [`MeasureError`]. All ranks fail if one does. A request to stop before the first run is an
/// error: nothing was measured.
pub fn placements(
    options: &PlacementOptions,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Option<PlacementOutcome>, MeasureError> {
    options.check()?;
    let work = Work { options, stop };
    on_every_rank(
        &work,
        options.fabric,
        &options.mpi,
        ("--threads", options.threads),
        progress,
    )
}

struct Work<'a> {
    options: &'a PlacementOptions,
    stop: &'a Stop,
}

impl OfEveryRank for Work<'_> {
    type Outcome = PlacementOutcome;

    fn run<F: Fabric>(
        &self,
        fabric: &mut F,
        carrier: &str,
        progress: &dyn Progress,
    ) -> Result<Option<PlacementOutcome>, MeasureError> {
        rank(fabric, self.options, carrier, self.stop, progress)
    }
}

fn rank<F: Fabric>(
    fabric: &mut F,
    options: &PlacementOptions,
    carrier: &str,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Option<PlacementOutcome>, MeasureError> {
    let nodes = fabric.nodes()?;
    let cpus_per_node = cpus_of_nodes(fabric, &nodes)?;
    let benchmark = &options.benchmark;
    let most = fabric.size().min(benchmark.most_ranks());
    let numbers = match options.ranks.is_empty() {
        true => (1..32).map(|p| 1 << p).take_while(|&p| p <= most).collect(),
        false => options.ranks.clone(),
    };
    let mut notes = Vec::new();
    let available = available_memory(Path::new("/")).map_or(u64::MAX, Bytes::get);
    let available = gather::of_all(fabric, [available])?;
    let least = available
        .iter()
        .map(|words| words[0])
        .min()
        .unwrap_or(u64::MAX);
    let mut all = layouts(&nodes, &numbers);
    all.retain(|layout| {
        let each = benchmark.memory_per_rank(layout.ranks).get();
        let fits = each.saturating_mul(layout.per_node.into()) <= least / MEMORY_SHARE;
        if !fits {
            notes.push(format!(
                "{}, {} per node: not enough free memory",
                counted(layout.ranks, "rank"),
                layout.per_node
            ));
        }
        fits
    });
    if all.is_empty() {
        let reason = format!(
            "there is no layout of it with {} on {}",
            counted(fabric.size(), "rank"),
            counted(nodes.count(), "node")
        );
        let (option, next) = match (options.ranks.is_empty(), options.threads) {
            (false, _) => (
                "--ranks".to_owned(),
                "start more ranks, or give other --ranks",
            ),
            (true, Some(n)) => (format!("--threads {n}"), "give more of them"),
            (true, None) => ("these ranks".to_owned(), "start more of them"),
        };
        return Err(MeasureError::option(option, reason, next));
    }
    let load = LoadMeter::begin(fabric, &nodes)?;
    let mut runs: Vec<Vec<PlacedRun>> = vec![Vec::new(); all.len()];
    let total = (options.repeats as usize * all.len()) as f64;
    'measuring: for repeat in 0..options.repeats as usize {
        for (at, layout) in all.iter().enumerate() {
            if !gather::agree(fabric, !stop.is_requested())? {
                break 'measuring;
            }
            progress.part(&format!(
                "{benchmark}: {}, {} per node",
                counted(layout.ranks, "rank"),
                layout.per_node
            ));
            let begin = (repeat * all.len() + at) as f64 / total;
            let shown = |share: f64| progress.at(begin + share / total);
            match run(fabric, benchmark, layout, stop, (progress, &shown))? {
                Some(run) => runs[at].push(run),
                None => break 'measuring,
            }
        }
    }
    let machine = load.finish(fabric)?;
    if fabric.rank().get() != 0 {
        return Ok(None);
    }
    if runs.iter().all(Vec::is_empty) {
        let kept = "nothing was measured".to_owned();
        return Err(SessionError::Interrupted { kept }.into());
    }
    let measured = all.iter().zip(runs).map(|(layout, runs)| PlacedRuns {
        ranks: layout.ranks,
        nodes: layout.ranks / layout.per_node,
        ranks_per_node: layout.per_node,
        runs,
    });
    Ok(Some(PlacementOutcome {
        benchmark: benchmark.to_string(),
        fabric: carrier.to_owned(),
        nodes: nodes.names().to_vec(),
        cpus_per_node,
        layouts: measured.collect(),
        iterations: benchmark.iterations(),
        interrupted: stop.is_requested(),
        notes,
        machine,
    }))
}

/// One run; `None` on all ranks if it was halted before its end.
fn run<F: Fabric>(
    fabric: &mut F,
    benchmark: &Benchmark,
    layout: &Layout,
    stop: &Stop,
    (progress, shown): (&dyn Progress, &dyn Fn(f64)),
) -> Result<Option<PlacedRun>, MeasureError> {
    let target = (&*benchmark.to_string(), &*layout.members);
    let done = on_ranks(fabric, target, progress, |fabric| {
        Ok(benchmark.run(fabric, &stop.flag, &mut |share| shown(share))?)
    })?;
    // Ranks that took no part report 0, halted ones 2.
    let words = match &done {
        None => [0; 5],
        Some(done) => {
            let parts = done.timed.parts;
            let halted = u64::from(done.iterations < benchmark.iterations());
            [
                1 + halted,
                parts.total.get(),
                parts.collective.get(),
                parts.point_to_point.get(),
                parts.computation().get(),
            ]
        }
    };
    let all = gather::of_all(fabric, words)?;
    let of_it: Vec<&[u64; 5]> = all.iter().filter(|words| words[0] > 0).collect();
    if of_it.iter().any(|words| words[0] == 2) {
        return Ok(None);
    }
    let seconds = |ns: f64| ns * 1e-9;
    let mean = |at: usize| {
        let sum: f64 = of_it.iter().map(|words| words[at] as f64).sum();
        seconds(sum / of_it.len().max(1) as f64)
    };
    let longest = of_it.iter().map(|words| words[1]).max().unwrap_or(0);
    Ok(Some(PlacedRun {
        total: seconds(longest as f64),
        collective: mean(2),
        point_to_point: mean(3),
        computation: mean(4),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_session::Quiet;

    #[test]
    fn runs_are_told_by_their_median_and_their_ends_and_none_by_nothing() {
        let run = |total| PlacedRun {
            total,
            collective: 0.25 * total,
            point_to_point: 0.0,
            computation: 0.75 * total,
        };
        let layout = |runs: &[f64]| PlacedRuns {
            ranks: 2,
            nodes: 1,
            ranks_per_node: 2,
            runs: runs.iter().copied().map(run).collect(),
        };
        let told = |runs: &[f64], of: fn(&PlacedRun) -> f64| {
            let e = layout(runs).estimate(of)?;
            Some((e.value, e.low, e.high, e.n))
        };
        assert_eq!(
            told(&[8.0, 2.0, 4.0], |r| r.total),
            Some((4.0, 2.0, 8.0, 3))
        );
        assert_eq!(
            told(&[8.0, 4.0], |r| r.collective),
            Some((1.5, 1.0, 2.0, 2))
        );
        assert_eq!(told(&[], |r| r.total), None);
    }

    #[test]
    fn every_even_layout_is_there_once() {
        let leaders = [0, 0, 0, 0, 4, 4, 4, 4];
        let hosts: Vec<String> = (0..8).map(|r| format!("n{}", r / 4)).collect();
        let nodes = Nodes::from_leaders(&leaders, &hosts);
        let all: Vec<(u32, u32, Vec<u32>)> = layouts(&nodes, &[2, 4, 6, 8])
            .into_iter()
            .map(|l| {
                (
                    l.ranks,
                    l.per_node,
                    l.members.iter().map(|r| r.get()).collect(),
                )
            })
            .collect();
        assert_eq!(
            all,
            [
                (2, 1, vec![0, 4]),
                (2, 2, vec![0, 1]),
                (4, 2, vec![0, 1, 4, 5]),
                (4, 4, vec![0, 1, 2, 3]),
                (6, 3, vec![0, 1, 2, 4, 5, 6]),
                (8, 4, (0..8).collect()),
            ]
        );
    }

    #[test]
    fn threads_are_one_node_whose_layouts_are_all_measured() {
        let options = PlacementOptions {
            benchmark: "is:S".parse().unwrap(),
            ranks: vec![1, 2, 4],
            repeats: 2,
            threads: Some(4),
            fabric: Some(FabricChoice::Threads),
            mpi: Search::default(),
        };
        let found = placements(&options, &Stop::default(), &Quiet)
            .unwrap()
            .unwrap();
        let layouts: Vec<(u32, u32, u32, usize)> = found
            .layouts
            .iter()
            .map(|l| (l.ranks, l.nodes, l.ranks_per_node, l.runs.len()))
            .collect();
        assert_eq!(layouts, [(1, 1, 1, 2), (2, 1, 2, 2), (4, 1, 4, 2)]);
        for run in found.layouts.iter().flat_map(|l| &l.runs) {
            let parts = run.collective + run.point_to_point + run.computation;
            assert!(
                run.total > 0.0 && parts <= run.total * (1.0 + 1e-9),
                "{run:?}"
            );
        }
    }

    #[test]
    fn what_cannot_be_measured_is_refused_by_name() {
        let refused = |ranks: Vec<u32>, repeats, threads| {
            let options = PlacementOptions {
                benchmark: "is:S".parse().unwrap(),
                ranks,
                repeats,
                threads: Some(threads),
                fabric: Some(FabricChoice::Threads),
                mpi: Search::default(),
            };
            placements(&options, &Stop::default(), &Quiet)
                .unwrap_err()
                .to_string()
        };
        assert!(refused(vec![0], 1, 2).contains("--ranks 0"));
        assert!(refused(vec![100_000], 1, 2).contains("--ranks 100000"));
        assert!(refused(vec![2], 0, 2).contains("--repeats 0"));
        let uneven = refused(vec![3], 1, 2);
        assert!(
            uneven.contains("--ranks") && uneven.contains("no layout of it with 2 ranks on 1 node"),
            "{uneven}"
        );
        // The message names the option that was given.
        assert!(refused(Vec::new(), 1, 1).contains("--threads 1"));
        assert!(refused(Vec::new(), 1, 257).contains("--threads 257"));
    }
}
