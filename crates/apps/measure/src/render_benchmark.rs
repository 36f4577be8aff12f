//! Renders benchmarks as text.

use crate::benchmark::{BenchmarkRow, Ended};
use crate::render_common::paragraph;
use idlewave_run::{BenchmarkRank, BenchmarkSheet};
use idlewave_stats::quantiles;
use idlewave_units::Nanos;
use idlewave_units::show::{count, digits, percent, time};
use std::fmt::{Result, Write};

/// More ranks than this are summarised.
const ROWS: usize = 16;

/// The text.
pub fn benchmark(out: &mut String, found: &BenchmarkSheet) -> Result {
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
    parts(out, found)?;
    iterations(out, found)?;
    calls(out, found)?;
    regions(out, found)?;
    let verification = found.ranks.iter().map(|t| t.verification).max();
    let verification = time(verification.unwrap_or(Nanos::ZERO).as_f64());
    let verified = match found.verified {
        true => format!("yes, afterwards, in {verification}"),
        false => "no: interrupted before the end, which has the values to compare".to_owned(),
    };
    writeln!(
        out,
        "\n{}: {}, {} million per second\nverified: {verified}",
        found.operation,
        found.operations,
        digits(found.rate),
    )?;
    if let Some(checksum) = &found.checksum {
        writeln!(out, "checksum: {checksum}")?;
    }
    writeln!(
        out,
        "\nWaiting is part of the call in which a rank waits: the last rank to reach a\n\
         collective spends little time in it. share: of the time of all ranks together."
    )
}

/// Several benchmarks, a row each.
pub fn benchmarks(out: &mut String, rows: &[BenchmarkRow]) -> Result {
    writeln!(
        out,
        "{:<9} {:>9} {:>10} {:>11} {:>10} {:>14}  verified",
        "benchmark", "total", "million/s", "computation", "collective", "point-to-point"
    )?;
    for row in rows {
        let name = &row.benchmark;
        match &row.ended {
            Ended::Done { sheet } => {
                let share = |part| percent(share(sheet, part));
                writeln!(
                    out,
                    "{name:<9} {:>9} {:>10} {:>11} {:>10} {:>14}  {}",
                    time(sheet.total().as_f64()),
                    digits(sheet.rate),
                    share(|t| t.computation),
                    share(|t| t.collective),
                    share(|t| t.point_to_point),
                    if sheet.verified { "yes" } else { "no" },
                )?;
            }
            Ended::Refused { reason } => {
                paragraph(out, &format!("{name:<9} "), &" ".repeat(10), reason)?;
            }
            Ended::Wrong { reason } => {
                let text = format!("WRONG: {reason}");
                paragraph(out, &format!("{name:<9} "), &" ".repeat(10), &text)?;
            }
        }
    }
    writeln!(
        out,
        "\ntotal: of the slowest rank; million/s: operations as the benchmark counts them;\n\
         then the shares of the time of all ranks together."
    )
}

/// The share of a part in the time of all ranks together.
fn share(found: &BenchmarkSheet, part: fn(&BenchmarkRank) -> Nanos) -> f64 {
    let sum = |part: fn(&BenchmarkRank) -> Nanos| -> f64 {
        found.ranks.iter().map(|t| part(t).as_f64()).sum()
    };
    sum(part) / sum(|t| t.total).max(1.0)
}

fn parts(out: &mut String, found: &BenchmarkSheet) -> Result {
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
        for (place, name) in ["least", "median", "most"].into_iter().enumerate() {
            row_of(out, name, |part| {
                spread(found.ranks.iter().map(&part))[place]
            })?;
        }
    }
    let share = |part| percent(share(found, part));
    row(
        out,
        [
            "share",
            "",
            &share(|t| t.computation),
            &share(|t| t.collective),
            &share(|t| t.point_to_point),
        ],
    )
}

