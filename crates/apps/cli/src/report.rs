//! `idlewave report`: rebuilds the HTML report of a run from its bundle alone.

use crate::effort::effort;
use crate::exit::Failure;
use crate::output::print_of_bundle;
use crate::progress::Bars;
use clap::Args;
use idlewave_pipeline::{PipelineError, render};
use idlewave_session::Stop;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  idlewave report before
  idlewave report before -o before.html")]
pub struct ReportArgs {
    /// The run, a directory made by `idlewave study`, `record` or `import`
    run: PathBuf,
    /// File for the page [default: report.html in the run]
    ///
    /// The single events of a large run go into a folder beside it: before_files for before.html.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
pub fn run_report(args: &ReportArgs, stop: &Stop) -> Result<(), Failure> {
    let bars = Bars::new(true);
    let joined = idlewave_record::join_left(&args.run, &stop.flag, &bars);
    let joined = joined.map_err(PipelineError::from);
    let output = args.output.as_deref();
    let page = joined.and_then(|_| render(&args.run, output, effort(), &stop.flag, &bars));
    bars.finish();
    print_of_bundle(&format!("{}\n", page?.display()))
}
