//! The study of Hori, Tezuka and Ishikawa (SC'98) with the NAS Parallel Benchmarks: each alone at a
//! slice of 40 ms by the policy for network contexts, pairs at 100 ms against one after the other,
//! and short programs that arrive beside a long one.

use crate::bench::Bench;
use crate::case::{Case, Compares, FINE, Program, Table, Treatment};
use crate::error::TrialError;
use idlewave_gang_agent::Copying;
use idlewave_measure::Benchmark;
use idlewave_session::{Progress, Stop};
use idlewave_stats::random::SplitMix;
use idlewave_units::Nanos;
use idlewave_workloads::npb;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

const ALONE: Nanos = Nanos::from_millis(40);
const PAIRED: Nanos = Nanos::from_millis(100);

/// The programs of a study.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NpbPlan {
    /// Their names, as in `cg:A`, by expected time; the longest last.
    pub programs: Vec<String>,
    /// Expected times, in the same order.
    pub expected: Vec<Nanos>,
    /// Programs that cannot run on this number of ranks, and why.
    pub left_out: Vec<(String, String)>,
}

/// How much a study runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// The programs to run, of [`names`].
    pub programs: Vec<String>,
    /// A few minutes instead of hours: smaller programs, and each paired with two others only.
    pub quick: bool,
    /// The class of all programs, instead of one that takes 3 to 15 s.
    pub class: Option<npb::Class>,
    /// Seed of the arrivals.
    pub seed: u64,
}

impl Extent {
    /// How long a program may take.
    const fn wanted(&self) -> RangeInclusive<Nanos> {
        match self.quick {
            true => Nanos::from_millis(200)..=Nanos::from_millis(1_500),
            false => Nanos::from_secs(3)..=Nanos::from_secs(15),
        }
    }

    /// Programs that arrive: a service has at most 8 gangs with contexts.
    const fn arrivals(&self) -> usize {
        if self.quick { 3 } else { 6 }
    }
}

/// Names of the eight benchmarks.
pub fn names() -> Vec<&'static str> {
    let others = npb::Program::ALL.map(npb::Program::name);
    std::iter::once("is").chain(others).collect()
}

/// A program at every size that it has, in ascending order, with the operations of each.
fn sizes(name: &str) -> Vec<(npb::Class, Benchmark, u64)> {
    npb::Class::ALL
        .into_iter()
        .filter_map(|class| {
            let benchmark: Benchmark = format!("{name}:{class}").parse().ok()?;
            let operations = match &benchmark {
                Benchmark::Npb(npb) => npb.operations(),
                Benchmark::Is(class) => class.keys() * benchmark.iterations(),
                Benchmark::Halo(_) => return None,
            };
            Some((class, benchmark, operations))
        })
        .collect()
}

/// The time by which `time` lies outside of a range, as a factor of at least 1.
fn outside(time: f64, range: &RangeInclusive<Nanos>) -> f64 {
    let (low, high) = (range.start().as_f64(), range.end().as_f64());
    (low / time).max(time / high).max(1.0)
}

