//! `idlewave place study`: runs a workload, or a user's program, with every number of nodes and
//! ranks per node of an allocation, and compares the times of workloads with predictions.

use super::format::{unit, wrap};
use super::numbers::Numbers;
use super::predict::Model;
use super::words::interval;
use crate::exit::{Exit, Failure, report_failure};
use crate::files::{refuse_place, write_new};
use crate::json::{self, Begun};
use crate::measure;
use crate::output::print;
use crate::progress::Bars;
use crate::record::as_user;
use crate::signals::{for_program, until_stopped};
use clap::Args;
use idlewave_measure::{FabricChoice, PlacementOptions, PlacementOutcome, busy_nodes, placements};
use idlewave_mpi::{Launch, Search};
use idlewave_network::Predicted;
use idlewave_record::{FailedRun, LayoutOptions, Signals, study_layouts};
use idlewave_report::{StudyRow, StudySheet, study_page};
use idlewave_run::findings::Estimate;
use idlewave_session::Stop;
use idlewave_simulate::collectives::Library;
use idlewave_sys::terminal::say;
use idlewave_topology::expand_hostlist;
use idlewave_units::foreign::one_line;
use idlewave_units::{counted, show};
use idlewave_workloads::Benchmark;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

#[derive(Debug, Args)]
#[command(after_help = "\
With --workload, start it on the nodes of an allocation, with as many ranks per
node as a job may have. A program of yours is started anew for each layout: start
the study without a launcher; it starts the launcher itself.

Examples:
  mpirun -n 16 --map-by ppr:4:node idlewave place study --workload is:A
  mpirun -n 8 --map-by ppr:2:node idlewave place study --workload halo:64
  idlewave place study -- ./app
  idlewave place study --hosts node[1-4] --cores 8 --ranks 8,16 -- ./app
  idlewave place study --workload is:S --threads 2 --repeats 2")]
pub struct StudyArgs {
    /// Workload: is:CLASS (S to C); ep, cg, mg, ft, lu, sp or bt:CLASS (S to D); or halo:CELLS as in
    /// halo:64
    #[arg(
        long,
        value_name = "NAME",
        required_unless_present = "program",
        conflicts_with = "program"
    )]
    workload: Option<Benchmark>,
    /// Numbers of ranks, as in 4,8,16 [default: powers of two]
    #[arg(long, value_name = "LIST")]
    ranks: Option<Numbers>,
    /// Runs of each layout, interleaved with the others
    #[arg(long, default_value_t = 3, value_name = "N")]
    repeats: u32,
    /// Network parameters from `idlewave place calibrate`, to predict each layout too
    #[arg(long, value_name = "FILE")]
    network: Option<PathBuf>,
    /// Nodes and switches for the prediction, as for `idlewave place` [default: one switch]
    #[arg(long, value_name = "FILE", requires = "network")]
    topology: Vec<PathBuf>,
    /// MPI library whose rules choose the algorithms of collectives: openmpi or mpich
    #[arg(
        long,
        default_value = "openmpi",
        value_name = "LIBRARY",
        conflicts_with = "program"
    )]
    collectives: Library,
    /// Number of ranks, as threads of this process, without a launcher
    #[arg(long, value_name = "N", conflicts_with = "program")]
    threads: Option<u32>,
    /// MPI library to load [default: the launcher's]
    #[arg(long, value_name = "PATH", conflicts_with = "program")]
    mpi_lib: Option<PathBuf>,
    /// Use the MPI library that this compiled program loads
    #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["mpi_lib", "program"])]
    mpi_of: Option<PathBuf>,
    /// Nodes for a program of yours, as in n[1-4],m7 [default: those of Slurm's allocation, or this
    /// one]
    #[arg(long, value_name = "LIST", requires = "program")]
    hosts: Option<Hosts>,
    /// Most ranks of the program on a node [default: its CPUs]
    #[arg(long, value_name = "Q", requires = "program", value_parser = clap::value_parser!(u32).range(1..=4096))]
    cores: Option<u32>,
    /// mpirun or srun that starts the program [default: that of the MPI library it loads]
    #[arg(long, value_name = "LAUNCHER", requires = "program")]
    launcher: Option<OsString>,
    /// New file for an HTML page with the table and the comparison
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print everything as JSON instead of the table
    #[arg(long)]
    json: bool,
    /// An MPI program of yours, with its arguments, instead of a workload
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Names of nodes from a list in Slurm's form.
#[derive(Clone, Debug)]
struct Hosts(Vec<String>);

