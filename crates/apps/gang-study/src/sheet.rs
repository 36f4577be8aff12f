//! A study as data for the HTML page.

use crate::case::{Compares, Table};
use crate::contexts::Contexts;
use crate::spread::Spread;
use crate::study::{Filled, Row, Study};
use crate::words::{row_words, words};
use idlewave_report::{GangContexts, GangNumber, GangRow, GangSheet, GangSwitches, GangTable};

/// The sheet of a study, with its command line.
pub fn sheet(study: &Study, command: Vec<String>, idlewave: &str) -> GangSheet {
    let (made, wanted) = study.repeats;
    let mut details = vec![match study.limit {
        Some(limit) if made >= wanted => format!(
            "{made} repeats: the first {wanted} of all cases in turn, the others of cases not known to be over or under {}",
            idlewave_units::show::percent(limit)
        ),
        _ => format!("{made} of {wanted} repeats, each running all cases in turn"),
    }];
    details.extend(
        study
            .carrier
            .iter()
            .map(|carrier| format!("programs over {carrier}")),
    );
    let counted = study.not_counted.iter();
    details.extend(counted.map(|why| format!("cache misses: not measured ({why})")));
    let mut warnings = Vec::new();
    if !study.same_results {
        warnings.push(
            "Runs of the same program gave different results: do not trust this machine."
                .to_owned(),
        );
    }
    let rows = study
        .tables
        .iter()
        .flat_map(|filled| filled.rows.iter().map(move |row| (&filled.table, row)));
    GangSheet {
        machine: study.machine.clone(),
        details,
        alone: study
            .alone
            .iter()
            .map(|(case, time)| (words(case), number(time)))
            .collect(),
        tables: study.tables.iter().map(table).collect(),
        switches: rows
            .filter_map(|(table, row)| switches(table, row))
            .collect(),
        contexts: study.contexts.iter().map(contexts).collect(),
        warnings,
        command,
        idlewave: idlewave.to_owned(),
    }
}

fn number(spread: &Spread) -> GangNumber {
    let (low, high) = spread.ends();
    GangNumber {
        median: spread.median,
        low,
        high,
        n: spread.n as u64,
    }
}

fn table(filled: &Filled) -> GangTable {
    let row = |row: &Row| GangRow {
        label: row_words(&filled.table, &row.case),
        switched: row.case.treatment.slice().is_some(),
        ratio: number(&row.ratio),
        seconds: number(&row.seconds),
        cache_misses: row.cache_misses.as_ref().map(number),
        switching: row.switching.as_ref().map(number),
        cpu_time: row.cpu_time.as_ref().map(number),
    };
    GangTable {
        name: filled.table.name.clone(),
        ratio: match filled.table.compares {
            Compares::BackToBack => {
                "Time until all programs had ended, over their times alone, one after the other"
                    .to_owned()
            }
            Compares::First => "Time of the first program, over its time alone".to_owned(),
            Compares::Response => {
                "From the arrival of a program to its end, over the same alone".to_owned()
            }
        },
        rows: filled.rows.iter().map(row).collect(),
    }
}

fn switches(table: &Table, row: &Row) -> Option<GangSwitches> {
    let switches = row.switches.as_ref()?;
    // Nothing was switched, so there are no times.
    let cost = switches.cost.as_ref()?;
    let of = |name: &str, q: &idlewave_gang_agent::control::Quantiles| {
        (
            name.to_owned(),
            q.median.as_f64() / 1e9,
            q.p99.as_f64() / 1e9,
        )
    };
    let mut phases = vec![of("whole", cost)];
    phases.extend(switches.phases.iter().map(|(name, q)| of(name, q)));
    let skew = row
        .skew
        .as_ref()
        .map(|(median, p99)| (median.value / 1e9, p99.value / 1e9, median.n));
    Some(GangSwitches {
        label: format!("{}: {}", table.name, row_words(table, &row.case)),
        n: cost.n,
        phases,
        skew,
    })
}

fn contexts(of: &Contexts) -> GangContexts {
    GangContexts {
        label: format!("{} MiB, {}", of.bytes >> 20, of.policy),
        n: of.whole.n,
        drain: of.drain.value / 1e9,
        context: of.context.value / 1e9,
        whole: (
            of.whole.value / 1e9,
            of.whole.low / 1e9,
            of.whole.high / 1e9,
        ),
    }
}
