//! A study as text of 80 columns.

use crate::case::{Compares, Table};
use crate::contexts::SIZES;
use crate::spread::Spread;
use crate::study::{Filled, Row, Study};
use crate::words::{row_words, words};
use idlewave_gang_agent::control::{Quantiles, SwitchStatus};
use idlewave_units::show::{self, time};
use idlewave_units::{Nanos, counted};
use std::fmt::Write as _;

/// The complete text.
pub fn text(study: &Study) -> String {
    let mut out = String::new();
    let (made, wanted) = study.repeats;
    let _ = writeln!(out, "STUDY OF GANG SWITCHING, {}", study.machine);
    if let Some(carrier) = &study.carrier {
        let _ = writeln!(out, "  programs over {carrier}");
    }
    let repeats = match (made < wanted, study.limit) {
        (true, _) => format!("{made} of {} made", counted(wanted, "repeat")),
        (false, Some(_)) => format!(
            "{} of all cases, up to {made} of undecided ones",
            counted(wanted, "repeat")
        ),
        (false, None) => counted(made, "repeat"),
    };
    let _ = writeln!(
        out,
        "  {repeats}, cases in turn\n  \
         median (95 % interval; least..most of fewer than 6 or of several programs)\n"
    );
    out.push_str("ALONE\n");
    for (case, time) in &study.alone {
        let _ = writeln!(out, "  {:<46} {}", words(case), seconds(time));
    }
    for filled in &study.tables {
        table(&mut out, filled, study.limit);
    }
    overheads(&mut out, study);
    cache_misses(&mut out, study);
    phases(&mut out, study);
    contexts(&mut out, study);
    out.push('\n');
    out.push_str(match study.same_results {
        true => "Every program gave the same result in all cases.\n",
        false => "RESULTS DIFFER between runs of the same program: do not trust this machine.\n",
    });
    out
}

fn seconds(time: &Spread) -> String {
    spread(time, show::seconds)
}

fn table(out: &mut String, filled: &Filled, limit: Option<f64>) {
    let _ = writeln!(out, "\n{}", filled.table.name.to_uppercase());
    let head = match filled.table.compares {
        Compares::BackToBack => "over its programs one after the other",
        Compares::First => "time of the first over its time alone",
        Compares::Response => "arrival to end, over the same alone",
    };
    let _ = writeln!(out, "  {:<46} {head}", "");
    for row in &filled.rows {
        let ratio = match filled.table.compares {
            Compares::BackToBack => percent(&row.ratio),
            Compares::First | Compares::Response => times(&row.ratio),
        };
        let mark = match limit_of(filled, limit).map(|limit| row.ratio.is_over(limit)) {
            Some(Some(true)) => '>',
            Some(None) => '?',
            Some(Some(false)) | None => ' ',
        };
        let n = limit.map_or_else(String::new, |_| format!(" n={}", row.trials.len()));
        let _ = writeln!(
            out,
            "{mark} {:<46} {ratio}{n}",
            row_words(&filled.table, &row.case)
        );
    }
    if let Some(limit) = limit_of(filled, limit) {
        let verdicts = filled.rows.iter().map(|row| row.ratio.is_over(limit));
        let verdicts: Vec<Option<bool>> = verdicts.collect();
        let of = |wanted| verdicts.iter().filter(|found| **found == wanted).count();
        let _ = writeln!(
            out,
            "  of {}: under {limit} {}, > over {}, ? not known {}",
            verdicts.len(),
            of(Some(false)),
            of(Some(true)),
            of(None),
            limit = show::percent(limit)
        );
        out.push_str(
            "  tested after each repeat: more than 5 % of cases near the limit are misjudged\n",
        );
    }
}

/// The limit, where a table compares with one after the other.
fn limit_of(filled: &Filled, limit: Option<f64>) -> Option<f64> {
    limit.filter(|_| filled.table.compares == Compares::BackToBack)
}

/// Of what is more than one after the other: the part of switches, and what the ranks' CPU time grew
/// by, which is work in colder caches and waiting.
fn overheads(out: &mut String, study: &Study) {
    let of = |filled: &Filled| filled.table.compares == Compares::BackToBack;
    let tables = study.tables.iter().filter(|filled| of(filled));
    let mut lines = String::new();
    for filled in tables {
        for row in &filled.rows {
            if let (Some(switching), Some(cpu)) = (row.switching, row.cpu_time) {
                let _ = writeln!(
                    lines,
                    "  {:<46} {:>7} {:>9} {:>9}",
                    row_words(&filled.table, &row.case),
                    show::change(row.ratio.median - 1.0),
                    show::percent(switching.median),
                    show::change(cpu.median - 1.0)
                );
            }
        }
    }
    if !lines.is_empty() {
        let heads = ["time", "switches", "CPU time"];
        let [time, switches, cpu] = heads;
        let _ = writeln!(
            out,
            "\nWHERE TIME GOES (medians)\n  {:<46} {time:>7} {switches:>9} {cpu:>9}\n{lines}  \
             switches: time during which no program runs. CPU time: of the ranks, more\n  \
             than alone: colder caches, and waiting. Others had the CPU during the rest.",
            ""
        );
    }
}

