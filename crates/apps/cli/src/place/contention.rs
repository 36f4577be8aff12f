//! `idlewave place contention`: fits a table of measured times and predicts each row from the
//! others.

use super::format::wrap;
use crate::exit::{Exit, Failure};
use crate::files::{name, read_text};
use crate::json;
use crate::output::print;
use clap::Args;
use idlewave_network::{
    ContentionStudy, ContentionTable, Exchange, Family, Foretold, PredictedRow, read_contention,
    study_contention,
};
use idlewave_simulate::collectives::Library;
use idlewave_units::show::{self, digits};
use idlewave_units::{Bytes, BytesPerSecond, counted};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;
use std::str::FromStr;

/// The largest table, in bytes.
const MOST_BYTES: usize = 16 << 20;
/// All-to-alls of the integer sort: the ten timed ones and the one before them.
const SORTS: f64 = 11.0;

#[derive(Debug, Args)]
#[command(after_help = "\
The first line of the table names its columns: P, nodes, k and total_s, and optionally collective_s, p2p_s, network and class. Each \
network and class is fitted separately. Classes are those of the integer sort IS of the NAS benchmarks; other all-to-all programs \
need --volume.

Examples:
  idlewave place contention docs/examples/contention.csv
  idlewave place contention docs/examples/contention.csv --calibrate 2x4,8x1
  idlewave place contention docs/examples/contention.csv --volume 22GiB --json")]
pub struct ContentionArgs {
    /// CSV file with the measured times
    #[arg(value_name = "TABLE")]
    table: PathBuf,
    /// Fit these rows only, given as nodes x ranks per node, as in 2x4,8x1 [default: predict each
    /// row from all others]
    #[arg(long, value_name = "ROWS", value_delimiter = ',')]
    calibrate: Vec<Layout>,
    /// Bytes that all ranks together exchange in the whole run, with a unit [default: that of the
    /// class in IS]
    #[arg(long, value_name = "SIZE")]
    volume: Option<Bytes>,
    /// MPI library whose rules choose the algorithms of collectives: openmpi or mpich
    #[arg(long, default_value = "openmpi", value_name = "LIBRARY")]
    collectives: Library,
    /// Print everything as JSON instead of the tables
    #[arg(long)]
    json: bool,
}

/// The number of nodes and of ranks per node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout(u32, u32);

impl FromStr for Layout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|n| *n > 0);
        let both = text.split_once('x');
        let both = both.and_then(|(nodes, each)| Some(Layout(number(nodes)?, number(each)?)));
        both.ok_or_else(|| {
            format!("`{text}` is not a number of nodes and of ranks per node, as in 2x4")
        })
    }
}

/// Runs the command.
pub fn run_contention(args: &ContentionArgs) -> Result<(), Failure> {
    let next =
        "give a CSV whose first line names P, nodes, k and total_s; docs/place.md has an example";
    let text = read_text(&args.table, MOST_BYTES, next, None)?;
    let tables = read_contention(&text).map_err(|error| {
        let what = format!("read {}: {error}", name(&args.table));
        Failure::new(Exit::Bundle, what).with_next(next)
    })?;
    let mut studies = Vec::new();
    for table in &tables {
        let exchange = exchange(args, table)?;
        let calibrate: Vec<(u32, u32)> = args.calibrate.iter().map(|l| (l.0, l.1)).collect();
        // Each table uses the given rows that it has.
        let own: Vec<(u32, u32)> = match tables.len() {
            1 => calibrate,
            _ => calibrate
                .into_iter()
                .filter(|c| table.rows.iter().any(|r| (r.nodes, r.per_node) == *c))
                .collect(),
        };
        let study = study_contention(table, &exchange, args.collectives, &own);
        studies.push(study.map_err(|error| {
            let of = match table.name.is_empty() {
                true => String::new(),
                false => format!(" ({})", table.name),
            };
            let what = format!("predict {}{of}: {error}", name(&args.table));
            let next = "give more rows, and only rows of the table with --calibrate";
            Failure::new(Exit::Bundle, what).with_next(next)
        })?);
    }
    if args.json {
        return json::print_computed(as_json(&studies));
    }
    print(&studies.iter().map(text_of).collect::<Vec<_>>().join("\n"))
}

