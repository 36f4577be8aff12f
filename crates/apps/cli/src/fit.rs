//! `idlewave fit`: fits a noise model to a run or to the detours of another tool.

use crate::exit::{Exit, Failure};
use crate::files::{open_complete, read_bytes, refuse_place, write_new};
use crate::json;
use crate::output::print;
use crate::progress::Bars;
use clap::Args;
use idlewave_fit::{FitError, Fitted, NoiseOf, Selfish, fit_run, fit_selfish};
use idlewave_noise::ModelProblem;
use idlewave_pipeline::PipelineError;
use idlewave_run::RunReader;
use idlewave_session::{Progress, Stop};
use idlewave_sys::terminal::say;
use idlewave_units::foreign::one_line;
use serde_json::Value;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  idlewave fit before
  idlewave fit before -o before.toml --json
  idlewave fit docs/examples/cpu0.selfish docs/examples/cpu1.selfish -o -";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct FitArgs {
    /// A run, or output files of the selfish benchmark (start and length in ns), one per CPU
    #[arg(required = true, value_name = "RUN|FILE")]
    from: Vec<PathBuf>,
    /// New file for the model; - is standard output
    #[arg(short, long, default_value = "noise.toml", value_name = "FILE")]
    output: PathBuf,
    /// Print the details of the fit as JSON instead of the table
    #[arg(long)]
    json: bool,
    /// Seed of simulated probabilities and resampling; the same seed gives the same bytes
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

/// Runs the command.
pub fn run_fit(args: &FitArgs, stop: &Stop) -> Result<(), Failure> {
    let to_stdout = args.output.as_os_str() == "-";
    if to_stdout && args.json {
        let what = "write both the model and the JSON to standard output";
        return Err(Failure::new(Exit::Usage, what).with_next("give a file with -o"));
    }
    if !to_stdout {
        refuse_place(&args.output, "-o")?;
    }
    let fitted = fitted(args, stop)?;
    let model = fitted.model.write();
    if to_stdout {
        warn(&args.from[0], &fitted);
        return print(&model);
    }
    write_new(&args.output, "-o", |out| out.write_all(model.as_bytes()))?;
    let written = format!(
        "send the output elsewhere; the model is in {}",
        args.output.display()
    );
    let printed = match args.json {
        true => json::print_computed(in_json(&fitted, &args.output)?),
        false => print(&summary(&fitted, &args.output)),
    };
    printed.map_err(|failure| failure.with_next(written))
}

fn fitted(args: &FitArgs, stop: &Stop) -> Result<Fitted, Failure> {
    match args.from.as_slice() {
        [run] if run.is_dir() => of_run(run, args.seed, stop),
        files => of_files(files, args.seed, stop),
    }
}

/// Fits a noise model to a run.
pub fn of_run(path: &Path, seed: u64, stop: &Stop) -> Result<Fitted, Failure> {
    let run = open_complete(path, stop)?;
    fit_complete(path, &run, NoiseOf::Machine, seed, stop)
}

/// Fits a noise model to a run that is open and complete.
pub fn fit_complete(
    path: &Path,
    run: &RunReader,
    of: NoiseOf,
    seed: u64,
    stop: &Stop,
) -> Result<Fitted, Failure> {
    let bars = Bars::new(true);
    bars.part("fitting the noise");
    let host = run.manifest().nodes.first().map(|n| n.host.name.clone());
    let busy = match run.manifest().busy_nodes()[..] {
        [] => "",
        // A model is used without its run.
        _ => ", on a busy machine",
    };
    let about = format!(
        "{} ({}, {}{busy})",
        path.display(),
        host.unwrap_or_default(),
        run.manifest().started
    );
    let fitted = fit_run(run, of, about, seed, &stop.flag).map_err(|error| not_fitted(path, error));
    bars.finish();
    fitted
}

/// Prints the fit's warnings to standard error, for use when standard output carries only the
/// model.
pub fn warn(path: &Path, fitted: &Fitted) {
    for warning in &fitted.report.warnings {
        let line = one_line(&format!("warning: noise of {}: {warning}", path.display()));
        say(&format!("{line}\n"));
    }
}

fn of_files(files: &[PathBuf], seed: u64, stop: &Stop) -> Result<Fitted, Failure> {
    let mut measured = Vec::new();
    for file in files {
        if file.is_dir() {
            let what = format!(
                "fit {} together with others: it is a directory",
                file.display()
            );
            let next = "give one run, or files of detours, one per CPU";
            return Err(Failure::new(Exit::Usage, what).with_next(next));
        }
        let next = "give the directory of a run, or a file of detours that you may read";
        let bytes = read_bytes(file, MOST_BYTES, next, Some(stop))?;
        let read = Selfish::read(&bytes).map_err(|error| {
            let what = format!("read {}: {error}", file.display());
            let next = "correct that line; docs/noise-model.md describes the format";
            Failure::new(Exit::Bundle, what).with_next(next)
        })?;
        measured.push(read);
    }
    let names: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
    let first = files.first().map_or(Path::new(""), PathBuf::as_path);
    fit_selfish(&measured, names.join(", "), seed).map_err(|error| not_fitted(first, error))
}

/// The largest file of detours, in bytes: about ten million detours.
const MOST_BYTES: usize = 1 << 30;

fn not_fitted(path: &Path, error: FitError) -> Failure {
    match error {
        FitError::Explain(error) => PipelineError::from(error).into(),
        FitError::Model(ModelProblem::Overload { .. }) => {
            let what = format!("use {}: {error}", path.display());
            let next =
                "measure while no other programs use the CPUs, or give other noise with --noise";
            Failure::new(Exit::Bundle, what).with_next(next)
        }
        other => {
            let what = format!("use {}: {other}", path.display());
            let next = "measure again: `idlewave study` measures everything that a fit needs";
            Failure::new(Exit::Bundle, what).with_next(next)
        }
    }
}

fn in_json(fitted: &Fitted, output: &Path) -> Result<Value, Failure> {
    let wrong = |error| Failure::new(Exit::Other, format!("encode the fit: {error}"));
    let mut value = serde_json::to_value(&fitted.report).map_err(wrong)?;
    value["model"] = output.display().to_string().into();
    Ok(value)
}

fn summary(fitted: &Fitted, output: &Path) -> String {
    let name = output.display();
    format!(
        "{}\nmodel: {name}\n\nNEXT\n  What this noise costs at scale, and what it would be without a source:\n  \
         idlewave simulate stencil --noise {name}\n",
        fitted.report.text()
    )
}
