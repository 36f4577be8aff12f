//! `idlewave export`: writes a run in the format of another tool.

use crate::exit::{Exit, Failure};
use crate::files::{open_complete, refuse_place};
use crate::json;
use crate::output::print;
use crate::progress::Bars;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use idlewave_formats::export::{Export, ExportError, Format, Job, Written};
use idlewave_run::Manifest;
use idlewave_session::{Progress, SessionError, Stop};
use idlewave_sys::terminal::Stream;
use idlewave_units::foreign::shell_word;
use idlewave_units::{counted, grouped};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  idlewave export before --to paraver
  idlewave export before --to otf2 -o archive
  idlewave export before --to csv -o tables
  idlewave export before --to selfish --json")]
pub struct ExportArgs {
    /// The run, a directory made by `idlewave study`, `record` or `import`
    run: PathBuf,
    /// What to write
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    to: Format,
    /// New file, or directory for formats of several files [default: beside the run, with its name]
    #[arg(short, long, value_name = "PLACE")]
    output: Option<PathBuf>,
    /// Print what was written and what was lost as JSON
    #[arg(long)]
    json: bool,
}

fn formats() -> impl TypedValueParser<Value = Format> {
    let value = |format: &Format| PossibleValue::new(format.name()).help(format.about());
    let names = PossibleValuesParser::new(Format::ALL.iter().map(value));
    names.try_map(|name| Format::named(&name).ok_or("no format has this name"))
}

/// Runs the command.
pub fn run_export(args: &ExportArgs, stop: &Stop) -> Result<(), Failure> {
    let output = match &args.output {
        Some(output) => output.clone(),
        None => args.to.place(&args.run),
    };
    let places = args.to.places(&output);
    for place in places.map_err(|error| not_exported(&args.run, error))? {
        refuse_place(&place, "-o")?;
    }
    let run = open_complete(&args.run, stop)?;
    let bars = Bars::new(!args.json);
    bars.part(&format!("exporting to {}", args.to.name()));
    let done = args.to.write(&Job {
        run: &run,
        output: &output,
        stop: &stop.flag,
        progress: &|share| bars.at(share),
    });
    bars.finish();
    let export = done.map_err(|error| not_exported(&args.run, error))?;
    let printed = match args.json {
        true => json::print_below(
            run.manifest().header(),
            document(&args.run, args.to, &export),
        ),
        false => print(&text(args.to, run.manifest(), &export)),
    };
    let written = format!(
        "send the output elsewhere; {} is complete",
        output.display()
    );
    printed.map_err(|failure| failure.with_next(written))
}

fn not_exported(path: &Path, error: ExportError) -> Failure {
    let what = error.to_string();
    match error {
        ExportError::Run(error) => SessionError::from(error).into(),
        ExportError::Io { .. } => {
            Failure::new(Exit::Io, what).with_next("choose another place with -o")
        }
        ExportError::Exists(place) => {
            let is_usual =
                fs::metadata(&place).is_ok_and(|there| there.is_file() || there.is_dir());
            let next = match is_usual {
                true => "choose another name with -o, or remove it",
                false => "give a new name with -o: an export takes its place once it is complete",
            };
            Failure::new(Exit::Io, what).with_next(next)
        }
        ExportError::Name { instead, .. } => {
            let instead = shell_word(&instead.display().to_string());
            Failure::new(Exit::Usage, what).with_next(format!("give this name: -o {instead}"))
        }
        ExportError::Lacks { .. } => {
            let next = "choose another format with --to, or record with a kernel trace";
            Failure::new(Exit::Bundle, what).with_next(next)
        }
        ExportError::Library { package, .. } => {
            Failure::new(Exit::NotPossible, what).with_next(format!("install {package}"))
        }
        ExportError::Interrupted => SessionError::Interrupted {
            kept: format!("{} is not affected", path.display()),
        }
        .into(),
        _ => Failure::new(Exit::Other, what),
    }
}

fn document(run: &Path, to: Format, export: &Export) -> Value {
    let file = |file: &Written| {
        json!({
            "path": file.path.display().to_string(),
            "bytes": file.bytes,
            "records": file.records,
        })
    };
    json!({
        "run": run.display().to_string(),
        "format": to.name(),
        "files": export.files.iter().map(file).collect::<Vec<_>>(),
        "losses": export.losses,
    })
}

fn text(to: Format, manifest: &Manifest, export: &Export) -> String {
    let width = Stream::Output.width();
    let mut text = format!("EXPORT to {}\n", to.name());
    for busy in manifest.busy_nodes() {
        text.push_str(&textwrap::fill(&format!("! {busy}"), width));
        text.push('\n');
    }
    for file in &export.files {
        let bytes = grouped(file.bytes);
        let records = file.records.map(|n| counted(n, "record") + ", ");
        let records = records.unwrap_or_default();
        text.push_str(&format!("  {}: {records}{bytes} B\n", file.path.display()));
    }
    if export.losses.is_empty() {
        text.push_str("\nNothing was lost.\n");
        return text;
    }
    text.push_str("\nLOST\n");
    for loss in export.losses.entries() {
        let line = format!(
            "{} {}: {} ({}).",
            grouped(loss.count),
            loss.what,
            loss.consequence,
            loss.advice
        );
        let options = textwrap::Options::new(width)
            .initial_indent("  ")
            .subsequent_indent("    ");
        text.push_str(&textwrap::fill(&line, options));
        text.push('\n');
    }
    text
}