/// The data that the program of a table exchanges.
fn exchange(args: &ContentionArgs, table: &ContentionTable) -> Result<Exchange, Failure> {
    if let Some(volume) = args.volume {
        return Ok(Exchange {
            bytes: volume.get() as f64,
            calls: 1.0,
        });
    }
    // NPB 3.3 and 3.4: is/npbparams.h and is.c.
    let keys = |class: &str| match class.to_ascii_uppercase().as_str() {
        "S" => Some(16),
        "W" => Some(20),
        "A" => Some(23),
        "B" => Some(25),
        "C" => Some(27),
        "D" => Some(29),
        _ => None,
    };
    let class = table.class.as_deref();
    let power: Option<i32> = class.and_then(keys);
    let power = power.ok_or_else(|| {
        let what = match class {
            Some(class) => {
                format!("use the class {class:?}: the classes of IS are S, W, A, B, C and D")
            }
            None => {
                "determine what the program exchanges: the table has no column class".to_owned()
            }
        };
        let next =
            "give with --volume what all ranks together exchange in the whole run, as in 64GiB";
        Failure::new(Exit::Usage, what).with_next(next)
    })?;
    Ok(Exchange {
        bytes: 4.0 * 2_f64.powi(power),
        calls: SORTS,
    })
}

fn text_of(study: &ContentionStudy) -> String {
    let mut out = String::new();
    let named = match study.name.is_empty() {
        true => String::new(),
        false => format!("{}: ", study.name),
    };
    wrap(
        &mut out,
        "",
        &format!("TABLE {named}{}", counted(study.rows.len() as u32, "row")),
    );
    for line in fitted(study) {
        wrap(&mut out, "  ", &line);
    }
    out.push('\n');
    table(&mut out, study);
    for line in errors(study) {
        wrap(&mut out, "  ", &line);
    }
    out
}

/// The fitted parameters, one per line.
fn fitted(study: &ContentionStudy) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(adapter) = study.adapter {
        lines.push(format!(
            "an adapter moves {} each way{}",
            BytesPerSecond::scaled_text(adapter),
            match study.waits > 0.0 {
                true => format!(
                    "; in addition collectives wait {}",
                    show::seconds(study.waits)
                ),
                false => String::new(),
            }
        ));
    }
    if let Some(work) = study.work {
        lines.push(format!(
            "{} of computation on all ranks together; each further rank on a node adds {}",
            show::seconds(work),
            show::percent(study.crowding)
        ));
    }
    for above in &study.above {
        let link = match (above.link, study.adapter) {
            (Some(link), Some(adapter)) => format!(
                "; one link of {} between two halves of the nodes ({} of an adapter) would take as long. The table does not show where it \
                 is, nor whether it is a link or lost messages",
                BytesPerSecond::scaled_text(link),
                show::percent(link / adapter)
            ),
            _ => String::new(),
        };
        lines.push(format!(
            "{}: {} measured, of which adapters explain {}: something above them is slow{link}",
            counted(above.nodes, "node"),
            span(above.measured),
            span(above.explained)
        ));
    }
    lines
}

fn span((least, most): (f64, f64)) -> String {
    match digits(least) == digits(most) {
        true => format!("{} s", digits(least)),
        false => format!("{} to {} s", digits(least), digits(most)),
    }
}

fn table(out: &mut String, study: &ContentionStudy) {
    let head = "       nodes  per   collectives, s          total, s\n  \
                ranks        node measured model  error measured   model (95 %)          error";
    out.push_str(head);
    out.push('\n');
    let mut before = None;
    for row in &study.rows {
        if before.is_some_and(|ranks| ranks != row.row.ranks) {
            out.push('\n');
        }
        before = Some(row.row.ranks);
        let mark = match (row.calibrates, row.family) {
            (true, _) => '=',
            (_, Family::Node) => 'm',
            (_, Family::Adapters) => ' ',
            (_, Family::Above) => '^',
        };
        let line = format!(
            "{mark} {:>4} {:>5} {:>4} {:>8} {:>6} {:>7} {:>8} {:>6} {:<14} {:>7}",
            row.row.ranks,
            row.row.nodes,
            row.row.per_node,
            row.row.collective.map_or("-".to_owned(), digits),
            seconds(row.collective),
            percent(row.collective_error()),
            digits(row.row.total),
            seconds(row.total),
            interval(row.total),
            percent(row.total_error()),
        );
        let _ = writeln!(out, "{}", line.trim_end());
    }
    let marks = [
        (
            'm',
            Family::Node,
            "one node: predicted from the other rows of one node",
        ),
        (
            '^',
            Family::Above,
            "something above the adapters: predicted from other rows with as many nodes",
        ),
    ];
    for (mark, family, words) in marks {
        if study
            .rows
            .iter()
            .any(|r| r.family == family && !r.calibrates)
        {
            let _ = writeln!(out, "  {mark} {words}");
        }
    }
    if study.rows.iter().any(|r| r.calibrates) {
        out.push_str("  = calibrates: its error is that of the fit\n");
    }
    out.push('\n');
}