/// How long the iterations of each rank took.
fn iterations(out: &mut String, found: &BenchmarkSheet) -> Result {
    let timed = found.ranks.iter().enumerate();
    let mut timed: Vec<_> = timed
        .filter_map(|(rank, r)| Some((rank, r.iterations.as_ref()?)))
        .collect();
    if timed.is_empty() {
        return Ok(());
    }
    let few = timed.len() <= ROWS;
    if !few {
        timed.sort_by_key(|(rank, t)| (std::cmp::Reverse(t.slowest), *rank));
        timed.truncate(ROWS / 2);
    }
    writeln!(
        out,
        "\n{:<8} {:>12} {:>12} {:>12} {:>14} {:>16}",
        "rank", "iteration", "10 %", "90 %", "computation", "slowest in"
    )?;
    for (rank, t) in timed {
        let share = t.slowest as f64 / t.count.max(1) as f64;
        writeln!(
            out,
            "{rank:<8} {:>12} {:>12} {:>12} {:>14} {:>16}",
            time(t.median.as_f64()),
            time(t.tenth.as_f64()),
            time(t.ninetieth.as_f64()),
            time(t.computation.as_f64()),
            percent(share),
        )?;
    }
    writeln!(
        out,
        "iteration: median; 10 %, 90 %: of the iterations are shorter; computation:\n\
         median without calls; slowest in: iterations in which the rank computed longest{}",
        if few {
            ""
        } else {
            ";\nthe ranks that did so most often"
        }
    )
}

/// The calls of all ranks together.
fn calls(out: &mut String, found: &BenchmarkSheet) -> Result {
    let all = found.calls();
    if all.is_empty() {
        return Ok(());
    }
    let total: f64 = found.ranks.iter().map(|r| r.total.as_f64()).sum();
    writeln!(
        out,
        "\n{:<20} {:>12} {:>12} {:>14} {:>16}",
        "calls of all ranks", "count", "bytes", "time per call", "share"
    )?;
    for calls in all {
        let bytes = match calls.bytes.get() {
            0 => "-".to_owned(),
            _ => calls.bytes.to_string(),
        };
        writeln!(
            out,
            "{:<20} {:>12} {bytes:>12} {:>14} {:>16}",
            calls.call,
            count(calls.count),
            time(calls.time.as_f64() / calls.count.max(1) as f64),
            percent(calls.time.as_f64() / total.max(1.0)),
        )?;
    }
    Ok(())
}

/// The regions, with the ranks that spent the least and the most time in each.
fn regions(out: &mut String, found: &BenchmarkSheet) -> Result {
    let names = found.regions();
    if names.is_empty() {
        return Ok(());
    }
    let total: f64 = found.ranks.iter().map(|r| r.total.as_f64()).sum();
    writeln!(
        out,
        "\n{:<20} {:>12} {:>12} {:>14} {:>16}",
        "region", "least", "median", "most", "share"
    )?;
    for name in names {
        let of = |rank: &BenchmarkRank| {
            let region = rank.regions.iter().find(|region| region.name == name);
            region.map_or(Nanos::ZERO, |region| region.time)
        };
        let times = || found.ranks.iter().map(of);
        let [least, median, most] = spread(times()).map(time);
        writeln!(
            out,
            "{name:<20} {:>12} {:>12} {:>14} {:>16}",
            least,
            median,
            most,
            percent(times().map(Nanos::as_f64).sum::<f64>() / total.max(1.0)),
        )?;
    }
    Ok(())
}

fn row(out: &mut String, columns: [&str; 5]) -> Result {
    let [name, total, computation, collective, messages] = columns;
    writeln!(
        out,
        "{name:<8} {total:>12} {computation:>14} {collective:>14} {messages:>16}"
    )
}