impl FromStr for Hosts {
    type Err = String;

    fn from_str(list: &str) -> Result<Self, String> {
        let names = expand_hostlist(list);
        names.map(Hosts).map_err(|error| error.to_string())
    }
}

/// Runs the command.
pub fn run_study(args: &StudyArgs) -> ExitCode {
    match &args.workload {
        None => run_program(args),
        Some(workload) => until_stopped(|stop| run_workload(args, workload, stop)),
    }
}

/// Measures a user's program. Signals are for the program; what is complete is printed all the same.
fn run_program(args: &StudyArgs) -> ExitCode {
    // Before any thread starts.
    let signals = as_user(None).and_then(|()| for_program());
    let mut signals = match signals {
        Ok(signals) => signals,
        Err(failure) => return report_failure(&failure),
    };
    let done = program(args, &mut signals);
    let code = done.map_or_else(|failure| report_failure(&failure), |()| Exit::Done.into());
    signals
        .ended_by()
        .map_or(code, |signal| Exit::Signal(signal).into())
}

fn program(args: &StudyArgs, signals: &mut Signals) -> Result<(), Failure> {
    if args.network.is_some() {
        let what = "predict a program of yours: only workloads are predicted here";
        let next = "omit --network; record the program and give the run to idlewave place --run";
        return Err(Failure::new(Exit::Usage, what).with_next(next));
    }
    if let Some(page) = &args.html {
        refuse_place(page, "--html")?;
    }
    let options = LayoutOptions {
        program: args.program.clone(),
        launcher: args.launcher.clone(),
        hosts: args.hosts.clone().map_or_else(Vec::new, |hosts| hosts.0),
        cores: args.cores,
        ranks: args.ranks.clone().map_or_else(Vec::new, |n| n.0),
        repeats: args.repeats,
    };
    let begun = Begun::now();
    let bars = Bars::new(!args.json);
    let done = study_layouts(&options, signals, &bars);
    bars.finish();
    let done = done?;
    let any = done.outcome.layouts.iter().any(|l| !l.runs.is_empty());
    if any {
        let predicted = vec![None; done.outcome.layouts.len()];
        let warnings = busy_nodes(&done.outcome.machine);
        show_study(args, &done.outcome, &predicted, Vec::new(), warnings, begun)?;
    }
    done.failed.map_or(Ok(()), |run| Err(failed(&run, any)))
}

/// Prints what a program said before it failed, and returns the failure. `any`: other runs were
/// measured.
fn failed(run: &FailedRun, any: bool) -> Failure {
    for line in &run.words {
        say(&format!("  {}\n", one_line(line)));
    }
    let exit = match (any, run.is_usage) {
        (true, _) => Exit::Partly,
        (false, true) => Exit::Usage,
        (false, false) => Exit::NotPossible,
    };
    Failure::new(exit, &run.what).with_next(&run.next)
}

/// Measures a workload. In a job, rank 0 predicts, writes and prints.
fn run_workload(args: &StudyArgs, workload: &Benchmark, stop: &Stop) -> Result<(), Failure> {
    let launched = Launch::of_this_process().map_or(0, |launch| launch.rank);
    if let Some(page) = args.html.as_deref().filter(|_| launched == 0) {
        refuse_place(page, "--html")?;
    }
    let read = |parameters: &PathBuf| Model::read(parameters, &args.topology, args.collectives);
    let of_job = args.network.as_ref().filter(|_| launched == 0);
    let model = of_job.map(read).transpose()?;
    let options = PlacementOptions {
        benchmark: *workload,
        ranks: args.ranks.clone().map_or_else(Vec::new, |n| n.0),
        repeats: args.repeats,
        threads: args.threads,
        fabric: args.threads.map(|_| FabricChoice::Threads),
        mpi: Search {
            library: args.mpi_lib.clone(),
            program: args.mpi_of.clone(),
        },
    };
    let begun = Begun::now();
    let bars = Bars::new(!args.json && launched == 0);
    let done = placements(&options, stop, &bars);
    bars.finish();
    let Some(outcome) = measure::of_job(done, launched)? else {
        return Ok(());
    };
    let mut notes = Vec::new();
    let mut warnings = busy_nodes(&outcome.machine);
    let mut unpredicted = None;
    let predicted = match model {
        None => {
            notes.push("not predicted: give --network from `idlewave place calibrate`".to_owned());
            None
        }
        Some(model) => {
            let done = model.predict(workload, &outcome);
            done.map_err(|why| {
                warnings.push(format!("not predicted: {why}"));
                unpredicted = Some(why);
            })
            .ok()
        }
    };
    let predicted = predicted.unwrap_or_else(|| vec![None; outcome.layouts.len()]);
    show_study(args, &outcome, &predicted, notes, warnings, begun)?;
    match unpredicted {
        None => Ok(()),
        Some(why) => {
            let what = format!("predict what was measured: {why}");
            let next = "omit --network, or correct its file";
            Err(Failure::new(Exit::Partly, what).with_next(next))
        }
    }
}

