//! The `idlewave` command: a thin front over the library crates.

mod args;
mod exit;
mod files;
mod fit;
mod gang;
mod measure;
mod place;
mod progress;
mod record;
mod signals;
mod simulate;
mod usage;

use args::{Command, ExplainArgs, ReportArgs, StudyArgs};
use exit::{Exit, Failure};
use idlewave_recording::{Analysis, Stop, analyse, render, summary};
use idlewave_study::study;
use idlewave_units::foreign::one_line;
use progress::Bars;
use signals::Ending;
use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match usage::parse() {
        Ok(cli) => cli,
        Err(failure) => return report_failure(&failure),
    };
    let command = match cli.command {
        // Signals are the program's own there, or end it at once.
        Command::Record(args) => return record::run_record(args),
        Command::Simulate(args) => return simulate::run_simulate(&args),
        Command::Place(args) => return place::run_place(args),
        Command::Gang(args) => return gang::run_gang(args),
        Command::NodeRun(args) => return record::run_node(&args),
        Command::NodeSend(args) => return record::run_node_send(&args),
        Command::NodeRecord(args) => return record::run_node_record(&args),
        other => other,
    };
    until_stopped(|stop| match command {
        Command::Study(args) => run_study(args, stop),
        Command::Measure(args) => measure::run_measure(args, stop),
        Command::Fit(args) => fit::run_fit(&args, stop),
        Command::Explain(args) => run_explain(&args, stop),
        Command::Report(args) => run_report(&args, stop),
        // Handled before.
        Command::Record(_)
        | Command::Simulate(_)
        | Command::Place(_)
        | Command::Gang(_)
        | Command::NodeRun(_)
        | Command::NodeSend(_)
        | Command::NodeRecord(_) => Ok(()),
    })
}

/// Runs what ends in order when a signal tells it to.
fn until_stopped(run: impl FnOnce(&Stop) -> Result<(), Failure>) -> ExitCode {
    let stop = match signals::stop_on_signals() {
        Ok(stop) => stop,
        Err(failure) => return report_failure(&failure),
    };
    let code = run(&stop).map_or_else(|failure| report_failure(&failure), |()| Exit::Done.into());
    stop.signal()
        .map_or(code, |signal| Exit::Signal(signal).into())
}

/// Runs what a signal may end at any moment, but for what is done in order.
fn until_killed(run: impl FnOnce(&Ending) -> Result<(), Failure>) -> ExitCode {
    let done = signals::end_on_signals().and_then(|ending| run(&ending));
    done.map_or_else(|failure| report_failure(&failure), |()| Exit::Done.into())
}

/// One line: what failed and why; a second one: what to do next.
fn report_failure(failure: &Failure) -> ExitCode {
    // Foreign names in it may hold anything.
    let mut text = format!("idlewave: failed to {}\n", one_line(&failure.what));
    if let Some(next) = &failure.next {
        text.push_str(&format!("next step: {}\n", one_line(next)));
    }
    // The exit code still tells where standard error takes nothing.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
    failure.exit.into()
}

fn run_study(args: StudyArgs, stop: &Stop) -> Result<(), Failure> {
    let json = args.json;
    let color = use_color(json);
    let options = args.into_options();
    let bars = Bars::new(!json);
    let analysis = study(&options, stop, &bars);
    bars.finish();
    let analysis = analysis?;
    print_findings(&analysis, json, color)?;
    if json {
        return Ok(());
    }
    let page = analysis.run.path().join("report.html");
    print_of_bundle(&format!("report: {}\n", page.display()))
}

fn run_explain(args: &ExplainArgs, stop: &Stop) -> Result<(), Failure> {
    let bars = Bars::new(!args.json);
    let joined = idlewave_record::join_left(&args.run, &stop.flag, &bars);
    let analysis = joined.and_then(|_| analyse(&args.run, &stop.flag, &bars));
    bars.finish();
    print_findings(&analysis?, args.json, use_color(args.json))
}

fn run_report(args: &ReportArgs, stop: &Stop) -> Result<(), Failure> {
    let bars = Bars::new(true);
    let joined = idlewave_record::join_left(&args.run, &stop.flag, &bars);
    let page = joined.and_then(|_| render(&args.run, args.output.as_deref(), &stop.flag, &bars));
    bars.finish();
    print_of_bundle(&format!("{}\n", page?.display()))
}

fn print_findings(analysis: &Analysis, json: bool, color: bool) -> Result<(), Failure> {
    print_of_bundle(&summary(analysis, json, terminal_width(), color)?)
}

/// Writes to standard output what a bundle has too.
fn print_of_bundle(text: &str) -> Result<(), Failure> {
    let next = "send the output elsewhere; the bundle is not affected";
    print(text).map_err(|failure| failure.with_next(next))
}

/// Writes to standard output. A reader that closes the pipe early has what it wanted.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            let failure = Failure::new(Exit::Io, format!("write to standard output: {e}"));
            Err(failure.with_next("send the output elsewhere"))
        }
        _ => Ok(()),
    }
}

fn use_color(json: bool) -> bool {
    !json && std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Columns of the terminal, 80 where there is none.
fn terminal_width() -> usize {
    const UNKNOWN: usize = 80;
    std::env::var("COLUMNS")
        .ok()
        .and_then(|c| c.parse().ok())
        .unwrap_or(UNKNOWN)
        .clamp(60, 160)
}