fn row_of(out: &mut String, name: &str, of: impl Fn(fn(&BenchmarkRank) -> Nanos) -> f64) -> Result {
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

/// The least of the times, their median and the most.
fn spread(times: impl Iterator<Item = Nanos>) -> [f64; 3] {
    let mut sorted: Vec<u64> = times.map(Nanos::get).collect();
    sorted.sort_unstable();
    [0.0, 0.5, 1.0].map(|share| quantiles::quantile_of_sorted(&sorted, share).value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_run::{BenchmarkCalls, BenchmarkRegion, IterationTimes};
    use idlewave_units::Bytes;

    fn outcome(ranks: u64) -> BenchmarkSheet {
        let times = |rank: u64| BenchmarkRank {
            total: Nanos::from_micros(100),
            collective: Nanos::from_micros(10 * rank),
            point_to_point: Nanos::ZERO,
            computation: Nanos::from_micros(100 - 10 * rank),
            verification: Nanos::from_micros(7),
            iterations: Some(IterationTimes {
                count: 4,
                median: Nanos::from_micros(25),
                tenth: Nanos::from_micros(24),
                ninetieth: Nanos::from_micros(27),
                computation: Nanos::from_micros(20),
                slowest: rank,
            }),
            calls: vec![BenchmarkCalls {
                call: "allreduce".to_owned(),
                count: 2,
                bytes: Bytes::from_kib(rank),
                time: Nanos::from_micros(10 * rank),
            }],
            regions: vec![BenchmarkRegion {
                name: "rank".to_owned(),
                time: Nanos::from_micros(50),
            }],
        };
        BenchmarkSheet {
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
            "2621 million per second",
            "verified: yes",
            // Rank 3 in three of four iterations; 8 calls of 6 KiB and 60 us in all.
            "\n3             25.0 us      24.0 us      27.0 us        20.0 us           75.0 %",
            "\nallreduce                       8        6 KiB        7.50 us           15.0 %",
            "\nrank                      50.0 us      50.0 us        50.0 us           50.0 %",
        ] {
            assert!(few.contains(part), "{part}: {few}");
        }
        let many = text(400);
        assert!(
            !many.contains("\n2  ") && many.contains("\nmedian   "),
            "{many}"
        );
        assert!(!text(1).contains("\nmedian   "));
    }

    #[test]
    fn a_small_rate_is_not_zero() {
        let mut out = String::new();
        let found = BenchmarkSheet {
            rate: 0.012_34,
            ..outcome(2)
        };
        benchmark(&mut out, &found).expect("a string takes all");
        assert!(out.contains(", 0.0123 million per second"), "{out}");
    }

    #[test]
    fn what_was_interrupted_says_that_it_was_not_verified() {
        let mut out = String::new();
        let found = BenchmarkSheet {
            verified: false,
            ..outcome(2)
        };
        benchmark(&mut out, &found).expect("a string takes all");
        assert!(out.contains("\nverified: no: interrupted"), "{out}");
        assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    }

    #[test]
    fn of_several_benchmarks_each_has_a_row_and_what_did_not_run_a_reason() {
        let row = |name: &str, ended| BenchmarkRow {
            benchmark: name.to_owned(),
            ended,
        };
        let reason = "it runs on a square of ranks (1, 4, 9, 16) up to 1024, not on 2; try 1 or 4";
        let rows = [
            row(
                "is:S",
                Ended::Done {
                    sheet: Box::new(outcome(4)),
                },
            ),
            row(
                "bt:S",
                Ended::Refused {
                    reason: reason.to_owned(),
                },
            ),
            row(
                "cg:S",
                Ended::Wrong {
                    reason: "verify cg:S: zeta is 1, not 8".to_owned(),
                },
            ),
        ];
        let mut out = String::new();
        benchmarks(&mut out, &rows).expect("a string takes all");
        assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
        for part in [
            "\nis:S         100 us       2621      85.0 %     15.0 %            0 %  yes",
            "\nbt:S      it runs on a square",
            "\ncg:S      WRONG: verify cg:S",
        ] {
            assert!(out.contains(part), "{part}: {out}");
        }
    }
}