/// Writes the page, and prints the table or JSON.
fn show_study(
    args: &StudyArgs,
    outcome: &PlacementOutcome,
    predicted: &[Option<Predicted>],
    more: Vec<String>,
    mut warnings: Vec<String>,
    begun: Begun,
) -> Result<(), Failure> {
    let notes = [outcome.notes.clone(), more].concat();
    warnings.extend(shared(outcome));
    if outcome.interrupted {
        warnings.push("ended on request: later layouts have fewer runs".to_owned());
    }
    let sheet = sheet(args, outcome, predicted, notes, warnings);
    let is_workload = args.workload.is_some();
    let next = next(is_workload, args.network.as_deref(), args.html.as_deref());
    if let Some(page) = &args.html {
        let html = study_page(&sheet);
        write_new(page, "--html", |out| out.write_all(html.as_bytes()))?;
    }
    match args.json {
        true => json::print_below(
            begun.header(outcome.nodes.clone(), outcome.interrupted, &outcome.machine),
            in_json(&sheet, outcome)?,
        ),
        false => print(&text(&sheet, &next)),
    }
}

/// A warning if ranks of a layout that was run shared CPUs.
fn shared(outcome: &PlacementOutcome) -> Option<String> {
    let measured = outcome.layouts.iter().filter(|l| !l.runs.is_empty());
    let (most, cpus) = (
        measured.map(|l| l.ranks_per_node).max()?,
        outcome.cpus_per_node,
    );
    (most > cpus).then(|| {
        format!(
            "{most} shared {} of a node: times with more than {cpus} per node include waits for a CPU, \
             which predictions do not cover",
            counted(cpus, "CPU"), most = counted(most, "rank"))
    })
}

fn sheet(
    args: &StudyArgs,
    outcome: &PlacementOutcome,
    predicted: &[Option<Predicted>],
    notes: Vec<String>,
    warnings: Vec<String>,
) -> StudySheet {
    let mut rows: Vec<StudyRow> = outcome
        .layouts
        .iter()
        .zip(predicted)
        .filter_map(|(layout, predicted)| {
            Some(StudyRow {
                ranks: layout.ranks,
                nodes: layout.nodes,
                ranks_per_node: layout.ranks_per_node,
                total: layout.estimate(|run| run.total)?,
                collective: layout.estimate(|run| run.collective),
                point_to_point: layout.estimate(|run| run.point_to_point),
                is_minimum: false,
                predicted: predicted.as_ref().map(interval),
            })
        })
        .collect();
    let mut least: BTreeMap<u32, f64> = BTreeMap::new();
    for row in &rows {
        let least = least.entry(row.ranks).or_insert(row.total.value);
        *least = least.min(row.total.value);
    }
    for row in &mut rows {
        row.is_minimum = least.get(&row.ranks) == Some(&row.total.value);
    }
    StudySheet {
        what: format!("{} on {}", outcome.benchmark, counted(outcome.nodes.len() as u32, "node")),
        details: vec![
            match args.workload {
                Some(_) => format!("messages: {}", outcome.fabric),
                None => format!("started by {}", outcome.fabric),
            },
            format!("nodes: {}", outcome.nodes.join(", ")),
            format!("{} of each layout, in turn", counted(args.repeats, "run")),
            match args.workload {
                Some(_) => "total of the slowest rank; collectives and point-to-point operations: mean over the ranks",
                None => "total of the slowest rank, from the end of MPI_Init to the start of MPI_Finalize; collectives and \
                         point-to-point operations: mean over the ranks",
            }
            .to_owned(),
        ],
        command: std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect(),
        idlewave: env!("CARGO_PKG_VERSION").to_owned(),
        rows,
        notes,
        warnings,
    }
}