fn seconds(foretold: Option<Foretold>) -> String {
    foretold.map_or("-".to_owned(), |f| digits(f.seconds))
}

fn interval(foretold: Option<Foretold>) -> String {
    let interval = foretold.and_then(|f| f.interval);
    interval.map_or(String::new(), |(low, high)| {
        format!("{}..{}", digits(low), digits(high))
    })
}

fn percent(error: Option<f64>) -> String {
    error.map_or("-".to_owned(), show::change)
}

/// Mean errors of the predicted rows, by the shared resource, and how many lie in their intervals.
fn errors(study: &ContentionStudy) -> Vec<String> {
    let mut lines = Vec::new();
    for (family, words) in [
        (Family::Adapters, "by adapters"),
        (Family::Node, "on one node"),
        (Family::Above, "above the adapters"),
    ] {
        let (count, collective, total) = study.mean_errors(family);
        let parts = [("collectives", collective), ("total", total)];
        let parts: Vec<String> = parts
            .iter()
            .filter_map(|(name, error)| Some(format!("{} of {name}", show::percent((*error)?))))
            .collect();
        match (count, parts.is_empty()) {
            (0, _) => {}
            (_, true) => lines.push(format!(
                "{} {words}: not predicted, no other row applies",
                counted(count as u32, "row")
            )),
            (_, false) => lines.push(format!(
                "mean error of {} {words}: {}",
                counted(count as u32, "row"),
                parts.join(", ")
            )),
        }
    }
    let with = study.rows.iter().filter(|r| !r.calibrates);
    let within = with.filter_map(|r| {
        let (low, high) = r.total?.interval?;
        Some((low..=high).contains(&r.row.total))
    });
    let within: Vec<bool> = within.collect();
    if !within.is_empty() {
        let inside = within.iter().filter(|inside| **inside).count();
        lines.push(format!(
            "{inside} of {} totals lie in their intervals, which follow from the errors of the other rows",
            within.len()
        ));
    }
    lines
}

fn as_json(studies: &[ContentionStudy]) -> Value {
    let foretold = |f: Option<Foretold>, error: Option<f64>| {
        f.map(|f| {
            let (low, high) = f.interval.map_or((None, None), |(l, h)| (Some(l), Some(h)));
            json!({ "seconds": f.seconds, "low": low, "high": high, "error": error })
        })
    };
    let row = |row: &PredictedRow| {
        json!({
            "line": row.row.line,
            "ranks": row.row.ranks,
            "nodes": row.row.nodes,
            "ranks_per_node": row.row.per_node,
            "family": row.family,
            "calibrates": row.calibrates,
            "measured": {
                "total": row.row.total,
                "collective": row.row.collective,
                "point_to_point": row.row.point_to_point,
            },
            "collective": foretold(row.collective, row.collective_error()),
            "total": foretold(row.total, row.total_error()),
        })
    };
    let study = |study: &ContentionStudy| {
        json!({
            "name": study.name,
            "adapter_bytes_per_s": study.adapter,
            "waits_s": study.waits,
            "work_s": study.work,
            "crowding": study.crowding,
            "above": study.above,
            "rows": study.rows.iter().map(row).collect::<Vec<_>>(),
        })
    };
    let all: Vec<Value> = studies.iter().map(study).collect();
    json!({ "tables": all })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has 16-node rows far above what the adapters explain, and one row on a single node.
    const TABLE: &str = include_str!("../../../../../docs/examples/contention.csv");

    #[test]
    fn every_row_of_the_published_tables_is_predicted_within_80_columns() {
        let tables = read_contention(TABLE).unwrap();
        let mut rows = 0;
        for table in &tables {
            let keys = if table.class.as_deref() == Some("D") {
                29
            } else {
                27
            };
            let exchange = Exchange {
                bytes: 4.0 * 2_f64.powi(keys),
                calls: SORTS,
            };
            let study = study_contention(table, &exchange, Library::OpenMpi, &[]).unwrap();
            let text = text_of(&study);
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{line}");
            }
            let predicted = |r: &&PredictedRow| r.total.is_some() && r.collective.is_some();
            rows += study.rows.iter().filter(predicted).count();
            assert_eq!(
                study.above.len(),
                usize::from(table.name.starts_with("gige"))
            );
            println!("{text}");
        }
        assert_eq!((tables.len(), rows), (3, 32));
    }

    #[test]
    fn a_layout_is_nodes_by_ranks() {
        assert_eq!("2x4".parse(), Ok(Layout(2, 4)));
        for wrong in ["2", "x", "0x4", "2x", "axb"] {
            assert!(wrong.parse::<Layout>().is_err(), "{wrong}");
        }
    }
}
