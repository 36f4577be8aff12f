//! `idlewave explain`: rebuilds the analysis of a run from its bundle alone.

use crate::effort::effort;
use crate::exit::{Exit, Failure};
use crate::json;
use crate::limits::LimitArgs;
use crate::output::{of_bundle, print_of_bundle, printed};
use crate::progress::Bars;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use idlewave_explain::views::{Filter, View, ViewKind};
use idlewave_pipeline::{Analysis, PipelineError, analyse, calls, explained, view, view_text};
use idlewave_session::Stop;
use idlewave_sys::terminal::Stream;
use idlewave_units::{CpuSet, Nanos, NodeId, Rank};
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  idlewave explain before
  idlewave explain before --view daemons
  idlewave explain before --view latency --from 1s --to 2s --cpu 0
  idlewave explain slow --calls
  idlewave explain before --profile compute-node --junit judged.xml")]
pub struct ExplainArgs {
    /// The run, a directory made by `idlewave study`, `record` or `import`
    run: PathBuf,
    /// Print the findings as JSON instead of the summary
    #[arg(long)]
    json: bool,
    /// Print the exact number of calls and bytes of every MPI function, instead of the summary;
    /// with --json as JSON
    #[arg(long)]
    calls: bool,
    /// List everything of one kind, whether or not it delayed anybody, instead of the summary
    /// (docs/views.md)
    #[arg(long, value_parser = views(), value_name = "VIEW", conflicts_with = "calls")]
    view: Option<ViewKind>,
    #[command(flatten)]
    filters: Filters,
    #[command(flatten)]
    limits: LimitArgs,
}

/// What a view is restricted to.
#[derive(Debug, Args)]
#[command(next_help_heading = "Filters of views")]
struct Filters {
    /// From this time after the start of the run, as in 1.2s
    #[arg(long, value_name = "TIME", requires = "view")]
    from: Option<Nanos>,
    /// Until this time after the start of the run
    #[arg(long, value_name = "TIME", requires = "view")]
    to: Option<Nanos>,
    /// This process or thread only
    #[arg(long, value_name = "NAME|PID", requires = "view")]
    process: Option<String>,
    /// These CPUs only, as in 0-3,8
    #[arg(long, value_name = "LIST", requires = "view")]
    cpu: Option<CpuSet>,
    /// This node only
    #[arg(long, value_name = "N", requires = "view")]
    node: Option<u32>,
    /// The threads of this rank only
    #[arg(long, value_name = "N", requires = "view")]
    rank: Option<u32>,
}

impl Filters {
    fn filter(&self) -> Filter {
        Filter {
            from: self.from,
            to: self.to,
            process: self.process.clone(),
            cpus: self.cpu.clone(),
            node: self.node.map(NodeId::new),
            rank: self.rank.map(Rank::new),
        }
    }
}

fn views() -> impl TypedValueParser<Value = ViewKind> {
    let value = |kind: &ViewKind| PossibleValue::new(kind.name()).help(kind.about());
    let names = PossibleValuesParser::new(ViewKind::ALL.iter().map(value));
    names.try_map(|name| ViewKind::named(&name).ok_or("no view has this name"))
}

/// Runs the command.
pub fn run_explain(args: &ExplainArgs, stop: &Stop) -> Result<(), Failure> {
    args.limits.check()?;
    let other = args.calls || args.view.is_some();
    if other && args.limits.is_set() {
        let what = "judge limits beside --calls or --view";
        return Err(Failure::new(Exit::Usage, what).with_next("omit one of the two"));
    }
    let bars = Bars::new(!args.json);
    if let Some(kind) = args.view {
        let analysis = saved(&args.run, stop, &bars)?;
        return print_view(args, kind, &analysis, stop, &bars);
    }
    let joined = idlewave_record::join_left(&args.run, &stop.flag, &bars);
    let joined = joined.map_err(PipelineError::from);
    let analysis = joined.and_then(|_| analyse(&args.run, effort(), &stop.flag, &bars));
    bars.finish();
    let analysis = analysis?;
    if args.calls {
        return print_calls(&analysis, args.json);
    }
    let advice = format!("see who takes time: idlewave report {}", args.run.display());
    args.limits.print(&analysis, args.json, &advice)
}

/// The JSON document of a view, below its header.
#[derive(Serialize)]
struct Viewed {
    filter: Option<Filter>,
    #[serde(flatten)]
    found: View,
}

/// A run with its findings, which are made if it has none.
pub fn saved(run: &Path, stop: &Stop, bars: &Bars) -> Result<Analysis, PipelineError> {
    idlewave_record::join_left(run, &stop.flag, bars)?;
    explained(run, effort(), &stop.flag, bars)
}

fn print_view(
    args: &ExplainArgs,
    kind: ViewKind,
    analysis: &Analysis,
    stop: &Stop,
    bars: &Bars,
) -> Result<(), Failure> {
    let filter = args.filters.filter();
    let found = view(analysis, kind, &filter, &stop.flag)?;
    bars.finish();
    if args.json {
        let header = analysis.run.manifest().header();
        let filter = filter.is_set().then_some(filter);
        return of_bundle(json::print_below(header, Viewed { filter, found }));
    }
    let (width, colour) = (Stream::Output.width(), Stream::Output.is_coloured());
    let text = view_text(analysis, &filter, &found, width, colour);
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