fn in_json(sheet: &StudySheet, outcome: &PlacementOutcome) -> Result<Value, Failure> {
    let wrong = |error| Failure::new(Exit::Other, format!("encode the study: {error}"));
    let mut value = serde_json::to_value(sheet).map_err(wrong)?;
    value["measured"] = serde_json::to_value(outcome).map_err(wrong)?;
    Ok(value)
}

fn text(sheet: &StudySheet, next: &str) -> String {
    let mut out = format!("{}\n", sheet.what);
    for line in &sheet.details {
        wrap(&mut out, "  ", line);
    }
    table(&mut out, sheet);
    out.push('\n');
    out.push_str(&order(sheet));
    for warning in &sheet.warnings {
        wrap(&mut out, "  ", &format!("! {warning}"));
    }
    for note in &sheet.notes {
        wrap(&mut out, "  ", note);
    }
    out.push_str(next);
    out
}

/// The last lines: the page, or what to do next. Only workloads are predicted.
fn next(is_workload: bool, network: Option<&Path>, page: Option<&Path>) -> String {
    match (network, page) {
        (None, _) if is_workload => {
            "NEXT\n  calibrate on the same nodes, then: --network network.toml\n".to_owned()
        }
        (_, None) => "NEXT\n  a page with table and chart: add --html FILE\n".to_owned(),
        (_, Some(page)) => format!("page: {}\n", page.display()),
    }
}

/// Measured times of each layout, next to the predicted ones.
fn table(out: &mut String, sheet: &StudySheet) {
    let least = sheet
        .rows
        .iter()
        .map(|row| row.total.value)
        .fold(f64::INFINITY, f64::min);
    let (name, scale) = unit(least);
    let digits = |seconds: f64| show::digits(seconds * scale);
    let _ = writeln!(
        out,
        "\nTimes in {name}: median (least..most); > the minimum of as many ranks"
    );
    let head = |words: [&str; 8]| line(' ', words);
    out.push_str(&head([
        "ranks",
        "nodes",
        "per",
        "total",
        "",
        "collec-",
        "point to",
        "predicted       ",
    ]));
    out.push_str(&head(["", "", "node", "", "", "tives", "point", "error"]));
    let mut before = None;
    for row in &sheet.rows {
        if before.is_some_and(|ranks| ranks != row.ranks) {
            out.push('\n');
        }
        before = Some(row.ranks);
        let part =
            |part: &Option<Estimate>| part.as_ref().map_or("-".to_owned(), |e| digits(e.value));
        let predicted = row.predicted.as_ref().map_or(format!("-{:8}", ""), |p| {
            let error = show::change(p.value / row.total.value - 1.0);
            format!("{} {error:>7}", digits(p.value))
        });
        let mark = if row.is_minimum { '>' } else { ' ' };
        let range = match row.total.n {
            1 => "one run".to_owned(),
            _ => format!("{}..{}", digits(row.total.low), digits(row.total.high)),
        };
        out.push_str(&line(
            mark,
            [
                &row.ranks.to_string(),
                &row.nodes.to_string(),
                &row.ranks_per_node.to_string(),
                &digits(row.total.value),
                &format!("({range})"),
                &part(&row.collective),
                &part(&row.point_to_point),
                &predicted,
            ],
        ));
    }
}

/// One line of the table, at most 80 columns wide.
fn line(
    mark: char,
    [
        ranks,
        nodes,
        per,
        total,
        range,
        collective,
        point,
        predicted,
    ]: [&str; 8],
) -> String {
    let line = format!(
        "{mark} {ranks:>5} {nodes:>5} {per:>4} {total:>7} {range:<16} {collective:>8} {point:>8} {predicted:>16}"
    );
    format!("{}\n", line.trim_end())
}

