//! `idlewave compare`: two runs, before and after, of two nodes or two machines.

use crate::exit::Failure;
use crate::explain::saved;
use crate::json;
use crate::output::{of_bundle, printed};
use crate::progress::Bars;
use clap::Args;
use idlewave_explain::compare::Comparison;
use idlewave_pipeline::{compare, render_comparison};
use idlewave_run::Header;
use idlewave_session::Stop;
use idlewave_sys::terminal::Stream;
use serde::Serialize;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "\
Compares, each where both runs have it: detours and fixed work of every CPU, \
steps of lockstep runs, computations that all ranks repeat, and sources by name. \
For times in two files: idlewave measure step A B.

Examples:
  idlewave compare before after
  idlewave compare before after --json")]
pub struct CompareArgs {
    /// The first run, a directory made by `idlewave study`, `record`, `measure -o` or `import`
    a: PathBuf,
    /// The second run
    b: PathBuf,
    /// Print the comparison as JSON instead of text
    #[arg(long)]
    json: bool,
}

/// The JSON document, below the header of the first run.
#[derive(Serialize)]
struct Compared {
    /// Header of the second run.
    versus: Header,
    #[serde(flatten)]
    found: Comparison,
}

/// Runs the command.
pub fn run_compare(args: &CompareArgs, stop: &Stop) -> Result<(), Failure> {
    let bars = Bars::new(!args.json);
    let [a, b] = [saved(&args.a, stop, &bars)?, saved(&args.b, stop, &bars)?];
    bars.finish();
    let found = compare(&a, &b)?;
    if args.json {
        let [header, versus] = [a, b].map(|run| run.run.manifest().header());
        return of_bundle(json::print_below(header, Compared { versus, found }));
    }
    let names = [&args.a, &args.b].map(|path| path.display().to_string());
    of_bundle(print_comparison(&names, &found))
}

/// Prints a comparison as text.
pub fn print_comparison([a, b]: &[String; 2], found: &Comparison) -> Result<(), Failure> {
    let (width, colour) = (Stream::Output.width(), Stream::Output.is_coloured());
    let text = render_comparison([a, b], found, width, colour);
    printed(Stream::Output.write_coloured(&text))
}
