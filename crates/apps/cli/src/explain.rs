//! `idlewave explain`: rebuilds the analysis of a run from its bundle alone.

use crate::effort::effort;
use crate::exit::Failure;
use crate::json;
use crate::output::{of_bundle, print_of_bundle, printed};
use crate::progress::Bars;
use clap::Args;
use idlewave_pipeline::{Analysis, PipelineError, analyse, calls, summary};
use idlewave_session::Stop;
use idlewave_sys::terminal::Stream;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  idlewave explain before
  idlewave explain slow --calls")]
pub struct ExplainArgs {
    /// The run, a directory made by `idlewave study` or `idlewave record`
    run: PathBuf,
    /// Print the findings as JSON instead of the summary
    #[arg(long)]
    json: bool,
    /// Print the exact number of calls and bytes of every MPI function, instead of the summary;
    /// with --json as JSON
    #[arg(long)]
    calls: bool,
}

/// Runs the command.
pub fn run_explain(args: &ExplainArgs, stop: &Stop) -> Result<(), Failure> {
    let bars = Bars::new(!args.json);
    let joined = idlewave_record::join_left(&args.run, &stop.flag, &bars);
    let joined = joined.map_err(PipelineError::from);
    let analysis = joined.and_then(|_| analyse(&args.run, effort(), &stop.flag, &bars));
    bars.finish();
    let analysis = analysis?;
    if args.calls {
        return print_calls(&analysis, args.json);
    }
    print_findings(&analysis, args.json)
}

/// Prints the findings, as text or as JSON.
pub fn print_findings(analysis: &Analysis, json: bool) -> Result<(), Failure> {
    if json {
        return of_bundle(json::print(&analysis.findings));
    }
    let text = summary(
        analysis,
        Stream::Output.width(),
        Stream::Output.is_coloured(),
    );
    of_bundle(printed(Stream::Output.write_coloured(&text)))
}

fn print_calls(analysis: &Analysis, json: bool) -> Result<(), Failure> {
    if !json {
        return print_of_bundle(&calls(analysis));
    }
    let program = analysis.findings.program.as_ref();
    let operations = program.map_or(&[][..], |program| &program.operations);
    let header = analysis.run.manifest().header();
    of_bundle(json::print_below(
        header,
        serde_json::json!({ "calls": operations }),
    ))
}