/// Whether measurement and prediction agree on the best number of ranks per node, and on the
/// complete order.
fn order(sheet: &StudySheet) -> String {
    let mut by_ranks: BTreeMap<u32, Vec<&StudyRow>> = BTreeMap::new();
    for row in &sheet.rows {
        by_ranks.entry(row.ranks).or_default().push(row);
    }
    let mut out = String::new();
    for (ranks, rows) in by_ranks {
        let predicted: Option<Vec<f64>> = rows
            .iter()
            .map(|row| row.predicted.as_ref().map(|p| p.value))
            .collect();
        let Some(predicted) = predicted.filter(|all| all.len() > 1) else {
            continue;
        };
        let measured: Vec<f64> = rows.iter().map(|row| row.total.value).collect();
        let order = |times: &[f64]| {
            let mut order: Vec<usize> = (0..times.len()).collect();
            order.sort_by(|a, b| times[*a].total_cmp(&times[*b]));
            order
        };
        let names = |order: &[usize]| {
            let names: Vec<String> = order
                .iter()
                .map(|&i| rows[i].ranks_per_node.to_string())
                .collect();
            names.join(" < ")
        };
        let (m, p) = (order(&measured), order(&predicted));
        let said = match (m == p, m[0] == p[0]) {
            (true, _) => "the prediction has the same order".to_owned(),
            (false, true) => format!("predicted {}, with the same best", names(&p)),
            (false, false) => format!("predicted {}", names(&p)),
        };
        wrap(
            &mut out,
            "  ",
            &format!(
                "{ranks}, fastest per node first: {}; {said}",
                names(&m),
                ranks = counted(ranks, "rank")
            ),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_measure::{PlacedRun, PlacedRuns};

    fn estimate(value: f64, n: u64) -> Estimate {
        Estimate {
            value,
            low: 0.5 * value,
            high: 2.0 * value,
            n,
            method: String::new(),
        }
    }

    fn row(ranks: u32, seconds: f64, runs: u64, predicted: Option<f64>) -> StudyRow {
        StudyRow {
            ranks,
            nodes: ranks,
            ranks_per_node: 1,
            total: estimate(seconds, runs),
            collective: Some(estimate(seconds, runs)),
            point_to_point: Some(estimate(seconds, runs)),
            is_minimum: true,
            predicted: predicted.map(|s| estimate(s, 1)),
        }
    }

    #[test]
    fn no_line_of_a_sheet_is_wider_than_a_terminal_or_ends_in_blanks() {
        let long = "a word and another one ".repeat(20);
        let sheet = StudySheet {
            what: "is:S on 1 node".to_owned(),
            details: vec![long.clone()],
            command: Vec::new(),
            idlewave: String::new(),
            rows: vec![
                row(4_096, 0.12345, 1, None),
                row(65_536, 0.11, 3, Some(12.345)),
                row(2, 99_999.0, 3, Some(11_111.1)),
                row(2, 99_999.0, 3, Some(0.1)),
            ],
            notes: vec![long.clone()],
            warnings: vec![long],
        };
        let page = std::path::Path::new("page.html");
        for (network, page) in [(None, None), (Some(page), None), (Some(page), Some(page))] {
            let text = text(&sheet, &next(true, network, page));
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{line:?}");
                assert_eq!(line, line.trim_end());
            }
            let row = text.lines().find(|l| l.starts_with("> 65536")).unwrap();
            assert!(row.ends_with(" 12.3    x112"), "{row}");
        }
    }

    #[test]
    fn ranks_that_share_cpus_are_told_of_the_fullest_layout_that_ran() {
        let run = PlacedRun {
            total: 1.0,
            collective: 0.0,
            point_to_point: 0.0,
            computation: 1.0,
        };
        let layout = |per: u32, runs: Vec<PlacedRun>| PlacedRuns {
            ranks: 8,
            nodes: 8 / per,
            ranks_per_node: per,
            runs,
        };
        let mut outcome = PlacementOutcome {
            benchmark: String::new(),
            fabric: String::new(),
            nodes: Vec::new(),
            cpus_per_node: 2,
            layouts: vec![layout(2, vec![run]), layout(8, Vec::new())],
            iterations: 1,
            interrupted: false,
            notes: Vec::new(),
            machine: Vec::new(),
        };
        assert_eq!(shared(&outcome), None);
        outcome.layouts.push(layout(4, vec![run]));
        let said = shared(&outcome).unwrap();
        assert!(
            said.starts_with("4 ranks shared 2 CPUs of a node:"),
            "{said}"
        );
    }
}