/// Chooses the sizes: runs every program once in class W, and takes the class that is expected to take
/// as long as wanted. Operations grow with the class; time does not grow exactly like them.
///
/// # Errors
/// A program fails; interrupted.
pub fn choose(
    bench: &Bench,
    extent: &Extent,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<NpbPlan, TrialError> {
    let mut chosen = Vec::new();
    let mut left_out = Vec::new();
    for (number, name) in extent.programs.iter().enumerate() {
        let sizes = sizes(name);
        let of = |wanted| sizes.iter().find(|(class, ..)| *class == wanted);
        let probed = extent.class.unwrap_or(npb::Class::W);
        let Some((_, probe, work)) = of(probed) else {
            left_out.push((name.clone(), format!("it has no class {probed}")));
            continue;
        };
        if let Some(why) = probe.refusal(bench.ranks) {
            left_out.push((name.clone(), why));
            continue;
        }
        progress.part(&format!("how long {probe} takes"));
        let case = Case::together(&[Program::Benchmark(probe.to_string())], Treatment::Alone);
        let took = bench
            .run(&case, 1_000_000 + number as u64, stop)?
            .makespan()
            .as_f64();
        let expected = |operations: u64| took * operations as f64 / *work as f64;
        let fits = sizes.iter().filter(|(class, benchmark, _)| {
            benchmark.refusal(bench.ranks).is_none() && extent.class.is_none_or(|c| c == *class)
        });
        let off = |operations: u64| outside(expected(operations), &extent.wanted());
        if let Some((_, benchmark, n)) = fits.min_by(|a, b| off(a.2).total_cmp(&off(b.2))) {
            let time = Nanos::from_nanos(expected(*n) as u64);
            chosen.push((time, benchmark.to_string()));
        }
    }
    chosen.sort();
    let (expected, programs) = chosen.into_iter().unzip();
    Ok(NpbPlan {
        programs,
        expected,
        left_out,
    })
}

/// The tables.
pub fn npb(plan: &NpbPlan, extent: &Extent) -> Vec<Table> {
    let programs: Vec<Program> = plan
        .programs
        .iter()
        .cloned()
        .map(Program::Benchmark)
        .collect();
    let table = |name: &str, compares, cases| Table {
        name: name.to_owned(),
        compares,
        cases,
    };
    let alone = programs.iter().flat_map(|program| {
        Copying::ALL.map(|copying| {
            Case::together(
                std::slice::from_ref(program),
                Treatment::Contexts(ALONE, copying),
            )
        })
    });
    let pairs = pairs(programs.len(), extent.quick)
        .into_iter()
        .map(|(a, b)| {
            let both = [programs[a].clone(), programs[b].clone()];
            Case::together(&both, Treatment::Contexts(PAIRED, Copying::Pointer))
        });
    let unequal = [Program::Fine(FINE), Program::Compute];
    let unequal = [Treatment::Switched(PAIRED), Treatment::Free]
        .map(|treatment| Case::together(&unequal, treatment));
    let mixed = mixed(plan, extent);
    vec![
        table("one program alone", Compares::BackToBack, alone.collect()),
        table("pairs of programs", Compares::BackToBack, pairs.collect()),
        table(
            "a fine-grained program beside one that computes",
            Compares::First,
            unequal.to_vec(),
        ),
        table(
            "short programs that arrive",
            Compares::Response,
            mixed.clone(),
        ),
        table("the long program meanwhile", Compares::First, mixed),
    ]
}

/// All pairs, each program with itself too; for a quick study each with itself and the next.
fn pairs(n: usize, quick: bool) -> Vec<(usize, usize)> {
    let all = (0..n).flat_map(|a| (a..n).map(move |b| (a, b)));
    all.filter(|(a, b)| !quick || b - a <= 1).collect()
}

/// The longest program, and shorter ones that arrive while it runs, at random times.
fn mixed(plan: &NpbPlan, extent: &Extent) -> Vec<Case> {
    let (Some(long), Some(time)) = (plan.programs.last(), plan.expected.last()) else {
        return Vec::new();
    };
    let mut random = SplitMix::new(extent.seed);
    // The shortest three at a small size: what somebody waits for at a terminal.
    let class = extent.class.unwrap_or(npb::Class::W);
    let short: Vec<String> = plan
        .programs
        .iter()
        .take(3)
        .filter_map(|name| Some(format!("{}:{class}", name.split_once(':')?.0)))
        .collect();
    let n = extent.arrivals();
    let mut arrivals: Vec<Nanos> = (0..n)
        .map(|_| Nanos::from_nanos((random.uniform() * time.as_f64()) as u64))
        .collect();
    arrivals.sort();
    let mut programs = vec![Program::Benchmark(long.clone())];
    programs.extend((0..n).filter_map(|i| {
        let name = short.get(i.checked_rem(short.len())?)?;
        Some(Program::Benchmark(name.clone()))
    }));
    arrivals.insert(0, Nanos::ZERO);
    [
        // Gangs with contexts take turns even if the CPUs would suffice for several.
        Treatment::Contexts(PAIRED, Copying::Pointer),
        Treatment::Free,
        Treatment::Queue,
    ]
    .map(|treatment| Case {
        programs: programs.clone(),
        treatment,
        arrivals: arrivals.clone(),
    })
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> NpbPlan {
        NpbPlan {
            programs: ["is:A", "ep:A", "cg:B"].map(str::to_owned).to_vec(),
            expected: [1, 2, 9].map(Nanos::from_secs).to_vec(),
            left_out: Vec::new(),
        }
    }

    const WHOLE: Extent = Extent {
        programs: Vec::new(),
        quick: false,
        class: None,
        seed: 7,
    };

    #[test]
    fn every_pair_occurs_once_and_a_quick_study_pairs_neighbours() {
        assert_eq!(pairs(8, false).len(), 36);
        assert_eq!(pairs(3, true), [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2)]);
        let tables = npb(&plan(), &WHOLE);
        let cases: Vec<usize> = tables.iter().map(|table| table.cases.len()).collect();
        assert_eq!(cases, [9, 6, 2, 3, 3]);
    }

    #[test]
    fn short_programs_arrive_in_order_while_the_longest_runs_and_alike_in_all_treatments() {
        let cases = mixed(&plan(), &WHOLE);
        let first = &cases[0];
        assert_eq!(first.programs.len(), 7);
        assert_eq!(first.programs[0], Program::Benchmark("cg:B".to_owned()));
        assert_eq!(first.programs[1], Program::Benchmark("is:W".to_owned()));
        assert!(first.arrivals.is_sorted());
        assert!(first.arrivals.iter().all(|at| *at < Nanos::from_secs(9)));
        assert!(cases.iter().all(|c| c.arrivals == first.arrivals));
        let other = mixed(&plan(), &Extent { seed: 8, ..WHOLE });
        assert_ne!(other[0].arrivals, first.arrivals);
    }

    #[test]
    fn the_size_is_the_one_whose_time_is_nearest_to_what_is_wanted() {
        let range = WHOLE.wanted();
        assert_eq!(outside(5e9, &range), 1.0);
        assert_eq!(outside(1.5e9, &range), 2.0);
        assert_eq!(outside(45e9, &range), 3.0);
        let growing = |name| {
            let sizes = sizes(name);
            assert!(sizes.len() >= 5, "{name}");
            assert!(
                sizes.is_sorted_by_key(|(.., operations)| *operations),
                "{name}"
            );
        };
        names().into_iter().for_each(growing);
    }
}
