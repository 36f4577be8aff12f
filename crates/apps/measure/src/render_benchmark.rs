//! Renders a benchmark as text.

use crate::benchmark::{BenchmarkOutcome, RankTimes};
use idlewave_units::Nanos;
use idlewave_units::show::{percent, time};
use std::fmt::{Result, Write};

/// More ranks than this are summarised.
const ROWS: usize = 16;

/// The text.
pub fn benchmark(out: &mut String, found: &BenchmarkOutcome) -> Result {
    let short = match found.iterations < found.all_iterations {
        true => format!(" of {}", found.all_iterations),
        false => String::new(),
    };
    let memory = found.memory_per_rank;
    writeln!(
        out,
        "{}: {}{short} iterations, {memory} per rank\n",
        found.benchmark, found.iterations
    )?;
    let columns = [
        "rank",
        "total",
        "computation",
        "collective",
        "point-to-point",
    ];
    row(out, columns)?;
    if found.ranks.len() <= ROWS {
        for (rank, times) in found.ranks.iter().enumerate() {
            row_of(out, &rank.to_string(), |part| part(times).as_f64())?;
        }
    }
    if found.ranks.len() > 1 {
        for (name, place) in [("least", 0.0), ("median", 0.5), ("most", 1.0)] {
            row_of(out, name, |part| {
                let mut all: Vec<f64> = found.ranks.iter().map(|t| part(t).as_f64()).collect();
                all.sort_by(f64::total_cmp);
                at(&all, place)
            })?;
        }
    }
    let sum = |part: fn(&RankTimes) -> Nanos| -> f64 {
        found.ranks.iter().map(|t| part(t).as_f64()).sum()
    };
    let total = sum(|t| t.total).max(1.0);
    let share = |part| percent(sum(part) / total);
    row(
        out,
        [
            "share",
            "",
            &share(|t| t.computation),
            &share(|t| t.collective),
            &share(|t| t.point_to_point),
        ],
    )?;
    let verification = found.ranks.iter().map(|t| t.verification).max();
    writeln!(
        out,
        "\n{}: {}, {:.1} million per second\nverified: {}, afterwards, in {}",
        found.operation,
        found.operations,
        found.rate,
        if found.verified { "yes" } else { "no" },
        time(verification.unwrap_or(Nanos::ZERO).as_f64()),
    )?;
    if let Some(checksum) = &found.checksum {
        writeln!(out, "checksum: {checksum}")?;
    }
    writeln!(
        out,
        "\nWaiting is part of the operation in which a rank waits: the last rank to reach\n\
         a collective spends little time in it. share: of the time of all ranks together."
    )
}

fn row(out: &mut String, columns: [&str; 5]) -> Result {
    let [name, total, computation, collective, messages] = columns;
    writeln!(
        out,
        "{name:<8} {total:>12} {computation:>14} {collective:>14} {messages:>16}"
    )
}

fn row_of(out: &mut String, name: &str, of: impl Fn(fn(&RankTimes) -> Nanos) -> f64) -> Result {
    let shown = |part| time(of(part));
    row(
        out,
        [
            name,
            &shown(|t| t.total),
            &shown(|t| t.computation),
            &shown(|t| t.collective),
            &shown(|t| t.point_to_point),
        ],
    )
}

/// The value at a position from 0 to 1 among sorted ones, interpolated between neighbours.
fn at(sorted: &[f64], place: f64) -> f64 {
    let exact = place * sorted.len().saturating_sub(1) as f64;
    let value = |i: usize| sorted.get(i).copied().unwrap_or(0.0);
    let (below, above) = (value(exact.floor() as usize), value(exact.ceil() as usize));
    below + (above - below) * exact.fract()
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_units::Bytes;

    fn outcome(ranks: u64) -> BenchmarkOutcome {
        let times = |rank: u64| RankTimes {
            total: Nanos::from_micros(100),
            collective: Nanos::from_micros(10 * rank),
            point_to_point: Nanos::ZERO,
            computation: Nanos::from_micros(100 - 10 * rank),
            verification: Nanos::from_micros(7),
        };
        BenchmarkOutcome {
            benchmark: "is:S".to_owned(),
            verified: true,
            iterations: 4,
            all_iterations: 10,
            operation: "keys ranked".to_owned(),
            operations: 262_144,
            rate: 2_621.44,
            checksum: None,
            memory_per_rank: Bytes::from_kib(400),
            ranks: (0..ranks).map(|rank| times(rank % 4)).collect(),
        }
    }

    fn text(ranks: u64) -> String {
        let mut out = String::new();
        benchmark(&mut out, &outcome(ranks)).expect("a string takes all");
        assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
        out
    }

    #[test]
    fn few_ranks_have_a_row_each_and_many_are_summed_up() {
        let few = text(4);
        assert!(
            few.starts_with("is:S: 4 of 10 iterations, 400 KiB per rank\n"),
            "{few}"
        );
        assert!(few.contains("\n3              100 us"), "{few}");
        // 0, 10, 20, 30 us: a median of 15, 60 of 400 us in all.
        for part in [
            "15.0 us",
            "15.0 %",
            "85.0 %",
            "2621.4 million per second",
            "verified: yes",
        ] {
            assert!(few.contains(part), "{part}: {few}");
        }
        let many = text(400);
        assert!(
            !many.contains("\n3  ") && many.contains("\nmedian "),
            "{many}"
        );
        assert!(!text(1).contains("median"));
    }
}
