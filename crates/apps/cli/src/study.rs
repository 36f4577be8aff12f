//! `idlewave study`: measures, explains and reports the noise of this machine.

use crate::effort::effort;
use crate::exit::Failure;
use crate::limits::LimitArgs;
use crate::measure::{of_job, rank_of_this_process};
use crate::output::print_of_bundle;
use crate::progress::Bars;
use clap::Args;
use idlewave_pipeline::{Analysis, PipelineError, analyse, write_report};
use idlewave_session::Stop;
use idlewave_study::{JobStudy, StudyOptions, is_of_job, study, study_job};
use idlewave_units::{Bytes, CpuSet, Nanos};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  idlewave study
  sudo idlewave study -o before --duration 60s
  idlewave study --cpus 2-5 --work 100us --no-trace
  idlewave study --limit noise=0.1% --limit detour=50us@1/s --junit node.xml
  mpirun -n 64 --map-by ppr:1:node idlewave study -o nodes
Under a launcher, the CPUs of all nodes are measured, without lockstep runs (docs/nodes.md).")]
pub struct StudyArgs {
    /// Directory for the run; must not exist, or be empty [default: idlewave-study-<date>-<time>]
    #[arg(short, long, value_name = "RUN")]
    output: Option<PathBuf>,
    /// Time to measure, from 2s to 60min, not counting the analysis
    #[arg(
        long,
        default_value = "30s",
        value_name = "TIME",
        allow_hyphen_values = true
    )]
    duration: Nanos,
    /// Ranks of the lockstep runs, from 1 to 4096 [default: one per CPU]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    ranks: Option<u32>,
    /// Computation per iteration, from 2us to 1s
    #[arg(
        long,
        default_value = "20us",
        value_name = "TIME",
        allow_hyphen_values = true
    )]
    work: Nanos,
    /// CPUs to measure, as in 0-3,8 [default: all allowed CPUs]
    #[arg(long, value_name = "CPUS")]
    cpus: Option<CpuSet>,
    /// Do not trace the kernel (causes will have no names)
    #[arg(long)]
    no_trace: bool,
    /// Limit of the size of the run on disk; a part of the study ends early when it has used up its
    /// share
    #[arg(long, default_value = "1GiB", value_name = "BYTES")]
    max_size: Bytes,
    /// Seed of the prediction; the same seed gives the same numbers
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Print the findings as JSON instead of the summary
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    limits: LimitArgs,
}

impl StudyArgs {
    fn options(&self) -> StudyOptions {
        StudyOptions {
            output: self.output.clone(),
            duration: self.duration,
            ranks: self.ranks,
            work: self.work,
            cpus: self.cpus.clone(),
            trace: !self.no_trace,
            max_size: self.max_size,
            seed: self.seed,
            effort: effort(),
            command: std::env::args_os()
                .map(|arg| arg.to_string_lossy().into_owned())
                .collect(),
        }
    }
}

/// Explains the bundle of several nodes, also what was measured until an interruption.
fn explained(
    path: &Path,
    options: &StudyOptions,
    stop: &Stop,
    bars: &Bars,
) -> Result<Analysis, PipelineError> {
    let never = AtomicBool::new(false);
    let stop = if stop.is_requested() {
        &never
    } else {
        &*stop.flag
    };
    let analysis = analyse(path, options.effort, stop, bars)?;
    write_report(&analysis, path)?;
    Ok(analysis)
}

/// Runs the command.
pub fn run_study(args: StudyArgs, stop: &Stop) -> Result<(), Failure> {
    args.limits.check()?;
    let launched = rank_of_this_process();
    let bars = Bars::new(!args.json && launched == 0);
    let options = args.options();
    let merged = match is_of_job() {
        true => of_job(study_job(&options, stop, &bars), launched)?,
        false => JobStudy::OneNode,
    };
    let analysis = match merged {
        JobStudy::Elsewhere => return Ok(()),
        JobStudy::OneNode => study(&options, stop, &bars),
        JobStudy::Merged(path) => explained(&path, &options, stop, &bars),
    };
    bars.finish();
    let analysis = analysis?;
    let run = analysis.run.path();
    let advice = format!("see who takes time: {}", run.join("report.html").display());
    let kept = args.limits.print(&analysis, args.json, &advice);
    if !args.json {
        print_of_bundle(&format!("report: {}\n", run.join("report.html").display()))?;
    }
    kept
}