fn cache_misses(out: &mut String, study: &Study) {
    out.push_str("\nCACHE MISSES of the ranks, over those of the programs alone\n");
    for filled in &study.tables {
        let counted = filled
            .rows
            .iter()
            .filter_map(|row| Some((row, row.cache_misses?)));
        for (row, misses) in counted {
            let case = format!(
                "{}, {}",
                filled.table.name,
                row_words(&filled.table, &row.case)
            );
            let _ = writeln!(out, "  {case}\n  {:<46} {}", "", percent(&misses));
        }
    }
    if let Some(why) = &study.not_counted {
        let why = why.strip_prefix("open a perf event: ").unwrap_or(why);
        let _ = writeln!(out, "  not measured: {why}");
    }
}

/// The excess over 1, in percent.
fn percent(ratio: &Spread) -> String {
    spread(ratio, |value| show::change(value - 1.0))
}

fn times(ratio: &Spread) -> String {
    spread(ratio, show::factor)
}

fn spread(of: &Spread, shown: impl Fn(f64) -> String) -> String {
    let (low, high) = of.ends();
    let [median, low, high] = [of.median, low, high].map(shown);
    format!("{median} ({low}..{high})")
}

fn phases(out: &mut String, study: &Study) {
    let switched = |filled: &&Filled| filled.rows.iter().any(|row| row.switches.is_some());
    let mut tables = study.tables.iter().filter(switched).peekable();
    if tables.peek().is_none() {
        return;
    }
    out.push_str("\nSWITCHES (median, p99; last repeat)\n");
    let _ = writeln!(
        out,
        "  {:<26} {:>4} {:>15} {:>15} {:>13}",
        "", "n", "whole", "freeze", "thaw"
    );
    for filled in tables {
        let _ = writeln!(out, "  {}", filled.table.name);
        for row in &filled.rows {
            if let Some(switches) = &row.switches {
                switches_of(out, &filled.table, row, switches);
            }
        }
    }
}

fn switches_of(out: &mut String, table: &Table, row: &Row, switches: &SwitchStatus) {
    let phase = |name: &str| {
        let phase = switches.phases.iter().find(|(of, _)| of == name);
        phase.map(|(_, q)| *q)
    };
    let _ = writeln!(
        out,
        "    {}\n    {:<24} {:>4} {:>15} {:>15} {:>13}",
        row_words(table, &row.case),
        "",
        switches.cost.map_or(0, |cost| cost.n),
        two(switches.cost),
        two(phase("freeze")),
        two(phase("thaw"))
    );
    let others = ["stop", "drain", "context", "messages"].map(|name| {
        let median = phase(name)?.median;
        Some(format!("{name} {median}"))
    });
    let others: Vec<String> = others.into_iter().flatten().collect();
    if !others.is_empty() {
        let _ = writeln!(out, "      medians: {}", others.join(", "));
    }
    if !switches.aborted.is_empty() {
        let n: u64 = switches.aborted.iter().map(|(_, n)| n).sum();
        let _ = writeln!(out, "      {n} aborted");
    }
    if let Some((median, p99)) = &row.skew {
        let _ = writeln!(
            out,
            "      ranks resume within {}, p99 {} of each other, {} thaws",
            Nanos::from_nanos(median.value as u64),
            Nanos::from_nanos(p99.value as u64),
            median.n
        );
    }
}

fn contexts(out: &mut String, study: &Study) {
    if study.contexts.is_empty() {
        return;
    }
    out.push_str(
        "\nNETWORK CONTEXTS, two gangs of two busily communicating ranks (median, 95 %)\n",
    );
    let _ = writeln!(
        out,
        "  {:<25} {:>4} {:>9} {:>10} {:>26}",
        "", "n", "drain", "context", "whole switch"
    );
    for c in &study.contexts {
        let what = match c.policy.as_str() {
            "whole" => "everything copied",
            "valid" => "parts in use copied",
            _ => "a pointer moves",
        };
        let _ = writeln!(
            out,
            "  {} MiB, {what:<18} {:>4} {:>9} {:>10} {:>26}",
            c.bytes >> 20,
            c.whole.n,
            time(c.drain.value),
            time(c.context.value),
            format!(
                "{} ({}..{})",
                time(c.whole.value),
                time(c.whole.low),
                time(c.whole.high)
            )
        );
    }
    for bytes in SIZES.map(|bytes| bytes as u64) {
        let of = |policy: &str| {
            let one = study
                .contexts
                .iter()
                .find(|c| c.policy == policy && c.bytes == bytes);
            one.map(|c| c.whole.value)
        };
        if let (Some(whole), Some(pointer)) = (of("whole"), of("resident")) {
            let less = show::percent(1.0 - pointer / whole);
            let _ = writeln!(
                out,
                "  {} MiB: a pointer is {less} shorter than copying all out and in",
                bytes >> 20
            );
        }
    }
}

/// Median and 0.99 quantile; a dash if not measured.
fn two(of: Option<Quantiles>) -> String {
    match of {
        Some(q) => format!("{}, {}", q.median, q.p99),
        None => "-".to_owned(),
    }
}
