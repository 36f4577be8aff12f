//! The `idlewave` command: a thin front over the library crates.

mod args;
mod compare;
mod effort;
mod exit;
mod explain;
mod export;
mod files;
mod fit;
mod gang;
mod import;
mod json;
mod limits;
mod measure;
mod output;
mod place;
mod progress;
mod record;
mod report;
mod signals;
mod simulate;
mod study;
mod usage;

use args::Command;
use exit::report_failure;
use signals::until_stopped;
use std::process::ExitCode;

fn main() -> ExitCode {
    idlewave_sys::file_limit::survive();
    let cli = match usage::parse() {
        Ok(cli) => cli,
        Err(failure) => return report_failure(&failure),
    };
    let command = match cli.command {
        // These handle signals themselves, pass them to the program, or end at once.
        Command::Record(args) => return record::run_record(args),
        Command::Simulate(args) => return simulate::run_simulate(&args),
        Command::Place(args) => return place::run_place(args),
        Command::Gang(args) => return gang::run_gang(args),
        Command::NodeRun(args) => return record::run_node(&args),
        Command::NodeSend(args) => return record::run_node_send(&args),
        Command::NodeRecord(args) => return record::run_node_record(&args),
        Command::Study(args) => {
            // Before any thread starts: the run must belong to the user who called sudo.
            if let Err(failure) = record::as_user(None) {
                return report_failure(&failure);
            }
            Command::Study(args)
        }
        other => other,
    };
    until_stopped(|stop| match command {
        Command::Study(args) => study::run_study(args, stop),
        Command::Measure(args) => measure::run_measure(args, stop),
        Command::Fit(args) => fit::run_fit(&args, stop),
        Command::Import(args) => import::run_import(&args, stop),
        Command::Compare(args) => compare::run_compare(&args, stop),
        Command::Explain(args) => explain::run_explain(&args, stop),
        Command::Export(args) => export::run_export(&args, stop),
        Command::Report(args) => report::run_report(&args, stop),
        // Handled above.
        Command::Record(_)
        | Command::Simulate(_)
        | Command::Place(_)
        | Command::Gang(_)
        | Command::NodeRun(_)
        | Command::NodeSend(_)
        | Command::NodeRecord(_) => Ok(()),
    })
}
